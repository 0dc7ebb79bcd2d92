// Package backend gives the examples their Redis: the one at REDIS_URL, or an embedded one.
package backend

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// Main is the main function of an example. It calls run with the URL of a server, for at most a minute, until SIGINT or
// SIGTERM. The exit status is 1 if run returns an error.
func Main(name string, run func(ctx context.Context, out io.Writer, url string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := withServer(ctx, run); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// withServer calls run with the server at REDIS_URL, or with an embedded one on a loopback port.
func withServer(ctx context.Context, run func(ctx context.Context, out io.Writer, url string) error) error {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true) // otherwise nothing expires
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			return err
		}
		defer m.Close()
		url = "redis://" + m.Addr()
	}
	return run(ctx, os.Stdout, url)
}

// WithPool turns a function that wants a pool into one that wants a URL.
func WithPool(run func(ctx context.Context, out io.Writer, pool *redis.Pool) error) func(context.Context, io.Writer, string) error {
	return func(ctx context.Context, out io.Writer, url string) error {
		pool, err := redimutex.NewPool(url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return run(ctx, out, pool)
	}
}
