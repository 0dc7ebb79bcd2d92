package quorum

import (
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Votes are the replies of the servers about one lock, as far as they are in. Here stands what a
// majority is, and what follows from it.
type votes struct {
	replies []server.Reply
	in      []bool // who has voted; guards the element of replies
	need    int    // a majority: any two of them have a server in common

	done, held, lapsed, missing, taken, failed, permanent int

	out  int  // how many have not voted yet
	told bool // extension: the caller knows the outcome, and what comes now counts for nothing
}

// reset starts a new vote among the servers that replies and in have room for.
func (v *votes) reset(replies []server.Reply, in []bool) {
	clear(replies)
	clear(in)
	n := len(replies)
	*v = votes{replies: replies, in: in, out: n, need: n/2 + 1}
}

// cast counts the reply of server i.
func (v *votes) cast(i int, reply server.Reply) {
	v.replies[i], v.in[i] = reply, true
	v.out--
	switch reply.Verdict {
	case server.Done:
		v.done++
	case server.Held:
		v.held++
	case server.Lapsed:
		v.lapsed++
	case server.Missing:
		v.missing++
	case server.Taken:
		v.taken++
	case server.Failed:
		v.failed++
		if server.Permanent(reply.Err) {
			v.permanent++
		}
	}
}

// won reports whether a majority has done as asked.
func (v *votes) won() bool { return v.done >= v.need }

// decided reports whether a majority has done as asked; or no longer can, and it is known why: that
// a server is down is known at once, and must not hide what the others are about to say.
func (v *votes) decided() bool {
	if v.won() || v.done+v.out >= v.need {
		return v.won()
	}
	rest := len(v.replies) - v.need
	if v.failed > rest { // whether for good has to be known too
		return v.permanent > rest || v.permanent+v.out <= rest
	}
	return v.failed+v.out <= rest
}

// stuck reports whether those that were asked can't decide any more without those that were
// skipped: too many have failed, or all have answered and are not agreed.
func (v *votes) stuck(skipped int) bool {
	working := len(v.replies) - skipped - v.failed
	return !v.decided() && (working < v.need || v.out == skipped)
}

// lease reads the end of the validity, and the fence, off the votes that were won.
func (v *votes) lease(ttl time.Duration) (until time.Time, fence int64) {
	var sent time.Time
	for i, reply := range v.replies {
		if !v.in[i] || reply.Verdict != server.Done {
			continue
		}
		if sent.IsZero() || reply.Sent.Before(sent) {
			sent = reply.Sent
		}
		fence = max(fence, reply.Fence)
	}
	return sent.Add(ttl - Drift(ttl)), fence
}

// ended is the outcome of an extension, a release or a raise: nil if it was won.
func (v *votes) ended() *Failure {
	n := len(v.replies)
	switch {
	case v.won():
		return nil
	case n-v.missing-v.taken >= v.need && n-v.permanent < v.need:
		return v.failure(Refused)
	case n-v.missing-v.taken >= v.need:
		return v.failure(Unavailable)
	case v.taken > 0:
		return &Failure{Kind: Taken}
	}
	return &Failure{Kind: Missing}
}

// refusal is the outcome of a try that was not won.
func (v *votes) refusal() *Failure {
	n := len(v.replies)
	switch {
	case n-v.permanent < v.need:
		return v.failure(Refused)
	case v.lapsed >= v.need:
		return v.failure(Lapsed)
	case n-v.failed-v.out < v.need && v.held+v.lapsed < v.need:
		return v.failure(Unavailable)
	}
	return v.failure(Contended)
}

// failure collects what the servers said.
func (v *votes) failure(kind Kind) *Failure {
	f := &Failure{Kind: kind}
	for i, reply := range v.replies {
		if v.in[i] && reply.Open.After(f.Open) {
			f.Open = reply.Open
		}
		switch {
		case !v.in[i] && reply.Err == nil:
			f.Nodes = append(f.Nodes, NodeFailure{i, errNoAnswer})
		case !v.in[i] || reply.Verdict == server.Failed:
			f.Nodes = append(f.Nodes, NodeFailure{i, reply.Err})
		case reply.Verdict == server.Held:
			f.heard(reply)
		}
	}
	return f
}
