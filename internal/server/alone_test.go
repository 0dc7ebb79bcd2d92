package server_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// A plain pool leads to one node of a cluster. While that node does not serve the slot, it answers MOVED.
func TestAReleaseInTheBackgroundOutlastsANodeThatHasMoved(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		c := held(t, s, request("k"))
		b.Set(func(redistest.Command) (any, error) {
			return nil, redis.Error("MOVED 7629 127.0.0.1:7001")
		})
		c.ReleaseLater(time.Time{})
		time.Sleep(time.Second)
		b.Set(nil)
		time.Sleep(2 * time.Second)
		assert.False(t, m.Exists("k"))
		done(t, acquire(s, request("k")))
	})
}

func TestALeaseOfABatchFollowsItsSlot(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, _ *server.Server) {
		s := open(t, getter(func() redis.Conn { return boundConn{b.Get()} }))
		batch := []*hold{request("{k}a"), request("{k}b")}
		for _, q := range batch {
			done(t, acquire(s, q))
		}
		var moved atomic.Bool
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name != "TIME" && command.Args[2] == "{k}b" && !moved.Swap(true) {
				return nil, redis.Error("MOVED 7629 127.0.0.1:7001")
			}
			return command.Run()
		})
		for _, reply := range extend(s, batch) {
			done(t, reply)
		}
		assert.True(t, moved.Load())
	})
}

// A lease that is refused in a batch is extended alone, perhaps on another node, which hangs.
func TestALeaseThatHasToGoAloneCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		batch := []*hold{request("a"), request("b"), request("c")}
		for _, q := range batch {
			done(t, acquire(s, q))
		}
		refused := false
		b.Set(func(command redistest.Command) (any, error) {
			switch {
			case command.Name == "TIME" || command.Args[2] != "b":
			case refused:
				time.Sleep(time.Minute)
			default:
				refused = true
				return nil, redis.Error("MOVED 3300 127.0.0.1:7001")
			}
			return command.Run()
		})
		replies := extend(s, batch)
		b.Set(nil)
		done(t, replies[0])
		failed(t, replies[1])
		done(t, replies[2])
	})
}

// A doConn takes one command at a time.
type doConn struct{ redis.Conn }

func (doConn) Send(string, ...any) error { return errors.ErrUnsupported }

// All leases of the batch would be lost together, though each of them alone would be extended in time.
func TestOfABatchThatGoesOneByOneCountsWhatWasAnsweredInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(func() redis.Conn { return doConn{b.Get()} }))
		var batch []*hold
		for i := range 100 {
			batch = append(batch, request(fmt.Sprint(i)))
			done(t, acquire(s, batch[i]))
		}
		b.Set(func(command redistest.Command) (any, error) {
			time.Sleep(batch[0].Timeout / 60)
			return command.Run()
		})
		extended := 0
		for _, reply := range extend(s, batch) {
			if reply.Verdict == server.Done {
				extended++
			}
		}
		assert.Greater(t, extended, 50)
		time.Sleep(time.Minute)
	})
}

// In a cluster whose slots are being moved, RetryConn repeats a command for this long.
func TestLeasesThatAreSlowToExtendCostTheOthersNothingWhereTheyGoOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(func() redis.Conn { return doConn{b.Get()} }))
		batch := []*hold{request("slow"), request("as slow"), request("k")}
		for _, q := range batch {
			done(t, acquire(s, q))
		}
		extend(s, batch) // now the Server knows that they go one by one
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name != "TIME" && command.Args[2] != "k" {
				time.Sleep(batch[0].Timeout * 3 / 4)
			}
			return command.Run()
		})
		for _, reply := range extend(s, batch) {
			done(t, reply)
		}
		time.Sleep(time.Minute)
	})
}

type getter func() redis.Conn

func (g getter) Get() redis.Conn { return g() }

type boundConn struct{ redis.Conn }

func (boundConn) Bind(...string) error { return nil }

// Otherwise the leases of a slot that has moved would go alone at each renewal until the next try.
func TestARenewalLearnsWhichNodesServeTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(func() redis.Conn { return boundConn{b.Get()} }))
		q := request("k")
		done(t, acquire(s, q))
		time.Sleep(q.TTL / 2)
		asked := false
		b.Set(func(command redistest.Command) (any, error) {
			asked = asked || command.Name == "CLUSTER"
			return command.Run()
		})
		done(t, one(s, q))
		synctest.Wait()
		assert.True(t, asked)
		time.Sleep(time.Minute)
	})
}

func TestANodeIsAskedForTheSlotsAgainWhereOneHasMovedAndNotWhereItRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(func() redis.Conn { return boundConn{b.Get()} }))
		var asked atomic.Int32
		var moved, refuses atomic.Bool
		b.Set(func(command redistest.Command) (any, error) {
			switch {
			case command.Name == "CLUSTER":
				asked.Add(1)
				if refuses.Load() {
					return nil, redis.Error("NOPERM this user has no permissions to run the 'cluster|slots' command")
				}
			case moved.Swap(false):
				return nil, redis.Error("MOVED 7629 127.0.0.1:7001")
			}
			return command.Run()
		})
		q := request("k")
		q.TTL = time.Hour
		done(t, acquire(s, q))
		for i, when := range []struct {
			moved, refuses bool
			after          time.Duration
			asked          int32
		}{{asked: 1}, {moved: true, asked: 2}, {after: time.Minute, refuses: true, asked: 3}, {after: time.Minute, asked: 3}} {
			time.Sleep(when.after)
			moved.Store(when.moved)
			refuses.Store(when.refuses)
			done(t, one(s, q))
			synctest.Wait()
			assert.Equal(t, when.asked, asked.Load(), "case %d", i)
		}
		time.Sleep(time.Minute)
	})
}

// A cluster with cluster-preferred-endpoint-type unknown-endpoint names no hosts.
func TestNodesWithoutHostsAreStillTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(func() redis.Conn { return boundConn{b.Get()} }))
		var together atomic.Bool
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name == "CLUSTER" {
				low := []any{int64(0), int64(8191), []any{nil, int64(6379), []byte("an ID")}}
				high := []any{int64(8192), int64(16383), []any{nil, int64(6379), []byte("another")}}
				return []any{low, high}, nil
			}
			if command.Name == "EVAL" { // a batch is sent like this
				together.Store(true)
			}
			return command.Run()
		})
		batch := []*hold{request("a"), request("b"), request("c")}
		for _, q := range batch {
			done(t, acquire(s, q))
		}
		time.Sleep(batch[0].TTL / 2)
		for range 2 { // the first round learns which nodes there are
			together.Store(false)
			for _, reply := range extend(s, batch[:2]) {
				done(t, reply)
			}
			synctest.Wait()
		}
		assert.False(t, together.Load(), "slots 15495 and 3300")
		done(t, extend(s, batch)[2])
		assert.True(t, together.Load(), "slots 3300 and 7365")
		time.Sleep(time.Minute)
	})
}

// After a failover, some nodes of a cluster still send clients to the node that served the slot before.
func TestACommandFollowsItsKeyWhileTheNodesDisagree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		b := redistest.NewBetween(pool)
		s := open(t, getter(func() redis.Conn { return boundConn{b.Get()} }))
		moved, sent := 3, 0
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name == "EVALSHA" {
				if sent++; sent <= moved {
					return nil, redis.Error("MOVED 7629 127.0.0.1:7001")
				}
			}
			return command.Run()
		})
		q := request("k")
		done(t, acquire(s, q))
		moved, sent = 1000, 0
		failed(t, one(s, q))
		assert.Equal(t, 4, sent, "not for ever")
		time.Sleep(time.Minute)
	})
}

func TestABatchBringsEachScriptAlongOnce(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		var batch []*hold
		for i := range 10 { // two kinds, in turn
			q := request(fmt.Sprint(i))
			if i%2 == 0 {
				q.Kind, q.Want = server.Semaphore, "1"
			}
			done(t, acquire(s, q))
			batch = append(batch, q)
		}
		sources := 0
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name == "EVAL" {
				sources++
			}
			return command.Run()
		})
		for _, reply := range extend(s, batch) {
			done(t, reply)
		}
		assert.Equal(t, 2, sources)
	})
}

func TestABatchThatAScriptFlushHitsIsSentAgainAsABatch(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		var batch []*hold
		for i := range 10 {
			q := request(fmt.Sprint(i))
			done(t, acquire(s, q))
			batch = append(batch, q)
		}
		sent, sources := 0, 0
		b.Set(func(command redistest.Command) (any, error) {
			sent++
			if command.Name == "EVAL" {
				sources++
			} else if sent > 5 && sent <= 10 { // SCRIPT FLUSH came before the sixth
				return nil, redis.Error("NOSCRIPT No matching script. Please use EVAL.")
			}
			return command.Run()
		})
		for _, reply := range extend(s, batch) {
			done(t, reply)
		}
		assert.Equal(t, 15, sent)
		assert.Equal(t, 2, sources, "a batch brings its script along")
	})
}

func TestLaterReleasesShareARoundTripHoweverLongTheirKeysAre(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		var all []*hold
		for i := range 100 {
			q := request(fmt.Sprintf("%01000d", i))
			done(t, acquire(s, q))
			all = append(all, q)
		}
		var sources counter
		b.Set(func(command redistest.Command) (any, error) {
			if command.Name == "EVAL" { // the first script of a batch
				return sources.count(command)
			}
			return command.Run()
		})
		for _, q := range all {
			releaseLater(s, q)
		}
		time.Sleep(time.Second)
		assert.Zero(t, len(m.Keys())) //nolint:testifylint // they are long
		assert.LessOrEqual(t, strings.Count(sources.take(), "EVAL"), 3)
	})
}

// A measured connection notes the size of each pipeline. While the server hangs, it gets no reply.
type measured struct {
	redis.Conn
	hangs *atomic.Bool
	note  func(size int)
	size  int
}

func (c *measured) Send(command string, args ...any) error {
	for _, a := range args {
		c.size += len(fmt.Sprint(a))
	}
	return c.Conn.Send(command, args...)
}

func (c *measured) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	if command == "" {
		c.note(c.size)
		c.size = 0
	}
	if c.hangs.Load() {
		time.Sleep(d)
		return nil, os.ErrDeadlineExceeded
	}
	return redis.DoWithTimeout(c.Conn, d, command, args...)
}

func (c *measured) ReceiveWithTimeout(d time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, d)
}

// When a server that hangs is back, it reads 16 KiB of what it was sent before Close, and loses the rest.
func TestABatchOfReleasesIsSmallUntilTheServerHasAnswered(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, _ *server.Server) {
		var hangs atomic.Bool
		var most atomic.Int64
		note := func(size int) { most.Store(max(most.Load(), int64(size))) } // the runner sends one batch at a time
		s := open(t, getter(func() redis.Conn { return &measured{Conn: b.Get(), hangs: &hangs, note: note} }))
		var all []*hold
		for i := range 300 {
			q := request(fmt.Sprintf("%0100d", i))
			done(t, acquire(s, q))
			all = append(all, q)
		}
		most.Store(0)
		hangs.Store(true)
		for _, q := range all {
			releaseLater(s, q)
		}
		time.Sleep(3 * time.Second)
		assert.Positive(t, most.Load())
		assert.Less(t, most.Load(), int64(16<<10))
		hangs.Store(false)
		time.Sleep(10 * time.Second)
		assert.Empty(t, m.Keys())
		assert.Greater(t, most.Load(), int64(16<<10), "now the batches are large")
	})
}

func TestACommandGoesOverAConnectionThatTakesOneAtATime(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	s := open(t, getter(func() redis.Conn { return doConn{pool.Get()} }))
	got, err := redis.String(s.Session(t.Context(), time.Minute, "k").Do("ECHO", "word"))
	assert.NoError(t, err)
	assert.Equal(t, "word", got)
	for _, plain := range []bool{false, true} { // no command that takes it back follows the SET
		q := request("k" + fmt.Sprint(plain))
		q.Try.Plain = plain
		done(t, acquire(s, q))
	}
}
