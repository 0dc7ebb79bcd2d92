// Package servers finds the servers of a verb, connects to them, and explains in words why they fail. It reveals no password.
package servers

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

// A Node is one server: its pool, and its address and name as they may be shown.
type Node struct {
	Address string
	Name    string // with the database
	Pool    *redis.Pool
	Server  *server.Server // reads locks over the pool
	Private bool           // no third party can listen on the way: TLS, or a connection within this machine
	TLS     bool
	child   string // how a command that redimutex runs finds the server, without a password
}

// A Set is one server, or several independent ones for Redlock.
type Set []Node

// NodeTimeout returns the library's node timeout for a TTL.
func NodeTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 50*time.Millisecond), ttl/2, server.MaxTimeout)
}

// Verbs that have no TTL of their own use the defaults of the library.
const (
	DialTimeout  = 5 * time.Second        // for the first connection to a server
	QuickTimeout = 500 * time.Millisecond // the node timeout for the default TTL; none is shorter: a busy machine is not broken
	LookTimeout  = time.Second            // for a look at a lock, as run allows a server that it has just reached
)

// Find returns the servers of -redis, or else of the environment, or else the one on this machine. node is the node timeout;
// TLS and AUTH may each take that long.
func Find(given URLs, node time.Duration) (Set, error) {
	source, words := "-redis", given
	if len(given) == 0 {
		source, words = environment()
	}
	nodes, err := named(words, source != "-redis", max(node, QuickTimeout))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return nodes, nil
}

// named returns the servers that the words name. list says that the words were a list, which commas and spaces divide.
func named(words []string, list bool, patience time.Duration) (nodes Set, err error) {
	for _, word := range words {
		urls, file, err := expand(word)
		if err != nil {
			return nil, err
		}
		divided := (list || strings.HasPrefix(word, "@")) && len(words)+len(urls) > 2
		for _, raw := range urls {
			n, err := newNode(raw, patience)
			switch {
			case err != nil && divided:
				return nil, fmt.Errorf("%w; commas and spaces end a URL, so a password has %%2C and %%20 for them", err)
			case err != nil:
				return nil, err
			case slices.ContainsFunc(nodes, func(other Node) bool { return other.Address == n.Address }):
				return nil, fmt.Errorf("%s is named twice; Redlock needs independent servers", n.Address)
			}
			n.child = cmp.Or(file, n.child)
			nodes = append(nodes, n)
		}
	}
	switch {
	case len(nodes) == 0: // see environment
		return nil, errors.New("it is set, and has no URL in it; set one, or unset it")
	case len(nodes) > maxServers:
		return nil, fmt.Errorf("%d servers are named, and a lock takes %d at most; name three or five", len(nodes), maxServers)
	}
	return nodes, nil
}

// maxServers is how many servers redimutex.NewClient accepts.
const maxServers = 64

// Use finds the servers, calls f with them, and closes the connections. It returns what f returns.
func (u *URLs) Use(node time.Duration, f func(Set) (int, error)) (int, error) {
	nodes, err := Find(*u, node)
	if err != nil {
		return 0, err
	}
	defer nodes.Close()
	return f(nodes)
}

// Child returns the list of URLs for a command that redimutex runs, so that a redimutex inside it finds the same servers. A
// password is passed on only as the name of the file that contains it. Without the password, such a server refuses the command
// with an error. With no list at all, the command would silently lock on another server.
func (s Set) Child() string {
	var list []string
	for i, n := range s {
		if i == 0 || n.child != s[i-1].child {
			list = append(list, n.child)
		}
	}
	return strings.Join(list, ",")
}

func newNode(raw string, patience time.Duration) (Node, error) {
	pool, err := redimutex.NewPool(raw, redis.DialTLSHandshakeTimeout(patience),
		redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		return Node{}, errors.New(strings.TrimPrefix(err.Error(), "redimutex: "))
	}
	u, err := neturl.Parse(raw)
	if err != nil { // NewPool has parsed it before
		return Node{}, errors.New("the Redis URL is not valid")
	}
	n := Node{Pool: pool, Server: server.New(pool), TLS: u.Scheme == "rediss"}
	u.User = nil
	n.child = strings.ReplaceAll(u.String(), ",", "%2C") // a comma would end it in the list
	if u.Scheme == "unix" {
		n.Address, n.Name, n.Private = u.Path, u.Path, true
		if db := u.Query().Get("db"); db != "" {
			n.Name += "?db=" + db
		}
		return n, nil
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	n.Address = net.JoinHostPort(u.Hostname(), port)
	n.Name = n.Address + "/" + cmp.Or(strings.Trim(u.Path, "/"), "0")
	n.Private = n.TLS || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	return n, nil
}

// Pools returns the pools of the servers.
func (s Set) Pools() []redimutex.Pool {
	pools := make([]redimutex.Pool, len(s))
	for i, n := range s {
		pools[i] = n.Pool
	}
	return pools
}

// Close closes the connections that are idle.
func (s Set) Close() {
	for _, n := range s {
		n.Pool.Close() //nolint:errcheck // it always returns nil
	}
}

// Names returns the names of all servers, with their databases.
func (s Set) Names() string {
	all := make([]string, len(s))
	for i, n := range s {
		all[i] = n.Name
	}
	return strings.Join(all, ", ")
}
