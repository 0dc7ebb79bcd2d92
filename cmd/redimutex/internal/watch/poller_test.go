package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func newTestPoller(t *testing.T, n int) *poller {
	t.Helper()
	var given servers.URLs
	for range n {
		given = append(given, redistest.Start(t).URL())
	}
	nodes, err := servers.Find(given, servers.QuickTimeout)
	require.NoError(t, err)
	t.Cleanup(nodes.Close)
	return newPoller([]string{"job"}, nodes, defaultInterval)
}

func TestLateAnswerDoesNotCutTheNextLookShort(t *testing.T) {
	t.Parallel()
	p := newTestPoller(t, 2)
	p.sources[0].busy = true
	p.answers <- answer{node: 0, round: 0, at: time.Now(), views: []inspect.View{holds(tokenA, time.Minute)}}
	s := p.look(t.Context(), time.Minute)
	assert.Empty(t, s.down, "the other server was waited for")
	assert.True(t, s.locks[0].Servers[0].Held, "and what came late is of use")

	p.sources[0].busy = true
	p.answers <- answer{node: 0, round: 1, at: time.Now().Add(-time.Second), views: []inspect.View{holds(tokenA, time.Minute)}}
	s = p.look(t.Context(), time.Minute)
	assert.LessOrEqual(t, s.locks[0].Servers[0].TTL, int64(59000), "as old as it is")
}

func TestServerIsNotAskedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	p := newTestPoller(t, 1)
	p.sources[0].busy = true
	p.look(t.Context(), time.Minute) // would wait for an answer
	assert.True(t, p.sources[0].busy)
}

func TestServerThatHasNotAnsweredForLongSaysNothing(t *testing.T) {
	t.Parallel()
	p := newPoller([]string{"job"}, servers.Set{{Name: "a"}, {Name: "b"}, {Name: "c"}}, defaultInterval)
	now := time.Now()
	p.sources = []source{
		{heard: now, views: []inspect.View{holds(tokenA, 10*time.Second)}},
		{heard: now.Add(-time.Second), views: []inspect.View{holds(tokenA, 10*time.Second)}},
		{heard: now.Add(-time.Minute), views: []inspect.View{{}}},
	}
	s := p.conclude(now)
	assert.Equal(t, map[string]string{"c": "no answer in time"}, s.down)
	assert.False(t, s.gone)
	assert.True(t, s.locks[0].Held)
	assert.Equal(t, int64(9000), s.locks[0].TTL, "an answer gets older")
	assert.False(t, s.free())

	p.sources[1].heard = now.Add(-time.Minute)
	s = p.conclude(now)
	assert.True(t, s.gone)
	assert.NotNil(t, s.unknown())
}

func TestLockIsFreeWhereAMajoritySaysSo(t *testing.T) {
	t.Parallel()
	p := newPoller([]string{"job"}, servers.Set{{Name: "a"}, {Name: "b"}, {Name: "c"}}, defaultInterval)
	now := time.Now()
	say := func(v inspect.View, err error) source { return source{heard: now, views: []inspect.View{v}, err: err} }
	down := say(inspect.View{}, errors.New("refused"))
	free, held := say(inspect.View{}, nil), say(holds(tokenA, time.Second), nil)
	for want, sources := range map[bool][][]source{
		true:  {{free, free, free}, {free, free, held}, {free, free, down}},
		false: {{free, held, down}, {held, held, down}, {free, down, down}},
	} {
		for _, p.sources = range sources {
			assert.Equal(t, want, p.conclude(now).free())
		}
	}
}

func TestOutageOfAServerIsToldOnceAndItsEndAsWell(t *testing.T) {
	t.Parallel()
	c := newChronicle(nil)
	now := time.Now()
	told := func(down map[string]string) []string {
		now = now.Add(time.Second)
		_, servers := c.take(&survey{at: now, down: down})
		return servers
	}
	assert.Equal(t, []string{"a: EOF"}, told(map[string]string{"a": "EOF"}))
	assert.Equal(t, []string{"a: refused"}, told(map[string]string{"a": "refused"}))
	assert.Empty(t, told(map[string]string{"a": "refused"}))
	assert.Equal(t, []string{"a: answers again, after 3s"}, told(nil))
	assert.Empty(t, told(nil))
}
