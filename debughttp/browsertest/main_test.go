package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/debughttp"
)

// browser is shared by all tests; each test has a tab. It is nil where no browser is installed.
var browser context.Context

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // lost leases log, and that is no news here
	code := 1
	switch ctx, end, err := browse(context.Background()); {
	case err == nil && chromedp.Do(ctx) == nil:
		browser = ctx
		code = m.Run()
		end()
	case err == nil:
		end()
		fmt.Fprintln(os.Stderr, "the browser does not start")
	default:
		code = m.Run()
	}
	os.Exit(code)
}

// A tab shows the page of a scene.
type tab struct {
	t     *testing.T
	ctx   context.Context
	scene *scene
	front *front
	url   string

	mu       sync.Mutex
	expected bool // the browser may complain
	ears     []string
}

// A front is a handler in front of the page that may change or refuse what a script gets.
type front struct {
	page http.Handler

	mu     sync.Mutex
	asked  int // how often JSON was requested
	status int // of the JSON answers; 0: OK
	change func(look map[string]any)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("format") != "json" {
		f.page.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.status != 0 {
		http.Error(w, "no", f.status)
		return
	}
	answer := httptest.NewRecorder()
	f.page.ServeHTTP(answer, r)
	var look map[string]any
	decoder := json.NewDecoder(bytes.NewReader(answer.Body.Bytes()))
	decoder.UseNumber() // or fences would lose digits
	if err := decoder.Decode(&look); err != nil {
		panic(err)
	}
	if f.change != nil {
		f.change(look)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(look) //nolint:errcheck // the tab may be closed
}

func (f *front) set(status int, change func(look map[string]any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.change = status, change
}

func (f *front) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// open opens a tab for a new scene. When the test ends, any complaint of the browser is an error.
func open(t *testing.T) *tab {
	t.Helper()
	if browser == nil {
		t.Skip(errNoBrowser)
	}
	b := &tab{t: t, scene: newScene()}
	t.Cleanup(b.scene.close)
	b.front = &front{page: debughttp.Handler(b.scene.client)}
	site := httptest.NewServer(b.front)
	t.Cleanup(site.Close)
	b.url = site.URL + "/debug/redimutex"
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.expected {
			assert.Empty(t, b.ears, "the browser complains")
		}
	})
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.ears = append(b.ears, fmt.Sprint("exception: ", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.ears = append(b.ears, fmt.Sprint("console: ", e.Args))
	case *cdplog.EventEntryAdded:
		b.ears = append(b.ears, fmt.Sprint("log: ", e.Entry.Text))
	}
}

// do performs actions in the tab.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// load loads the page and waits until its script works.
func (b *tab) load(query string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + query))
	b.until(`document.body.className === "live"`)
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(time.Minute)))
	require.NoError(b.t, err, expression)
}

// value returns the value of an expression.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return v
}

// held has the locks in the answers be those of left milliseconds of a lease of ttl.
func held(left, ttl int) func(look map[string]any) {
	return func(look map[string]any) {
		for _, l := range look["held"].([]any) {
			l.(map[string]any)["left_ms"], l.(map[string]any)["ttl_ms"] = left, ttl
		}
	}
}
