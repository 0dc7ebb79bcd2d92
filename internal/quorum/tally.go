package quorum

import (
	"cmp"
	"strings"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A tally counts the servers' votes about one lock as they come in. It defines what a majority is and what follows from it.
type tally struct {
	replies   []server.Reply         // by server; Failed until its vote is in
	in        []bool                 // which servers have voted
	need      int                    // a majority: any two majorities have a server in common
	out       int                    // how many servers have not voted yet
	said      [server.Lapsed + 1]int // how many votes, by verdict
	permanent int                    // how many failed for good
	told      bool                   // the outcome was told: later votes change nothing
}

func newTally(n int) *tally {
	return &tally{replies: make([]server.Reply, n), in: make([]bool, n), out: n, need: n/2 + 1}
}

func one(reply server.Reply) *tally {
	t := newTally(1)
	t.cast(0, reply)
	return t
}

func (t *tally) cast(i int, reply server.Reply) {
	t.replies[i], t.in[i] = reply, true
	t.out--
	t.said[reply.Verdict]++
	if reply.Verdict == server.Failed && server.Permanent(reply.Err) {
		t.permanent++
	}
}

func (t *tally) won() bool { return t.said[server.Done] >= t.need }

// decided reports whether a majority has done as asked; or can't any more, and the reason is known. A server that is down
// fails at once, and that must not hide what the other servers are about to answer.
func (t *tally) decided() bool {
	if t.won() || t.said[server.Done]+t.out >= t.need {
		return t.won()
	}
	rest, failed := len(t.replies)-t.need, t.said[server.Failed]
	if failed > rest { // it must be known, too, whether they failed for good
		return t.permanent > rest || t.permanent+t.out <= rest
	}
	return failed+t.out <= rest
}

// stuck reports whether the tally can't be decided any more without the skipped servers.
func (t *tally) stuck(skipped int) bool {
	return !t.decided() && (t.out == skipped || len(t.replies)-skipped-t.said[server.Failed] < t.need)
}

// split reports whether a majority has answered a try without agreeing. rival is the verdict of a server where another try was
// faster. The votes of a split try stand in the way of the other tries, so it does not wait for silent servers.
func (t *tally) split(rival server.Verdict) bool {
	return t.said[rival] > 0 && len(t.replies)-t.said[server.Failed]-t.out >= t.need
}

// lease returns the end of the validity, and the highest fence, of the votes that were won.
func (t *tally) lease(ttl time.Duration) (until time.Time, fence int64) {
	var sent time.Time
	for _, reply := range t.replies {
		if reply.Verdict != server.Done {
			continue
		}
		if sent.IsZero() || reply.Sent.Before(sent) {
			sent = reply.Sent
		}
		fence = max(fence, reply.Fence)
	}
	return sent.Add(Validity(ttl)), fence
}

// outcome returns how an operation on a held lock ended: an extension, a release or a raise. It is nil if a majority did it.
func (t *tally) outcome() *Failure {
	n, gone := len(t.replies), t.said[server.Missing]+t.said[server.Taken]
	switch {
	case t.won():
		return nil
	case n-gone >= t.need && n-t.permanent < t.need:
		return t.failure(Refused, nil)
	case n-gone >= t.need:
		return t.failure(Unavailable, nil)
	}
	f, by := &Failure{Kind: Missing}, make(map[string]int)
	for _, reply := range t.replies {
		switch {
		case reply.Verdict == server.Taken:
			if f.Kind == Missing {
				f.Kind, f.Which = Taken, reply.Which
			}
			by[reply.Holder]++
			if by[reply.Holder] >= t.need || f.Holder == "" && isStep(reply.Holder) {
				f.Holder = reply.Holder
			}
		case reply.Verdict == server.Missing && f.Kind == Missing:
			f.Which = reply.Which
		}
	}
	return f
}

func isStep(token string) bool { return strings.HasSuffix(token, server.StepMark) } // of a Taker in its first step

// refusal returns the outcome of a try: nil if it was won.
func (t *tally) refusal() *Failure {
	n, lapsed := len(t.replies), t.said[server.Lapsed]
	switch {
	case t.won():
		return nil
	case n-t.permanent < t.need:
		return t.failure(Refused, nil)
	case t.said[server.Missing]+t.said[server.Taken] > 0: // of an old token that the try was to replace
		return t.outcome()
	case lapsed >= t.need:
		return t.failure(Lapsed, nil)
	case n-t.said[server.Failed]-t.out < t.need:
		return t.failure(Unavailable, nil)
	}
	return t.failure(Contended, nil)
}

// failure collects what the servers said. won says why the votes that were won do not count.
func (t *tally) failure(kind Kind, won error) *Failure {
	f := &Failure{Kind: kind, Errs: make([]error, len(t.replies))}
	for i, reply := range t.replies {
		switch {
		case reply.Verdict == server.Failed:
			f.Errs[i] = cmp.Or(reply.Err, ErrNoAnswer)
		case reply.Verdict == server.Done:
			f.Errs[i] = won
		case reply.Verdict == server.Held && (f.Sent.IsZero() || reply.Left > f.Left):
			f.Reply = reply
		case reply.Verdict == server.Missing || reply.Verdict == server.Taken:
			f.Errs[i] = errLost
		}
	}
	return f
}
