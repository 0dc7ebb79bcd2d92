package sight

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/internal/server"
)

func TestLockIsHeldWhereAMajorityHasTheSameHolder(t *testing.T) {
	t.Parallel()
	const a, b = "f47ac10b-58cc-4372-a567-0e02b2c3d479 a", "f47ac10b-58cc-4372-a567-0e02b2c3d478 b"
	held := func(token string, left time.Duration) inspect.View {
		return inspect.View{Kind: server.Mutex, Holder: token, Left: left}
	}
	free := Sight{Age: -1}
	by := func(owner string, ttl int64) Sight {
		return Sight{Held: true, Kind: "mutex", Owner: owner, TTL: ttl, Age: -1}
	}
	for name, c := range map[string]struct {
		views []inspect.View
		want  Sight
		agree int
	}{
		"one, free":            {[]inspect.View{{Fence: 3}}, Sight{Age: -1, Fence: 3}, 0},
		"one, held":            {[]inspect.View{held(a, time.Second)}, by("a", 1000), 1},
		"one, held for ever":   {[]inspect.View{held(a, -1)}, by("a", -1), 1},
		"three, one of them":   {[]inspect.View{held(a, time.Second), {}, {}}, free, 1},
		"three, two of them":   {[]inspect.View{held(a, time.Second), {}, held(a, 2*time.Second)}, by("a", 1000), 2},
		"three, all":           {[]inspect.View{held(a, time.Second), held(a, 3*time.Second), held(a, 2*time.Second)}, by("a", 2000), 3},
		"three, split":         {[]inspect.View{held(a, time.Second), held(b, time.Second), {}}, free, 1},
		"three, two against 1": {[]inspect.View{held(b, time.Second), held(a, time.Second), held(a, -1)}, by("a", 1000), 2},
		"two, one of them":     {[]inspect.View{held(a, time.Second), {}}, free, 1},
		"the fence is that of a majority, the age that of the last grant, the queue the longest": {
			[]inspect.View{
				{Kind: server.Mutex, Holder: a, Left: time.Second, Fence: 7, Age: 3 * time.Second, Waiting: 1},
				{Kind: server.Mutex, Holder: a, Left: time.Second, Fence: 7, Age: 2 * time.Second, Waiting: 3},
				{Kind: server.Mutex, Holder: b, Left: time.Second, Age: time.Second, Fence: 9, Waiting: 2},
			},
			Sight{Held: true, Kind: "mutex", Owner: "a", TTL: 1000, Age: 2000, Fence: 7, Waiting: 3},
			2,
		},
		"a fence that the holder may not have is left out": {
			[]inspect.View{{Kind: server.Mutex, Holder: a, Left: time.Second, Fence: 5}, {Kind: server.Mutex, Holder: a, Left: time.Second, Fence: 7}, {Fence: 7}},
			by("a", 1000), 2,
		},
	} {
		same := prevailing(c.views)
		assert.Len(t, same, c.agree, name)
		assert.Equal(t, c.want, majority(c.views, same), name)
	}
}
