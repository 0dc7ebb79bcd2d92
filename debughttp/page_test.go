package debughttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/debughttp"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestPageShowsWhatIsHeldAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, pool := redistest.Virtual(t)
		c := newClient(t, pool, redimutex.WithOwner("me"), redimutex.WithFencing(), redimutex.WithTTL(9*time.Second))
		page := debughttp.Handler(c)
		require.NoError(t, server.Set("foreign", "d9ad4a0c-2a5c-4d1c-a4b0-6ba4a8b0f2f1 another"))
		server.SetTTL("foreign", time.Hour)
		m := c.Mutex("k")
		m.Lock()
		waiting(t, m)
		waiting(t, c.Mutex("foreign"))
		time.Sleep(2 * time.Second)
		synctest.Wait()

		l, _ := asJSON(t, page, nil)
		assert.True(t, l.At.Equal(time.Now()))
		assert.Equal(t, os.Getpid(), l.Process.PID)
		assert.NotEmpty(t, l.Process.Program)
		assert.True(t, l.Process.Since.Equal(time.Now().Add(-2*time.Second)))
		require.Len(t, l.Held, 1)
		held := l.Held[0]
		assert.Equal(t, "k", held.Key)
		assert.Equal(t, "k", held.Shown)
		assert.Equal(t, "me", held.Owner)
		assert.Equal(t, m.Lease().Fence(), held.Fence)
		assert.EqualValues(t, 2000, *held.Age)
		assert.EqualValues(t, time.Until(m.Lease().Until()).Milliseconds(), *held.Left)
		assert.EqualValues(t, 9000, held.TTL)
		assert.Equal(t, 1, held.Waiting)
		require.Len(t, l.WaitedFor, 1)
		assert.Equal(t, "foreign", l.WaitedFor[0].Key)
		assert.Equal(t, 1, l.WaitedFor[0].Waiting)
		assert.Contains(t, l.WaitedFor[0].Error, "another")
		assert.EqualValues(t, 1, l.Stats["held"])
		assert.EqualValues(t, 2, l.Stats["waiting"])
		assert.EqualValues(t, 1, l.Stats["acquired"])
		assert.Equal(t, []any{0.0}, l.Stats["errors"])

		text := html(t, page, nil)
		for _, part := range []string{">k<", ">me<", fmt.Sprint(m.Lease().Fence()), `max="9000"`, fmt.Sprintf(`value="%d"`, *held.Left), "another", "6.9 s", ">2.0 s<", ">9 s<"} {
			assert.Contains(t, text, part)
		}
		m.Unlock()
		synctest.Wait()
	})
}

func TestPageShowsTheKindsOfLocks(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool(), redimutex.WithTTL(time.Hour))
	page := debughttp.Handler(c)
	for range 2 {
		_, err := c.Semaphore("downloads", 3).Acquire(t.Context())
		require.NoError(t, err)
		_, err = c.RWMutex("report").RAcquire(t.Context())
		require.NoError(t, err)
	}
	c.RWMutex("book").Lock()
	c.MutexAll([]string{"from", "to"}).Lock()

	l, _ := asJSON(t, page, url.Values{"sort": {"key"}})
	require.Len(t, l.Held, 4)
	for i, want := range []struct {
		key, kind string
		holds     int
		keys      []string
	}{
		{"book", "writer", 1, nil}, {"downloads", "semaphore", 2, nil}, {"from", "mutex", 1, []string{"from", "to"}}, {"report", "reader", 2, nil},
	} {
		held := l.Held[i]
		assert.Equal(t, want.key, held.Key)
		assert.Equal(t, want.kind, held.Kind)
		assert.Equal(t, want.holds, held.Holds, want.key)
		assert.Equal(t, want.keys, held.Keys)
	}
	text := html(t, page, nil)
	for _, part := range []string{">writer<", ">semaphore, 2 holds<", ">from, to<", ">mutex of 2 keys<", ">reader, 2 holds<"} {
		assert.Contains(t, text, part)
	}
	l, _ = asJSON(t, page, url.Values{"q": {"to"}})
	require.Len(t, l.Held, 1, "one of its keys is enough")
	assert.Equal(t, "from", l.Held[0].Key)
}

func TestKeptLeaseIsShownAsIdle(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool(), redimutex.WithLeaseReuse(30*time.Second), redimutex.WithTTL(time.Minute*2))
	page := debughttp.Handler(c)
	m := c.Mutex("k")
	m.Lock()
	m.Unlock()
	l, _ := asJSON(t, page, nil)
	require.Len(t, l.Held, 1)
	assert.True(t, l.Held[0].Idle)
	assert.Contains(t, html(t, page, nil), "kept idle")
}

func TestLookingAsksNoServerAndChangesNothing(t *testing.T) {
	t.Parallel()
	between := redistest.NewBetween(redistest.Start(t).Pool())
	c := newClient(t, between, redimutex.WithTTL(time.Hour))
	page := debughttp.Handler(c)
	c.Mutex("k").Lock()
	between.Set(func(command redistest.Command) (any, error) {
		t.Errorf("looking has sent %s", command.Name)
		return nil, redistest.ErrCut
	})
	before := c.Stats()
	for range 3 {
		html(t, page, nil)
		asJSON(t, page, nil)
		ask(t, page, http.MethodPost, "/?key=k")
		ask(t, page, http.MethodDelete, "/")
	}
	assert.Equal(t, before, c.Stats())
	between.Set(nil)
}

func TestOnlyGetAndHeadAreAnswered(t *testing.T) {
	t.Parallel()
	page := debughttp.Handler(newClient(t, &redis.Pool{}))
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
		w := ask(t, page, method, "/")
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	}
	site := httptest.NewServer(page)
	defer site.Close()
	for _, query := range []string{"", "?format=json"} {
		head, err := http.Head(site.URL + query)
		require.NoError(t, err)
		head.Body.Close()
		get, err := http.Get(site.URL + query)
		require.NoError(t, err)
		get.Body.Close()
		assert.Equal(t, http.StatusOK, head.StatusCode)
		for _, name := range []string{"Content-Type", "Content-Security-Policy", "Cache-Control", "X-Content-Type-Options"} {
			assert.Equal(t, get.Header.Get(name), head.Header.Get(name), name)
		}
		assert.Positive(t, head.ContentLength)
		assert.Equal(t, "no-store", head.Header.Get("Cache-Control"))
	}
}

func TestJSONComesToWhoAsksForIt(t *testing.T) {
	t.Parallel()
	page := debughttp.Handler(newClient(t, &redis.Pool{}))
	for accept, kind := range map[string]string{
		"":    "text/html",
		"*/*": "text/html",
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "text/html",
		"application/json":                   "application/json",
		"Application/JSON; charset=utf-8":    "application/json",
		"application/json, */*;q=0.1":        "application/json",
		"text/html;q=0.5, application/json":  "application/json",
		"text/html, application/json;q=0.9":  "text/html",
		"text/html, application/json":        "text/html",
		"application/json;q=0":               "text/html",
		"application/json;q=nonsense;;, ,;,": "text/html",
	} {
		w := ask(t, page, http.MethodGet, "/", accept)
		require.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, w.Header().Get("Content-Type"), kind, accept)
		assert.Equal(t, "Accept", w.Header().Get("Vary"))
	}
	assert.Contains(t, ask(t, page, http.MethodGet, "/?format=html", "application/json").Header().Get("Content-Type"), "text/html")
}

func TestNonsenseGetsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	page := debughttp.Handler(newClient(t, &redis.Pool{}))
	for query, words := range map[string]string{
		"format=xml":             `format="xml": there are html and json`,
		"sort=size":              `sort="size": there are urgent, left, age, waiting, key`,
		"n=0":                    `n="0": give a number from 1 to 10000`,
		"n=10001":                `from 1 to 10000`,
		"n=<b>x</b>":             `from 1 to 10000`,
		"n=-9999999999999999999": `from 1 to 10000`,
	} {
		w := ask(t, page, http.MethodGet, "/?"+query)
		assert.Equal(t, http.StatusBadRequest, w.Code, query)
		assert.Contains(t, w.Body.String(), words)
		assert.Contains(t, w.Header().Get("Content-Type"), "text/plain")
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	}
	assert.PanicsWithValue(t, "debughttp: New needs a Client, and got nil", func() { debughttp.Handler(nil) })
}

func TestClosedPageGoesOnShowingLocks(t *testing.T) {
	t.Parallel()
	// A renewal or a second try would be an event too.
	c := newClient(t, redistest.Start(t).Pool(), redimutex.WithTTL(5*time.Minute), redimutex.WithNodeTimeout(20*time.Second))
	page := debughttp.New(c)
	c.Mutex("a").Lock()
	page.Close()
	page.Close()
	c.Mutex("b").Lock()
	l, _ := asJSON(t, page, nil)
	assert.Equal(t, []string{"a", "b"}, keys(l.Held))
	assert.Equal(t, []string{"acquired a"}, steps(l.Events))
}

func TestPageOfAClosedClientIsShown(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool())
	page := debughttp.Handler(c)
	m := c.Mutex("k")
	m.Lock()
	require.NoError(t, c.Close())
	<-m.Lease().Done()
	assert.ErrorIs(t, c.Mutex("k").LockContext(t.Context(), 0), redimutex.ErrClosed)
	m.UnlockContext(t.Context())
	l, _ := asJSON(t, page, nil)
	assert.Empty(t, l.Held)
	assert.Equal(t, "acquired k", steps(l.Events)[len(l.Events)-1])
	assert.Contains(t, html(t, page, nil), "None.")
}

// For the race detector.
func TestManyLookWhileLocksComeAndGo(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool())
	page := debughttp.New(c)
	other := debughttp.Handler(c)
	var busy, lookers sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		busy.Go(func() {
			m := c.Mutex(fmt.Sprint("k", i%2))
			for {
				select {
				case <-stop:
					return
				default:
					m.Lock()
					m.Unlock()
				}
			}
		})
	}
	for range 4 {
		lookers.Go(func() {
			for range 25 {
				l, _ := asJSON(t, page, url.Values{"q": {"k"}})
				assert.LessOrEqual(t, len(l.Held), 2)
				html(t, other, nil)
			}
		})
	}
	lookers.Wait()
	page.Close()
	close(stop)
	busy.Wait()
}
