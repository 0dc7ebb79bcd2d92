package quorum

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A node is a server, and how well it has been answering lately. Among several servers, one that
// hangs is left out until it answers again: otherwise every operation would leave a goroutine and a
// connection waiting for it until the node timeout.
type node struct {
	*server.Server
	peers  bool // whether there are other servers; a single one is never left out
	failed atomic.Int64

	mu      sync.Mutex
	pending int           // operations without an answer yet
	since   time.Time     // how long the server has been owing us an answer
	typical time.Duration // smoothed time of an answer
	idle    chan struct{} // closed when nothing is pending, if somebody waits for that
}

// minSilence is how long a server may be silent before it is left out, if answers take no time.
const minSilence = 20 * time.Millisecond

// count counts the reply if the operation has failed, whatever the other servers said, and however
// late. A server that is left out was not asked, and did not fail.
func (n *node) count(reply server.Reply) {
	if reply.Verdict == server.Failed {
		n.failed.Add(1)
	}
}

// begin notes that an operation starts.
func (n *node) begin() (now time.Time) {
	if n.peers {
		now = time.Now()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.since.IsZero() {
		n.since = now
	}
	n.pending++
	return now
}

// end notes that an operation is over, and whether the server was heard.
func (n *node) end(began time.Time, heard bool) {
	var now time.Time
	if n.peers {
		now = time.Now()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending--
	if n.pending == 0 && n.idle != nil {
		close(n.idle)
		n.idle = nil
	}
	if !heard {
		return // since goes on: the next operation is alone with the server
	}
	n.typical += (now.Sub(began) - n.typical) / 8
	n.since = now
	if n.pending == 0 {
		n.since = time.Time{}
	}
}

// close waits until the operations under way are over and what they left behind is swept, d each at most.
func (n *node) close(d time.Duration) {
	n.mu.Lock()
	idle := n.idle
	if n.pending > 0 && idle == nil {
		idle = make(chan struct{})
		n.idle = idle
	}
	n.mu.Unlock()
	if idle != nil {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-idle:
		case <-timer.C:
		}
	}
	n.Server.Close(d)
}

// silent returns for how long the server has owed us an answer, if that is suspiciously long and
// an operation is already waiting to see it recover; else 0.
func (n *node) silent(now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending == 0 {
		return 0
	}
	if d := now.Sub(n.since); d > max(minSilence, 8*n.typical) {
		return d
	}
	return 0
}

// silentError is the vote of a server that was left out.
type silentError time.Duration

func (e silentError) Error() string {
	return fmt.Sprintf("no answer to an earlier command for %v", time.Duration(e).Round(time.Millisecond))
}

func (silentError) Timeout() bool { return true }

// silent reports whether err is why a server is left out although it could be asked.
func silent(err error) bool {
	_, ok := err.(silentError) //nolint:errorlint // the very value
	return ok
}

// absent says which nodes to leave out of a round: those that are silent, if a quorum remains.
// It returns nil when nobody is.
func (q *Quorum) absent() []error {
	if len(q.nodes) == 1 {
		return nil
	}
	var out []error
	silent := 0
	now := time.Now()
	for i, n := range q.nodes {
		if d := n.silent(now); d > 0 {
			if out == nil {
				out = make([]error, len(q.nodes))
			}
			out[i] = silentError(d)
			silent++
		}
	}
	if len(q.nodes)-silent < q.need {
		return nil
	}
	return out
}
