package holds

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/lab/crew"
)

// A hand is a worker process, as the row that has started it sees it.
type hand struct{ *crew.Hand[message] }

// hire starts a worker process, which is ready when hire returns. It is killed at the end of the test at the latest.
func hire(t testing.TB, j job) (hand, error) {
	h, err := crew.Hire[message](role)
	if err != nil {
		return hand{}, err
	}
	worker := hand{h}
	t.Cleanup(worker.kill)
	if err := h.Tell(j); err != nil {
		return worker, err
	}
	_, err = worker.hear(t.Context(), sayReady)
	return worker, err
}

func (h hand) tell(what string) error { return h.Tell(message{What: what}) }

// kill ends the process at once, and drops its messages that were not read yet.
func (h hand) kill() {
	h.Kill() //nolint:errcheck // it may have ended
	h.Close(0)
}

// patience is how long a process may take for something that should take a second at most.
const patience = 60 * time.Second

// hear returns the next message, and an error if that does not say what.
func (h hand) hear(ctx context.Context, what string) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("nothing for %v", patience))
	defer cancel()
	m, err := h.Hear(ctx)
	switch {
	case err != nil:
		return m, fmt.Errorf("before it said %q: %w", what, err)
	case m.What != what:
		return m, fmt.Errorf("a worker said %q instead of %q: %s", m.What, what, m.Error)
	}
	return m, nil
}

// ask sends an order, and returns the message that answers it.
func (h hand) ask(ctx context.Context, order, answer string) (message, error) {
	if err := h.tell(order); err != nil {
		return message{}, err
	}
	return h.hear(ctx, answer)
}
