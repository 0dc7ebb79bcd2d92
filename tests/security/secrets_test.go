package security_test

import (
	"context"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Everything is switched on by turns, and everything goes wrong that can. No UUID is logged, whosever it is,
// and none stands in an error.
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

// hold takes the lock, lets harm happen to it, and hears what comes of it.
func hold(ctx context.Context, m, rival *redimutex.Mutex, ears *eavesdropper, harm func()) {
	ears.hearAll(m.LockContext(ctx, time.Second), m)
	ears.hearAll(rival.TryLockContext(ctx), rival.LockContext(ctx, 20*time.Millisecond))
	l := m.Lease()
	harm()
	if l != nil {
		ears.hearAll(l.Extend(ctx, time.Second), l.Err(), context.Cause(l.Context(ctx)))
	}
	ears.hearAll(m.UnlockContext(ctx))
	ctx, cancel := context.WithTimeout(ctx, time.Second) // what harm has left may never expire
	defer cancel()
	ears.hearAll(m.Do(ctx, func(ctx context.Context) error { harm(); return context.Cause(ctx) }))
}

// The texts of all scripts that a server gets to see are put together from our files, whatever the keys
// and labels, and no key does anything but to name a lock.
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

// comments, blank lines and indentation are not sent.
var comments = regexp.MustCompile(`(?m)^ *(--.*)?\n|^ +`)

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// scriptsSent locks keys in all ways, and returns the scripts that the server was sent.
func scriptsSent(t *testing.T, keys []string) map[string]bool {
	s := redistest.Real(t)
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
