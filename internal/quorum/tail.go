package quorum

import (
	"context"
	"time"
)

// A Tail is a release that some servers have not answered. The next try for the lock asks each server
// only after that server's part of it, so that our own release never stands in our way.
type Tail struct {
	parts []*part // by server; nil: it was over already
}

// A part is what is still under way on one server.
type part struct {
	over   <-chan struct{} // closed when it is
	unsent bool            // a try that was not even sent; complete with over
}

// wait waits for the part. The server keeps its bound.
func (p *part) wait() { <-p.over }

// waitFor waits for the part, d at most, or until ctx ends.
func (p *part) waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.over:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (p *part) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// Wait waits until the release is over on all servers, each of which keeps its bound.
func (t *Tail) Wait() {
	for _, p := range t.parts {
		if p != nil {
			p.wait()
		}
	}
}

// part returns what to wait for on server i, or nil.
func (t *Tail) part(i int) *part {
	if t == nil {
		return nil
	}
	return t.parts[i]
}

// add notes a part of server i, among n.
func (t *Tail) add(i, n int, p *part) *Tail {
	if t == nil {
		t = &Tail{parts: make([]*part, n)}
	}
	t.parts[i] = p
	return t
}

// pending reports whether something is under way on server i: it has been asked and has not answered, or its release
// has failed and goes on in the background. The caller holds r.mu.
func (r *round) pending(i int) bool {
	s, v := r.seats[i].state, &r.votes[0]
	return (s == asked || s == askedLate) && (!v.in[i] || v.replies[i].Undoing != nil)
}

// tail is all that is pending; nil: nothing. The caller holds r.mu.
func (r *round) tail() (t *Tail) {
	for i := range r.seats {
		if r.pending(i) {
			t = t.add(i, len(r.seats), r.part(i))
		}
	}
	return t
}

// part is what is under way on server i. The caller holds r.mu.
func (r *round) part(i int) *part {
	s := &r.seats[i]
	if s.part == nil {
		s.end = make(chan struct{})
		s.part = &part{over: s.end}
	}
	return s.part
}
