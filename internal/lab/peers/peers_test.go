package peers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

const ttl = time.Minute

// all opens every library on a server.
func all(t *testing.T, addr string) map[string]func() peers.Library {
	d := peers.To(addr)
	ours := func(plain bool) peers.Library {
		p := peers.Pool(d, 0)
		return peers.Redimutex(redimutex.NewClient([]redimutex.Pool{p}, redimutex.WithTTL(ttl), redimutex.WithFencing()), plain, p)
	}
	return map[string]func() peers.Library{
		"redimutex":       func() peers.Library { return ours(false) },
		"redimutex plain": func() peers.Library { return ours(true) },
		"redsync": func() peers.Library {
			return peers.Redsync([]*redis.Pool{peers.Pool(d, 0)}, redsync.WithExpiry(ttl), peers.Patient)
		},
		"redislock": func() peers.Library { return peers.Redislock(goredis.NewClient(peers.GoRedis(d)), ttl) },
		"rueidislock": func() peers.Library {
			l, err := peers.Rueidislock(addr, d, ttl)
			require.NoError(t, err)
			return l
		},
		"bare": func() peers.Library { return peers.Bare(peers.Pool(d, 0), ttl) },
	}
}

func TestEveryLibraryLocksExcludesAndUnlocks(t *testing.T) {
	redistest.Needs(t, redistest.Tracking) // rueidislock needs it
	server := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, open := range all(t, server.Addr()) {
		t.Run(name, func(t *testing.T) {
			first, second := open(), open()
			defer first.Close()
			defer second.Close()
			one, other := first.Slot(name), second.Slot(name)
			require.NoError(t, one.Lock(ctx))
			assert.True(t, one.Valid())
			require.Error(t, other.TryLock(ctx))
			if err := one.Extend(ctx, ttl); !errors.Is(err, errors.ErrUnsupported) {
				require.NoError(t, err)
			}
			require.NoError(t, one.Unlock(ctx))
			require.NoError(t, other.TryLock(ctx))
			require.NoError(t, other.Unlock(ctx))
		})
	}
}

// A library either tells what the server has, or tells nothing.
func TestWhatAHoldTellsIsWhatTheServerKnows(t *testing.T) {
	redistest.Needs(t, redistest.Tracking) // rueidislock needs it
	server := redistest.Start(t)
	for name, open := range all(t, server.Addr()) {
		t.Run(name, func(t *testing.T) {
			l := open()
			defer l.Close()
			s := l.Slot(name)
			require.NoError(t, s.TryLock(t.Context()))
			if token := s.Token(); token != "" {
				assert.Equal(t, server.Get(name), token)
			}
			if until := s.Until(); !until.IsZero() {
				assert.WithinDuration(t, time.Now().Add(ttl), until, ttl/2)
			}
			ours := name == "redimutex" || name == "redimutex plain"
			assert.Equal(t, ours, s.Fence() > 0)
			require.NoError(t, s.Unlock(t.Context()))
		})
	}
}

func TestAKeyThatIsGoneIsToldApart(t *testing.T) {
	server := redistest.Start(t)
	libraries := all(t, server.Addr())
	for _, name := range []string{"redimutex", "bare"} {
		l := libraries[name]()
		defer l.Close()
		s := l.Slot(name)
		require.NoError(t, s.Lock(t.Context()))
		server.Do("DEL", name)
		assert.ErrorIs(t, s.Unlock(t.Context()), peers.ErrGone, name)
	}
}
