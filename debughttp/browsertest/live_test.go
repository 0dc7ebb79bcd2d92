package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
)

func TestBarsRunDownBetweenRefreshes(t *testing.T) {
	b := open(t)
	b.scene.hold("k")
	for class, left := range map[string]int{"": 90_000, "late": 50_300, "ending": 25_300} {
		b.front.set(0, held(left, 100_000))
		b.load("")
		// Each answer says the same, so what is less than that was counted down by the page.
		b.until(fmt.Sprintf(`document.querySelector("#held tbody meter").value < %d`, left-200))
		if class == "" {
			assert.Empty(t, value[string](b, `document.querySelector("#held tbody tr").className`))
			continue
		}
		b.until(fmt.Sprintf(`document.querySelector("#held tbody tr").className === %q`, class))
	}
}

func TestBarGoesUpAgainWhenTheLeaseIsRenewed(t *testing.T) {
	b := open(t)
	m := b.scene.hold("k", redimutex.WithoutRenewal(), redimutex.WithTTL(time.Hour))
	b.load("")
	require.NoError(t, m.Lease().Extend(t.Context(), 2*time.Hour))
	b.until(`document.querySelector("#held tbody meter").value > 3_700_000`)
	b.until(`document.querySelector('#held tbody [data-f="ttl"]').textContent === "2 h"`)
}

func TestPageFollowsWhatHappens(t *testing.T) {
	b := open(t)
	b.load("")
	assert.Zero(t, value[int](b, `document.querySelectorAll("#held tbody tr").length`))
	m := b.scene.hold("k")
	b.until(`document.querySelector("#held tbody .key")?.textContent.trim() === "k"`)
	b.until(`document.querySelector('[data-s="acquired"] small').textContent === "+1"`)
	b.scene.wait("k", 2)
	b.until(`document.querySelector('#held tbody [data-f="waiting"]').textContent === "2"`)
	b.scene.stop()
	b.scene.work.Wait()
	m.Unlock()
	b.until(`document.querySelectorAll("#held tbody tr").length === 0 && !document.querySelector('[data-none="held"]').hidden`)
	b.until(`document.querySelector("#events tbody .what").textContent === "released"`)
}

func TestPauseStopsEverythingAndResumeGoesOn(t *testing.T) {
	b := open(t)
	b.scene.hold("k")
	b.load("")
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.until(`document.querySelector("#state").textContent === "paused" && document.querySelector("#pause").textContent === "Resume"`)
	const bar = `document.querySelector("#held tbody meter").value`
	before, asked := value[float64](b, bar), b.front.questions()
	value[bool](b, `new Promise(done => setTimeout(() => done(true), 2500))`) // time for two refreshes that must not come
	assert.InDelta(t, before, value[float64](b, bar), 0)
	assert.Equal(t, asked, b.front.questions())
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.until(fmt.Sprintf(`%s !== %v && document.body.className === "live"`, bar, before))
	assert.Greater(t, b.front.questions(), asked)
}

func TestFilterNarrowsWhileItIsTyped(t *testing.T) {
	b := open(t)
	for i := range 130 {
		b.scene.hold(fmt.Sprintf("lock:%03d", i), redimutex.WithTTL(time.Hour))
	}
	b.load("")
	const rows = `document.querySelectorAll("#held tbody tr").length`
	assert.Equal(t, 100, value[int](b, rows))
	assert.Equal(t, "and 30 more that are not shown", value[string](b, `document.querySelector('[data-more="held"]').textContent`))
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=q]"), "LOCK:12"))
	b.until(rows + ` === 10 && document.querySelector('[data-more="held"]').hidden`)
	assert.Equal(t, "input", value[string](b, `document.activeElement.localName`), "what is typed goes on going there")
	assert.Contains(t, value[string](b, `location.search`), "q=LOCK%3A12", "so that the address can be passed on")
	b.load(value[string](b, `location.search`))
	assert.Equal(t, 10, value[int](b, rows))
}

func TestOrderCanBeChosen(t *testing.T) {
	b := open(t)
	b.scene.hold("b")
	b.scene.hold("a")
	b.load("")
	const first = `document.querySelector("#held tbody .key").textContent.trim()`
	assert.Equal(t, "b", value[string](b, first))
	b.do(chromedp.Focus(chromedp.CSS("select")), chromedp.KeyEvent(kb.End)) // the last is by key
	b.until(first + ` === "a"`)
}

func TestOldFiguresAreMarkedAsOld(t *testing.T) {
	b := open(t)
	b.expected = true // a failed question is in the log of the browser
	b.scene.hold("k")
	b.load("")
	b.front.set(http.StatusServiceUnavailable, nil)
	b.until(`document.body.className === "stale" && document.querySelector("#state").textContent === "the server says 503: what you see is old"`)
	b.front.set(0, nil)
	b.until(`document.body.className === "live"`)
}

func TestSelectedTextStaysSelected(t *testing.T) {
	b := open(t)
	b.scene.hold("select me")
	b.load("")
	value[bool](b, `getSelection().selectAllChildren(document.querySelector('#held tbody [data-f="shown"]')) === undefined`)
	asked := b.front.questions()
	b.scene.hold("another one") // and the table changes
	b.until(`document.querySelectorAll("#held tbody tr").length === 2`)
	require.Eventually(t, func() bool { return b.front.questions() > asked+2 }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, "select me", value[string](b, `getSelection().toString()`))
}

func TestScriptWritesTimesAsTheServerDoes(t *testing.T) {
	b := open(t)
	for _, ttl := range []time.Duration{8, 10, 59, 60, 61, 90, 600, 3599, 3600, 3660, 7199, 86400, 86400 + 3600, 10 * 86400} {
		b.scene.hold(fmt.Sprint(ttl), redimutex.WithTTL(ttl*time.Second), redimutex.WithoutRenewal())
	}
	response, err := http.Get(b.url + "?sort=key")
	require.NoError(t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var sent []string
	for _, m := range regexp.MustCompile(`data-f="ttl">([^<]*)<`).FindAllStringSubmatch(string(page), -1) {
		sent = append(sent, m[1])
	}
	sent = sent[:len(sent)-1] // that of the template
	require.Len(t, sent, 14)
	b.load("?sort=key")
	written := value[string](b, `[...document.querySelectorAll('#held tbody [data-f="ttl"]')].map(e => e.textContent).join("|")`)
	assert.Equal(t, strings.Join(sent, "|"), written)
}

func TestKeyboardReachesEverythingInOrder(t *testing.T) {
	b := open(t)
	b.load("")
	for _, want := range []string{"pause", "q", "sort"} {
		b.do(chromedp.KeyEvent(kb.Tab))
		assert.Equal(t, want, value[string](b, `document.activeElement.id || document.activeElement.name`))
	}
	b.do(chromedp.Focus(chromedp.CSS("#pause")), chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("#state").textContent === "paused"`)
}
