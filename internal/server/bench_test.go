package server_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// bare is the limit: the same two commands over the same pool, written by hand.
func bare(b *testing.B, pool *redis.Pool) func() {
	const source = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	sum := sha1.Sum([]byte(source))
	hash := hex.EncodeToString(sum[:])
	c := pool.Get()
	c.Do("EVAL", source, 1, "bare", "t")
	c.Close()
	return func() {
		c := pool.Get()
		if ok, err := redis.String(c.Do("SET", "bare", "t", "NX", "PX", 10000)); ok != "OK" {
			b.Fatal(err)
		}
		c.Close()
		c = pool.Get()
		if n, err := redis.Int(c.Do("EVALSHA", hash, 1, "bare", "t")); n != 1 {
			b.Fatal(err)
		}
		c.Close()
	}
}

// pair is a try and a release, as a Lock and an Unlock make them.
func pair(b *testing.B, pool server.Pool, plain bool) func() {
	s := server.New(pool)
	b.Cleanup(func() { s.Close(time.Second) })
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	l := request("pair").lock()
	return func() {
		var c server.Claim
		s.Claim(&c, l)
		if r := c.Try(ctx, server.Try{Plain: plain}); r.Verdict != server.Done {
			b.Fatal(r)
		}
		if r := c.Release(ctx, time.Now(), time.Time{}); r.Verdict != server.Done {
			b.Fatal(r)
		}
	}
}

// BenchmarkPair takes turns with the bare loop, so that both meet the same machine, and reports the share of its rate.
func BenchmarkPair(b *testing.B) {
	r := redistest.Real(b)
	ours := &redis.Pool{MaxIdle: 10, DialContext: punctual.NewDialer("tcp", r.Addr()).DialContext}
	b.Cleanup(func() { ours.Close() })
	documented := &redis.Pool{ // as redigo's documentation makes one
		MaxIdle: 3, IdleTimeout: 240 * time.Second,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", r.Addr()) },
	}
	b.Cleanup(func() { documented.Close() })
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"punctual/bare", bare(b, ours)},
		{"punctual/plain", pair(b, ours, true)},
		{"punctual/scripted", pair(b, ours, false)},
		{"worker/plain", pair(b, documented, true)},
		{"worker/scripted", pair(b, documented, false)},
	} {
		b.Run(c.name, func(b *testing.B) {
			limit := bare(b, documented)
			c.run()
			b.ReportAllocs()
			var own, others time.Duration
			for b.Loop() {
				began := time.Now()
				for range 10 {
					c.run()
				}
				half := time.Now()
				for range 10 {
					limit()
				}
				own += half.Sub(began)
				others += time.Since(half)
			}
			b.ReportMetric(float64(others)/float64(own), "of-bare")
			b.ReportMetric(float64(own.Nanoseconds())/float64(10*b.N), "ns/pair")
		})
	}
}
