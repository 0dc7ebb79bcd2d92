package debughttp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/debughttp"
	"github.com/redimutex/redimutex/internal/redistest"
)

// oddKeys would be markup, script, another line or nothing at all, if they were not escaped.
var oddKeys = []string{
	"<script>alert(1)</script>", "</template><img src=x onerror=alert(1)>", `" onmouseover="alert(1)`, "' style='color:red", "a&amp;b", "{{.}}", "</td></tr>",
	"\x00", "\xff\xfe", "a\nb\r\n", "\u202eabc", "\u2028", " ", "x ", `"quoted"`, "ключ", "🔒", strings.Repeat("long/", 20_000),
}

func TestKeysOfAnyBytesAreShownAsText(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool(), redimutex.WithOwner(`<b onclick="x">"me"&`))
	page := debughttp.Handler(c)
	plain := html(t, page, nil)
	for _, key := range oddKeys {
		c.Mutex(key).Lock()
	}
	text := html(t, page, nil)
	assert.True(t, utf8.ValidString(text))
	for _, raw := range []string{"<script>alert", "<img src=x", "<b onclick", "\x00", "\u202e", "\u2028", `" onmouseover`, "' style"} {
		assert.NotContains(t, text, raw)
	}
	for _, tag := range []string{"<script", "<img", "<style", "<template", "<iframe", "<form"} {
		assert.Equal(t, strings.Count(plain, tag), strings.Count(text, tag), tag)
	}
	assert.Less(t, len(text), 200_000, "a long key is cut")

	l, body := asJSON(t, page, nil)
	assert.True(t, utf8.ValidString(body))
	require.Len(t, l.Held, len(oddKeys))
	shown := make(map[string]bool)
	byKey := make(map[string]lock)
	for _, l := range l.Held {
		assert.False(t, shown[l.Shown], "%q is shown twice", l.Shown)
		shown[l.Shown] = true
		byKey[l.Key] = l
		assert.Contains(t, text, template.HTMLEscapeString(l.Shown))
	}
	for _, key := range oddKeys {
		switch {
		case len(key) > 1<<10:
			assert.Equal(t, len(key), byKey[key[:1<<10]].Bytes)
			assert.Contains(t, byKey[key[:1<<10]].Shown, "(100000 characters)")
		case utf8.ValidString(key):
			assert.Contains(t, byKey, key)
		}
	}
	assert.True(t, shown[`"\xff\xfe"`])
	assert.True(t, shown[`"\u202eabc"`])
	assert.True(t, shown[`"\"quoted\""`])
}

// Tokens are in the memory of the process, on the server, and in errors of servers that quote what they did not understand.
func TestNoTokenIsShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	between := redistest.NewBetween(s.Pool())
	c := newClient(t, between, redimutex.WithOwner("me"), redimutex.WithFencing(), redimutex.WithTTL(time.Minute))
	page := debughttp.Handler(c)
	const keyLikeAToken = "0d9a4e26-8a3f-4b0e-9a43-26f1b7a4c111"
	var tokens []string
	for _, key := range []string{"a", "b", keyLikeAToken} {
		m := c.Mutex(key)
		m.Lock()
		tokens = append(tokens, m.Lease().Token())
	}
	s.Do("SET", "taken", "11111111-2222-4333-8444-555555555555 another", "PX", 60_000)
	assert.Error(t, c.Mutex("taken").TryLockContext(t.Context()))
	between.Set(func(command redistest.Command) (any, error) {
		return nil, redis.Error(fmt.Sprintf("ERR what is '%s' %q?", command.Name, command.Args))
	})
	for _, key := range []string{"c", keyLikeAToken + "x"} {
		assert.Error(t, c.Mutex(key).TryLockContext(t.Context()))
	}
	assert.Error(t, c.Mutex("d", redimutex.WithQueue()).TryLockContext(t.Context()))
	between.Set(nil)

	l, body := asJSON(t, page, nil)
	require.NotEmpty(t, l.Trouble)
	assert.Contains(t, body, "what is")
	assert.Contains(t, body, keyLikeAToken, "a key may look like a token")
	for _, text := range []string{body, html(t, page, nil)} {
		for _, token := range tokens {
			assert.NotContains(t, text, token)
			assert.NotContains(t, text, strings.Fields(token)[0])
		}
		assert.Empty(t, anyUUID.FindString(strings.ReplaceAll(text, keyLikeAToken, "")))
	}
}

// A process with the text of a Handover may take the lock.
func TestNoHandoverIsShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver, taker := newClient(t, s.Pool(), redimutex.WithOwner("giver")), newClient(t, s.Pool(), redimutex.WithOwner("taker"))
	pages := []http.Handler{debughttp.Handler(giver), debughttp.Handler(taker)}
	l, err := giver.Mutex("k").Acquire(t.Context())
	require.NoError(t, err)
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	text, err := h.MarshalText()
	require.NoError(t, err)
	secrets := []string{string(text), s.Get("k"), strings.Fields(s.Get("k"))[0]}
	look := func() {
		for _, page := range pages {
			_, body := asJSON(t, page, nil)
			for _, shown := range []string{body, html(t, page, nil)} {
				for _, secret := range secrets {
					assert.NotContains(t, shown, secret)
				}
				assert.Empty(t, anyUUID.FindString(shown))
			}
		}
	}
	require.ErrorIs(t, taker.Mutex("k").TryLockContext(t.Context()), redimutex.ErrLocked)
	look()
	m := taker.Mutex("k")
	require.NoError(t, m.TakeOver(t.Context(), h))
	require.ErrorIs(t, giver.Mutex("k").TakeOver(t.Context(), h), redimutex.ErrLost)
	look()
	held, _ := asJSON(t, pages[1], nil)
	require.Len(t, held.Held, 1)
	assert.Equal(t, "taker", held.Held[0].Owner)
	m.Unlock()
}

// The policy of the page allows what the page has, and nothing more.
func TestPolicyAllowsTheScriptAndStyleOfThePageAlone(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.Start(t).Pool())
	c.Mutex("k").Lock()
	page := debughttp.Handler(c)
	w := ask(t, page, http.MethodGet, "/")
	policy, text := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, kind := range []string{"script", "style"} {
		parts := regexp.MustCompile(`(?s)<`+kind+`[^>]*>(.*?)</`+kind+`>`).FindAllStringSubmatch(text, -1)
		require.Len(t, parts, 1)
		sum := sha256.Sum256([]byte(parts[0][1]))
		assert.Contains(t, policy, kind+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';")
		text = strings.Replace(text, parts[0][1], "", 1)
	}
	assert.Contains(t, policy, "default-src 'none';")
	assert.Contains(t, policy, "frame-ancestors 'none'")
	assert.NotContains(t, policy, "unsafe")
	assert.Empty(t, regexp.MustCompile(`(?i)\s(style|on[a-z]+)=`).FindString(text), "what the policy forbids")
	assert.Empty(t, regexp.MustCompile(`(?:src|href|action)="?(?:https?:|//)`).FindString(text), "nothing comes from elsewhere")
}

func TestFilterIsShownAsText(t *testing.T) {
	t.Parallel()
	page := debughttp.Handler(newClient(t, &redis.Pool{}))
	text := html(t, page, url.Values{"q": {`"><script>alert(1)</script>`}})
	assert.NotContains(t, text, "<script>alert")
	assert.Contains(t, text, "&lt;script&gt;alert")
}
