package locks

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// listed calls redimutex list and returns the lines of the table, with single spaces.
func listed(t *testing.T, args ...string) (lines []string, stderr string) {
	t.Helper()
	out, stderr := clitest.Ends(t, cli.OK, append([]string{"list"}, args...)...)
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines, late.ReplaceAllString(stderr, "")
}

// late matches what list says after a second without an answer. A busy machine may be the reason.
var late = regexp.MustCompile("(?m)^redimutex: waiting for .*\n")

// keysOf returns the first column of a table.
func keysOf(lines []string) (keys []string) {
	for _, line := range lines[min(len(lines), 1):] { // none if it failed
		key, _, _ := strings.Cut(line, " ")
		keys = append(keys, key)
	}
	return keys
}

// inventoryOf calls redimutex list -json.
func inventoryOf(t *testing.T, args ...string) *inventory {
	t.Helper()
	out, _ := clitest.Ends(t, cli.OK, append([]string{"list", "-json"}, args...)...)
	return clitest.FromJSON[*inventory](t, out)
}

func TestListTellsWhatIsLockedByWhomAndNeverAToken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := redimutex.New(s.Pool(), "b:job", redimutex.WithOwner("web-1 pid 7"), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	m.Lock()
	defer m.Unlock()
	clitest.Enqueue(t, s, "b:job", "m next", "db-1", false)
	s.Do("SET", "a:foreign", "9HrBA1BqmdGOBrF8xKmY4g==", "PX", 600000)
	s.Do("SET", "c:label\x1b[2J", clitest.Token(strings.Repeat("long ", 20)), "PX", 60000)
	s.Do("SET", "session:1", "other data", "PX", 60000)
	s.Do("SET", "page", "9HrBA1BqmdGOBrF8xKmY4g==")

	lines, stderr := listed(t, "-redis", s.URL())
	assert.Empty(t, stderr)
	require.Len(t, lines, 4)
	assert.Equal(t, "KEY OWNER AGE TTL FENCE WAITERS (on "+s.Addr()+"/0)", lines[0])
	assert.Regexp(t, `^a:foreign \(foreign\) - (10m0s|9m\d+s) - 0$`, lines[1])
	assert.Regexp(t, `^b:job web-1 pid 7 [0-9.]+m?s [0-9.m]+s \d+ 1$`, lines[2])
	assert.Regexp(t, `^c:label \[2J long (long )+(l|lo|lon|long)?\.\.\. - [0-9.m]+s - 0$`, lines[3])
	for _, secret := range []string{"9HrBA1", m.Lease().Token()[:36]} {
		assert.NotContains(t, strings.Join(lines, ""), secret)
	}

	lines, _ = listed(t, "b:*", "-redis", s.URL())
	assert.Equal(t, []string{"b:job"}, keysOf(lines))

	lines, stderr = listed(t, "nothing*", "-redis", s.URL())
	assert.Empty(t, lines)
	assert.Equal(t, "redimutex: there is no lock among 0 keys on "+s.Addr()+"/0\n", stderr)

	r := inventoryOf(t, "-redis", s.URL())
	assert.True(t, r.Complete)
	assert.Equal(t, s.Addr()+"/0", r.Asked)
	require.Len(t, r.Locks, 3)
	assert.True(t, r.Locks[0].Foreign)
	assert.False(t, r.Locks[1].Foreign)
	assert.Equal(t, "web-1 pid 7", r.Locks[1].Owner)
	assert.Equal(t, 1, r.Locks[1].Waiting)
	assert.Equal(t, m.Lease().Fence(), r.Locks[1].Fence)
	assert.NotEmpty(t, r.Locks[2].Owner)

	out, _ := clitest.Ends(t, cli.OK, "list", "-json", "-redis", s.URL())
	assert.NotContains(t, out, `"queue`, "the help says so")
	assert.Contains(t, out, `"agree":1`)
}

// The longest key makes the lines of all locks as long as it is.
func TestListCutsALongKeyForPeopleAndNotForScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	long := strings.Repeat("é", 101)
	s.Do("SET", "job", clitest.Token(""), "PX", 60000)
	s.Do("SET", strings.Repeat("k", 100), clitest.Token(""), "PX", 60000)
	s.Do("SET", long, clitest.Token(""), "PX", 60000)
	lines, _ := listed(t, "-redis", s.URL())
	assert.Equal(t, []string{"job", strings.Repeat("k", 100), strings.Repeat("é", 97) + "..."}, keysOf(lines))
	assert.Equal(t, long, inventoryOf(t, "-redis", s.URL()).Locks[2].Key)
}

func TestListWithAllShowsWhatMayBeALock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "by hand", "worker 7", "PX", 60000)
	s.Do("SET", "left behind", clitest.Token(""))
	s.Do("SET", "page", strings.Repeat("x", 301), "PX", 60000)
	s.Do("SETNX", "setnx", "1")
	lines, stderr := listed(t, "-redis", s.URL())
	assert.Empty(t, lines)
	assert.Equal(t, "redimutex: there is no lock among 4 keys on "+s.Addr()+"/0; -all lists also strings that may be locks, such as those that never expire\n", stderr)
	lines, _ = listed(t, "-redis", s.URL(), "-all")
	require.Len(t, lines, 4)
	assert.Regexp(t, `^by hand \(perhaps no lock\) - [0-9.m]+s - 0$`, lines[1])
	assert.Equal(t, "left behind - - never - 0", lines[2])
	assert.Equal(t, "setnx (perhaps no lock) - never - 0", lines[3], "a lock made by SETNX has no TTL, and may have any value")
}

func TestListIsSortedAsWanted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, l := range []struct {
		key     string
		ttl     time.Duration
		fencing bool
		waiters int
	}{{"d", time.Minute, true, 0}, {"a", 3 * time.Minute, false, 2}, {"c", 2 * time.Minute, true, 1}, {"b", 4 * time.Minute, false, 0}} {
		opts := []redimutex.Option{redimutex.WithTTL(l.ttl)}
		if l.fencing {
			opts = append(opts, redimutex.WithFencing())
		}
		m := redimutex.New(s.Pool(), l.key, opts...)
		m.Lock()
		defer m.Unlock()
		for i := range l.waiters {
			clitest.Enqueue(t, s, l.key, "m next", fmt.Sprint(i), false)
		}
	}
	for order, want := range map[string][]string{
		"key": {"a", "b", "c", "d"}, "ttl": {"d", "c", "a", "b"}, "age": {"d", "c", "a", "b"}, "waiters": {"a", "c", "b", "d"},
	} {
		lines, _ := listed(t, "-redis", s.URL(), "-sort", order)
		assert.Equal(t, want, keysOf(lines), order)
	}
	lines, stderr := listed(t, "-redis", s.URL(), "-limit", "2")
	assert.Len(t, keysOf(lines), 2)
	assert.Equal(t, "redimutex: stopped after 2 locks, as -limit says: there may be more\n", stderr)
	assert.False(t, inventoryOf(t, "-redis", s.URL(), "-limit", "2").Complete)
}

func TestASortedListWithALimitHasTheFirstOfAll(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "takes seconds to scan many keys")
	s := redistest.Start(t)
	for i, key := range []string{"d", "c", "a"} {
		s.Do("SET", key, clitest.Token(""), "PX", 60000*(i+1))
	}
	for i := range 3000 { // more than one step
		s.Do("SET", fmt.Sprint("late:", i), clitest.Token(""), "PX", 3600000-i)
	}
	lines, stderr := listed(t, "-redis", s.URL(), "-limit", "3", "-sort", "ttl")
	assert.Equal(t, []string{"d", "c", "a"}, keysOf(lines), "not the first of those that were found first")
	assert.Equal(t, "redimutex: these are 3 of 3003 locks, as -limit says\n", stderr)
}

func TestListTellsHowManyServersAgree(t *testing.T) {
	t.Parallel()
	all, urls := clitest.Three(t)
	x, y := clitest.Token("x"), clitest.Token("y")
	for i, s := range all {
		s.Do("SET", "whole", x, "PX", 60000)
		if i > 0 {
			s.Do("SET", "most", x, "PX", 60000)
		}
		s.Do("SET", "split", []string{x, y, y}[i], "PX", 60000)
	}
	all[0].Do("SET", "one", x, "PX", 60000)
	tail := func(line string) string { return line[strings.LastIndex(line, " ")+1:] }
	lines, stderr := listed(t, urls...)
	assert.Empty(t, stderr)
	assert.Equal(t, []string{"most", "one", "split", "whole"}, keysOf(lines))
	for i, want := range []string{"2/3", "1/3", "2/3", "3/3"} {
		assert.Equal(t, want, tail(lines[i+1]))
	}
	assert.Contains(t, lines[3], "split y", "the holder that a majority has")

	r := inventoryOf(t, urls...)
	require.Len(t, r.Locks, 4)
	assert.False(t, r.Locks[1].Held)
	assert.Equal(t, 1, r.Locks[1].Agree)
	assert.Equal(t, "x", r.Locks[1].Servers[0].Owner)

	all[0].Kill()
	lines, stderr = listed(t, urls...)
	assert.Equal(t, []string{"most", "split", "whole"}, keysOf(lines))
	assert.Contains(t, stderr, all[0].Addr())
	assert.Contains(t, stderr, "locks that only this server has are missing")
	r = inventoryOf(t, urls...)
	assert.False(t, r.Complete)
	require.Len(t, r.Errors, 1)
	assert.Equal(t, all[0].Addr(), r.Errors[0].Address)

	all[1].Kill()
	out, stderr := clitest.Ends(t, cli.Unavailable, append([]string{"list"}, urls...)...)
	assert.Empty(t, out)
	assert.Contains(t, stderr, all[1].Addr())
}

func TestListGoesThroughManyKeysInSmallSteps(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Debugging()...)
	s.Do("DEBUG", "POPULATE", 20000, "session", 100)
	s.Do("SET", "job", clitest.Token(""), "PX", 60000)
	m := s.Monitor()
	lines, _ := listed(t, "-redis", s.URL())
	assert.Equal(t, []string{"job"}, keysOf(lines))
	scans := 0
	for _, line := range m.Lines() {
		assert.NotRegexp(t, `(?i)\] "(keys|eval|evalsha|set|del|sort)"`, line)
		if strings.Contains(line, `] "SCAN"`) {
			scans++
			assert.Contains(t, line, `"COUNT" "500"`)
		}
	}
	assert.Greater(t, scans, 30)
	assert.Empty(t, m.Executed("GET", "job"))
	assert.LessOrEqual(t, len(m.Executed("GETRANGE", "job")), 3)
	assert.Empty(t, m.Executed("GETRANGE", "session:1"), "values of keys that never expire are not looked at")
}

func TestListPassesOverKeysThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	for _, key := range []string{"lock:a", "secret"} {
		s.Do("SET", key, clitest.Token(""), "PX", 60000)
	}
	// What the help says that is needed.
	s.SetUser("reader", "on", ">hunter2", "%R~lock:*", "%R~{lock:*", "-@all",
		"+scan", "+pttl", "+type", "+getrange", "+exists", "+zcard", "+zrange", "+time", "+pubsub|numsub", "+dbsize")
	lines, stderr := listed(t, "-redis", "redis://reader:hunter2@"+s.Addr())
	assert.Equal(t, []string{"lock:a"}, keysOf(lines))
	assert.Equal(t, "redimutex: this user may not read 1 key, which the list leaves out\n", stderr)

	r := inventoryOf(t, "-redis", "redis://reader:hunter2@"+s.Addr())
	assert.False(t, r.Complete)
	assert.Equal(t, 1, r.Refused, "the reason is where a script looks")

	permit, err := redimutex.NewSemaphore(s.Pool(), "lock:permits", 1).Acquire(t.Context())
	require.NoError(t, err)
	defer permit.Release(t.Context())
	s.Do("ACL", "SETUSER", "reader", "-getrange")
	_, stderr = listed(t, "-redis", "redis://reader:hunter2@"+s.Addr())
	assert.Contains(t, stderr, "this user may not read 3 keys", "a semaphore is found without it, and not shown")

	s.Do("ACL", "SETUSER", "reader", "-scan")
	_, stderr = clitest.Ends(t, cli.Unavailable, "list", "-redis", "redis://reader:hunter2@"+s.Addr())
	assert.Contains(t, stderr, "NOPERM")
	assert.NotContains(t, stderr, "hunter2")
}

func TestInAClusterEachNodeKnowsItsOwnLocks(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	owner := c.Owner("job")
	mine, other := c.Nodes[owner], c.Nodes[(owner+1)%len(c.Nodes)]
	mine.Do("SET", "job", clitest.Token("web-1"), "PX", 600000)
	clitest.Enqueue(t, mine, "job", "m next", "web-2", false)

	clitest.Enqueue(t, mine, "job", "m next", "web-3", true)
	_, out, _ := clitest.Call("show", "-redis", mine.URL(), "job")
	assert.Regexp(t, `\n  2\. web-3, for [0-9.]+m?s\n$`, out, "it may listen at another node")

	lines, _ := listed(t, "-redis", mine.URL())
	assert.Equal(t, []string{"job"}, keysOf(lines))
	lines, stderr := listed(t, "-redis", other.URL())
	assert.Empty(t, lines)
	assert.Contains(t, stderr, "there is no lock among 0 keys")

	for _, verb := range []string{"show", "break"} {
		args := []string{verb, "-redis", other.URL(), "job"}
		if verb == "break" {
			args = append(args, "-yes")
		}
		_, stderr := clitest.Ends(t, cli.Unavailable, args...)
		assert.Contains(t, stderr, mine.Addr(), "where it is")
		assert.Contains(t, stderr, "another one serves KEY; name that one")
	}
	clitest.Ends(t, cli.OK, "break", "-yes", "-redis", mine.URL(), "job")
	assert.Contains(t, mine.Get("job"), " web-2", "handed over")
}
