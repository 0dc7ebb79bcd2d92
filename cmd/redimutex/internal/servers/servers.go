// Package servers finds the servers of a verb, connects to them, and explains in words why they fail. It reveals no password.
package servers

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/internal/server"
)

// URLs is the flag -redis, which may be repeated. It accepts any text: package flag would repeat a text that it refuses in its
// error, with the password.
type URLs []string

// Value returns the value of the flag.
func (u *URLs) Value() cli.Value {
	return cli.Value{Set: func(s string) error { *u = append(*u, s); return nil }, Complete: files}
}

// files completes @FILE.
func files(word string) (paths []string) {
	name, ok := strings.CutPrefix(word, "@")
	if !ok {
		return nil
	}
	folder, start := filepath.Split(name)
	entries, _ := os.ReadDir(cmp.Or(folder, "."))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), start) || start == "" && strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := "@" + folder + e.Name()
		if e.IsDir() {
			path += "/"
		}
		paths = append(paths, path)
	}
	return paths
}

// Flag declares -redis. text is the verb's own addition to its help.
func Flag(u *URLs, text string) *cli.Flag {
	return &cli.Flag{Names: []string{"redis"}, Arg: "URL", Value: u.Value(), Text: `The server; repeat it for Redlock. ` + text + `
		-redis @FILE reads the URLs from a file. Default: $REDIMUTEX_URL (several with commas or spaces, or
		@FILE), else $REDIS_URL, else redis://127.0.0.1:6379`}
}

// The environment variables that name the servers.
const (
	EnvURL     = "REDIMUTEX_URL"
	EnvAppURL  = "REDIS_URL"
	defaultURL = "redis://127.0.0.1:6379"
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
	source := "-redis"
	if len(given) == 0 {
		for _, source = range []string{EnvURL, EnvAppURL} {
			list := os.Getenv(source)
			if given = split(list); len(given) > 0 {
				break
			}
			if list != "" { // do not go on to the next: a lock on another server keeps no process out
				return nil, fmt.Errorf("%s: it is set, and has no URL in it; set one, or unset it", source)
			}
		}
	}
	if len(given) == 0 {
		given = URLs{defaultURL}
	}
	var nodes Set
	for _, word := range given {
		urls, file, err := expand(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		inAList := source != "-redis" || strings.HasPrefix(word, "@")
		for _, raw := range urls {
			n, err := newNode(raw, max(node, QuickTimeout))
			if err != nil {
				words := strings.TrimPrefix(err.Error(), "redimutex: ")
				if inAList && len(given)+len(urls) > 2 {
					words += "; commas and spaces end a URL, so a password has %2C and %20 for them"
				}
				return nil, fmt.Errorf("%s: %s", source, words)
			}
			if slices.ContainsFunc(nodes, func(other Node) bool { return other.Address == n.Address }) {
				return nil, fmt.Errorf("%s: %s is named twice; Redlock needs independent servers", source, n.Address)
			}
			n.child = cmp.Or(file, n.child)
			nodes = append(nodes, n)
		}
	}
	if len(nodes) > maxServers {
		return nil, fmt.Errorf("%s: %d servers are named, and a lock takes %d at most; name three or five", source, len(nodes), maxServers)
	}
	return nodes, nil
}

// expand returns the URLs that a word stands for: itself, or those in the file behind an @. file is how a command that
// redimutex runs finds them; "": by the URLs.
func expand(word string) (urls []string, file string, err error) {
	name, ok := strings.CutPrefix(word, "@")
	switch {
	case !ok:
		return []string{word}, "", nil
	case name == "":
		return nil, "", errors.New("@ stands before the name of a file, and there is none; write @FILE")
	case strings.Contains(name, "://"):
		return nil, "", errors.New("@ stands before the name of a file; write a URL without it")
	}
	urls, err = readURLs(name)
	if err != nil && strings.Contains(name, "@") { // it may be part of a URL, with the password
		err = errors.New("@ stands before the name of a file, and there is none of that name; " +
			"write a URL without it, and a comma or space in a password as %2C and %20")
	}
	return urls, reference(name), err
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

// streams matches names of files that this process has open: they mean other files in another process.
var streams = regexp.MustCompile(`^/(dev/(stdin|fd/)|proc/)`)

// reference returns a name of the file that is valid in a list and from any folder. It returns "" if the name would break the
// list, or if the file can be read only once, as a pipe.
func reference(name string) string {
	path, err := filepath.Abs(name)
	if err != nil || len(split(path)) != 1 || split(path)[0] != path || streams.MatchString(path) {
		return ""
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return "@" + path
}

// split splits a list of URLs. A comma or space in a password is percent-encoded.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// readURLs returns the URLs in a file, without lines that begin with #.
func readURLs(name string) ([]string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) { // an editor may have put a BOM in front
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			list = append(list, split(line)...)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no URL in the file %s", name)
	}
	return list, nil
}

func newNode(raw string, patience time.Duration) (Node, error) {
	pool, err := redimutex.NewPool(raw, redis.DialTLSHandshakeTimeout(patience),
		redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		return Node{}, err
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
