package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTimesAreSecondsOrHaveUnitsAndEndAtAYear(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.5": time.Second / 2, "1m30s": 90 * time.Second, "8784h": maxTime, "31622400": maxTime,
	} {
		var d time.Duration
		assert.NoError(t, Time(&d).Set(text), text)
		assert.Equal(t, want, d, text)
	}
	for text, want := range map[string]error{
		"8784h1s": errLong, "1000000h": errLong, "2562047h": errLong, "9999999999h": errLong, "1e30": errLong, "1e400": errLong, "31622401": errLong,
		"-1": errBefore, "-1s": errBefore, "-1e400": errBefore, "soon": errTime, "5m30": errTime, "": errTime, "NaN": errTime, "5 s": errTime,
	} {
		var d time.Duration
		assert.Equal(t, want, Time(&d).Set(text), text)
	}
}

func TestNearestIsWhatSomebodyMayHaveMeant(t *testing.T) {
	t.Parallel()
	verbs := []string{"run", "list", "show", "watch", "break", "doctor", "demo", "help", "man", "version"}
	for typed, want := range map[string]string{
		"rnu": "run", "ru": "run", "lsit": "list", "wacth": "watch", "doc": "doctor", "shwo": "show", "vers": "version",
		"x": "", "": "", "lock": "", "unlock": "", strings.Repeat("run", 100): "",
	} {
		assert.Equal(t, want, nearest(typed, verbs), typed)
	}
}

func TestQuotedWordsAreReadByAShellAsTheyAre(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `ls -l 'a b' 'it'\''s' '$x' ''`, Quote([]string{"ls", "-l", "a b", "it's", "$x", ""}))
}

func TestHelpIsWrapped(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	Wrap(&b, "  -x  ", "      ", "one two three four five", 15)
	assert.Equal(t, "  -x  one two\n      three\n      four five\n", b.String())
}

func TestJSONPlaysNoTricksWithATerminalAndSaysTheSame(t *testing.T) {
	t.Parallel()
	key := "\x1b[2J \u009b2J \x7f \u202egpj \u200b \ufeff \u00a0 \U000e0041 é 😀 <b>"
	var out strings.Builder
	PrintJSON(&out, map[string]string{"key": key})
	line := strings.TrimSuffix(out.String(), "\n")
	assert.Equal(t, Printable(line), line)
	var read map[string]string
	assert.NoError(t, json.Unmarshal([]byte(line), &read))
	assert.Equal(t, key, read["key"])
}
