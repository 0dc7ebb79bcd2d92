package versions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/secrets"
	"github.com/redimutex/redimutex/internal/redistest"
)

func features() []*feature {
	return []*feature{
		{name: "lock", use: useLock},
		{name: "renewal", use: useRenewal},
		{name: "Extend", use: useExtend},
		{name: "fence", use: useFence},
		{name: "queue", use: useQueue},
		{name: "reuse", use: useReuse},
		{name: "replicas", use: useReplicas},
		{name: "failover", use: useFailover},
		{name: "several servers", use: useSeveral},
		{name: "restart guard", use: useGuard},
		{name: "cluster node", use: useCluster},
		{name: "restricted user", needs: redistest.ACL, use: useRestricted},
		{name: "min-replicas-to-write", needs: redistest.MinReplicas, use: useMinReplicas},
		{name: "lua-replicate-commands no", use: useVerbatim},
	}
}

const (
	ttl      = 20 * time.Second
	patience = 20 * time.Second // of a wait that ends much sooner
	key      = "lock:k"
)

// mutex returns a Mutex of a client of its own.
func mutex(t testing.TB, servers []*redistest.Server, opts ...redimutex.Option) *redimutex.Mutex {
	pools := make([]redimutex.Pool, len(servers))
	for i, s := range servers {
		pools[i] = s.Pool()
	}
	return over(t, pools, opts...)
}

func over(t testing.TB, pools []redimutex.Pool, opts ...redimutex.Option) *redimutex.Mutex {
	c := redimutex.NewClient(pools, append([]redimutex.Option{
		redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(5 * time.Second), redimutex.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	t.Cleanup(func() { c.Close() })
	return c.Mutex(key)
}

func one(t testing.TB, b redistest.Build, args ...string) []*redistest.Server {
	return []*redistest.Server{b.Start(t, args...)}
}

// hold locks, does something, and unlocks.
func hold(t testing.TB, m *redimutex.Mutex, during func() error) error {
	if err := m.LockContext(t.Context(), patience); err != nil {
		return err
	}
	var err error
	if during != nil {
		err = during()
	}
	return errors.Join(err, m.UnlockContext(context.Background()))
}

func useLock(t testing.TB, b redistest.Build) error {
	s := one(t, b)
	m, rival := mutex(t, s), mutex(t, s)
	for range 3 { // a plain SET may come first, and then scripts
		err := hold(t, m, func() error {
			if err := rival.TryLockContext(t.Context()); !errors.Is(err, redimutex.ErrLocked) {
				return fmt.Errorf("a rival is told: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if keys := s[0].Keys(); len(keys) > 0 {
		return fmt.Errorf("keys are left: %q", keys)
	}
	return nil
}

// useRenewal needs the lease for longer than it lives without renewals.
func useRenewal(t testing.TB, b redistest.Build) error {
	const short = 2 * time.Second
	renewed := make(chan error, 100)
	m := mutex(t, one(t, b), redimutex.WithTTL(short), redimutex.WithNodeTimeout(time.Second),
		redimutex.WithTrace(&redimutex.Trace{Renewed: func(e redimutex.Event) { renewed <- e.Err }}))
	return hold(t, m, func() error {
		for range 4 {
			if err := <-renewed; err != nil {
				return err
			}
		}
		return m.Lease().Err()
	})
}

func useExtend(t testing.TB, b redistest.Build) error {
	s := one(t, b)
	m := mutex(t, s)
	return hold(t, m, func() error {
		if err := m.Lease().Extend(t.Context(), time.Hour); err != nil {
			return err
		}
		if left, _ := redis.Int64(s[0].Do("PTTL", key), nil); left < (59 * time.Minute).Milliseconds() {
			return fmt.Errorf("the key lives for another %d ms", left)
		}
		return nil
	})
}

func useFence(t testing.TB, b redistest.Build) error {
	m := mutex(t, one(t, b), redimutex.WithFencing())
	var last int64
	for range 3 {
		err := hold(t, m, func() error {
			if f := m.Lease().Fence(); f > last {
				last = f
				return nil
			}
			return errors.New("a fence does not rise")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// useQueue has two wait in order, and be told by messages when it is their turn.
func useQueue(t testing.TB, b redistest.Build) error {
	s := one(t, b)
	queued := func() *redimutex.Mutex {
		return mutex(t, s, redimutex.WithQueue(), redimutex.WithFencing())
	}
	messages := redis.PubSubConn{Conn: s[0].Pool().Get()}
	defer messages.Close()
	if err := messages.PSubscribe("redimutex:*"); err != nil {
		return err
	}
	got := make(chan int, 2)
	done := make(chan error, 2)
	holder := queued()
	err := hold(t, holder, func() error {
		for i := range 2 {
			m := queued()
			go func() { done <- hold(t, m, func() error { got <- i; return nil }) }()
			redistest.Wait(t, "it stands in the queue, and listens", func() bool {
				n, _ := redis.Int(s[0].Do("ZCOUNT", "redimutex:queue:{"+key+"}", 0, 3e15), nil)
				channels, _ := redis.Strings(s[0].Do("PUBSUB", "CHANNELS", "redimutex:*"), nil)
				return n == i+1 && len(channels) >= i+1
			})
		}
		return nil
	})
	if err := errors.Join(err, <-done, <-done); err != nil {
		return err
	}
	for told := false; !told; {
		switch m := messages.ReceiveWithTimeout(patience).(type) {
		case redis.Message:
			told = true
		case error:
			return fmt.Errorf("nobody is told: %w", m)
		}
	}
	if first, second := <-got, <-got; first != 0 || second != 1 {
		return fmt.Errorf("the order was %d, %d", first, second)
	}
	return nil
}

func useReuse(t testing.TB, b redistest.Build) error {
	s := one(t, b)
	m := mutex(t, s, redimutex.WithLeaseReuse(ttl/4))
	const holds = 100
	before := commands(s[0])
	for range holds {
		if err := hold(t, m, nil); err != nil {
			return err
		}
	}
	if n := commands(s[0]) - before; n > holds {
		return fmt.Errorf("%d commands for %d holds", n, holds)
	}
	return nil
}

// commands returns how many a server has executed.
func commands(s *redistest.Server) (n int) {
	info, _ := redis.String(s.Do("INFO", "stats"), nil)
	_, rest, _ := strings.Cut(info, "total_commands_processed:")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// useRestricted locks as the user of docs/security.md, in the words that the server knows.
func useRestricted(t testing.TB, b redistest.Build) error {
	s := one(t, b)[0]
	rules := []any{"SETUSER", "locks", "reset", "on", ">secret"}
	if b.Has(redistest.ChannelRules) {
		rules = append(rules, "resetchannels")
	}
	for word := range strings.FieldsSeq(secrets.Permissions) {
		if !strings.HasPrefix(word, "&") || b.Has(redistest.ChannelRules) {
			rules = append(rules, word)
		}
	}
	s.Do("ACL", rules...)
	s.Do("ACL", "LOG", "RESET")
	pools := []redimutex.Pool{s.Pool(redis.DialUsername("locks"), redis.DialPassword("secret"))}
	for _, opts := range [][]redimutex.Option{{}, {redimutex.WithFencing()}, {redimutex.WithQueue(), redimutex.WithFencing()}} {
		if err := hold(t, over(t, pools, opts...), nil); err != nil {
			return err
		}
	}
	if log, err := redis.Values(s.Do("ACL", "LOG"), nil); err != nil || len(log) > 0 {
		return fmt.Errorf("the server has refused something: %q %w", log, err)
	}
	return nil
}

func useMinReplicas(t testing.TB, b redistest.Build) error {
	s := one(t, b, "--min-replicas-to-write", "1")
	err := mutex(t, s).TryLockContext(t.Context())
	if err == nil {
		return lacking(b.String() + " lets a script write without the replicas that it wants")
	}
	if !errors.Is(err, redimutex.ErrUnavailable) || !strings.Contains(err.Error(), "NOREPLICAS") {
		return fmt.Errorf("without replicas: %w", err)
	}
	return nil
}

// useVerbatim forbids scripts to write after they have read the clock, which is said and leaves no key.
func useVerbatim(t testing.TB, b redistest.Build) error {
	s := one(t, b)
	c := s[0].Pool().Get()
	defer c.Close()
	if _, err := c.Do("CONFIG", "SET", "lua-replicate-commands", "no"); err != nil {
		return lacking(b.String() + " has no such setting, and always replicates what a script did")
	}
	err := mutex(t, s).LockContext(t.Context(), patience)
	if err == nil || errors.Is(err, redimutex.ErrUnavailable) || !strings.Contains(err.Error(), "lua-replicate-commands") {
		return fmt.Errorf("a lock is answered: %w", err)
	}
	if keys := s[0].Keys(); len(keys) > 0 {
		return fmt.Errorf("keys are left: %q", keys)
	}
	return nil
}
