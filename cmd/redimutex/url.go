package main

import (
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// urls is the flag -redis, which may be repeated. It takes everything, because the flag package
// would repeat in its error what it does not take, password and all.
type urls []string

func (u *urls) String() string { return "" }

// Set implements flag.Value.
func (u *urls) Set(s string) error {
	*u = append(*u, s)
	return nil
}

const (
	envURL     = "REDIMUTEX_URL"
	envAppURL  = "REDIS_URL"
	defaultURL = "redis://127.0.0.1:6379"
)

// A node is one server: its pool, and its address as it may be shown.
type node struct {
	address string
	pool    *redis.Pool
	private bool // nobody can listen on the way: TLS, or a connection within this machine
}

// servers are one server, or several independent ones for Redlock.
type servers []node

// findServers returns the servers of -redis, or else of the environment, or else the one on this
// machine.
func findServers(given urls) (servers, error) {
	source := "-redis"
	if len(given) == 0 {
		for _, source = range []string{envURL, envAppURL} {
			if given = split(os.Getenv(source)); len(given) > 0 {
				break
			}
		}
	}
	if len(given) == 0 {
		given = urls{defaultURL}
	}
	var nodes servers
	for _, raw := range given {
		list := []string{raw}
		if name, ok := strings.CutPrefix(raw, "@"); ok {
			var err error
			if list, err = readURLs(name); err != nil {
				return nil, usagef("%s: %w", source, err)
			}
		}
		for _, raw := range list {
			n, err := newNode(raw)
			if err != nil {
				return nil, usagef("%s: %s", source, strings.TrimPrefix(err.Error(), "redimutex: "))
			}
			for _, other := range nodes {
				if other.address == n.address {
					return nil, usagef("%s: %s is named twice; Redlock needs independent servers", source, n.address)
				}
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// split takes a list of URLs apart. A comma or space that belongs to a password is percent-encoded.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// readURLs returns the URLs in a file, without the lines that begin with #.
func readURLs(name string) ([]string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			list = append(list, split(line)...)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no URL in the file %s", name)
	}
	return list, nil
}

func newNode(raw string) (node, error) {
	pool, err := redimutex.NewPool(raw)
	if err != nil {
		return node{}, err
	}
	u, err := neturl.Parse(raw)
	if err != nil { // NewPool has parsed it before
		return node{}, errors.New("the Redis URL is not valid")
	}
	if u.Scheme == "unix" {
		return node{u.Path, pool, true}, nil
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	private := u.Scheme == "rediss" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	return node{net.JoinHostPort(u.Hostname(), port), pool, private}, nil
}

// withoutPassword returns a list of URLs as the command may see it: without users and passwords. A
// redimutex inside the command then finds the same servers, and if they want a password it fails
// loudly; without the list it would lock on another server, in silence.
func withoutPassword(list string) string {
	var clean []string
	for _, raw := range split(list) {
		if strings.HasPrefix(raw, "@") {
			clean = append(clean, raw)
			continue
		}
		if _, err := newNode(raw); err != nil {
			return ""
		}
		u, err := neturl.Parse(raw)
		if err != nil {
			return ""
		}
		u.User = nil
		clean = append(clean, u.String())
	}
	return strings.Join(clean, ",")
}
