package quorum

import (
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Votes are the replies of the servers to one question, as far as they are in.
type votes struct {
	replies []server.Reply
	in      []bool // who has voted; guards the element of replies
	need    int    // a majority

	done, held, missing, taken, failed, permanent, flying int
}

func (v *votes) reset(n int) {
	if cap(v.replies) < n {
		v.replies, v.in = make([]server.Reply, n), make([]bool, n)
	}
	*v = votes{replies: v.replies[:n], in: v.in[:n], need: n/2 + 1, flying: n}
	clear(v.replies)
	clear(v.in)
}

// cast counts the reply of server i.
func (v *votes) cast(i int, reply server.Reply) {
	v.replies[i], v.in[i] = reply, true
	v.flying--
	switch reply.Verdict {
	case server.Done:
		v.done++
	case server.Held:
		v.held++
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
	if v.won() || v.done+v.flying >= v.need {
		return v.won()
	}
	spare := len(v.replies) - v.need
	if v.failed > spare { // whether for good has to be known too
		return v.permanent > spare || v.permanent+v.flying <= spare
	}
	return v.failed+v.flying <= spare
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

// ended is the outcome of an extension or a release: nil, or a *Failure.
func (v *votes) ended() error {
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

// lost is the outcome of a try that was not won.
func (v *votes) lost() *Failure {
	n := len(v.replies)
	switch {
	case n-v.permanent < v.need:
		return v.failure(Refused)
	case n-v.failed-v.flying < v.need && v.held < v.need:
		return v.failure(Unavailable)
	}
	return v.failure(Contended)
}

// failure collects what the servers said.
func (v *votes) failure(kind Kind) *Failure {
	f := &Failure{Kind: kind}
	for i, reply := range v.replies {
		switch {
		case !v.in[i]:
			f.Nodes = append(f.Nodes, NodeFailure{i, errNoAnswer})
		case reply.Verdict == server.Failed:
			f.Nodes = append(f.Nodes, NodeFailure{i, reply.Err})
		case reply.Verdict == server.Held:
			if f.Holder == "" || reply.Left > f.Left {
				f.Holder, f.Left = reply.Holder, reply.Left
			}
			if reply.Waiting >= f.Waiting {
				f.Waiting, f.Now, f.Sent = reply.Waiting, reply.Now, reply.Sent
			}
		}
	}
	return f
}
