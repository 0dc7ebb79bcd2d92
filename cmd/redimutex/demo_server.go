package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// A demoServer is where the lock of the demo is: an embedded server, or the one that was asked for.
type demoServer struct {
	urls     []string // may contain passwords
	name     string   // for people
	key      string
	pools    []*redis.Pool
	embedded *miniredis.Miniredis
}

// A serverError says that the server can't be used.
type serverError struct{ err error }

func (e *serverError) Error() string { return e.err.Error() }

// openDemoServer opens the servers at urls, an embedded one without any, and makes sure that a lock
// can be had there.
func openDemoServer(ctx context.Context, urls []string) (*demoServer, error) {
	s := &demoServer{urls: urls, key: "redimutex:demo:" + strings.ToLower(rand.Text()[:8])}
	if len(urls) == 0 {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // else nothing expires
		if err := s.embedded.StartAddr("127.0.0.1:0"); err != nil {
			return nil, err
		}
		s.urls = []string{"redis://" + s.embedded.Addr()}
		s.name = "an embedded server"
	}
	for _, url := range s.urls {
		p, err := redimutex.NewPool(url)
		if err != nil {
			s.close()
			return nil, &serverError{err}
		}
		s.pools = append(s.pools, p)
	}
	switch {
	case s.embedded != nil:
	case len(urls) > 1:
		s.name = count(len(urls), "server")
	default:
		s.name = "the given server"
	}
	if err := s.probe(ctx); err != nil {
		s.close()
		return nil, &serverError{err}
	}
	return s, nil
}

// probe locks and unlocks once, so that a server that is away, refuses us or is read-only says so
// before the demo begins.
func (s *demoServer) probe(ctx context.Context) error {
	c := demoClient(s.pools, "demo")
	defer c.Close()
	m := c.Mutex(s.key)
	if err := m.LockContext(ctx, serverLimit); err != nil {
		return err
	}
	return m.UnlockContext(ctx)
}

// close deletes the key, which a killed holder may have left behind, and ends the embedded server.
func (s *demoServer) close() {
	for _, p := range s.pools {
		if s.embedded == nil {
			s.remove(p)
		}
		p.Close()
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// remove deletes the key, if the server answers; else it expires.
func (s *demoServer) remove(p *redis.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), serverLimit/4)
	defer cancel()
	c, err := p.GetContext(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	redis.DoContext(c, ctx, "DEL", s.key) //nolint:errcheck // it expires
}

// demoClient returns a Client with the options of the demo. Waiters poll, so that every server will
// do; they do so often, because the demo is about turns of a few milliseconds.
func demoClient(pools []*redis.Pool, owner string) *redimutex.Client {
	all := make([]redimutex.Pool, len(pools))
	for i, p := range pools {
		all[i] = p
	}
	return redimutex.NewClient(all,
		redimutex.WithTTL(demoTTL),
		redimutex.WithPollInterval(10*time.Millisecond),
		redimutex.WithNodeTimeout(demoTTL/4), // a busy machine is not a broken server
		redimutex.WithOwner(owner),
		redimutex.WithLogger(slog.New(slog.DiscardHandler)), // it would write into the picture
	)
}

// failed reports whether err says that the servers failed us, and not that time ran out.
func failed(err error) bool {
	var node redimutex.NodeError
	return errors.As(err, &node)
}
