package punctual

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// discreet cuts off what a server quotes of the command that it was sent, which may be AUTH with a password: servers
// that know no AUTH say "ERR unknown command 'AUTH', with args beginning with: …".
func discreet(err error) error {
	var said redis.Error
	if !errors.As(err, &said) {
		return err
	}
	words, _, found := strings.Cut(string(said), ", with args")
	if !found {
		return err
	}
	return redis.Error(words)
}
