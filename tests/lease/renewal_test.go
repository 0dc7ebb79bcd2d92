package lease_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestRenewalKeepsTheLockPastItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(9*time.Second))
		m.Lock()
		l := m.Lease()
		for range 600 {
			time.Sleep(time.Second)
			require.NoError(t, l.Err())
			require.True(t, server.Exists("k"))
			// Renewals come at a third of the TTL.
			require.Greater(t, time.Until(l.Until()), 5500*time.Millisecond)
			require.Greater(t, server.TTL("k"), 5500*time.Millisecond)
		}
		assert.NoError(t, m.UnlockContext(t.Context()))
	})
}

func TestWithoutRenewalTheLeaseEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		m := newMutex(t, pool, "k", redimutex.WithTTL(10*time.Second), redimutex.WithoutRenewal())
		m.Lock()
		l, until := m.Lease(), m.Lease().Until()
		ctx := l.Context(t.Context())
		<-l.Done()
		assert.False(t, time.Now().After(until), "told at the end of the validity at the latest")
		assert.WithinDuration(t, until, time.Now(), 200*time.Millisecond)
		assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, l.Err())
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(ctx), redimutex.ErrLost)
		err := m.UnlockContext(t.Context())
		assert.ErrorIs(t, err, redimutex.ErrLost)
		assert.ErrorContains(t, err, "expired")
		m.Lock() // works again
		m.Unlock()
	})
}

func TestNoRenewalAfterTheLongestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		client := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(9*time.Second), redimutex.WithMaxHold(4*time.Second))
		m := client.Mutex("k")
		began := time.Now()
		m.Lock()
		<-m.Lease().Done()
		assert.LessOrEqual(t, time.Since(began), 13*time.Second, "lost a TTL after the longest hold at the latest")
		assert.GreaterOrEqual(t, time.Since(began), 9*time.Second)
		assert.EqualValues(t, 1, client.Stats().Renewed)
		assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, m.Lease().Err())
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestRenewalTellsThatTheKeyIsGone(t *testing.T) {
	t.Parallel()
	for reason, lose := range map[redimutex.Reason]func(c redis.Conn) error{
		redimutex.Deleted: func(c redis.Conn) error { _, err := c.Do("DEL", "k"); return err },
		redimutex.Taken:   func(c redis.Conn) error { _, err := c.Do("SET", "k", "other", "PX", "60000"); return err },
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, pool := redistest.Virtual(t)
				client := newClient(t, []redimutex.Pool{pool}, redimutex.WithTTL(9*time.Second))
				m := client.Mutex("k")
				m.Lock()
				l := m.Lease()
				ctx := l.Context(t.Context())
				c := pool.Get()
				defer c.Close()
				require.NoError(t, lose(c))
				began := time.Now()
				<-l.Done()
				assert.LessOrEqual(t, time.Since(began), 3*time.Second+50*time.Millisecond, "a third of the TTL")
				assert.Equal(t, &redimutex.LostError{Key: "k", Reason: reason}, l.Err())
				synctest.Wait()
				assert.Equal(t, l.Err(), context.Cause(ctx))
				time.Sleep(time.Minute)
				n, err := redis.Int(c.Do("EXISTS", "k"))
				require.NoError(t, err)
				assert.Zero(t, n, "a renewal never re-creates the key")
				assert.ErrorIs(t, m.UnlockContext(t.Context()), redimutex.ErrLost)
				s := client.Stats()
				assert.EqualValues(t, 1, s.LostDeleted+s.LostTaken)
			})
		})
	}
}

func TestRenewalIsRepeatedUntilTheValidityEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		cut := redistest.NewBetween(pool)
		client := newClient(t, []redimutex.Pool{cut}, redimutex.WithTTL(9*time.Second))
		m := client.Mutex("k")
		m.Lock()
		l := m.Lease()
		until := l.Until()
		cut.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		time.Sleep(8 * time.Second)
		assert.NoError(t, l.Err())
		assert.GreaterOrEqual(t, client.Stats().NotRenewed, int64(5))
		cut.Set(nil)
		time.Sleep(time.Second)
		assert.NoError(t, l.Err(), "saved in the last second")
		assert.True(t, l.Until().After(until))
		cut.Set(func(func() (any, error), string, []any) (any, error) { return nil, redistest.ErrCut })
		until = l.Until()
		<-l.Done()
		assert.False(t, time.Now().After(until))
		assert.Equal(t, &redimutex.LostError{Key: "k", Reason: redimutex.Expired}, l.Err())
		cut.Set(nil)
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

func TestLossIsToldInTimeWhileARenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		hung := redistest.NewBetween(pool)
		m := newMutex(t, hung, "k", redimutex.WithTTL(9*time.Second), redimutex.WithNodeTimeout(8*time.Second))
		m.Lock()
		l := m.Lease()
		until := l.Until()
		free := make(chan struct{})
		hung.Set(func(run func() (any, error), _ string, _ []any) (any, error) {
			<-free
			return run()
		})
		<-l.Done()
		assert.False(t, time.Now().After(until))
		assert.ErrorIs(t, l.Err(), redimutex.ErrLost)
		assert.Equal(t, until, l.Until())
		hung.Set(nil)
		close(free)
		synctest.Wait()
		assert.ErrorIs(t, l.Err(), redimutex.ErrLost, "a late success does not revive it")
		assert.Error(t, m.UnlockContext(t.Context()))
	})
}

// wasExecuted reports whether the server has executed an extension that it was sent. One that was given up comes late, and is
// nothing but a line of MONITOR.
func wasExecuted(t *testing.T, line, token string) bool {
	_, args, _ := strings.Cut(line, `"`+token+`" `) // the TTL and the deadline
	words := strings.Fields(args)
	require.Greater(t, len(words), 1, line)
	deadline, err := strconv.ParseInt(strings.Trim(words[1], `"`), 10, 64)
	require.NoError(t, err, line)
	at, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
	require.NoError(t, err, line)
	return int64(at*1e6) <= deadline
}

func TestNoRenewalRunsAfterUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	monitor := s.Monitor()
	const nodeTimeout = 50 * time.Millisecond
	client := newClient(t, []redimutex.Pool{s.Pool()}, redimutex.WithTTL(60*time.Millisecond), redimutex.WithNodeTimeout(nodeTimeout))
	m := client.Mutex("k")
	var tokens []string
	waited, unlocked := make(map[string]bool), make(map[string]bool)
	for i := range 100 {
		require.NoError(t, m.LockContext(t.Context(), 0))
		l := m.Lease()
		tokens = append(tokens, l.Token())
		time.Sleep(18*time.Millisecond + time.Duration(i)*50*time.Microsecond) // about when a renewal is due
		began := time.Now()
		unlocked[l.Token()] = m.UnlockContext(t.Context()) == nil // a slow machine may have lost the lease
		// Unlock waits half a node timeout for a renewal. On a slow machine one may be under way for longer.
		waited[l.Token()] = time.Since(began) < nodeTimeout/2
	}
	lines := monitor.Lines()
	for _, token := range tokens {
		released, late := false, false
		for _, line := range lines {
			if !strings.Contains(line, token) || strings.Contains(line, " lua] ") {
				continue
			}
			// A release ends with the token. Others have a TTL behind it.
			release := strings.HasSuffix(strings.TrimSpace(line), `"k" "`+token+`"`)
			late = late || released && !release && wasExecuted(t, line, token)
			released = released || release
		}
		assert.True(t, released || !unlocked[token])
		// What is left of a lease that was lost is undone in the background, and renews nothing.
		assert.False(t, late && waited[token] && unlocked[token], "a renewal came after the release")
	}
	assert.Contains(t, slices.Collect(maps.Values(waited)), true)
	assert.Contains(t, slices.Collect(maps.Values(unlocked)), true)
	assert.Positive(t, client.Stats().Renewed)
}
