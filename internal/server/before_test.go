package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestATryWaitsUntilTheReleaseBeforeWasAnswered(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		both := request("a")
		both.Extras.More = []string{"b"}
		before := held(t, s, both)
		b.Set(redistest.Cut)
		failed(t, before.Release(t.Context(), time.Now(), time.Time{}))
		for _, key := range []string{"a", "b"} {
			q := request(key)
			began := time.Now()
			got := acquire(s, q)
			failed(t, got)
			assert.ErrorContains(t, got.Err, "no answer to the release before")
			assert.Equal(t, q.Timeout, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		failed(t, request("b").claim(s).Try(ctx, server.Try{}))
		assert.Equal(t, time.Second, time.Since(began))
		time.AfterFunc(5*time.Second, func() { b.Set(nil) })
		done(t, acquire(s, request("a")))
		done(t, acquire(s, request("b")))
	})
}

// The server answers no release until the lock must have expired.
func TestATryDoesNotWaitForAClaimThatHasExpired(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		before := held(t, s, q)
		b.Set(redistest.Cut)
		failed(t, before.Release(t.Context(), time.Now(), time.Time{}))
		time.Sleep(2*q.TTL + q.Timeout)
		b.Set(nil)
		began := time.Now()
		done(t, acquire(s, request("k")))
		assert.Zero(t, time.Since(began))
	})
}

// The try before has no answer. If it is executed late, that is most likely right after the release.
func TestATryDoesNotWaitForAPauseBeforeTheSecondRelease(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		c := unanswered(t, b, s, request("k"))
		come, let := hang(b)
		c.ReleaseLater(time.Time{})
		<-come
		time.AfterFunc(time.Second, func() { close(let) })
		began := time.Now()
		done(t, acquire(s, request("k")))
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// The caller gave up early. The server was not silent for too long.
func TestATryWaitsForTheReleaseOfATryWhoseCallerHasGivenUp(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("other"))) // the clock and the script are known
		c := request("k").claim(s)
		b.Set(func(command redistest.Command) (any, error) {
			b.Set(nil)
			_, _ = command.Run()
			time.Sleep(2 * time.Millisecond)
			return nil, redistest.ErrCut
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		failed(t, c.Try(ctx, server.Try{}))
		time.Sleep(2 * time.Millisecond)
		require.True(t, m.Exists("k"))
		come, let := hang(b)
		time.AfterFunc(time.Second, func() { close(let) })
		c.Drop()
		<-come
		done(t, acquire(s, request("k")))
	})
}

func TestATryDoesNotWaitForAClaimOfWhichNothingStandsInTheWay(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		for name, q := range map[string]*hold{"many may have it": request("permits"), "its server was silent": request("silent")} {
			c := q.claim(s)
			if name == "many may have it" {
				q.Kind, q.Want = server.Semaphore, "2"
				c = q.claim(s)
				done(t, c.Try(t.Context(), server.Try{}))
			} else {
				swallow(b, "EVALSHA")
				failed(t, c.Try(t.Context(), server.Try{}))
			}
			b.Set(redistest.Cut)
			c.Drop()
			time.Sleep(time.Millisecond)
			b.Set(nil)
			next := *q
			next.Token += "next"
			began := time.Now()
			done(t, acquire(s, &next))
			assert.Zero(t, time.Since(began), name)
		}
	})
}

func TestWhatHasTheLockWaitsForNoReleaseBefore(t *testing.T) {
	t.Parallel()
	for _, try := range []server.Try{{Regains: true}, {Downgrades: true}, {Olds: []string{"old"}}} {
		virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
			q := request("k")
			q.Kind, q.Want = server.Writer, "w"
			c := held(t, s, q)
			come, let := hang(b)
			time.AfterFunc(time.Second, func() { close(let) })
			releaseLater(s, request("k"))
			<-come
			began := time.Now()
			done(t, c.Try(t.Context(), try))
			assert.Zero(t, time.Since(began))
		})
	}
}

// A release that is executed later could remove the mark that the next claim shows.
func TestATryWaitsForTheReleaseOnceItsServerHasAnsweredAgain(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := request("k")
		q.Kind, q.Want, q.Extras.Channel = server.Writer, "w", "redimutex:me"
		done(t, acquire(s, q))
		done(t, release(s, q))
		require.NoError(t, m.Set("k", "another"))
		q.Token += "waits"
		try := server.Try{Shows: 30 * time.Second}
		c := q.claim(s)
		swallow(b, "EVALSHA")
		failed(t, c.Try(t.Context(), try))
		require.Equal(t, server.Held, c.Try(t.Context(), try).Verdict)
		come, let := hang(b)
		time.AfterFunc(time.Second, func() { close(let) })
		c.Drop()
		<-come
		next := *q
		next.Token += "next"
		require.Equal(t, server.Held, next.claim(s).Try(t.Context(), try).Verdict)
		time.Sleep(2 * time.Second)
		_, writers, _, _ := server.PhaseKeys("k")
		marks, err := m.ZMembers(writers)
		require.NoError(t, err)
		assert.Equal(t, []string{"redimutex:me"}, marks)
	})
}

// Otherwise the server would call the ticket that was given up, and remove its mark. The next waiter has the same mark.
func TestATryWaitsForTheReleaseOfATicketUnderWhoseMarkItWaits(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		q := waiting("k", "first", "redimutex:me")
		q.Kind, q.Want = server.Reader, "r"
		done(t, acquire(s, request("k")))
		try := q.Try
		try.Shows = 30 * time.Second
		first := q.claim(s)
		require.Equal(t, server.Held, first.Try(t.Context(), try).Verdict)
		come, let := hang(b)
		first.Drop()
		<-come
		next := *q
		next.Token = "next"
		tried := make(chan server.Reply, 1)
		go func() { tried <- next.claim(s).Try(t.Context(), try) }()
		synctest.Wait()
		assert.Empty(t, tried)
		close(let)
		require.Equal(t, server.Held, (<-tried).Verdict)
		_, _, _, entitled := server.PhaseKeys("k")
		marks, err := m.ZMembers(entitled)
		require.NoError(t, err)
		assert.Equal(t, []string{"redimutex:me"}, marks)
	})
}

// Its ctx has ended and its answer is late. A place left in the queue would be called, and the lock given to no caller.
func TestTheReleaseOfATryThatHasNoAnswerYetTakesThePlaceOutOfTheQueue(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("k")))
		known := waiting("k", "known", "redimutex:me") // now the server knows its scripts
		wait(t, s, known)
		require.Equal(t, server.Taken, release(s, known).Verdict)
		q := waiting("k", "first", "redimutex:me")
		first, answers := q.claim(s), make(chan struct{})
		b.Set(func(command redistest.Command) (any, error) {
			b.Set(nil)
			reply, err := command.Run()
			<-answers
			return reply, err
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		failed(t, first.Try(ctx, q.Try))
		first.Drop()
		next := *q
		next.Token = "next"
		require.Equal(t, server.Held, next.claim(s).Try(t.Context(), q.Try).Verdict)
		places, err := m.ZMembers(server.QueueKey("k"))
		require.NoError(t, err)
		assert.NotContains(t, strings.Join(places, ", "), "first")
		close(answers)
	})
}

func TestASilentServerIsKnownWhileAnOperationWaitsForIt(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		assert.Zero(t, s.Silent(time.Now()))
		answers := b.Hold()
		late := request("k")
		failed(t, acquire(s, late))
		assert.EqualValues(t, 1, s.Failed.Load())
		assert.Zero(t, s.Silent(time.Now()), "no operation waits to see it recover")
		ctx, cancel := context.WithCancel(t.Context())
		go acquire(s, request("l"))
		synctest.Wait()
		assert.Equal(t, late.Timeout, s.Silent(time.Now()), "it has not answered the operation before")
		cancel()
		assert.Error(t, request("m").claim(s).Try(ctx, server.Try{}).Err)
		answers()
		synctest.Wait()
		assert.EqualValues(t, 1, s.Failed.Load(), "those do not count whose ctx has ended")
		assert.Zero(t, s.Silent(time.Now()))
	})
}

// One operation may hang over a connection that leads nowhere, while the server answers all others.
func TestAServerThatAnswersReleasesInTheBackgroundIsNotSilent(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		c := held(t, s, request("held"))
		come, let := hang(b)
		go acquire(s, request("l"))
		<-come
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, 300*time.Millisecond, s.Silent(time.Now()))
		c.ReleaseLater(time.Time{})
		synctest.Wait()
		assert.Zero(t, s.Silent(time.Now()))
		close(let)
		synctest.Wait()
	})
}

// From the first answer on, the usual time of an answer decides how much silence is suspicious.
func TestAFarServerIsNotSilent(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		b.Set(func(command redistest.Command) (any, error) {
			time.Sleep(100 * time.Millisecond)
			return command.Run()
		})
		began := time.Now()
		done(t, acquire(s, request("a")))
		first := time.Since(began)
		b.Set(func(command redistest.Command) (any, error) {
			time.Sleep(2 * first)
			return command.Run()
		})
		second := make(chan server.Reply, 1)
		go func() { second <- acquire(s, request("b")) }()
		time.Sleep(3 * first / 2)
		assert.Zero(t, s.Silent(time.Now()))
		done(t, <-second)
	})
}

func TestAClaimWhoseReleaseWasAnsweredIsInNoWay(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, _ *redistest.Between, s *server.Server) {
		c := held(t, s, request("a"))
		done(t, c.Release(t.Context(), time.Now(), time.Time{}))
		c.StandInTheWay()
		got := make(chan server.Reply, 1)
		go func() { got <- acquire(s, request("a")) }()
		select {
		case r := <-got:
			done(t, r)
		case <-time.After(time.Hour):
			t.Error("the next try waits for it for ever")
		}
	})
}

func TestATryWaitsForTheReleaseOfALockThatItsServerGaveLate(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		answers := make(chan struct{})
		b.Set(func(command redistest.Command) (any, error) {
			reply, err := command.Run()
			<-answers
			return reply, err
		})
		late := request("k").claim(s)
		go late.Try(t.Context(), server.Try{}) // the other servers are a majority without it
		synctest.Wait()
		late.ReleaseLater(time.Time{})
		got := make(chan server.Reply, 1)
		go func() { got <- acquire(s, request("k")) }()
		synctest.Wait()
		close(answers)
		b.Set(nil)
		done(t, <-got)
	})
}

// Its release has failed again and again, so that the next attempt would come only a second later.
func TestATryHastensTheReleaseThatItWaitsFor(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		before := held(t, s, request("k"))
		b.Set(redistest.Cut)
		before.ReleaseLater(time.Time{})
		time.Sleep(10200 * time.Millisecond)
		b.Set(nil)
		began := time.Now()
		done(t, acquire(s, request("k")))
		assert.Less(t, time.Since(began), 10*time.Millisecond)
	})
}

// The second claim has nothing on the server: it could not be tried while the first one was in its way.
func TestWhatHasNothingToReleaseDoesNotHideWhatHas(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, m *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		before, between := request("k").claim(s), request("k").claim(s)
		done(t, before.Try(t.Context(), server.Try{}))
		b.Set(redistest.Cut)
		failed(t, before.Release(t.Context(), time.Now(), time.Time{}))
		failed(t, between.Try(t.Context(), server.Try{}))
		between.StandInTheWay()
		between.ReleaseLater(time.Time{})
		time.AfterFunc(time.Second, func() { b.Set(nil) })
		done(t, acquire(s, request("k")))
		assert.True(t, m.Exists("k"))
	})
}

func TestATryThatWaitedForAReleaseInVainDoesNotMakeAServerSilentThatAnsweredIt(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("k")))
		q := request("k")
		come, let := hang(b)
		releaseLater(s, q)
		<-come
		failed(t, request("k").claim(s).Try(t.Context(), server.Try{}))
		close(let)
		synctest.Wait()
		time.Sleep(time.Hour)
		come, let = hang(b)
		go acquire(s, request("l"))
		<-come
		assert.Zero(t, s.Silent(time.Now()))
		close(let)
	})
}

// The try waits for the answer to an earlier release.
func TestAServerOwesNothingBeforeTheTryIsSent(t *testing.T) {
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		c := held(t, s, request("k"))
		came, let := hang(b)
		c.ReleaseLater(time.Time{})
		<-came
		go request("k").claim(s).Try(t.Context(), server.Try{})
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		asked, answer := hang(b)
		close(let)
		<-asked
		assert.Zero(t, s.Silent(time.Now()), "just sent")
		close(answer)
		synctest.Wait()
	})
}

func TestACallerThatGivesUpIsNoAnswerOfTheServer(t *testing.T) {
	virtual(t, func(t *testing.T, _ *miniredis.Miniredis, b *redistest.Between, s *server.Server) {
		done(t, acquire(s, request("warm")))
		answers := b.Hold()
		ctx, cancel := context.WithCancel(t.Context())
		go acquire(s, request("l"))
		go request("m").claim(s).Try(ctx, server.Try{})
		synctest.Wait()
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, 300*time.Millisecond, s.Silent(time.Now()))
		cancel()
		synctest.Wait()
		assert.Equal(t, 300*time.Millisecond, s.Silent(time.Now()), "nothing was answered")
		answers()
		synctest.Wait()
	})
}
