package redimutex

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Pool is where connections come from. *redis.Pool of redigo and *redisc.Cluster of mna/redisc
// fit as they are. If the Pool has GetContext(ctx), as *redis.Pool does, that is used, so that
// waiting for a connection ends with the node timeout; if a connection has Bind(keys...), as those
// of redisc do, it is bound to the node that serves the key.
//
// Redis commands use the timeout of the operation (see [WithNodeTimeout]), not the one that the
// connection was dialled with.
type Pool interface{ Get() redis.Conn }

var _ Pool = (*redis.Pool)(nil)

const (
	dialTimeout = 5 * time.Second  // also for reading and writing, where no command has its own
	maxIdle     = 16               // connections kept open
	idleTimeout = 4 * time.Minute  // less than the 5 minutes after which some servers and firewalls hang up
	testAfter   = 10 * time.Second // a connection that was idle for longer is tested before use
)

// NewPool returns a pool for the server at rawURL, for programs that do not have one:
//
//	redis://[[user]:password@]host[:port][/db]
//	rediss://...                                  the same over TLS
//	unix://[[user]:password@]/path/to/socket[?db=n]
//
// It does not connect. Connecting, reading and writing time out after 5 s, and a connection that was
// idle for a while is tested before use. opts are applied after the URL. Errors do not show the URL,
// because it may contain a password, and a password with a character that must be percent-encoded
// can end up in any part of it.
func NewPool(rawURL string, opts ...redis.DialOption) (*redis.Pool, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("redimutex: the Redis URL is not valid: %w", err)
	}
	all := append([]redis.DialOption{
		redis.DialConnectTimeout(dialTimeout),
		redis.DialTLSHandshakeTimeout(dialTimeout),
		redis.DialReadTimeout(dialTimeout),
		redis.DialWriteTimeout(dialTimeout),
		redis.DialUsername(t.user),
		redis.DialPassword(t.password),
		redis.DialDatabase(t.db),
		redis.DialUseTLS(t.tls),
	}, opts...)
	return &redis.Pool{
		MaxIdle:     maxIdle,
		IdleTimeout: idleTimeout,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			c, err := redis.DialContext(ctx, t.network, t.address, all...)
			if err != nil {
				return nil, t.discreet(err)
			}
			return c, nil
		},
		TestOnBorrowContext: func(ctx context.Context, c redis.Conn, used time.Time) error {
			if time.Since(used) < testAfter {
				return nil
			}
			_, err := redis.DoContext(c, ctx, "PING")
			return err
		},
	}, nil
}

// A target is what a URL says.
type target struct {
	network, address string
	user, password   string
	db               int
	tls              bool
}

// discreet takes the password out of an error of dialling. Servers that know no AUTH, and some that are no
// Redis, quote what they were sent, also in part: "ERR unknown command 'AUTH', with args beginning with: …".
func (t *target) discreet(err error) error {
	if t.password == "" {
		return err
	}
	escaped := strings.Trim(strconv.Quote(t.password), `"`)
	mask := strings.NewReplacer(t.password, "***", escaped, "***")
	var said redis.Error
	if errors.As(err, &said) {
		words, _, _ := strings.Cut(string(said), ", with args")
		return redis.Error(mask.Replace(words))
	}
	if words := mask.Replace(err.Error()); words != err.Error() {
		return errors.New(words)
	}
	return err
}

// errEncoding is for a URL that went to pieces; it must not say into which.
var errEncoding = errors.New("it can't be taken apart; are all special characters of the password percent-encoded (@ as %40, : as %3A, / as %2F, # as %23, ? as %3F)?")

func parseURL(raw string) (*target, error) {
	if raw == "" {
		return nil, errors.New("it is empty; write redis://host:6379")
	}
	if !strings.Contains(raw, "://") {
		return nil, errors.New("it has no scheme; write redis://host:6379, rediss://host:6379 or unix:///path")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Fragment != "" || u.User == nil && strings.Contains(raw, "@") {
		return nil, errEncoding
	}
	t := &target{network: "tcp"}
	if u.User != nil {
		t.user = u.User.Username()
		t.password, _ = u.User.Password()
		if t.password == "" && t.user != "" {
			return nil, errors.New("it has a user but no password; write redis://:password@host, or redis://user:password@host")
		}
	}
	switch u.Scheme {
	case "redis", "rediss":
		t.tls = u.Scheme == "rediss"
		return t, t.tcp(u)
	case "unix":
		return t, t.unix(u)
	}
	return nil, errors.New("its scheme is not redis, rediss or unix")
}

func (t *target) tcp(u *url.URL) error {
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
	t.address = net.JoinHostPort(u.Hostname(), port)
	return t.database(strings.TrimPrefix(u.Path, "/"))
}

func (t *target) unix(u *url.URL) error {
	if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return errors.New("the path of a socket has to begin with a slash; write unix:///path/to/socket")
	}
	t.network, t.address = "unix", u.Path
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

func (t *target) database(s string) error {
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("its database is not a number")
	}
	t.db = n
	return nil
}
