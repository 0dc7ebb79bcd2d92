package security_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A password of one letter is in every error there is. What kind of error it is does not depend on that.
func TestAPasswordThatOccursInAnErrorDoesNotChangeItsClass(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Real(t)
	admin := s.Pool().Get()
	defer admin.Close()
	for _, password := range []string{"a", "ERR", "max", "clients"} {
		_, err := admin.Do("ACL", "SETUSER", "app", "reset", "on", ">"+password, "~*", "&*", "+@all")
		require.NoError(t, err)
		pool, err := redimutex.NewPool("redis://app:" + password + "@" + s.Addr())
		require.NoError(t, err)
		defer pool.Close()
		m := newClient(t, pool, redimutex.WithNodeTimeout(2*time.Second)).Mutex("k")
		_, err = admin.Do("CONFIG", "SET", "maxclients", 1)
		require.NoError(t, err)
		told := false
		redistest.Wait(t, "the server's words", func() bool { // it may hang up before they can be read
			err := m.TryLockContext(t.Context())
			require.ErrorIs(t, err, redimutex.ErrUnavailable, "with the password %q", password)
			told = told || strings.Contains(err.Error(), "max number of clients reached")
			return told || strings.Contains(err.Error(), "***")
		})
		assert.True(t, told, "nothing was quoted of what was sent, so nothing has to be masked")
		require.Error(t, m.LockContext(t.Context(), 200*time.Millisecond))
		_, err = admin.Do("CONFIG", "SET", "maxclients", 1000)
		require.NoError(t, err)
		require.NoError(t, m.LockContext(t.Context(), 20*time.Second))
		require.NoError(t, m.UnlockContext(t.Context()))
	}
}

// Each pool is one that a program has made, and whose errors quote its password.
func TestNoPasswordOfAPoolIsInAnErrorOrALog(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse"
	deaf := redistest.Real(t, "--rename-command", "AUTH", "")
	dial := func() (redis.Conn, error) { return redis.Dial("tcp", deaf.Addr(), redis.DialPassword(secret)) }
	badURL := func() (redis.Conn, error) {
		return redis.DialURL("redis://:" + secret + "%zz@" + deaf.Addr())
	}
	mine := func(dial func() (redis.Conn, error)) *redis.Pool { return &redis.Pool{MaxIdle: 3, Dial: dial} }
	wrapped := func(dial func() (redis.Conn, error)) func() (redis.Conn, error) {
		return func() (redis.Conn, error) {
			_, err := dial()
			return nil, fmt.Errorf("my pool: %w", err)
		}
	}
	for name, pool := range map[string]redimutex.Pool{
		"DialPassword":                       mine(dial),
		"DialPassword, the error wrapped":    mine(wrapped(dial)),
		"DialPassword, DialContext":          &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) { return dial() }},
		"DialURL with a bad escape":          mine(badURL),
		"DialURL with a bad escape, wrapped": mine(wrapped(badURL)),
		"DialPassword, multiplexed":          mine(dial),
		"DialURL with a bad escape, and Get": struct{ redimutex.Pool }{mine(badURL)},
		"the URL in words of its own":        mine(func() (redis.Conn, error) { return nil, retold(deaf.Addr(), secret) }),
		"the URL in words of its own, multiplexed": mine(func() (redis.Conn, error) {
			return nil, retold(deaf.Addr(), "x@"+secret)
		}),
		"the URL in words of its own, and Get": struct{ redimutex.Pool }{mine(func() (redis.Conn, error) { return nil, retold(deaf.Addr(), secret+"/@") })},
		"AUTH on a connection of another":      mine(func() (redis.Conn, error) { return authenticated(deaf.Addr(), secret) }),
		"AUTH on a connection, with a user":    mine(func() (redis.Conn, error) { return authenticated(deaf.Addr(), "app", secret) }),
	} {
		for how, opts := range map[string][]redimutex.Option{"polling": nil, "queue": {redimutex.WithQueue()}} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				ears := new(eavesdropper)
				opts := append(append(ears.options(), redimutex.WithNodeTimeout(2*time.Second)), opts...)
				if strings.HasSuffix(name, "multiplexed") {
					opts = append(opts, redimutex.WithMultiplexing(1))
				}
				client := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
				m := client.Mutex("k " + how)
				ctx := t.Context()
				ears.hear(m.TryLockContext(ctx))
				m.TryLock() // logs
				ears.hear(m.LockContext(ctx, 150*time.Millisecond))
				soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				ears.hear(client.Mutex("another").Do(soon, func(context.Context) error { return nil }))
				if m.Lease() != nil {
					ears.hear(m.Lease().Extend(ctx, time.Minute))
					ears.hear(m.UnlockContext(ctx))
				}
				require.NoError(t, client.Close())
				assert.NotEmpty(t, ears.heard(), "nothing has failed, so nothing was shown")
				for line := range strings.Lines(ears.heard()) {
					if strings.Contains(line, secret) {
						assert.Fail(t, "the password", line)
						break
					}
				}
			})
		}
	}
}

// retold is what a pool says that tells where it can't connect to.
func retold(addr, secret string) error {
	return fmt.Errorf("no connection to %v", "redis://app:"+secret+"@"+addr)
}

func authenticated(addr string, args ...any) (redis.Conn, error) {
	c, err := redis.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := c.Do("AUTH", args...); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
