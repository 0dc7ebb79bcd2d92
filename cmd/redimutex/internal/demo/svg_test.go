package demo

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func testPicture() string {
	return string(picture([]*result{
		{round: round{title: `Without <a> "lock" & more`}, acknowledged: 3, counter: 1, timeline: *twoAtOnce()},
		{round: round{title: "Killed", lock: true}, acknowledged: 3, counter: 3, timeline: *oneKilled()},
	}))
}

func TestPictureIsWellFormedWhateverTheWords(t *testing.T) {
	t.Parallel()
	p := testPicture()
	assertWellFormed(t, []byte(p))
	assert.NotContains(t, p, "%!", "a verb without its argument")
	assert.NotContains(t, p, "<a>")
}

func TestPictureNeedsNothingElse(t *testing.T) {
	t.Parallel()
	p := strings.ReplaceAll(testPicture(), `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, reference := range []string{"http", "href", "url(", "@import", "<script", "<image"} {
		assert.NotContains(t, p, reference)
	}
	assert.Contains(t, p, "prefers-color-scheme: dark")
}

func TestPictureWarnsOfClashesOnly(t *testing.T) {
	t.Parallel()
	clash := regexp.MustCompile(`<rect class="clash" x="[\d.]+" y="\d+" width="[\d.]+" height="\d+"/>`)
	// One in the legend; then one for each of the two who clashed.
	assert.Len(t, clash.FindAllString(testPicture(), -1), 3)
	assert.Contains(t, testPicture(), "2 were lost")
}

func TestPictureMarksKillAndRecovery(t *testing.T) {
	t.Parallel()
	p := testPicture()
	assert.Contains(t, p, "worker 2 killed at 1 s")
	assert.Contains(t, p, "worker 4 has it, after 0.80 s")
	assert.Equal(t, 1, strings.Count(p, `<line class="kill"`))
	assert.Equal(t, 1, strings.Count(p, `<line class="back"`))
}

func TestPictureOfNothingIsStillAPicture(t *testing.T) {
	t.Parallel()
	assertWellFormed(t, picture([]*result{{}, {round: round{kill: true}, timeline: timeline{death: &death{}}}}))
}
