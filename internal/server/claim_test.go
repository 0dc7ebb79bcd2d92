package server_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// between returns a real server, and a Server with a Between before it. The real server knows the scripts.
func between(t *testing.T) (*redistest.Server, *redistest.Between, *server.Server) {
	r := redistest.Start(t)
	b := redistest.NewBetween(r.Pool())
	s := open(t, b)
	warm := request("warm")
	done(t, acquire(s, warm))
	done(t, release(s, warm))
	return r, b, s
}

// swallow makes the next such command vanish: it is not executed, and gets no answer.
func swallow(b *redistest.Between, name string) { swallowWith(b, name, context.DeadlineExceeded) }

// swallowWith is swallow, but the caller gets err.
func swallowWith(b *redistest.Between, name string, err error) {
	b.Set(func(command redistest.Command) (any, error) {
		if command.Name != name {
			return command.Run()
		}
		b.Set(nil)
		return nil, err
	})
}

func away(t *testing.T, c *server.Claim) {
	t.Helper()
	redistest.Wait(t, "the claim is out of the way", func() bool { return c.Away() })
}

func TestOnlyItsReleaseIsSentForAClaimThatEnded(t *testing.T) {
	t.Parallel()
	r, b, s := between(t)
	c := held(t, s, request("k"))
	c.End()
	assert.True(t, c.Spent())
	var sent counter
	b.Set(sent.count)
	failed(t, c.Try(t.Context(), server.Try{}))
	failed(t, lengthen(s, c, time.Hour))
	assert.Empty(t, sent.take())
	done(t, c.Release(t.Context(), time.Now(), time.Time{}))
	assert.False(t, r.Exists("k"))
	sent.take()
	c.End()
	assert.Equal(t, server.Missing, c.Release(t.Context(), time.Now(), time.Time{}).Verdict, "a claim is released once")
	assert.Empty(t, sent.take())
	failed(t, c.Try(t.Context(), server.Try{}))
	assert.False(t, r.Exists("k"), "a token that was released is never tried again")
}

func TestARepeatedTryFindsItsLockAndOnlyRaisesItsTTL(t *testing.T) {
	t.Parallel()
	r, b, s := between(t)
	c := request("k").claim(s)
	lose(b)
	failed(t, c.Try(t.Context(), server.Try{}))
	require.False(t, c.Spent())
	r.Do("PEXPIRE", "k", 3_600_000)
	done(t, c.Try(t.Context(), server.Try{}))
	assert.Greater(t, r.PTTL("k"), 30*time.Minute, "it was cut")
	r.Do("PEXPIRE", "k", 5000)
	done(t, c.Try(t.Context(), server.Try{}))
	assert.Greater(t, r.PTTL("k"), 30*time.Second)
}

// A server may execute a try without an answer until the deadline of the try.
func TestATryWithoutAnAnswerIsReleasedAgainAfterItsDeadline(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		began := time.Now()
		c := unanswered(t, b, s, q)
		c.ReleaseLater(time.Time{})
		away(t, c)                              // a release was answered,
		require.NoError(t, m.Set("k", q.Token)) // and now the try is executed
		redistest.Wait(t, "the lock is released again", func() bool { return !m.Exists("k") })
		assert.GreaterOrEqual(t, time.Since(began), q.Timeout)
		require.NoError(t, m.Set("k", q.Token))
		s.Close(10 * time.Second)
		assert.True(t, m.Exists("k"), "it was gone, and something was sent for it")
	})
}

func TestCloseDoesNotWaitForTheDeadlineOfATryThatItReleasesAgain(t *testing.T) {
	t.Parallel()
	for _, cluster := range []bool{false, true} {
		virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			if cluster {
				s = open(t, getter(func() redis.Conn { return boundConn{b.Get()} }))
			}
			q := request("k")
			c := unanswered(t, b, s, q)
			c.ReleaseLater(time.Time{})
			away(t, c)
			require.NoError(t, m.Set("k", q.Token)) // and now the try is executed
			closing := time.Now()
			s.Close(time.Second)
			assert.False(t, m.Exists("k"))
			assert.Less(t, time.Since(closing), time.Second/10)
		})
	}
}

func TestCloseDoesNotWaitForWhatHasComeBackTooLate(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("other"))) // the clock and the script are known
		_, let := hang(b)
		failed(t, acquire(s, request("k")))
		close(let)
		synctest.Wait()
		began := time.Now()
		s.Close(time.Minute)
		assert.Less(t, time.Since(began), time.Second)
	})
}

func TestCloseReleasesWhereAsManyOperationsAsMayAreStuck(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c := unanswered(t, b, s, q)
		c.ReleaseLater(time.Time{})
		away(t, c)
		require.NoError(t, m.Set("k", q.Token)) // and now the try is executed
		let := make(chan struct{})
		defer close(let)
		b.Set(func(command redistest.Command) (any, error) {
			if !slices.Contains(command.Args, any(q.Token)) {
				<-let
			}
			return command.Run()
		})
		for range 16 {
			go acquire(s, request("k"))
		}
		synctest.Wait()
		s.Close(time.Second)
		assert.False(t, m.Exists("k"))
	})
}

// The lock was extended for longer than its TTL, and stays that long if it is not released.
func TestALockIsReleasedInTheBackgroundForAsLongAsItWasExtended(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
		q := request("k")
		c := held(t, s, q)
		done(t, lengthen(s, c, time.Hour))
		time.Sleep(time.Hour / 2)
		c.ReleaseLater(time.Time{})
		away(t, c)
		assert.False(t, m.Exists("k"))
	})
}

func TestAReleaseInTheBackgroundFollowsOneThatWasAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
		began := time.Now()
		for range 2 {
			releaseLater(s, request("k"))
			synctest.Wait()
		}
		c := foreign(s, request("k"))
		c.ReleaseLater(time.Time{})
		synctest.Wait()
		assert.True(t, c.Away())
		assert.Zero(t, time.Since(began))
	})
}

func TestAReleaseInTheBackgroundDoesNotWaitForOneThatIsDueLater(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c := unanswered(t, b, s, q)
		c.ReleaseLater(time.Time{})
		away(t, c) // and its next release is due after the deadline of the try
		synctest.Wait()
		began := time.Now()
		next := foreign(s, request("other"))
		next.ReleaseLater(time.Time{})
		synctest.Wait()
		assert.True(t, next.Away())
		assert.Zero(t, time.Since(began))
	})
}

func TestReleasesInTheBackgroundThatFailComeLessAndLessOften(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		var sent atomic.Int32
		b.Set(func(redistest.Command) (any, error) {
			sent.Add(1)
			return nil, redis.Error("LOADING")
		})
		releaseLater(s, request("k"))
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 15, sent.Load(), 2, "20, 40 ms, and so on; then each second")
	})
}

// Tokens of one process that enter together with the try are in the same doubt as its own token.
func TestATryWithoutAnAnswerMayHaveLetTheOthersInThatEnterWithIt(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q, with := request("k"), request("k")
		for _, q := range []*hold{q, with} {
			q.Kind, q.Want = server.Reader, "r"
			done(t, acquire(s, q)) // now the server knows the script
			done(t, release(s, q))
			q.Token += "again"
		}
		c, other := q.claim(s), with.claim(s)
		lose(b)
		failed(t, c.Try(t.Context(), server.Try{With: []*server.Claim{other}}))
		done(t, c.Release(t.Context(), time.Now(), time.Time{}))
		assert.NotEmpty(t, m.Keys())
		done(t, other.Release(t.Context(), time.Now(), time.Time{}))
		assert.Empty(t, m.Keys())
	})
}

// A release may overtake its try, over another connection. Most such tries are executed right after the release. Then neither
// the lock, nor the mark of the waiter, nor its place in the queue stays until the deadline.
func TestATryThatItsReleaseHasOvertakenIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		q.Kind, q.Want, q.Extras.Channel, q.Try.Shows = server.Writer, "w", "redimutex:me", time.Minute
		_, marks, _, _ := server.PhaseKeys("k")
		began := time.Now()
		c := unanswered(t, b, s, q)
		var once sync.Once
		b.Set(func(command redistest.Command) (any, error) {
			reply, err := command.Run()
			if err == nil {
				once.Do(func() {
					_ = m.Set("k", q.Token)
					_, _ = m.ZAdd(marks, float64(time.Now().Add(time.Minute).UnixMicro()), q.Extras.Channel)
				})
			}
			return reply, err
		})
		c.ReleaseLater(time.Time{})
		away(t, c)
		assert.False(t, m.Exists("k"))
		assert.False(t, m.Exists(marks))
		assert.Less(t, time.Since(began), q.Timeout/10)
	})
}

// If another goroutine still waits for the answer to a try that was given up, the next claim waits for the end of that try.
func TestATryThatItsReleaseHasOvertakenIsNotInTheWayOfTheNext(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q, next := request("k"), request("k")
		done(t, acquire(s, request("other"))) // the clock and the scripts are known
		c := q.claim(s)
		var commands atomic.Int32
		b.Set(func(command redistest.Command) (any, error) {
			switch commands.Add(1) {
			case 1: // the try is executed after its release
				time.Sleep(2 * time.Millisecond)
				defer time.Sleep(2 * time.Millisecond)
			case 2:
				defer time.Sleep(2 * time.Millisecond)
			}
			return command.Run()
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		failed(t, c.Try(ctx, q.Try))
		c.Drop()
		began := time.Now()
		done(t, acquire(s, next))
		assert.Less(t, time.Since(began), q.Timeout/10)
	})
}

// The server may still execute the first try. Its refusal of a later try is no answer to the first.
func TestATryIsUnknownUntilALaterOneWasAnswered(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		c := request("k").claim(s)
		assert.False(t, c.Unknown())
		swallow(b, "EVALSHA")
		failed(t, c.Try(t.Context(), server.Try{}))
		assert.True(t, c.Unknown())
		swallowWith(b, "EVALSHA", redis.Error("LOADING"))
		failed(t, c.Try(t.Context(), server.Try{}))
		assert.True(t, c.Unknown())
		done(t, c.Try(t.Context(), server.Try{}))
		assert.False(t, c.Unknown())
	})
}

// A plain try has no deadline. If its connection broke, the server may still execute it. After the answer to a second release,
// which was sent after the answer to the first, that is no longer possible.
func TestAPlainTryInDoubtNeedsTwoReleases(t *testing.T) {
	t.Parallel()
	t.Run("silent", func(t *testing.T) { twoReleases(t, context.DeadlineExceeded, server.Failed, 0, false) })
	t.Run("broken, and repeated by a script", func(t *testing.T) { twoReleases(t, redistest.ErrCut, server.Done, 0, false) })
	t.Run("and held for long", func(t *testing.T) { twoReleases(t, redistest.ErrCut, server.Done, time.Minute, false) })
	t.Run("and tried again for the next in line", func(t *testing.T) { twoReleases(t, redistest.ErrCut, server.Done, 0, true) })
}

func twoReleases(t *testing.T, broken error, want server.Verdict, held time.Duration, again bool) {
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		warm := request("warm")
		done(t, acquire(s, warm)) // now the server knows the script
		q := request("k")
		q.TTL += held
		c := q.claim(s)
		swallowWith(b, "SET", broken)
		due := time.Now().Add(q.Timeout)
		assert.Equal(t, want, c.Try(t.Context(), server.Try{Plain: true}).Verdict)
		assert.True(t, c.Spent(), "an undo may be behind it")
		if again { // it was answered too late for its call
			done(t, c.Try(t.Context(), server.Try{}))
		}
		time.Sleep(held)
		var after atomic.Int32
		b.Set(func(command redistest.Command) (any, error) {
			late := time.Now().After(due)
			reply, err := command.Run()
			if late && after.Add(1) == 1 {
				_ = m.Set("k", q.Token) // it is executed after this release
			}
			return reply, err
		})
		c.ReleaseLater(time.Time{})
		redistest.Wait(t, "the second release", func() bool { return after.Load() == 2 && !m.Exists("k") })
		require.NoError(t, m.Set("k", q.Token))
		s.Close(10 * time.Second)
		assert.True(t, m.Exists("k"), "it was gone, and something was sent for it")
		assert.EqualValues(t, 2, after.Load())
	})
}

// hang makes the next script wait until let is closed. When the script has come, come is closed.
func hang(b *redistest.Between) (come, let chan struct{}) {
	come, let = make(chan struct{}), make(chan struct{})
	b.Set(func(command redistest.Command) (any, error) {
		if !strings.HasPrefix(command.Name, "EVAL") {
			return command.Run()
		}
		b.Set(nil)
		close(come)
		<-let
		return command.Run()
	})
	return come, let
}

// If the pool keeps no deadlines, the caller leaves before the connection has reported whether it wrote the undo.
func TestATokenIsNotTriedAgainWhileAPlainTryIsUnderWay(t *testing.T) {
	t.Parallel()
	_, b, s := between(t)
	c := request("k").claim(s)
	come, let := make(chan struct{}), make(chan struct{})
	b.Set(func(command redistest.Command) (any, error) {
		if command.Name == "SET" {
			close(come)
			<-let
		}
		return command.Run()
	})
	answer := make(chan server.Reply, 1)
	go func() { answer <- c.Try(context.Background(), server.Try{Plain: true}) }()
	<-come
	assert.True(t, c.Spent(), "its undo may follow")
	close(let)
	done(t, <-answer)
	assert.False(t, c.Spent(), "it was answered, and none was written")
}

// An extension that is executed after the release finds nothing. So the next holder need not wait for it.
func TestAReleaseOvertakesAnExtensionAtOnceAndReturnsAfterIt(t *testing.T) {
	t.Parallel()
	for _, lasts := range []time.Duration{time.Second, time.Hour} {
		virtualAndDials(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			q := request("k")
			c := held(t, s, q)
			come, let := hang(b)
			go lengthen(s, c, q.TTL)
			<-come
			time.AfterFunc(min(lasts, time.Minute), func() { close(let) })
			time.AfterFunc(time.Millisecond, func() { assert.False(t, m.Exists("k")) })
			began := time.Now()
			done(t, c.Release(t.Context(), began, time.Time{}))
			assert.Equal(t, min(lasts, q.Timeout/2), time.Since(began))
			assert.False(t, m.Exists("k"))
			time.Sleep(2 * time.Minute)
			assert.False(t, m.Exists("k"))
		})
	}
}

func TestAReleaseWaitsForTheConnectionOfAnExtension(t *testing.T) {
	t.Parallel()
	for _, wrapped := range []bool{false, true} { // whether a wrapped pool is full is unknown
		synctest.Test(t, func(t *testing.T) {
			_, pool := redistest.Virtual(t)
			pool.MaxActive = 1
			s := open(t, pool)
			if wrapped {
				s = open(t, struct{ *redis.Pool }{pool})
			}
			c := held(t, s, request("k"))
			user := pool.Get() // as an extension would have it
			c.Enter()
			time.AfterFunc(10*time.Millisecond, func() { user.Close(); c.Leave() })
			done(t, c.Release(t.Context(), time.Now(), time.Time{}))
		})
	}
}

// The lock is released before this server has voted.
func TestAReleaseThatOvertakesATryIsRepeatedBehindIt(t *testing.T) {
	t.Parallel()
	virtualAndDials(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("other"))) // the clock and the script are known
		q := request("k")
		c := q.claim(s)
		come, let := hang(b)
		go c.Try(context.Background(), q.Try)
		<-come
		time.AfterFunc(q.Timeout*3/4, func() { close(let) })
		began := time.Now()
		b.Set(func(command redistest.Command) (any, error) {
			assert.Equal(t, q.Timeout/2, time.Since(began), "before, the release would have to be repeated")
			b.Set(nil)
			return command.Run()
		})
		c.Release(t.Context(), began, time.Time{})
		assert.Equal(t, q.Timeout/2, time.Since(began))
		time.Sleep(q.Timeout)
		assert.False(t, m.Exists("k"))
	})
}

// The release makes the lock expire soon. The extension that it overtook would raise the expiry to the whole TTL again.
func TestAReleaseThatKeepsTheLockIsRepeatedBehindAnExtensionThatItOvertook(t *testing.T) {
	t.Parallel()
	virtualAndDials(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c := held(t, s, q)
		come, let := hang(b)
		go lengthen(s, c, q.TTL)
		<-come
		began := time.Now()
		time.AfterFunc(q.Timeout*3/4, func() { close(let) })
		time.AfterFunc(time.Millisecond, func() { assert.Greater(t, m.TTL("k"), q.Timeout, "released before the extension") })
		done(t, c.Release(t.Context(), began, began.Add(q.Timeout)))
		require.LessOrEqual(t, m.TTL("k"), q.Timeout/2)
		time.Sleep(q.Timeout)
		assert.LessOrEqual(t, m.TTL("k"), q.Timeout/2)
	})
}

// The first of the two extensions is executed after the release.
func TestAReleaseThatKeepsTheLockIsRepeatedWhereAnExtensionWasSentTwice(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c := held(t, s, q)
		swallowWith(b, "EVALSHA", redistest.ErrCut)
		done(t, lengthen(s, c, q.TTL))
		now := time.Now()
		done(t, c.Release(t.Context(), now, now.Add(time.Second)))
		m.SetTTL("k", q.TTL)
		time.Sleep(3 * q.Timeout)
		assert.LessOrEqual(t, m.TTL("k"), time.Second)
	})
}

// Without timeouts of the connection a command may hang for ever.
func TestAReleaseThatFailedIsRepeatedWhileTheTryHangs(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c := q.claim(s)
		come, let := hang(b)
		defer close(let)
		go c.Try(context.Background(), server.Try{})
		<-come
		require.NoError(t, m.Set("k", q.Token)) // the queue hands it the lock
		c.Given()
		b.Set(redistest.Cut)
		failed(t, c.Release(t.Context(), time.Now(), time.Time{}))
		b.Set(nil)
		done(t, acquire(s, request("k")))
	})
}

func TestAReleaseInTheBackgroundFollowsWhatWasUnderWayAtOnce(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c := held(t, s, q)
		come, let := hang(b)
		go lengthen(s, c, q.TTL)
		<-come
		began := time.Now()
		c.ReleaseLater(time.Time{})
		time.AfterFunc(time.Second, func() { close(let) })
		away(t, c)
		assert.Less(t, time.Since(began), q.Timeout/2)
		assert.False(t, m.Exists("k"))
	})
}

func TestTheMemoryOfADeadServerIsBounded(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(redistest.Cut)
		const pursued = 16384 + 128 // and the claims of one round trip, which is under way
		var first, last *server.Claim
		for range pursued + 1 {
			last = foreign(s, request("k"))
			if first == nil {
				first = last
			}
			last.ReleaseLater(time.Time{})
		}
		assert.False(t, first.Away())
		assert.True(t, last.Away(), "it was taken in")
	})
	assert.LessOrEqual(t, unsafe.Sizeof(server.Claim{}), uintptr(120), "bytes of a claim")
}

// Each round trip to a server that hangs takes a node timeout.
func TestAClaimThatHasExpiredIsGivenUpBeforeItsTurn(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(func(redistest.Command) (any, error) {
			time.Sleep(time.Minute)
			return nil, redistest.ErrCut
		})
		q := request("k")
		q.TTL = time.Second
		var last *server.Claim
		for range 2 * 128 { // two round trips
			last = foreign(s, q)
			last.ReleaseLater(time.Time{})
		}
		time.Sleep(q.Timeout + time.Second)
		assert.True(t, last.Away())
	})
}

func TestCloseTriesEachReleaseOnceMoreAndIsBounded(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		c, d := q.claim(s), request("other").claim(s)
		done(t, c.Try(t.Context(), server.Try{}))
		done(t, d.Try(t.Context(), server.Try{}))
		b.Set(redistest.Cut)
		c.ReleaseLater(time.Time{})
		time.Sleep(5 * time.Second)
		b.Set(nil)
		s.Close(100 * time.Millisecond) // less than the pause before the next release
		assert.False(t, m.Exists("k"))
		assert.True(t, c.Away())
		d.ReleaseLater(time.Time{})
		assert.False(t, m.Exists("other"), "after Close there is no background")
		var sent counter
		b.Set(sent.count)
		request("untried").claim(s).ReleaseLater(time.Time{})
		assert.Empty(t, sent.take(), "nothing was sent that could have left anything")
	})
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		c := held(t, s, request("k"))
		b.Set(func(redistest.Command) (any, error) {
			time.Sleep(time.Hour)
			return nil, redistest.ErrCut
		})
		c.ReleaseLater(time.Time{})
		began := time.Now()
		s.Close(time.Second)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		time.Sleep(2 * time.Hour)
		assert.True(t, c.Away())
	})
}

// A right that was taken away by mistake is often given back.
func TestAReleaseThatTheServerRefusesIsSentAgain(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	r, _, s := between(t)
	q := request("k")
	c := held(t, s, q)
	r.Do("ACL", "SETUSER", "default", "-evalsha", "-eval")
	defer r.Do("ACL", "SETUSER", "default", "+@all")
	c.ReleaseLater(time.Time{})
	away(t, c) // the next claim gets the refusal at once
	assert.EqualValues(t, 1, r.Do("EXISTS", "k"))
	r.Do("ACL", "SETUSER", "default", "+@all")
	redistest.Wait(t, "the release", func() bool { return r.Do("EXISTS", "k") == int64(0) })
}

// The release is executed before the try, and answered after it.
func TestATryThatIsExecutedBehindItsReleaseIsReleasedAgain(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		warm := request("k")
		done(t, acquire(s, warm))
		done(t, release(s, warm))
		var commands atomic.Int32
		b.Set(func(command redistest.Command) (any, error) {
			switch commands.Add(1) {
			case 1:
				time.Sleep(7 * time.Second)
			case 2:
				reply, err := command.Run()
				time.Sleep(6500 * time.Millisecond)
				return reply, err
			}
			return command.Run()
		})
		q := request("k")
		c := q.claim(s)
		answer := make(chan server.Reply, 1)
		go func() { answer <- c.Try(context.Background(), server.Try{}) }()
		time.Sleep(time.Second)
		c.ReleaseLater(time.Time{}) // it overtakes the try
		done(t, <-answer)
		require.True(t, m.Exists("k"))
		time.Sleep(2 * time.Second)
		assert.False(t, m.Exists("k"), "a lock that has no owner")
	})
}

func TestATryThatIsExecutedBehindItsReleaseAndHangsIsReleasedAgain(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		q := request("k")
		c := q.claim(s)
		let := make(chan struct{})
		defer close(let)
		b.Set(func(command redistest.Command) (any, error) {
			b.Set(nil)
			time.Sleep(q.Timeout * 3 / 4)
			_, err := command.Run()
			<-let
			return nil, err
		})
		go c.Try(context.Background(), server.Try{})
		time.Sleep(time.Second)
		c.ReleaseLater(time.Time{}) // it overtakes the try
		time.Sleep(q.Timeout * 3 / 4)
		require.True(t, m.Exists("k"))
		time.Sleep(3 * q.Timeout)
		assert.False(t, m.Exists("k"), "a lock that has no owner")
	})
}

// A hand-off may overtake the answer to the waiter's last try, which the server may still execute.
func TestALockThatWasHandedOffIsReleasedAgainAfterATryWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("k")))
		q := request("k")
		c := unanswered(t, b, s, q)
		require.NoError(t, m.Set("k", q.Token))
		c.Given()
		done(t, c.Release(t.Context(), time.Now(), time.Time{}))
		require.NoError(t, m.Set("k", q.Token)) // now the late try is executed
		time.Sleep(3 * q.Timeout)
		assert.False(t, m.Exists("k"))
	})
}
