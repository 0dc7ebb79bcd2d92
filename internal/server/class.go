package server

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Permanent reports whether waiting can't mend err: the server understood us and says that what
// we want will never work, for the reason in its words. Everything else passes with time: broken
// networks, servers that load, fail over, are full or read-only, and replies that we don't know.
func Permanent(err error) bool {
	var e redis.Error
	if !errors.As(err, &e) {
		return false
	}
	code, text := words(string(e))
	switch code {
	case "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM", "NOPROTO", "CROSSSLOT", "DENIED":
		return true
	case "ERR":
		return !strings.Contains(text, "max number of clients") && !proxy(text)
	}
	return false
}

// wrongType reports whether a reply says that the key holds something that is no string. Servers before
// Redis 7 put words about the script in front of that.
func wrongType(reply any) bool {
	e, ok := reply.(redis.Error)
	return ok && strings.Contains(string(e), "WRONGTYPE ")
}

// proxy reports whether text is what a proxy such as twemproxy says when it can't reach its server:
// the words of its operating system, under the name of a Redis error.
func proxy(text string) bool {
	for _, words := range []string{"Connection ", "No route to host", "Host is down", "Network is ", "Broken pipe", "Operation timed out"} {
		if strings.HasPrefix(text, words) {
			return true
		}
	}
	return false
}

// words splits a server error into its code and text. Before Redis 7 an error inside a script
// comes wrapped: "ERR Error running script (call to f_…): @user_script:9: @user_script: 9: -OOM …",
// or the same without the dash.
func words(e string) (code, text string) {
	code, text, _ = strings.Cut(e, " ")
	if code == "ERR" && strings.HasPrefix(text, "Error running script") {
		for _, field := range strings.Fields(text) {
			field = strings.TrimPrefix(field, "-")
			if len(field) > 2 && field == strings.ToUpper(field) && isLetters(field) {
				_, rest, _ := strings.Cut(text, field)
				return field, strings.TrimSpace(rest)
			}
		}
	}
	return code, text
}

func isLetters(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' }) < 0
}

// TimedOut reports whether err is the silence of a server, rather than its word or a broken connection.
func TimedOut(err error) bool {
	return err != nil && errors.Is(err, errTimeout) && !errors.Is(err, errLate)
}
