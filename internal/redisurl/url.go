// Package redisurl parses the URL of a Redis server. Its errors show no part of the URL: a password with a character that
// should be percent-encoded can end up in any part.
package redisurl

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A Target is what a URL says. Printed, it shows no password: the options are functions.
type Target struct {
	Network, Address string // as for net.Dial
	Options          []redis.DialOption
}

// errEncoding is for a URL that was parsed into the wrong parts. It must not say which, since each may contain the password.
var errEncoding = errors.New("it can't be taken apart; are all characters of the password percent-encoded but letters, digits and -._~ (@ as %40, : as %3A, / as %2F, # as %23, ? as %3F)? Is there a space or line break behind it?")

// Parse parses a URL of the forms that redimutex.NewPool lists.
func Parse(raw string) (*Target, error) {
	if raw == "" {
		return nil, errors.New("it is empty; write redis://host:6379")
	}
	scheme, _, cut := strings.Cut(strings.ToLower(raw), "://")
	if !cut || scheme != "redis" && scheme != "rediss" && scheme != "unix" {
		return nil, errors.New("it does not begin with redis://, rediss:// or unix://; write redis://host:6379, rediss://host:6379 or unix:///path")
	}
	u, err := url.Parse(raw)
	if err != nil && !strings.Contains(raw, "@") { // there is no password that could be the reason
		return nil, errors.New("its host or its port is not valid; write redis://host:6379, without a space or line break behind it, and an IPv6 address in brackets")
	}
	if err != nil || u.Opaque != "" || u.Fragment != "" || u.User == nil && strings.Contains(raw, "@") {
		return nil, errEncoding
	}
	user := u.User.Username()
	password, _ := u.User.Password()
	if password == "" && user != "" {
		return nil, errors.New("it has a user but no password; write :password or user:password in front of the @")
	}
	t, database := &Target{}, ""
	if scheme == "unix" {
		t.Network, t.Address, database = "unix", u.Path, u.Query().Get("db")
		err = checkUnix(u)
	} else {
		port := cmp.Or(u.Port(), "6379")
		t.Network, t.Address, database = "tcp", net.JoinHostPort(u.Hostname(), port), strings.TrimPrefix(u.Path, "/")
		err = checkTCP(u, port)
	}
	if err != nil {
		return nil, err
	}
	db, err := strconv.Atoi(cmp.Or(database, "0"))
	if err != nil || db < 0 {
		return nil, errors.New("its database is not a number")
	}
	t.Options = []redis.DialOption{
		redis.DialUsername(user), redis.DialPassword(password), redis.DialDatabase(db), redis.DialUseTLS(scheme == "rediss"),
	}
	return t, nil
}

func checkTCP(u *url.URL, port string) error {
	n, err := strconv.Atoi(port)
	switch {
	case strings.Contains(u.Path, "@"):
		return errEncoding
	case u.Hostname() == "":
		return errors.New("it has no host; write redis://host:6379")
	case strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
		return errors.New("it has more than one port; write redis://host:6379, and an IPv6 address in brackets")
	case u.RawQuery != "":
		return errors.New("it has parameters after a question mark, and none are known for redis and rediss; write the database behind the last slash, and give other settings as options")
	case err != nil || n < 1 || n > 65535:
		return errors.New("its port is not a number from 1 to 65535")
	}
	return nil
}

func checkUnix(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	delete(query, "db")
	switch {
	case u.Host != "" || !strings.HasPrefix(u.Path, "/"):
		return errors.New("the path of a socket has to begin with a slash; write unix:///path/to/socket")
	case err != nil:
		return errEncoding
	case len(query) > 0:
		return errors.New("the only parameter of a unix URL is db")
	}
	return nil
}
