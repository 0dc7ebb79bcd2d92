package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// A demoServer is where the lock of the demo is: an embedded server, or those that were asked for.
type demoServer struct {
	urls     servers.URLs // may contain passwords
	name     string
	key      string
	nodes    servers.Set
	embedded *miniredis.Miniredis
}

// A serverError says that the server can't be used.
type serverError struct{ words string }

func (e *serverError) Error() string { return e.words }

// openDemoServer finds the servers, or opens an embedded one if none are given.
func openDemoServer(given servers.URLs) (*demoServer, error) {
	s := &demoServer{urls: given, key: "demo:" + strings.ToLower(rand.Text()[:8])}
	if len(given) == 0 {
		if strconv.IntSize == 32 {
			return nil, errors.New("on a system of 32 bits the demo needs a real server, because the embedded one cuts times to 32 bits: give -redis URL")
		}
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // else nothing expires
		if err := s.embedded.StartAddr("127.0.0.1:0"); err != nil {
			return nil, err
		}
		s.urls = servers.URLs{"redis://" + s.embedded.Addr()}
	}
	nodes, err := servers.Find(s.urls, demoTTL/4)
	s.nodes, s.name = nodes, nodes.Names()
	if s.embedded != nil {
		s.name = "a server inside the demo"
	}
	return s, err
}

// probe locks and unlocks once, so that a server that is away, refuses us or is read-only says so
// before the demo begins.
func (s *demoServer) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	c := demoClient(s.nodes, "demo")
	defer c.Close()
	m := c.Mutex(s.key)
	err := s.nodes.Connect(ctx)
	if err == nil {
		err = m.LockContext(ctx, 0)
	}
	if err == nil {
		err = m.UnlockContext(ctx)
	}
	if err != nil {
		return &serverError{s.nodes.Explain(err)}
	}
	return nil
}

// close deletes the key, which a killed holder may have left behind, and ends the embedded server.
func (s *demoServer) close() {
	if s.embedded == nil {
		for _, n := range s.nodes {
			s.remove(n)
		}
	}
	s.nodes.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// remove deletes the key, if the server answers; else it expires.
func (s *demoServer) remove(n servers.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), serverLimit/4)
	defer cancel()
	c, err := n.Get(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	redis.DoContext(c, ctx, "DEL", s.key) //nolint:errcheck // it expires
}

// demoClient returns a Client with the options of the demo. Waiters poll, so that every server will
// do; they do so often, because the demo is about turns of a few milliseconds.
func demoClient(nodes servers.Set, owner string) *redimutex.Client {
	return redimutex.NewClient(nodes.Pools(),
		redimutex.WithTTL(demoTTL),
		redimutex.WithPollInterval(10*time.Millisecond),
		redimutex.WithNodeTimeout(demoTTL/4), // a busy machine is not a broken server
		redimutex.WithOwner(owner),
		redimutex.WithLogger(slog.New(slog.DiscardHandler)), // it would write into the picture
	)
}
