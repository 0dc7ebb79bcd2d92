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

// The limit: the same two commands over the same pool, written by hand.
func bareLoop(b *testing.B, pool *redis.Pool) {
	const source = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	sum := sha1.Sum([]byte(source))
	hash := hex.EncodeToString(sum[:])
	c := pool.Get()
	c.Do("EVAL", source, 1, "bare", "t")
	c.Close()
	b.ReportAllocs()
	for b.Loop() {
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

func pairs(b *testing.B, pool server.Pool, plain bool) {
	s := server.New(pool)
	defer s.Close(time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := server.Lock{Key: "pair", Token: "t", Timeout: 500 * time.Millisecond}
	try := server.Try{Lock: l, TTL: 10 * time.Second, Plain: plain}
	end := server.Release{Lock: l}
	pair := func() {
		if r := s.Acquire(ctx, &try); r.Verdict != server.Done {
			b.Fatal(r)
		}
		if r := s.Release(ctx, &end); r.Verdict != server.Done {
			b.Fatal(r)
		}
	}
	pair()
	b.ReportAllocs()
	for b.Loop() {
		pair()
	}
}

// BenchmarkPair is a try and a release, as a Lock and an Unlock make them.
func BenchmarkPair(b *testing.B) {
	r := redistest.Real(b)
	d := punctual.NewDialer("tcp", r.Addr())
	ours := &redis.Pool{MaxIdle: 10, DialContext: d.DialContext}
	b.Cleanup(func() { ours.Close() })
	documented := &redis.Pool{
		MaxIdle: 3, IdleTimeout: 240 * time.Second,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", r.Addr()) },
	}
	b.Cleanup(func() { documented.Close() })
	b.Run("bare", func(b *testing.B) { bareLoop(b, documented) })
	b.Run("punctual/bare", func(b *testing.B) { bareLoop(b, ours) })
	b.Run("punctual/plain", func(b *testing.B) { pairs(b, ours, true) })
	b.Run("punctual/scripted", func(b *testing.B) { pairs(b, ours, false) })
	b.Run("worker/plain", func(b *testing.B) { pairs(b, documented, true) })
	b.Run("worker/scripted", func(b *testing.B) { pairs(b, documented, false) })
}
