package security_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Each option is used in turn, and everything goes wrong that can. No UUID is in a log or an error, whatever token it may be.
func TestNoTokenIsLogged(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redimutex.Option{
		"plain":    nil,
		"fencing":  {redimutex.WithFencing()},
		"queue":    {redimutex.WithQueue(), redimutex.WithFencing()},
		"reuse":    {redimutex.WithLeaseReuse(10 * time.Millisecond)},
		"guard":    {redimutex.WithRestartGuard()},
		"minimum":  {redimutex.WithMinHold(50 * time.Millisecond)},
		"maximum":  {redimutex.WithMaxHold(50 * time.Millisecond)},
		"owner":    {redimutex.WithOwner("web-1")},
		"replicas": {redimutex.WithReplicas(1, 10*time.Millisecond)},
		"nested":   {redimutex.WithReentrancy()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			ears := new(eavesdropper)
			ours := append([]redimutex.Option{redimutex.WithTTL(300 * time.Millisecond), redimutex.WithNodeTimeout(100 * time.Millisecond), ears.logger()}, opts...)
			c, rival := newClient(t, s.Pool(), ours...), newClient(t, s.Pool(), ours...)
			var all sync.WaitGroup
			for key, harm := range map[string]func(){
				"nothing":  func() {},
				"deleted":  func() { s.Do("DEL", "deleted") },
				"taken":    func() { s.Do("SET", "taken", "0d9a4e26-8a3f-4b0e-9a43-26f1b7a4c111 somebody") },
				"no lock":  func() { s.Do("DEL", "no lock"); s.Do("LPUSH", "no lock", "x") },
				"no fence": func() { s.Do("SET", "redimutex:fence:{no fence}", "x") },
			} {
				all.Go(func() { hold(t.Context(), c.Mutex(key), rival.Mutex(key), ears, harm) })
			}
			all.Wait()
			last := c.Mutex("outage")
			hold(t.Context(), last, rival.Mutex("outage"), ears, s.Kill)
			ears.hearAll(last.UnlockContext(t.Context()), last)
			require.NoError(t, c.Close())
			ears.hearAll(c.Mutex("closed").LockContext(t.Context(), 0), c.Stats())
			assert.NotEmpty(t, ears.heard())
			assert.Empty(t, anyUUID.FindString(ears.heard()), ears.heard())
		})
	}
}

// hold takes the lock, lets harm happen to it, and hears the results.
func hold(ctx context.Context, m, rival *redimutex.Mutex, ears *eavesdropper, harm func()) {
	ears.hearAll(m.LockContext(ctx, time.Second), m)
	ears.hearAll(rival.TryLockContext(ctx), rival.LockContext(ctx, 20*time.Millisecond))
	l := m.Lease()
	harm()
	if l != nil {
		ears.hearAll(l.Extend(ctx, time.Second), l.Err(), context.Cause(l.Context(ctx)))
	}
	ears.hearAll(m.UnlockContext(ctx))
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a key that harm has left may never expire
	defer cancel()
	ears.hearAll(m.Do(ctx, func(ctx context.Context) error { harm(); return context.Cause(ctx) }))
}

// All scripts that a server gets are put together from the files of this module, whatever the keys and labels are. A key only
// names a lock.
func TestScriptsAreConstantWhateverTheKeys(t *testing.T) {
	t.Parallel()
	first := scriptsSent(t, []string{"a", "b"})
	odd := scriptsSent(t, locktest.OddKeys)
	assert.Equal(t, slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(odd)))
	files, err := filepath.Glob("../../internal/server/lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, first)
	for body := range odd {
		rest := body
		for _, name := range files {
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			rest = strings.ReplaceAll(rest, comments.ReplaceAllString(string(source), ""), "")
		}
		assert.Empty(t, rest, "a script that is not in the files")
	}
}

// comments matches what is not sent: comments, blank lines and indentation.
var comments = regexp.MustCompile(`(?m)^ *(--.*)?\n|^ +`)

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// scriptsSent locks keys in all ways, and returns the scripts that the server has got.
func scriptsSent(t *testing.T, keys []string) map[string]bool {
	s := redistest.Start(t)
	s.Do("SET", "canary", "alive")
	monitor := s.Monitor()
	for _, opts := range [][]redimutex.Option{
		nil,
		{redimutex.WithFencing(), redimutex.WithMinHold(10 * time.Millisecond)},
		{redimutex.WithQueue(), redimutex.WithFencing()},
	} {
		s.Do("SCRIPT", "FLUSH")
		for _, key := range keys {
			lockAndRelease(t, s, key, append(opts, redimutex.WithTTL(time.Minute), redimutex.WithOwner(`"]] '`)))
		}
	}
	assert.Equal(t, "alive", s.Get("canary"))
	scripts := make(map[string]bool)
	for _, line := range monitor.Lines() {
		words := quoted.FindAllString(line, -1)
		if len(words) < 2 {
			continue
		}
		command, err := strconv.Unquote(words[0])
		require.NoError(t, err)
		switch body, err := strconv.Unquote(words[1]); strings.ToUpper(command) {
		case "EVAL":
			require.NoError(t, err)
			scripts[body] = true
		case "SCRIPT":
			assert.Equal(t, "FLUSH", strings.ToUpper(body), "we load none")
		case "EVALSHA":
			assert.Regexp(t, "^[0-9a-f]{40}$", body)
		}
	}
	return scripts
}

// lockAndRelease locks a key in the ways that send different scripts, with a rival.
func lockAndRelease(t *testing.T, s *redistest.Server, key string, opts []redimutex.Option) {
	t.Helper()
	pool := s.Pool()
	m, rival := newMutex(t, pool, key, opts...), newMutex(t, pool, key, opts...)
	require.NoError(t, m.LockContext(t.Context(), time.Minute), "%q", key)
	require.Equal(t, m.Lease().Token(), s.Get(key), "%q", key)
	require.ErrorIs(t, rival.TryLockContext(t.Context()), redimutex.ErrLocked, "%q", key)
	require.NoError(t, m.Lease().Extend(t.Context(), time.Minute), "%q", key)
	require.NoError(t, m.UnlockContext(t.Context()), "%q", key)
	redistest.Wait(t, "the lock is free", func() bool { return !s.Exists(key) })
}

// A password of one letter occurs in every error. The class of the error must not depend on that.
func TestAPasswordThatOccursInAnErrorDoesNotChangeItsClass(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	admin := s.Pool().Get()
	defer admin.Close()
	for _, password := range []string{"a", "ERR", "max", "clients"} {
		s.SetUser("app", "reset", "on", ">"+password, "~*", "&*", "+@all")
		pool, err := redimutex.NewPool("redis://app:" + password + "@" + s.Addr())
		require.NoError(t, err)
		defer pool.Close()
		m := newClient(t, pool, redimutex.WithNodeTimeout(2*time.Second)).Mutex("k")
		_, err = admin.Do("CONFIG", "SET", "maxclients", 1)
		require.NoError(t, err)
		told := false
		redistest.Wait(t, "the server's words", func() bool { // the server may hang up before its words can be read
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

// A program has made each of these pools, and their errors quote the password.
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

// retold returns the error of a pool that names the URL to which it can't connect.
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
