package debughttp

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxKey   = 1 << 10 // bytes of a key
	maxShown = 200     // characters of it on the page
	maxSaid  = 1000    // characters of an error
)

// printable returns s unchanged if all of it is visible, and otherwise as a Go string. Its results for two different strings
// differ.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.HasPrefix(s, `"`) || strings.TrimSpace(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// shorten cuts the middle out of a string that has more than limit characters.
func shorten(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	all := []rune(s)
	return fmt.Sprintf("%s … %s (%d characters)", string(all[:limit*3/4]), string(all[len(all)-limit/4:]), len(all))
}

var anyToken = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)

// said returns the words of an error about key in one line. It hides tokens: some servers and proxies quote what they did not
// understand, which may contain a token. A part of the key that looks like a token is none, and stays.
func said(err error, key string) string {
	text := anyToken.ReplaceAllStringFunc(err.Error(), func(found string) string {
		if strings.Contains(key, found) {
			return found
		}
		return "(token)"
	})
	text = strings.ReplaceAll(text, "\n", "; ")
	var line strings.Builder
	for _, r := range strings.TrimPrefix(text, fmt.Sprintf("redimutex: %q: ", key)) {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return shorten(line.String(), maxSaid)
}

// round is brief without the parts that are zero, for times that were configured.
func round(d time.Duration) string {
	return strings.NewReplacer(".0 s", " s", " min 0 s", " min", " h 0 min", " h", " d 0 h", " d").Replace(brief(d))
}

// brief writes a time as people say it, no more exactly than they need. The script of the page does the same.
func brief(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Truncate(time.Second/10).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}
