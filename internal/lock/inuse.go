package lock

import (
	"context"

	"github.com/redimutex/redimutex/internal/server"
)

// InUse asks the server how many permits of a semaphore are in use.
func (e *Engine) InUse(ctx context.Context, c *Call) (int, *Failure) {
	if e.closed.Load() {
		return 0, &Failure{Kind: Closed}
	}
	if ctx.Err() != nil {
		return 0, &Failure{Kind: Ended}
	}
	n, f := e.quorum.InUse(ctx, &server.Lock{Terms: &c.Terms.Terms, Key: c.Key})
	switch {
	case f == nil:
		return n, nil
	case Over(ctx):
		return 0, &Failure{Kind: Ended, Servers: f, Waited: true}
	}
	return 0, &Failure{Kind: Servers, Servers: f}
}
