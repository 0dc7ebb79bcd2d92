package watch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/server"
)

const (
	tokenA = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a"
	tokenB = "f47ac10b-58cc-4372-a567-0e02b2c3d478 b"
)

// holds returns the view of a server on which a token has the lock for this long.
func holds(token string, left time.Duration) inspect.View {
	return inspect.View{Kind: server.Mutex, Holder: token, Left: left, Age: -1}
}

func fenced(v inspect.View, fence int64) inspect.View {
	v.Fence = fence
	return v
}

// A past is a history whose looks are half a second apart.
type past struct {
	history
	now time.Time
}

func newPast() *past { return &past{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// joined combines the views of several servers.
func joined(views ...inspect.View) *sight.Lock {
	var nodes servers.Set
	var said [][]inspect.View
	for i, v := range views {
		nodes = append(nodes, servers.Node{Name: fmt.Sprintf("server-%d", i+1)})
		said = append(said, []inspect.View{v})
	}
	return sight.Join(nodes, []string{"job"}, said, make([]error, len(views)))[0]
}

// look adds a look with these views. It returns what has happened, in short.
func (p *past) look(views ...inspect.View) (short []string) {
	p.now = p.now.Add(defaultInterval)
	failed := 0
	for _, v := range views {
		if v.Err != nil {
			failed++
		}
	}
	for _, e := range p.history.look(joined(views...), p.now, servers.TooMany(failed, len(views))) {
		short = append(short, e.Kind+" "+e.From+">"+e.Owner)
	}
	return short
}

func TestWatchTellsHowAHoldCameAndEnded(t *testing.T) {
	t.Parallel()
	free := inspect.View{}
	s := time.Second
	for name, c := range map[string]struct {
		looks []inspect.View
		want  []string // of the last look
	}{
		"free at first":                   {[]inspect.View{free}, []string{"free >"}},
		"held at first":                   {[]inspect.View{holds(tokenA, s)}, []string{"held >a"}},
		"nothing":                         {[]inspect.View{free, free}, nil},
		"a renewal is nothing":            {[]inspect.View{holds(tokenA, 7*s), holds(tokenA, 10*s)}, nil},
		"acquired":                        {[]inspect.View{free, holds(tokenA, s)}, []string{"acquired >a"}},
		"released":                        {[]inspect.View{holds(tokenA, 10*s), free}, []string{"released a>"}},
		"a key without TTL is deleted":    {[]inspect.View{holds(tokenA, -1), free}, []string{"released a>"}},
		"ran down":                        {[]inspect.View{holds(tokenA, s), holds(tokenA, 400*time.Millisecond), free}, []string{"expired a>"}},
		"renewed before it ran down":      {[]inspect.View{holds(tokenA, s), holds(tokenA, 10*s), free}, []string{"released a>"}},
		"too short to tell":               {[]inspect.View{free, holds(tokenA, 240*time.Millisecond), free}, []string{"gone a>"}},
		"handed over":                     {[]inspect.View{holds(tokenA, 10*s), holds(tokenB, 10*s)}, []string{"handed over a>b"}},
		"a hand-off lease is handed over": {[]inspect.View{holds(tokenA, 240*time.Millisecond), holds(tokenB, 240*time.Millisecond)}, []string{"handed over a>b"}},
		"ran down, and the next took it":  {[]inspect.View{holds(tokenA, s), holds(tokenA, 400*time.Millisecond), holds(tokenB, 10*s)}, []string{"expired a>", "acquired >b"}},
		"seen by its fence alone":         {[]inspect.View{fenced(free, 5), fenced(free, 6)}, []string{"came, went >"}},
		"the counter expired":             {[]inspect.View{fenced(free, 5), free}, nil},
		"the counter is not seen at first, and may be old": {[]inspect.View{free, fenced(free, 6)}, nil},
	} {
		p := newPast()
		var last []string
		for _, v := range c.looks {
			last = p.look(v)
		}
		assert.Equal(t, c.want, last, name)
	}
}

// many returns the view of a server on which these tokens hold a lock together, perhaps with others that a look does not see.
func many(kind *server.Kind, holding int, tokens ...string) inspect.View {
	v := inspect.View{Kind: kind, Holding: holding, Left: 10 * time.Second, Age: -1}
	for _, token := range tokens {
		v.Holders = append(v.Holders, inspect.Holder{Token: token})
	}
	return v
}

func TestWatchKnowsOtherReadersAndPermitHoldersByTheirTokens(t *testing.T) {
	t.Parallel()
	for _, kind := range []*server.Kind{server.Reader, server.Semaphore} {
		p := newPast()
		p.look(many(kind, 1, tokenA))
		assert.Equal(t, []string{"changed >"}, p.look(many(kind, 1, tokenB)))
		assert.Len(t, p.handovers, 1)
		age, known := p.age(p.now)
		assert.Zero(t, age)
		assert.True(t, known)

		assert.Equal(t, []string{"changed >"}, p.look(many(kind, 2, tokenA, tokenB)))
		assert.Equal(t, []string{"changed >"}, p.look(many(kind, 1, tokenA)))
		assert.Empty(t, p.look(many(kind, 1, tokenA)))
		assert.Len(t, p.handovers, 1, "one always held it")
		age, _ = p.age(p.now)
		assert.Equal(t, 3*defaultInterval, age)

		for _, v := range []inspect.View{many(kind, 1), many(kind, 1, tokenB), many(kind, 9, tokenA), many(kind, 9, tokenB)} {
			p.look(v)
		}
		assert.Len(t, p.handovers, 1, "where not all are told, it may be one of the others")

		p.look(many(kind, 1, tokenA))
		p.look(inspect.View{Err: errors.New("no answer")})
		assert.Equal(t, []string{"held >"}, p.look(many(kind, 1, tokenB)), "how they got it was not seen")
	}
}

func TestWatchGuessesNothingAboutAnOutage(t *testing.T) {
	t.Parallel()
	down := inspect.View{Err: errors.New("connection refused")}
	p := newPast()
	p.look(holds(tokenA, 10*time.Second))
	assert.Empty(t, p.look(down), "the servers are told of once, and not for each lock")
	assert.Equal(t, "unknown: connection refused", p.block(p.now, 80, cli.Style{})[0][1].text[2:])
	assert.Empty(t, p.look(holds(tokenA, 10*time.Second)), "it is as it was")
	p.look(down)
	assert.Equal(t, []string{"held >b"}, p.look(holds(tokenB, 10*time.Second)), "how it got it was not seen")
	assert.Empty(t, p.handovers)
	_, known := p.age(p.now)
	assert.False(t, known)
	p.look(down)
	assert.Equal(t, []string{"free >"}, p.look(inspect.View{}))
}

func TestWatchCallsNoLockFreeThatMayBeHeld(t *testing.T) {
	t.Parallel()
	a, none, down := holds(tokenA, 10*time.Second), inspect.View{}, inspect.View{Err: servers.ErrSilent}
	p := newPast()
	assert.Equal(t, []string{"unsure >"}, p.look(a, none, down), "at the first look")
	assert.Equal(t, "perhaps held: the servers that did not answer would decide", p.block(p.now, 80, cli.Style{})[0][1].text[2:])
	line := p.line("", nil)
	assert.False(t, line.Known)
	assert.Contains(t, line.Error, "perhaps held")
	assert.Empty(t, p.look(a, none, down), "it is told once")
	assert.Equal(t, []string{"held >a"}, p.look(a, a, down))
	assert.Equal(t, []string{"unsure >"}, p.look(a, none, down))
	assert.Equal(t, []string{"free >"}, p.look(none, none, down))

	p.look(a, down, down)
	assert.Equal(t, "no answer in time", p.line("", nil).Error, "too few servers answer")
}

func TestWatchTellsOnceThatALockCannotBeRead(t *testing.T) {
	t.Parallel()
	p := newPast()
	p.look(inspect.View{}, inspect.View{}, inspect.View{})
	wrong := inspect.View{Err: errors.New("WRONGTYPE")}
	p.now = p.now.Add(time.Second)
	r := joined(wrong, wrong, inspect.View{})
	news := p.history.look(r, p.now, false)
	assert.Len(t, news, 1)
	assert.Equal(t, "can't be read: WRONGTYPE", news[0].text)
	assert.Empty(t, p.history.look(r, p.now, false))
	assert.Equal(t, []string{"free >"}, p.look(inspect.View{}, inspect.View{}, inspect.View{}), "it can be read again")
	assert.Empty(t, p.look(inspect.View{}, inspect.View{}, inspect.View{}))
}

func TestWatchNeedsAMajorityForEverything(t *testing.T) {
	t.Parallel()
	a, b, none := holds(tokenA, 10*time.Second), holds(tokenB, 10*time.Second), inspect.View{}
	down := inspect.View{Err: servers.ErrSilent}
	p := newPast()
	assert.Equal(t, []string{"free >"}, p.look(none, none, a))
	assert.Equal(t, []string{"acquired >a"}, p.look(b, a, a))
	assert.Empty(t, p.look(down, a, a))
	assert.Equal(t, []string{"released a>"}, p.look(none, none, a))
	p.look(fenced(none, 1), fenced(none, 1), fenced(none, 9))
	assert.Empty(t, p.look(fenced(none, 1), fenced(none, 1), down))
	assert.Empty(t, p.look(fenced(none, 1), fenced(none, 1), fenced(none, 10)), "one server alone proves nothing")
	assert.Equal(t, []string{"came, went >"}, p.look(fenced(none, 2), fenced(none, 2), fenced(none, 10)))
}

func TestWatchCountsTheHandOversOfTheLastTenSeconds(t *testing.T) {
	t.Parallel()
	p := newPast()
	p.look(holds(tokenA, 10*time.Second))
	assert.Zero(t, p.rate(p.now), "who held it at first got it before")
	for i := range 40 {
		p.look(holds([]string{tokenB, tokenA}[i%2], 10*time.Second))
	}
	assert.InDelta(t, 2, p.rate(p.now), 0.11)
	for range 21 {
		p.look(holds(tokenA, 10*time.Second))
	}
	assert.Zero(t, p.rate(p.now))
}

func TestWatchKnowsTheAgeFromTheFenceOrFromSeeingItCome(t *testing.T) {
	t.Parallel()
	aged := func(token string, age time.Duration) inspect.View {
		v := holds(token, 10*time.Second)
		v.Age = age
		return v
	}
	p := newPast()
	p.look(holds(tokenA, 10*time.Second))
	p.look(holds(tokenA, 10*time.Second))
	age, known := p.age(p.now)
	assert.Equal(t, 500*time.Millisecond, age)
	assert.False(t, known, "at least so long")

	p = newPast()
	p.look(aged(tokenA, time.Hour))
	age, known = p.age(p.now.Add(time.Second))
	assert.Equal(t, time.Hour+time.Second, age)
	assert.True(t, known)

	p.look(aged(tokenB, 300*time.Millisecond))
	age, known = p.age(p.now)
	assert.Equal(t, 300*time.Millisecond, age, "it came between two looks")
	assert.True(t, known)

	p.look(aged(tokenA, time.Minute))
	age, known = p.age(p.now)
	assert.Zero(t, age, "the fence is that of an earlier holder; this one was seen to come")
	assert.True(t, known)
}

func TestTheHelpNamesEachEvent(t *testing.T) {
	t.Parallel()
	var help strings.Builder
	Command().Help(&help)
	for _, event := range []string{
		firstHeld, firstFree, acquired, handedOver, released, expired, vanished, cameWent, changed, unreadable, unsure,
	} {
		assert.Regexp(t, `(?m)^    (held or )?`+event+` `, help.String())
	}
}
