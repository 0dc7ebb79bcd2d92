package quorum

import (
	"context"

	"github.com/redimutex/redimutex/internal/server"
)

// InUse asks the only server how many permits of a semaphore are in use.
func (q *Quorum) InUse(ctx context.Context, l *server.Lock) (int, *Failure) {
	q.enter()
	defer q.leave()
	if q.closing.Load() {
		return 0, unavailable(len(q.nodes), errClosed)
	}
	n := q.nodes[0]
	permits, reply := n.InUse(ctx, l)
	n.count(ctx, reply)
	return permits, one(reply).outcome(l)
}
