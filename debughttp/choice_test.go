package debughttp_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/debughttp"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestLocksThatRunOutComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		c := newClient(t, pool, redimutex.WithoutRenewal())
		page := debughttp.Handler(c)
		hold := func(key string, ttl time.Duration) *redimutex.Mutex {
			m := c.Mutex(key, redimutex.WithTTL(ttl))
			m.Lock()
			time.Sleep(time.Second)
			return m
		}
		hold("old", time.Hour)
		hold("urgent", 30*time.Second)
		hold("most urgent", 20*time.Second)
		waited := hold("middle", 30*time.Minute)
		hold("new", 2*time.Hour)
		time.Sleep(12 * time.Second)
		waiting(t, waited)
		synctest.Wait()
		for order, want := range map[string][]string{
			"":        {"most urgent", "urgent", "old", "middle", "new"},
			"urgent":  {"most urgent", "urgent", "old", "middle", "new"},
			"left":    {"most urgent", "urgent", "middle", "old", "new"},
			"age":     {"old", "urgent", "most urgent", "middle", "new"},
			"waiting": {"middle", "most urgent", "new", "old", "urgent"},
			"key":     {"middle", "most urgent", "new", "old", "urgent"},
		} {
			l, _ := asJSON(t, page, url.Values{"sort": {order}})
			assert.Equal(t, want, keys(l.Held), order)
		}
		l, _ := asJSON(t, page, url.Values{"n": {"2"}})
		assert.Equal(t, []string{"most urgent", "urgent"}, keys(l.Held))
		assert.Equal(t, 3, l.More.Held)
		assert.Contains(t, html(t, page, url.Values{"sort": {"age"}}), `value="age" selected`)
	})
}

func TestThousandsOfLocksAreCutToTheFirstAndCanBeFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		c := newClient(t, pool, redimutex.WithTTL(time.Hour), redimutex.WithOwner("Owner-1"))
		page := debughttp.Handler(c)
		const all = 3000
		for i := range all {
			c.Mutex(fmt.Sprintf("Lock:%04d", i)).Lock()
		}
		l, _ := asJSON(t, page, nil)
		assert.Len(t, l.Held, 100)
		assert.Equal(t, all-100, l.More.Held)
		assert.EqualValues(t, all, l.Stats["held"])
		text := html(t, page, nil)
		assert.Contains(t, text, "and <b>2900</b> more that are not shown")
		assert.Less(t, strings.Count(text, "<tr"), 500)

		l, _ = asJSON(t, page, url.Values{"q": {"lOCK:29"}})
		assert.Len(t, l.Held, 100)
		assert.Zero(t, l.More.Held)
		for _, held := range l.Held {
			assert.True(t, strings.HasPrefix(held.Key, "Lock:29"), held.Key)
		}
		for _, e := range l.Events {
			assert.True(t, strings.HasPrefix(e.Key, "Lock:29"), e.Key)
		}
		require.NotEmpty(t, l.Events)
		l, _ = asJSON(t, page, url.Values{"q": {"owner-1"}, "n": {"10000"}})
		assert.Len(t, l.Held, all)
		l, _ = asJSON(t, page, url.Values{"q": {"nothing like it"}})
		assert.Empty(t, l.Held)
		assert.NotNil(t, l.Held, "an empty list, not null")
	})
}
