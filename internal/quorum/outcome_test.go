package quorum_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/quorum"
)

const (
	ok = iota
	held
	refuses
	loads
	broken
	hangs
)

func TestWhatALostTryIsCalled(t *testing.T) {
	noPerm, loading := redis.Error("NOPERM no"), redis.Error("LOADING Redis is loading")
	for _, v := range []struct {
		nodes []int
		kind  quorum.Kind // -1: won
	}{
		{[]int{ok}, -1},
		{[]int{held}, quorum.Contended},
		{[]int{refuses}, quorum.Refused},
		{[]int{loads}, quorum.Unavailable},
		{[]int{hangs}, quorum.Unavailable},
		{[]int{ok, ok, ok, refuses, refuses}, -1},
		{[]int{ok, ok, refuses, refuses, refuses}, quorum.Refused},
		{[]int{held, held, refuses, refuses, refuses}, quorum.Refused},
		{[]int{broken, broken, refuses, refuses, refuses}, quorum.Refused},
		{[]int{ok, ok, broken, refuses, refuses}, quorum.Unavailable},
		{[]int{held, held, held, broken, broken}, quorum.Contended},
		{[]int{held, held, held, hangs, hangs}, quorum.Contended},
		{[]int{held, held, broken, broken, broken}, quorum.Unavailable},
		{[]int{ok, held, held, broken, broken}, quorum.Contended},
		{[]int{ok, ok, held, broken, hangs}, quorum.Contended},
		{[]int{ok, ok, broken, broken, hangs}, quorum.Unavailable},
		{[]int{loads, loads, loads, loads, loads}, quorum.Unavailable},
		{[]int{ok, held}, quorum.Contended},
		{[]int{ok, refuses}, quorum.Refused},
		{[]int{ok, broken}, quorum.Unavailable},
		{[]int{held, broken}, quorum.Unavailable},
	} {
		virtual(t, len(v.nodes), func(t *testing.T, c *cluster) {
			for i, how := range v.nodes {
				switch how {
				case held:
					c.set("k", "other", i)
				case refuses:
					c.on(says(noPerm), i)
				case loads:
					c.on(says(loading), i)
				case broken:
					c.on(cut, i)
				case hangs:
					c.on(hung, i)
				}
			}
			k := try("k")
			g, failure := c.q.Acquire(t.Context(), k, nil)
			if v.kind == -1 {
				won(t, failure)
				c.q.Undo(releaseOf(k), g)
			} else {
				f := failed(t, failure, v.kind)
				named := make(map[int]bool)
				for _, n := range f.Nodes {
					require.Error(t, n.Err)
					assert.False(t, named[n.Node], "server %d is named twice", n.Node)
					named[n.Node] = true
				}
				for i, how := range v.nodes {
					if v.kind != quorum.Contended && how >= refuses {
						assert.True(t, named[i], "%v: server %d failed and is not named", v.nodes, i)
					}
					if how < refuses && named[i] {
						// The matter may have been decided before it had voted.
						assert.Contains(t, f.String(), "no answer yet")
					}
				}
			}
			for i := range v.nodes {
				c.on(nil, i)
			}
			time.Sleep(3 * time.Second)
			assert.Zero(t, c.holders(k.Lock), "%v", v.nodes)
		})
	}
}

func TestWhatALostReleaseIsCalled(t *testing.T) {
	for _, v := range []struct {
		mine, others, broken, refusing int
		kind                           quorum.Kind
	}{
		{mine: 3, broken: 2, kind: -1},
		{mine: 3, others: 2, kind: -1},
		{mine: 2, kind: quorum.Missing},
		{others: 3, kind: quorum.Taken},
		{mine: 2, others: 1, kind: quorum.Taken},
		{mine: 2, broken: 3, kind: quorum.Unavailable},
		{mine: 1, broken: 2, refusing: 1, kind: quorum.Unavailable},
		{mine: 2, refusing: 3, kind: quorum.Refused},
		{kind: quorum.Missing},
	} {
		for _, extend := range []bool{false, true} {
			virtual(t, 5, func(t *testing.T, c *cluster) {
				k := try("k")
				for i := range 5 {
					switch {
					case i < v.mine:
						c.set("k", k.Token, i)
					case i < v.mine+v.others:
						c.set("k", "other", i)
					case i < v.mine+v.others+v.broken:
						c.on(cut, i)
					case i < v.mine+v.others+v.broken+v.refusing:
						c.on(says(redis.Error("NOPERM no")), i)
					}
				}
				var failure *quorum.Failure
				if extend {
					x, out := extending(k)
					c.q.Extend(t.Context(), []*quorum.Extension{x})
					failure = out.Failure
				} else {
					_, failure = c.q.Release(t.Context(), releaseOf(k), quorum.Grant{})
				}
				if v.kind == -1 {
					won(t, failure)
				} else {
					failed(t, failure, v.kind)
				}
				for i := range 5 {
					c.on(nil, i)
				}
			})
		}
	}
}

// A server that is down answers before the others. That it can't be won any more must not hide what
// the others are about to say.
func TestDeadServerDoesNotHideWhatTheMajoritySays(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		c.on(cut, 0)
		c.on(slow(200*time.Millisecond), 2)
		k := try("job")
		_, failure := c.q.Release(t.Context(), releaseOf(k), quorum.Grant{})
		failed(t, failure, quorum.Missing)
		c.set("job", "another", 1, 2)
		_, failure = c.q.Acquire(t.Context(), k, nil)
		failed(t, failure, quorum.Contended)
		c.on(nil, 0)
	})
}
