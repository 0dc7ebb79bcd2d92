package quorum

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// A node is a server, and how well it has been answering lately. Among several servers, one that
// hangs is skipped until it answers again: otherwise every operation would leave a goroutine and a
// connection waiting for it until the node timeout.
type node struct {
	*server.Server
	failed atomic.Int64

	mu      sync.Mutex
	pending int           // operations without an answer yet
	since   time.Time     // how long the server has been owing us an answer
	typical time.Duration // smoothed time of an answer
}

// minSilence is how long a server may be silent before it is skipped, if answers take no time.
const minSilence = 20 * time.Millisecond

// count counts the reply if the operation has failed, whatever the other servers said, and however
// late. A server that is skipped was not asked, and did not fail, nor did one that ctx did not wait for.
func (n *node) count(ctx context.Context, reply server.Reply) {
	if reply.Verdict == server.Failed && !ended(ctx) {
		n.failed.Add(1)
	}
}

// outcome counts the reply of the only server about a lock that is held, and says what it comes to.
func (n *node) outcome(ctx context.Context, l *server.Lock, reply server.Reply) *Failure {
	n.count(ctx, reply)
	if reply.Verdict == server.Done {
		return nil
	}
	return one(reply).outcome(l)
}

// begin notes that the server is asked.
func (n *node) begin() (now time.Time) {
	now = time.Now()
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
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending--
	if !heard {
		return // since goes on: the next operation is alone with the server
	}
	n.typical += (now.Sub(began) - n.typical) / 8
	n.since = now
	if n.pending == 0 {
		n.since = time.Time{}
	}
}

// ask runs one operation of the node. An operation without an answer counts as one that waits for it: the next ones
// skip it.
func (n *node) ask(ctx context.Context, operation func() server.Reply) server.Reply {
	began := n.begin()
	reply := operation()
	n.end(began, !server.TimedOut(reply.Err) && !reply.Unasked)
	n.count(ctx, reply)
	return reply
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

// silentError is why a server was skipped.
type silentError time.Duration

func (e silentError) Error() string {
	return fmt.Sprintf("no answer to an earlier command for %v", time.Duration(e).Round(time.Millisecond))
}

func (silentError) Timeout() bool { return true }
