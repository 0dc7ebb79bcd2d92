package keepalive_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/keepalive"
)

func TestAnExtensionMovesTheEndFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, h := start(t, k, fixed)
		time.Sleep(ttl / 2)
		end := time.Now().Add(9 * ttl)
		extend(l, 9*ttl)
		assert.Equal(t, end, l.Until())
		lived(t, h, end, 9*ttl)
		k.Close()
	})
}

// A confirmation may arrive behind that of an extension that was sent later, for longer.
func TestALateConfirmationNeverBringsTheEndNearer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(succeed)
		l, _ := start(t, k, nil)
		sent := time.Now()
		time.Sleep(ttl / 9)
		extend(l, 9*ttl)
		until := l.Until()
		l.Extended(sent, sent.Add(ttl), ttl)
		assert.Equal(t, until, l.Until())
		k.Close()
	})
}

func TestRenewalsAskForTheTTLOfTheLastExtension(t *testing.T) {
	for _, c := range []struct{ ttl, longer time.Duration }{{ttl, 3 * ttl}, {time.Second, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Time
			k := keepalive.New(func(due []*keepalive.Lease) {
				at = append(at, time.Now())
				assert.Equal(t, c.longer, due[0].TTL())
				succeed(due)
			})
			l, _ := start(t, k, lasting(c.ttl))
			began := time.Now()
			extend(l, c.longer)
			l.Ask(c.longer)
			time.Sleep(3 * c.longer)
			synctest.Wait()
			assert.Equal(t, keepalive.Alive, l.Reason())
			require.Len(t, at, 9)
			for i, when := range at {
				assert.Equal(t, time.Duration(i+1)*c.longer/3, when.Sub(began))
			}
			k.Close()
		})
	}
}

// Two extensions have crossed each other: the lease is good for an hour, and its renewals ask for a second.
// They can wait until they bring something.
func TestARenewalThatBringsNothingIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			if renewals.Add(1) > 1000 {
				panic("a busy loop")
			}
			succeed(due)
		})
		l, _ := start(t, k, lasting(time.Second))
		extend(l, time.Hour)
		l.Ask(time.Second)
		time.Sleep(time.Hour - 2*time.Second)
		synctest.Wait()
		assert.Zero(t, renewals.Load())
		time.Sleep(time.Minute)
		assert.Equal(t, keepalive.Alive, l.Reason())
		assert.InDelta(t, 3*time.Minute/time.Second, renewals.Load(), 10)
		k.Close()
	})
}

func TestARenewalThatDecidesNothingIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			if renewals.Add(1) > 1000 {
				panic("a busy loop")
			}
			due[0].Renewed(true)
		})
		_, h := start(t, k, nil)
		lived(t, h, h.terms.Until, ttl)
		assert.LessOrEqual(t, renewals.Load(), int64(20))
		k.Close()
	})
}

// No server answers: the lease counts what the shortening would leave it.
func TestAShorteningCountsFromBeforeItIsSent(t *testing.T) {
	for _, short := range []time.Duration{45 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			k := keepalive.New(fail)
			l, h := start(t, k, nil)
			time.Sleep(ttl / 9)
			until := time.Now().Add(short)
			l.Shorten(until, short)
			assert.Equal(t, until, l.Until())
			lived(t, h, until, short)
			l.Shortened()
			k.Close()
		})
	}
}

func TestAShorteningThatShortensNothingLeavesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, h := start(t, k, nil)
		l.Shorten(time.Now().Add(2*ttl), 2*ttl)
		l.Shortened()
		lived(t, h, h.terms.Until, ttl)
		k.Close()
	})
}

// shorten is an extension to a shorter TTL that is answered at once.
func shorten(l *keepalive.Lease, d time.Duration) {
	l.Shorten(time.Now().Add(d), d)
	extend(l, d)
	l.Ask(d)
	l.Shortened()
}

// The margin belongs to the TTL that counts now.
func TestAShortenedLeaseLivesOn(t *testing.T) {
	const short = 45 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		k := keepalive.New(func(due []*keepalive.Lease) {
			at = append(at, time.Since(began))
			succeed(due)
		})
		l, _ := start(t, k, lasting(10*time.Second))
		shorten(l, short)
		time.Sleep(short * 20)
		synctest.Wait()
		assert.Equal(t, keepalive.Alive, l.Reason())
		k.Close()
		assert.Len(t, at, 60, "renewals come every third of the TTL that counts now")
		k.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, h := start(t, k, func(terms *keepalive.Terms) { lasting(10 * time.Second)(terms); fixed(terms) })
		shorten(l, short)
		lived(t, h, time.Now().Add(short), short)
		k.Close()
	})
}

// The shortening may be executed behind the renewal.
func TestARenewalBesideAShorteningCountsForWhatThatWouldLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, h := start(t, k, fixed)
		const short = time.Second
		l.Shorten(time.Now().Add(short), short)
		time.Sleep(short / 4)
		during := time.Now()
		assert.False(t, l.Extended(during, during.Add(ttl), ttl), "while it is under way")
		assert.Equal(t, during.Add(short), l.Until())
		time.Sleep(short / 4)
		last := time.Now().Add(-1)
		l.Shortened()
		assert.False(t, l.Extended(last, last.Add(ttl), ttl), "asked for while it was under way, answered after")
		assert.Equal(t, last.Add(short), l.Until())
		lived(t, h, last.Add(short), short)
		k.Close()
	})
}

func TestARenewalThatWasAskedForAfterAShorteningCountsInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, _ := start(t, k, fixed)
		l.Shorten(time.Now().Add(time.Second), time.Second)
		time.Sleep(time.Second / 10)
		l.Shortened()
		now := time.Now()
		assert.True(t, l.Extended(now, now.Add(ttl), ttl))
		assert.Equal(t, now.Add(ttl), l.Until())
		k.Close()
	})
}

// Servers renew, and one of them may yet execute a shortening to less than it takes until that is over.
func TestRenewalsKeepALeaseThatAShorteningMayYetReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			renewals.Add(1)
			succeed(due)
		})
		l, _ := start(t, k, nil)
		const short = 45 * time.Millisecond
		l.Shorten(time.Now().Add(short), short)
		for range 500 {
			time.Sleep(time.Millisecond)
			assert.LessOrEqual(t, time.Until(l.Until()), short)
		}
		l.Shortened()
		time.Sleep(short)
		assert.Greater(t, time.Until(l.Until()), short, "the limit was never lifted")
		assert.InDelta(t, 33, renewals.Load(), 3)
		assert.Equal(t, keepalive.Alive, l.Reason())
		k.Close()
	})
}

func TestTheShortestOfConcurrentShorteningsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, _ := start(t, k, fixed)
		began := time.Now()
		l.Shorten(began.Add(3*time.Second), 3*time.Second)
		l.Shorten(began.Add(time.Second), time.Second)
		l.Shorten(began.Add(2*time.Second), 2*time.Second)
		assert.Equal(t, began.Add(time.Second), l.Until())
		for range 2 {
			time.Sleep(time.Second / 4)
			l.Shortened()
			extend(l, ttl)
			assert.Equal(t, time.Now().Add(time.Second), l.Until(), "one of them is still under way")
		}
		l.Shortened()
		extend(l, ttl)
		assert.Equal(t, time.Now().Add(ttl), l.Until())
		k.Close()
	})
}

// The renewal was asked for while a shortening was under way, and could be executed behind it. Its answer comes when the next
// shortening is under way, which leaves more.
func TestALimitThatIsOverStillCountsForWhatWasSentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(fail)
		l, h := start(t, k, fixed)
		l.Shorten(time.Now().Add(time.Second), time.Second)
		until := l.Until()
		sent := time.Now()
		time.Sleep(time.Second / 4)
		l.Shortened()
		time.Sleep(time.Second / 4)
		l.Shorten(time.Now().Add(ttl), ttl)
		l.Extended(sent, sent.Add(2*ttl), 2*ttl)
		l.Shortened()
		l.Extended(sent, sent.Add(2*ttl), 2*ttl)
		assert.Equal(t, until, l.Until())
		lived(t, h, until, time.Second)
		k.Close()
	})
}
