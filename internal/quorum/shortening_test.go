package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A server that may yet execute an extension to less has no vote for a longer one, until it has answered.
func TestAServerThatMayShortenHasNoVoteForMore(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		const least = ttl / 4
		k := try("k")
		c.set("k", k.Token, 0, 1, 2)
		c.on(slow(time.Millisecond), 0, 1)
		open := new(quorum.Shortenings)
		extend := func(ttl time.Duration) *quorum.Failure {
			k.TTL = ttl
			x, out := extending(k)
			x.Unsure = open.Unsure(ttl)
			c.q.Extend(t.Context(), []*quorum.Extension{x})
			return out.Failure
		}
		shorten := func(ttl time.Duration) (mayCome bool) {
			k.TTL = ttl
			x, out := extending(k)
			x.Shortening = open.Begin(ttl, 3)
			x.Shorten = true
			c.q.Extend(t.Context(), []*quorum.Extension{x})
			won(t, out.Failure)
			return x.Shortening.End()
		}
		assert.Nil(t, open.Unsure(ttl), "nobody has shortened")
		c.on(cut, 2)
		assert.False(t, shorten(least), "one was not reached")
		c.on(slow(timeout/2), 2)
		assert.True(t, shorten(least), "one has not answered yet")
		assert.Equal(t, []bool{false, false, true}, open.Unsure(ttl))
		assert.Nil(t, open.Unsure(least), "no more than it leaves")
		time.Sleep(timeout)
		assert.Nil(t, open.Unsure(ttl), "it has answered since")
		c.on(hung, 2)
		assert.True(t, shorten(least))
		time.Sleep(time.Hour)
		c.on(nil, 2)
		c.set("k", k.Token, 0, 1, 2)
		assert.Equal(t, []bool{false, false, true}, open.Unsure(ttl), "its clock may say anything")
		assert.Equal(t, ttl, open.Most(ttl), "a majority is without it")
		won(t, extend(ttl))
		c.on(cut, 0)
		f := extend(ttl)
		failed(t, f, quorum.Unavailable)
		assert.ErrorContains(t, f.Nodes[2].Err, "Extend to less")
		won(t, extend(least))
		c.on(func(string, time.Time, func() server.Reply) server.Reply {
			return server.Reply{Err: errCut, Open: time.Now()}
		}, 1)
		c.on(nil, 0)
		assert.True(t, shorten(least/2), "one has broken the connection")
		assert.Equal(t, []bool{false, true, true}, open.Unsure(ttl))
		assert.Equal(t, least, open.Most(ttl), "there are two, one of which leaves so much")
	})
}

func TestASingleServerThatMayShortenIsNotAskedForMore(t *testing.T) {
	virtual(t, 1, func(t *testing.T, c *cluster) {
		k := try("k")
		c.set("k", k.Token, 0)
		c.on(hung, 0)
		open := new(quorum.Shortenings)
		const least = ttl / 4
		x, out := extending(k)
		x.TTL, x.Shorten, x.Shortening = least, true, open.Begin(least, 1)
		assert.Nil(t, open.Unsure(ttl), "while it is under way, the keep-alive sees to it")
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		failed(t, out.Failure, quorum.Unavailable)
		assert.True(t, x.Shortening.End())
		c.on(nil, 0)
		me := goroutine()
		sent := time.Now()
		x, out = extending(k)
		x.Unsure = open.Unsure(ttl)
		another, fine := extending(try("another"))
		c.set("another", another.Token, 0)
		c.q.Extend(t.Context(), []*quorum.Extension{x, another})
		failed(t, out.Failure, quorum.Unavailable)
		won(t, fine.Failure)
		assert.Equal(t, sent.Add(ttl-quorum.Drift(ttl)), fine.Until)
		assert.Equal(t, least, open.Most(ttl))
		x, out = extending(k)
		x.TTL, x.Unsure = least, open.Unsure(least)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		won(t, out.Failure)
		x, out = extending(k)
		x.TTL, x.Shorten, x.Unsure, x.Shortening = 2*least, true, open.Unsure(2*least), open.Begin(2*least, 1)
		c.q.Extend(t.Context(), []*quorum.Extension{x})
		failed(t, out.Failure, quorum.Unavailable)
		assert.False(t, x.Shortening.End(), "it was not sent")
		assert.Equal(t, me, goroutine())
	})
}

// A lock may be held for months, and be shortened every second meanwhile.
func TestShorteningsThatNobodyAnswersDoNotPileUp(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		k := try("k")
		c.set("k", k.Token, 0, 1, 2)
		c.on(hung, 2)
		all := new(quorum.Shortenings)
		for i := range 100 {
			x, out := extending(k)
			x.TTL, x.Shorten = ttl/2+time.Duration(i-50)*time.Millisecond, true
			x.Shortening = all.Begin(x.TTL, 3)
			c.q.Extend(t.Context(), []*quorum.Extension{x})
			won(t, out.Failure)
			x.Shortening.End()
			time.Sleep(timeout * 2) // so that the silent one is asked again
		}
		assert.Zero(t, all.Count())
		shortest := ttl/2 - 50*time.Millisecond
		assert.Nil(t, all.Unsure(shortest))
		assert.Equal(t, []bool{false, false, true}, all.Unsure(shortest+1))
		assert.Equal(t, ttl, all.Most(ttl))
	})
}

// A server may answer while somebody asks what it can give.
func TestARenewalNeverAsksForLessThanAShorteningLeaves(t *testing.T) {
	const less, more = time.Second, time.Minute
	for range 5000 {
		all := new(quorum.Shortenings)
		s := all.Begin(less, 1)
		s.End()
		answered := make(chan struct{})
		go func() {
			s.Settle(0)
			close(answered)
		}()
		require.GreaterOrEqual(t, all.Most(more), less)
		<-answered
		require.Equal(t, more, all.Most(more))
	}
}
