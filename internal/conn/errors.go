package conn

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
)

// ErrTimeout is the error of a command that the server did not answer before its deadline.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string { return "no answer before the node timeout" }
func (timeoutError) Timeout() bool { return true }

// Plain turns the different timeout errors of redigo, the net package and context into one error, and masks what must not be
// seen. That error does not match [context.DeadlineExceeded], because the caller's own time may not be over.
func Plain(err error) error {
	if err == nil || errors.Is(err, ErrTimeout) {
		return err
	}
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, syscall.EAGAIN) {
		return fmt.Errorf("%w (%v)", ErrTimeout, Mask(err)) //nolint:errorlint // see above
	}
	return Mask(err)
}

// Mask returns err without what may be a secret. A pool may report its URL in its own words, with the password in it. A server
// that does not know a command quotes its arguments, also those of AUTH. Text that was neither sent nor quoted stays as it is,
// whatever it looks like, because the class of an error depends on its words.
func Mask(err error) error {
	shown := mask(err.Error())
	var u *url.Error
	switch {
	case errors.As(err, &u):
		shown = "the URL of the pool can't be used: " + u.Op + " failed"
	case shown == err.Error():
		return err
	}
	return Masked(shown, err)
}

// mask cuts off what a server, net/url or redigo quotes. It hides the user and the password in every URL and address of text.
// A password may contain any character, so everything from the first "://" to the last "@" after it is hidden.
func mask(text string) string {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	for _, words := range quoting {
		if before, _, quoted := strings.Cut(text, words); quoted {
			text = before + strings.TrimRight(words, `"`) + "***"
		}
	}
	for _, words := range []string{"://", "tcp: address ", "lookup ", "dial tcp "} {
		before, rest, _ := strings.Cut(text, words)
		if end := strings.LastIndexByte(rest, '@'); end >= 0 {
			text = before + words + "***" + rest[end:]
		}
	}
	return text
}

// quoting lists the words after which net/url and redigo quote a URL, or the wrong part of it.
var quoting = []string{`parse "`, "url is opaque: ", "invalid database: "}

// Masked returns an error with the given text in place of its cause's. The cause is hidden, because it may contain a password.
// errors.Is finds it. errors.As finds only the words of a server, masked. Timeout reports whether time ran out.
func Masked(text string, cause error) error { return &maskedError{text, cause} }

// A maskedError is always used through a pointer. %#v of an error that wraps it calls no method, but prints the fields of that
// error; for a pointer among them it prints only the address.
type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string        { return e.text }
func (e *maskedError) GoString() string     { return e.text }
func (e *maskedError) Is(target error) bool { return errors.Is(e.cause, target) }

func (e *maskedError) As(target any) bool {
	said, ok := target.(*redis.Error)
	if ok = ok && errors.As(e.cause, said); ok {
		*said = redis.Error(mask(string(*said)))
	}
	return ok
}

func (e *maskedError) Timeout() bool { // the method by which the net package reports a timeout
	var timeout interface{ Timeout() bool }
	return errors.As(e.cause, &timeout) && timeout.Timeout()
}

// discreet hides what a server quotes of the command that it got, which may be the password: servers without AUTH, and some
// that are not Redis, quote the command. Only quoted text is changed, because the other words tell the class of the error. The
// names of this package's commands may be seen. So may a DENIED, in which Redis says how to leave its protected mode.
func discreet(err error) error {
	var said redis.Error
	if !errors.As(err, &said) || strings.HasPrefix(string(said), "DENIED ") {
		return err
	}
	words, _, _ := strings.Cut(string(said), ", with args")
	first, last := strings.IndexAny(words, quotes), strings.LastIndexAny(words, quotes)
	if first < last && !slices.Contains(ours, strings.ToLower(words[first+1:last])) {
		words = words[:first+1] + "***" + words[last:]
	}
	if words == string(said) {
		return err
	}
	return redis.Error(words)
}

const quotes = "'\"`"

var ours = []string{"auth", "client", "client|setname", "setname", "select", "sentinel"}
