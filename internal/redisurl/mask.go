package redisurl

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Mask takes the password out of what a server says. Some that know no AUTH, and some that are no Redis, quote the
// command that they were sent. Nothing but quotes is touched: a short password can occur in any word, and the words
// tell what kind of an error it is.
func (t *Target) Mask(err error) error {
	var said redis.Error
	if t.password == "" || !errors.As(err, &said) {
		return err
	}
	mask := strings.NewReplacer(t.password, "***", strings.Trim(strconv.Quote(t.password), `"`), "***")
	words := quoted.ReplaceAllStringFunc(string(said), mask.Replace)
	if words == string(said) {
		return err
	}
	return redis.Error(words)
}

// quoted is what stands between quotes.
var quoted = regexp.MustCompile(`'[^']*'|"(?:[^"\\]|\\.)*"|` + "`[^`]*`")
