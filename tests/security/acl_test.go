package security_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A permission is one of the sets in docs/security.md, and a function that uses everything that the set is for.
type permission struct {
	title string   // the beginning of the comment above the line
	needs []string // titles of the sets that this set needs, besides the first one
	words []string // the keys, channels and commands that the line allows
	use   func(t *testing.T, s *redistest.Server, pool *redis.Pool) error
}

// onThePage returns the sets as docs/security.md has them.
func onThePage(t *testing.T) string {
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, text, begins := strings.Cut(string(page), "<!-- permissions begin -->\n```\n")
	text, _, ends := strings.Cut(text, "```\n")
	require.True(t, begins && ends, "the permissions are marked")
	return text
}

// granted reads the sets from the lines of the page.
func granted(t *testing.T) []permission {
	sets := []permission{
		{title: "Lock,", use: useLock},
		{title: "WithFencing", use: useFencing},
		{title: "WithQueue", use: useQueue},
		{title: "A Semaphore", use: useSemaphore},
		{title: "An RWMutex", use: useReaders},
		{title: "WithReplicas", use: useReplicas},
		{title: "WithRestartGuard", use: useGuard},
		{title: "Package election", needs: []string{"WithFencing", "WithQueue"}, use: useElection},
	}
	found := 0
	for paragraph := range strings.SplitSeq(strings.TrimSpace(onThePage(t)), "\n\n") {
		title, line, _ := strings.Cut(strings.TrimPrefix(paragraph, "# "), "\n")
		i := slices.IndexFunc(sets, func(p permission) bool { return strings.HasPrefix(title, p.title) })
		require.GreaterOrEqual(t, i, 0, title)
		words := strings.Fields(line)
		require.Equal(t, []string{"ACL", "SETUSER", "locks"}, words[:3])
		words = slices.DeleteFunc(words[3:], func(w string) bool { return w == "reset" || w == "resetchannels" || w == "on" || w == ">PASSWORD" })
		sets[i].words = redistest.Rules(words...)
		found++
	}
	require.Len(t, sets, found, "a feature without a line")
	return sets
}

const aclPassword = "p@ss word/of:locks"

// allow gives the user exactly these permissions, on a server that knows no scripts, and returns a pool for that user.
func allow(t *testing.T, s *redistest.Server, words []string) *redis.Pool {
	t.Helper()
	s.SetUser("locks", slices.Concat([]string{"reset", "resetchannels", "on", ">" + aclPassword}, words)...)
	s.Do("SCRIPT", "FLUSH")
	s.Do("FLUSHALL")
	s.Do("ACL", "LOG", "RESET")
	p, err := redimutex.NewPool("redis://locks:" + "p%40ss%20word%2Fof%3Alocks" + "@" + s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// denials returns what the server has refused since the last call of allow.
func denials(t *testing.T, s *redistest.Server) (objects []string) {
	entries, err := redis.Values(s.Do("ACL", "LOG"), nil)
	require.NoError(t, err)
	for _, e := range entries {
		fields, err := redis.Values(e, nil)
		require.NoError(t, err)
		entry := map[string]string{}
		for i := 0; i+1 < len(fields); i += 2 {
			name, _ := redis.String(fields[i], nil)
			entry[name] = fmt.Sprintf("%s", fields[i+1])
		}
		objects = append(objects, entry["reason"]+" "+entry["object"])
	}
	return objects
}

func TestEachSetOfPermissionsIsEnoughAndNotTooMuch(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s, _ := redistest.Replicas(t, 1)
	sets := granted(t)
	base := sets[0].words
	for _, set := range sets {
		words := slices.Clone(set.words)
		if set.title != sets[0].title {
			words = slices.Concat(base, words)
		}
		for _, other := range sets {
			if slices.Contains(set.needs, other.title) {
				words = slices.Concat(words, other.words)
			}
		}
		t.Run(set.title, func(t *testing.T) {
			require.NoError(t, set.use(t, s, allow(t, s, words)))
			require.Empty(t, denials(t, s))
		})
		without := set.words
		if set.title == "A Semaphore" || set.title == "An RWMutex" {
			without = append(slices.Clone(without), "+pexpire") // without it, the keys that they have made would stay for ever
		}
		for _, word := range without {
			t.Run(set.title+" without "+word, func(t *testing.T) {
				less := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word })
				err := set.use(t, s, allow(t, s, less))
				assert.NotEmpty(t, denials(t, s), "it is not needed")
				for _, key := range s.Keys() {
					assert.True(t, key == "redimutex:guard" || s.PTTL(key) != -time.Millisecond, "%s never expires", key)
				}
				if err != nil {
					assert.NotContains(t, err.Error(), aclPassword)
				}
			})
		}
	}
}

const aclTTL = 20 * time.Second

// useLock does all that a lock without options can do.
func useLock(t *testing.T, _ *redistest.Server, pool *redis.Pool) error {
	conn, err := pool.GetContext(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := pool.TestOnBorrowContext(t.Context(), conn, time.Now().Add(-time.Hour)); err != nil {
		return err
	}
	client := newClient(t, pool, redimutex.WithTTL(aclTTL))
	m := client.Mutex("lock:k")
	if err := lockNow(m); err != nil {
		return err
	}
	rival := newMutex(t, pool, "lock:k", redimutex.WithTTL(aclTTL))
	if err := rival.TryLockContext(t.Context()); err == nil || !strings.Contains(err.Error(), "lock") {
		return fmt.Errorf("the rival: %w", err)
	}
	if err := m.Lease().Extend(t.Context(), aclTTL); err != nil {
		return err
	}
	if err := m.UnlockContext(t.Context()); err != nil {
		return err
	}
	for _, option := range []redimutex.Option{redimutex.WithMinHold(10 * time.Millisecond), redimutex.WithLeaseReuse(time.Millisecond)} {
		m := client.Mutex("lock:other", option)
		if err := m.LockContext(t.Context(), time.Minute); err != nil {
			return err
		}
		if err := m.UnlockContext(t.Context()); err != nil {
			return err
		}
	}
	return nil
}

// lockNow is Lock, but returns the panic as an error.
func lockNow(m *redimutex.Mutex) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	m.Lock()
	return nil
}

// useOnce locks and unlocks with an option.
func useOnce(t *testing.T, pool *redis.Pool, opts ...redimutex.Option) error {
	m := newMutex(t, pool, "lock:k", append([]redimutex.Option{redimutex.WithTTL(aclTTL)}, opts...)...)
	if err := m.LockContext(t.Context(), time.Minute); err != nil {
		return err
	}
	if err := m.Lease().Extend(t.Context(), aclTTL); err != nil {
		return err
	}
	return m.UnlockContext(t.Context())
}

func useFencing(t *testing.T, _ *redistest.Server, pool *redis.Pool) error {
	return useOnce(t, pool, redimutex.WithFencing())
}

func useReplicas(t *testing.T, _ *redistest.Server, pool *redis.Pool) error {
	return useOnce(t, pool, redimutex.WithReplicas(1, aclTTL/2))
}

func useGuard(t *testing.T, _ *redistest.Server, pool *redis.Pool) error {
	return useOnce(t, pool, redimutex.WithTTL(500*time.Millisecond), redimutex.WithNodeTimeout(400*time.Millisecond), redimutex.WithRestartGuard())
}

// useSemaphore tries in vain for a permit that another Client has, extends that permit, and counts the permits.
func useSemaphore(t *testing.T, _ *redistest.Server, pool *redis.Pool) error {
	open := func() *redimutex.Semaphore {
		return newClient(t, pool, redimutex.WithTTL(aclTTL)).Semaphore("lock:permits", 1)
	}
	holder, other := open(), open()
	l, err := holder.Acquire(t.Context())
	if err != nil {
		return err
	}
	if _, err := other.TryAcquire(t.Context()); !errors.Is(err, redimutex.ErrLocked) {
		return fmt.Errorf("the other: %w", err)
	}
	if err := l.Extend(t.Context(), 2*aclTTL); err != nil {
		return err
	}
	if n, err := holder.InUse(t.Context()); n != 1 {
		return fmt.Errorf("%d in use: %w", n, err)
	}
	return l.Release(t.Context())
}

// The page also has the commands that a script calls only if others wait or crash.
func TestThePermissionsHaveEachCommandOfTheScripts(t *testing.T) {
	t.Parallel()
	words := strings.Fields(onThePage(t))
	files, err := filepath.Glob("../../internal/server/lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	call := regexp.MustCompile(`redis\.p?call\('(\w+)'`)
	for _, file := range files {
		script, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range call.FindAllStringSubmatch(string(script), -1) {
			assert.Contains(t, words, "+"+strings.ToLower(found[1]), file)
		}
	}
}

// useReaders makes a writer wait for a reader, and another reader for the writer. Then the writer becomes a reader.
func useReaders(t *testing.T, s *redistest.Server, pool *redis.Pool) error {
	open := func() *redimutex.RWMutex {
		return newClient(t, pool, redimutex.WithTTL(aclTTL)).RWMutex("lock:rw")
	}
	reader, err := open().RAcquire(t.Context())
	if err != nil {
		return err
	}
	if err := reader.Extend(t.Context(), 2*aclTTL); err != nil {
		return err
	}
	marked := func(kind string) {
		redistest.Wait(t, "a mark, or something was refused", func() bool {
			n, _ := redis.Int(s.Do("EXISTS", "redimutex:"+kind+":{lock:rw}"), nil)
			return n == 1 || len(denials(t, s)) > 0
		})
	}
	results := make(chan error, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		l, err := open().Acquire(ctx)
		if err == nil {
			err = errors.Join(l.Downgrade(ctx), l.Release(ctx))
		}
		results <- err
	}()
	marked("writers")
	go func() {
		l, err := open().RAcquire(ctx)
		if err == nil {
			err = l.Release(ctx)
		}
		results <- err
	}()
	marked("waiting")
	if err := reader.Release(t.Context()); err != nil {
		return err
	}
	return errors.Join(<-results, <-results)
}

// useElection becomes the leader, and asks who leads.
func useElection(t *testing.T, _ *redistest.Server, pool *redis.Pool) error {
	e := election.New(newClient(t, pool), "lock:lead", "a", redimutex.WithTTL(aclTTL))
	seen := errors.New("seen")
	err := e.Run(t.Context(), func(ctx context.Context) error {
		l, err := e.Leader(ctx)
		if err == nil && l.Term == election.Term(ctx) {
			return seen
		}
		return fmt.Errorf("%v leads: %w", l, err)
	})
	if errors.Is(err, seen) {
		return nil
	}
	return err
}

func useQueue(t *testing.T, s *redistest.Server, pool *redis.Pool) error {
	const name = "lock:queued"
	open := func() *redimutex.Mutex {
		return newMutex(t, pool, name, redimutex.WithTTL(aclTTL), redimutex.WithQueue())
	}
	if err := open().LockContext(t.Context(), time.Minute); err != nil {
		return err
	}
	wait := func(n int) {
		redistest.Wait(t, "all wait and listen, or something was refused", func() bool {
			listening, _ := redis.Strings(s.Do("PUBSUB", "CHANNELS", "redimutex:*"), nil)
			return len(locktest.Queue(t, s, name)) == n && len(listening) >= n || len(denials(t, s)) > 0
		})
	}
	results := make(chan error, 3)
	waiting, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var leave context.CancelFunc
	for i := range 3 {
		m := open()
		ctx, cancel := context.WithCancel(waiting)
		defer cancel()
		leave = cancel
		go func() {
			err := m.LockContext(ctx, 0)
			if err == nil {
				err = m.UnlockContext(t.Context())
			}
			results <- err
		}()
		wait(i + 1)
	}
	leave()
	if err := <-results; !errors.Is(err, context.Canceled) {
		return err
	}
	wait(2)
	s.Do("DEL", name)
	redistest.Wait(t, "both have had the lock, or something was refused", func() bool { return len(results) == 2 || len(denials(t, s)) > 0 })
	if len(denials(t, s)) > 0 {
		end() // without this, a waiter that can't be served would wait for the whole minute
	}
	return errors.Join(<-results, <-results)
}

// Otherwise its place would stay in the queue before all that come later, and the lock would stay free behind it.
func TestAUserThatMayNotLeaveTheQueueIsRefusedBeforeItIsInIt(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	t.Parallel()
	s := redistest.Real(t)
	sets := granted(t)
	words := slices.DeleteFunc(slices.Concat(sets[0].words, sets[2].words), func(w string) bool { return w == "+zrem" })
	waiter := newClient(t, allow(t, s, words), redimutex.WithQueue()).Mutex("lock:job")
	holder := newClient(t, s.Pool()).Mutex("lock:job")
	require.NoError(t, holder.LockContext(t.Context(), 0))
	err := waiter.LockContext(t.Context(), 10*time.Second)
	require.ErrorAs(t, err, new(*redimutex.NodeError))
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
	assert.Equal(t, []string{"lock:job"}, s.Keys())
	require.NoError(t, holder.UnlockContext(t.Context()))
}
