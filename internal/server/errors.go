package server

import (
	"errors"
	"net/url"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// mask returns err without what may be a secret: errors of the caller's own pool may tell its URL, with the password in
// it, and a server that does not know a command tells its arguments, those of AUTH too. What was not sent or quoted
// stays as it is, whatever it looks like: the class of an error depends on its words.
func mask(err error) error {
	var said redis.Error
	if errors.As(err, &said) {
		text, _, quotes := strings.Cut(err.Error(), ", with args beginning with")
		if !quotes {
			return err
		}
		said, _, _ := strings.Cut(string(said), ", with args beginning with")
		return maskedError{text, redis.Error(said)}
	}
	var u *url.Error
	if errors.As(err, &u) {
		return maskedError{"the URL of the pool can't be used: " + u.Op + " failed", hidden{err}}
	}
	return err
}

// A maskedError has other words than its cause.
type maskedError struct {
	text  string
	cause error
}

func (e maskedError) Error() string { return e.text }
func (e maskedError) Unwrap() error { return e.cause }

// hidden is what an error is, without what it says.
type hidden struct{ err error }

func (hidden) Error() string          { return "hidden, because it may tell a password" }
func (h hidden) Is(target error) bool { return errors.Is(h.err, target) }
func (h hidden) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(h.err, &timeout) && timeout.Timeout()
}

// explain finds plainer words for what a server says that can't run our scripts.
func explain(err error) error {
	err = mask(err)
	var said redis.Error
	if !errors.As(err, &said) {
		return err
	}
	var cause string
	switch text := string(said); {
	case strings.Contains(text, "after non deterministic commands"), strings.Contains(text, "turning on single commands replication"):
		cause = "it is too old, or set to lua-replicate-commands no"
	case strings.Contains(text, "Unknown Redis command called from"):
		cause = "it is too old, or lacks a command that they call"
	case strings.Contains(text, "unknown command") && (strings.Contains(text, "EVAL") || strings.Contains(text, "eval")):
		cause = "it has no Lua scripting"
	default:
		return err
	}
	return maskedError{"the server can't run the scripts of the lock: " + cause +
		"; it has to be Redis 5.0, Valkey 7.2 or newer, with Lua scripting and its default lua-replicate-commands yes", said}
}
