// Package redisurl takes the URL of a Redis server apart. Errors show nothing of it, for it may contain a password.
package redisurl

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A Target is what a URL says.
type Target struct {
	Network, Address string // as net.Dial has them
	User             string
	Database         int
	TLS              bool

	password string
}

// errEncoding is for a URL that went to pieces; it must not say into which.
var errEncoding = errors.New("it can't be taken apart; are all special characters of the password percent-encoded (@ as %40, : as %3A, / as %2F, # as %23, ? as %3F)?")

// Parse takes one of these apart:
//
//	redis://[[user]:password@]host[:port][/db]
//	rediss://...                                  the same over TLS
//	unix://[[user]:password@]/path/to/socket[?db=n]
//
// Errors show no part of the URL: a password with a character that must be percent-encoded can end up in any.
func Parse(raw string) (*Target, error) {
	if raw == "" {
		return nil, errors.New("it is empty; write redis://host:6379")
	}
	if !strings.Contains(raw, "://") {
		if name, _, ok := strings.Cut(raw, ":"); ok && (name == "redis" || name == "rediss" || name == "unix") {
			return nil, errors.New("it has no // behind its scheme; write redis://host:6379, rediss://host:6379 or unix:///path")
		}
		return nil, errors.New("it has no scheme; write redis://host:6379, rediss://host:6379 or unix:///path")
	}
	u, err := url.Parse(raw)
	if err != nil && !strings.Contains(raw, "@") { // there is no password that could be the reason
		return nil, errors.New("its host or its port is not valid; write redis://host:6379, and an IPv6 address in brackets")
	}
	if err != nil || u.Opaque != "" || u.Fragment != "" || u.User == nil && strings.Contains(raw, "@") {
		return nil, errEncoding
	}
	t := &Target{Network: "tcp"}
	if u.User != nil {
		t.User = u.User.Username()
		t.password, _ = u.User.Password()
		if t.password == "" && t.User != "" {
			return nil, errors.New("it has a user but no password; write redis://:password@host, or redis://user:password@host")
		}
	}
	switch u.Scheme {
	case "redis", "rediss":
		t.TLS = u.Scheme == "rediss"
		err = t.tcp(u)
	case "unix":
		err = t.unix(u)
	default:
		err = errors.New("its scheme is not redis, rediss or unix")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Target) tcp(u *url.URL) error {
	if u.Hostname() == "" {
		return errors.New("it has no host; write redis://host:6379")
	}
	if strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
		return errors.New("it has more than one port; write redis://host:6379, and an IPv6 address in brackets")
	}
	if u.RawQuery != "" {
		return errors.New("it has parameters after a question mark, and none are known for redis and rediss")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return errors.New("its port is not a number from 1 to 65535")
	}
	t.Address = net.JoinHostPort(u.Hostname(), port)
	return t.database(strings.TrimPrefix(u.Path, "/"))
}

func (t *Target) unix(u *url.URL) error {
	if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return errors.New("the path of a socket has to begin with a slash; write unix:///path/to/socket")
	}
	t.Network, t.Address = "unix", u.Path
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errEncoding
	}
	for name := range query {
		if name != "db" {
			return errors.New("the only parameter of a unix URL is db")
		}
	}
	return t.database(query.Get("db"))
}

func (t *Target) database(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("its database is not a number")
	}
	t.Database = n
	return nil
}

// Options returns how to dial the target.
func (t *Target) Options() []redis.DialOption {
	return []redis.DialOption{
		redis.DialUsername(t.User),
		redis.DialPassword(t.password),
		redis.DialDatabase(t.Database),
		redis.DialUseTLS(t.TLS),
	}
}

// String returns where the target is.
func (t Target) String() string { return t.Network + " " + t.Address }

// GoString is String: %#v shows no password either.
func (t Target) GoString() string { return t.String() }
