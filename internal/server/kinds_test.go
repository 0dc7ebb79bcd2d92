package server_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// held demands that another holds the lock, and returns for how long.
func held(t testing.TB, reply server.Reply) time.Duration {
	t.Helper()
	require.NoError(t, reply.Err)
	require.Equal(t, server.Held, reply.Verdict)
	return reply.Left
}

// gone demands that it was said which lock was lost.
func gone(t testing.TB, reply server.Reply, v server.Verdict, which int) {
	t.Helper()
	require.Equal(t, v, reply.Verdict, "%v", reply.Err)
	require.Equal(t, which, reply.Which)
}

func TestSeveralKeysAreLockedAllOrNone(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	q := request("a")
	q.More, q.Fence = []string{"b", "c"}, server.NextFence
	r.Do("SET", "c", "another", "PX", 60000)
	assert.Positive(t, held(t, acquire(s, q)))
	assert.False(t, r.Exists("a") || r.Exists("b"))
	r.Do("DEL", "c")
	r.Do("SET", server.FenceKey("b"), int64(1)<<52)
	got := acquire(s, q)
	done(t, got)
	assert.EqualValues(t, int64(1)<<52+1, got.Fence, "above all its counters")
	for _, key := range []string{"a", "b", "c"} {
		assert.Equal(t, q.Token, r.Get(key))
	}
	held(t, acquire(s, request("b")))
	done(t, one(s, q))

	r.Do("DEL", "b")
	gone(t, one(s, q), server.Missing, 1)
	r.Do("SET", "b", "another")
	gone(t, one(s, q), server.Taken, 1)
	held(t, acquire(s, q))
	gone(t, release(s, q), server.Taken, 1)
	assert.False(t, r.Exists("a") || r.Exists("c"), "the others are released")
	assert.Equal(t, "another", r.Get("b"))
}

func permit(ttl time.Duration, limit int) *hold {
	q := request("s")
	q.Kind, q.Want, q.TTL = server.Semaphore, server.Permits(limit), ttl
	return q
}

func TestASemaphoreAdmitsAsManyAsItsLimit(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	first, second, third := permit(time.Minute, 2), permit(10*time.Minute, 2), permit(time.Minute, 2)
	done(t, acquire(s, first))
	done(t, acquire(s, second))
	done(t, acquire(s, second)) // a repeat takes no second permit
	left := held(t, acquire(s, third))
	assert.LessOrEqual(t, left, time.Minute, "until the first permit expires")
	assert.Greater(t, left, 30*time.Second)
	assert.Greater(t, r.PTTL("s"), 9*time.Minute, "the key lives as long as the last permit")

	// A lower limit takes no permit away, and admits none.
	done(t, release(s, first))
	held(t, acquire(s, permit(time.Minute, 1)))
	done(t, one(s, second))
	done(t, acquire(s, third))
	done(t, release(s, second))
	assert.LessOrEqual(t, r.PTTL("s"), time.Minute, "and no longer")
	assert.Greater(t, r.PTTL("s"), 30*time.Second)
	gone(t, release(s, second), server.Missing, 0)
	done(t, release(s, third))
	assert.False(t, r.Exists("s"))
}

func TestAPermitExpiresByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	brief, long := permit(300*time.Millisecond, 2), permit(time.Minute, 2)
	done(t, acquire(s, brief))
	done(t, acquire(s, long))
	next := permit(time.Minute, 2)
	redistest.Wait(t, "the permit has expired, though its key lives", func() bool { return acquire(s, next).Verdict == server.Done })
	gone(t, one(s, brief), server.Missing, 0)
	held(t, acquire(s, brief))
	n, err := redis.Int(r.Do("ZCARD", "s"), nil)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
}

func reader(ttl time.Duration, mark string) *hold {
	q := request("rw")
	q.Kind, q.Want, q.TTL = server.Reader, "r", ttl
	if mark != "" {
		q.Waiter, q.Try.Shows = &server.Waiter{Channel: mark, HandOff: 20 * time.Second}, time.Minute
	}
	return q
}

func writer(mark string) *hold {
	q := reader(time.Minute, mark)
	q.Kind, q.Want = server.Writer, "w"
	return q
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	a, b, w := reader(10*time.Minute, ""), reader(time.Minute, ""), writer("")
	done(t, acquire(s, a))
	done(t, acquire(s, b))
	assert.Greater(t, held(t, acquire(s, w)), 9*time.Minute, "until the last reader's end")
	held(t, acquire(s, request("rw")))
	done(t, release(s, a))
	assert.LessOrEqual(t, held(t, acquire(s, w)), time.Minute)
	done(t, release(s, b))
	assert.False(t, r.Exists("rw"))
	done(t, acquire(s, w))
	held(t, acquire(s, a))
	held(t, acquire(s, writer("")))
	done(t, one(s, w))
	gone(t, one(s, b), server.Taken, 0)
	done(t, release(s, w))
}

func TestADeadReaderDelaysAWriterByItsOwnTTLAlone(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	dead, alive, w := reader(300*time.Millisecond, ""), reader(time.Minute, ""), writer("")
	done(t, acquire(s, dead))
	done(t, acquire(s, alive))
	done(t, release(s, alive))
	assert.LessOrEqual(t, held(t, acquire(s, w)), 300*time.Millisecond)
	redistest.Wait(t, "the writer has it", func() bool { return acquire(s, w).Verdict == server.Done })
	gone(t, one(s, dead), server.Taken, 0)
}

// Writers that wait keep new readers out; readers that have waited for a writer go before the next one.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	a, b, c := reader(time.Minute, "A"), reader(time.Minute, "B"), reader(time.Minute, "C")
	w, x := writer("W"), writer("X")
	done(t, acquire(s, a))
	held(t, acquire(s, w))
	held(t, acquire(s, x))
	held(t, acquire(s, b)) // behind the writers
	done(t, acquire(s, a)) // a reader that is in stays in
	done(t, release(s, a))
	held(t, acquire(s, b))
	done(t, acquire(s, w))
	held(t, acquire(s, c)) // it comes while the writer writes
	done(t, release(s, w))
	held(t, acquire(s, x)) // the readers' turn
	done(t, acquire(s, b))
	done(t, acquire(s, c))
	held(t, acquire(s, reader(time.Minute, "D")))
	done(t, release(s, b))
	done(t, release(s, c))
	done(t, acquire(s, x))
}

func TestMarksOfThoseThatWaitExpire(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	a, w := reader(time.Minute, "A"), writer("W")
	w.Try.Shows = 300 * time.Millisecond
	done(t, acquire(s, a))
	held(t, acquire(s, w))
	b := reader(time.Minute, "")
	assert.LessOrEqual(t, held(t, acquire(s, b)), 300*time.Millisecond)
	redistest.Wait(t, "the writer is forgotten", func() bool { return acquire(s, b).Verdict == server.Done })
	done(t, release(s, a))
	done(t, release(s, b))

	x := writer("X")
	done(t, acquire(s, x))
	entitled := reader(time.Minute, "E")
	entitled.Try.Shows = 300 * time.Millisecond
	held(t, acquire(s, entitled))
	done(t, release(s, x))
	redistest.Wait(t, "the reader is forgotten", func() bool { return acquire(s, writer("Y")).Verdict == server.Done })
}

// A waiter that gives up stands in no caller's way.
func TestAReleaseTakesTheMarkAway(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	a, w := reader(time.Minute, "A"), writer("W")
	done(t, acquire(s, a))
	c := w.claim(s)
	held(t, c.Try(t.Context(), w.try()))
	held(t, acquire(s, reader(time.Minute, "")))
	c.ReleaseLater(time.Time{})
	away(t, c)
	done(t, acquire(s, reader(time.Minute, "")))
}

// What is left of readers after the lock was deleted, or taken by another, gives no caller a place.
func TestTheFirstReaderForgetsThoseOfBefore(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	a, b := reader(time.Minute, ""), reader(time.Minute, "")
	done(t, acquire(s, a))
	r.Do("DEL", "rw")
	gone(t, one(s, a), server.Missing, 0)
	done(t, acquire(s, b))
	gone(t, one(s, a), server.Missing, 0)
	done(t, release(s, b))
	assert.False(t, r.Exists("rw"))
}

func TestAWriterThatBecomesAReaderLetsTheOthersIn(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	w := writer("W")
	done(t, acquire(s, w))
	b := reader(time.Minute, "B")
	held(t, acquire(s, b))
	held(t, acquire(s, writer("X")))
	as := reader(time.Minute, "")
	as.Token, as.Try = w.Token, server.Try{Reads: true}
	done(t, acquire(s, as))
	done(t, acquire(s, as)) // a repeat finds what it has done
	assert.Equal(t, "*", r.Get("rw"))
	done(t, acquire(s, b))
	held(t, acquire(s, writer("X")))
	done(t, one(s, as))
	done(t, one(s, w)) // whichever of the two it takes itself for
	done(t, release(s, w))
	done(t, release(s, b))
	assert.False(t, r.Exists("rw"))
	gone(t, acquire(s, as), server.Missing, 0)
	r.Do("SET", "rw", "another")
	gone(t, acquire(s, as), server.Taken, 0)
}

func TestReadersOfAQueueComeInTogetherAndBeforeTheNextWriter(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	heard, other := listen(t, r, "here"), listen(t, r, "there")
	w := writer("")
	w.Queue = true
	done(t, acquire(s, w))
	var all []*hold
	for _, name := range []string{"w1", "r1", "w2", "r2"} {
		q := writer("here")
		if name[0] == 'r' {
			q = reader(time.Minute, map[string]string{"r1": "here", "r2": "there"}[name]) // one mark a process
		}
		q.Queue, q.Token, q.Try.Queues = true, name, true
		wait(t, s, q)
		all = append(all, q)
	}
	done(t, release(s, w))
	assert.Equal(t, []string{"0 r1"}, heard(), "the readers have waited for a writer")
	assert.Equal(t, []string{"0 r2"}, other())
	done(t, release(s, all[1]))
	assert.Empty(t, heard())
	done(t, release(s, all[3]))
	assert.Equal(t, []string{"0 w1"}, heard())
	done(t, release(s, all[0]))
	assert.Equal(t, []string{"0 w2"}, heard())
}

func TestATokenTakesThePlaceOfAnotherOnce(t *testing.T) {
	t.Parallel()
	r, s := start(t)
	old, to, late := request("k"), request("k"), request("k")
	to.Fence = server.NextFence
	to.Try.Old, late.Try.Old = old.Token, old.Token
	gone(t, acquire(s, to), server.Missing, 0)
	done(t, acquire(s, old))
	r.Do("PEXPIRE", "k", 5000)
	got := acquire(s, to)
	done(t, got)
	assert.Positive(t, got.Fence)
	assert.Greater(t, r.PTTL("k"), 30*time.Second)
	done(t, acquire(s, to)) // a repeat finds its own
	assert.Equal(t, to.Token, r.Get("k"))
	gone(t, acquire(s, late), server.Taken, 0)
	gone(t, release(s, old), server.Taken, 0)
	done(t, release(s, to))
}
