package versions

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Here are the features that more than one server has a part in.

func useReplicas(t testing.TB, b redistest.Build) error {
	primary, replica := pair(t, b)
	m := mutex(t, []*redistest.Server{primary}, redimutex.WithReplicas(1, patience/2))
	err := hold(t, m, func() error {
		if replica.Get(key) != m.Lease().Token() {
			return errors.New("the replica does not have the lock")
		}
		return nil
	})
	if err != nil {
		return err
	}
	replica.Pause()
	defer replica.Resume()
	few := mutex(t, []*redistest.Server{primary}, redimutex.WithReplicas(1, 50*time.Millisecond))
	if err := few.TryLockContext(t.Context()); !errors.Is(err, redimutex.ErrUnavailable) {
		return fmt.Errorf("with a replica that hangs: %w", err)
	}
	return nil
}

// pair starts a primary with a replica.
func pair(t testing.TB, b redistest.Build) (primary, replica *redistest.Server) {
	soon := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	primary, replica = b.Start(t, soon...), b.Start(t, soon...)
	replica.ReplicaOf(primary)
	redistest.Wait(t, "the replica is in step", func() bool { return primary.Online() == 1 })
	return primary, replica
}

// useFailover hands over, by FAILOVER where the server has it, and expects the lock at the new primary.
func useFailover(t testing.TB, b redistest.Build) error {
	primary, replica := pair(t, b)
	m := mutex(t, []*redistest.Server{primary}, redimutex.WithReplicas(1, patience/2))
	if err := m.LockContext(t.Context(), patience); err != nil {
		return err
	}
	primary.FailoverTo(replica)
	if err := mutex(t, []*redistest.Server{replica}).TryLockContext(t.Context()); !errors.Is(err, redimutex.ErrLocked) {
		return fmt.Errorf("at the new primary: %w", err)
	}
	if err := m.Lease().Extend(t.Context(), ttl); !errors.Is(err, redimutex.ErrUnavailable) {
		return fmt.Errorf("at the old one, Extend: %w", err)
	}
	replica.FailoverTo(primary)
	return m.UnlockContext(t.Context())
}

func three(t testing.TB, b redistest.Build) []*redistest.Server {
	return []*redistest.Server{b.Start(t), b.Start(t), b.Start(t)}
}

func useSeveral(t testing.TB, b redistest.Build) error {
	s := three(t, b)
	s[0].Kill()
	return hold(t, mutex(t, s, redimutex.WithFencing()), func() error {
		if err := mutex(t, s).TryLockContext(t.Context()); !errors.Is(err, redimutex.ErrLocked) {
			return fmt.Errorf("a rival is told: %w", err)
		}
		return nil
	})
}

// useGuard expects servers without a memory not to vote for a TTL.
func useGuard(t testing.TB, b redistest.Build) error {
	s := three(t, b)
	const short = time.Second
	m := mutex(t, s, redimutex.WithRestartGuard(), redimutex.WithTTL(short), redimutex.WithNodeTimeout(short/2))
	began := time.Now()
	if err := m.TryLockContext(t.Context()); !errors.Is(err, redimutex.ErrUnavailable) {
		return fmt.Errorf("on servers that have just been started: %w", err)
	}
	return hold(t, m, func() error {
		if after := time.Since(began); after < short {
			return fmt.Errorf("they vote after %v", after)
		}
		return nil
	})
}

func useCluster(t testing.TB, b redistest.Build) error {
	s := one(t, b, "--cluster-enabled", "yes")
	s[0].ServeAlone()
	return hold(t, mutex(t, s, redimutex.WithFencing(), redimutex.WithQueue()), nil)
}
