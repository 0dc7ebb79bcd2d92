package debughttp_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // lost leases log, and that is no news here
	os.Exit(m.Run())
}

var anyUUID = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)

// The JSON that a script reads.
type (
	lock struct {
		Key     string   `json:"key"`
		Keys    []string `json:"keys"`
		Kind    string   `json:"kind"`
		Holds   int      `json:"holds"`
		Bytes   int      `json:"key_bytes"`
		Shown   string   `json:"shown"`
		Owner   string   `json:"owner"`
		Fence   int64    `json:"fence"`
		Age     *int64   `json:"age_ms"`
		Left    *int64   `json:"left_ms"`
		TTL     int64    `json:"ttl_ms"`
		Idle    bool     `json:"idle"`
		Waiting int      `json:"waiting"`
		Error   string   `json:"error"`
	}
	happening struct {
		At      time.Time `json:"at"`
		What    string    `json:"event"`
		Key     string    `json:"key"`
		Times   int       `json:"times"`
		Error   string    `json:"error"`
		Trouble bool      `json:"trouble"`
	}
	look struct {
		At      time.Time `json:"at"`
		Process struct {
			Program string    `json:"program"`
			Host    string    `json:"host"`
			PID     int       `json:"pid"`
			Since   time.Time `json:"since"`
		} `json:"process"`
		Stats     map[string]any `json:"stats"`
		Held      []lock         `json:"held"`
		WaitedFor []lock         `json:"waited_for"`
		More      struct {
			Held      int `json:"held"`
			WaitedFor int `json:"waited_for"`
		} `json:"more"`
		Trouble []happening `json:"trouble"`
		Events  []happening `json:"events"`
	}
)

func newClient(t testing.TB, pool redimutex.Pool, opts ...redimutex.Option) *redimutex.Client {
	t.Helper()
	// A busy machine is not a broken server.
	opts = append([]redimutex.Option{redimutex.WithNodeTimeout(2 * time.Second)}, opts...)
	c := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// ask requests the page by HTTP, with or without a header.
func ask(t testing.TB, page http.Handler, method, target string, accept ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for _, a := range accept {
		r.Header.Add("Accept", a)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

// html returns the page as HTML.
func html(t testing.TB, page http.Handler, query url.Values) string {
	t.Helper()
	w := ask(t, page, http.MethodGet, "/debug/redimutex?"+query.Encode())
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// asJSON returns the parsed JSON, and its text.
func asJSON(t testing.TB, page http.Handler, query url.Values) (l look, text string) {
	t.Helper()
	if query == nil {
		query = make(url.Values)
	}
	query.Set("format", "json")
	w := ask(t, page, http.MethodGet, "/debug/redimutex?"+query.Encode())
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &l), "%s", w.Body)
	return l, w.Body.String()
}

func keys(locks []lock) []string {
	names := make([]string, len(locks))
	for i, l := range locks {
		names[i] = l.Key
	}
	return names
}

func steps(events []happening) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.What + " " + e.Key
	}
	return names
}

// waiting starts a goroutine that waits for m until the test ends.
func waiting(t testing.TB, m *redimutex.Mutex) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if m.LockContext(ctx, 0) == nil {
			m.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}
