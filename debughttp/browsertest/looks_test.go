package main

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tooWide lists the elements that are wider than the window.
const tooWide = `[...document.querySelectorAll("body *")]
	.filter(e => e.getClientRects().length && !e.closest("thead, option") && e.getBoundingClientRect().right > innerWidth + 0.5)
	.map(e => e.localName + "." + e.className + ": " + e.textContent.trim().slice(0, 40)).join("; ")
	+ (document.documentElement.scrollWidth > innerWidth ? "; it can be scrolled" : "")`

func TestNothingIsWiderThanTheWindow(t *testing.T) {
	b := open(t)
	require.NoError(t, b.scene.play())
	b.scene.hold(strings.Repeat("long", 200))
	b.scene.wait(strings.Repeat("w", 300), 1)
	for _, width := range []int{320, 360, 700, 864, 865, 1024, 1600} {
		require.NoError(t, view(b.ctx, width, 800, false))
		b.load("")
		assert.Equal(t, width, value[int](b, `innerWidth`))
		assert.Empty(t, value[string](b, tooWide), "%d pixels", width)
	}
}

// faint lists the texts whose contrast with the background is below 4.5 to 1, which WCAG 2.2 requires.
const faint = `(() => {
	const numbers = color => color.match(/[\d.]+/g).map(Number);
	const light = color => numbers(color).slice(0, 3).map(c => c / 255)
		.map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (numbers(color)[3] !== 0) return color;
		}
		return "rgb(255, 255, 255)";
	};
	return [...document.querySelectorAll("body *")]
		.filter(e => e.getClientRects().length && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
		.map(e => {
			const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
			return { ratio: (a + 0.05) / (b + 0.05), e };
		})
		.filter(x => x.ratio < 4.5).map(x => x.e.localName + " " + x.e.textContent.trim().slice(0, 30) + " " + x.ratio.toFixed(2)).join("; ");
})()`

func TestTextIsLegibleInTheLightAndInTheDark(t *testing.T) {
	b := open(t)
	require.NoError(t, b.scene.play())
	backs := make(map[string]bool)
	for _, dark := range []bool{false, true} {
		require.NoError(t, view(b.ctx, 1100, 800, dark))
		for class, left := range map[string]int{"": 9_000_000, "late": 4_000_000, "ending": 2_000_000} {
			b.front.set(0, held(left, 10_000_000))
			b.load("")
			assert.Equal(t, class, value[string](b, `document.querySelector("#held tbody tr").className`))
			assert.Empty(t, value[string](b, faint), "dark: %v, %s", dark, class)
		}
		backs[value[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
	}
	assert.Len(t, backs, 2, "the light differs from the dark")
}

// Text in keys is neither run nor loaded nor taken for markup, and the browser finds nothing to complain about in the whole
// scene.
func TestOddKeysAreText(t *testing.T) {
	b := open(t)
	require.NoError(t, b.scene.play())
	for _, key := range []string{"<img src=x onerror=document.title='run'>", "</script><script>document.title='run'</script>", "javascript:document.title='run'"} {
		b.scene.hold(key)
	}
	b.load("?sort=key")
	assert.NotEqual(t, "run", value[string](b, `document.title`))
	assert.Zero(t, value[int](b, `document.querySelectorAll("img, main script").length`))
	shown := value[string](b, `[...document.querySelectorAll("#held tbody .key")].map(e => e.textContent.trim()).join("|")`)
	assert.Contains(t, shown, `<img src=x onerror=document.title='run'>`)
	assert.Contains(t, shown, `"bytes\x00\xff\u202e"`)
}

func TestPageWorksWithoutJavaScript(t *testing.T) {
	b := open(t)
	require.NoError(t, b.scene.play())
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	require.NoError(t, view(b.ctx, 360, 800, false))
	b.do(chromedp.Navigate(b.url))
	rows := func() int { return value[int](b, `document.querySelectorAll("#held tbody tr").length`) }
	assert.GreaterOrEqual(t, rows(), 5)
	assert.Empty(t, value[string](b, tooWide))
	assert.True(t, value[bool](b, `document.querySelector("#pause").hidden`))
	assert.Contains(t, value[string](b, `document.querySelector("#state").textContent`), "refreshes every 5 s")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=q]"), "invoices"), chromedp.Click(chromedp.CSS("#show")))
	require.Eventually(t, func() bool { return rows() == 1 }, time.Minute, 20*time.Millisecond)
	before := value[string](b, `document.querySelector("#now").dateTime`)
	require.Eventually(t, func() bool {
		now, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("#now")?.dateTime ?? ""`))
		return err == nil && now != "" && now != before // it has come again by itself
	}, time.Minute, 20*time.Millisecond)
	assert.Contains(t, value[string](b, `location.search`), "q=invoices", "and with the filter")
	assert.Zero(t, b.front.questions())
}
