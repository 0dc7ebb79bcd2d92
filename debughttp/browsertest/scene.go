package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// A scene is a process with locks in all states, over its own embedded server.
type scene struct {
	client *redimutex.Client
	server *miniredis.Miniredis
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
}

func newScene() *scene {
	s := &scene{server: miniredis.NewMiniRedis()}
	s.server.ClockTTL(true)
	pool := &redis.Pool{MaxIdle: 100, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "embedded", redis.DialNetDial(func(string, string) (net.Conn, error) { return s.server.Dial() }))
	}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.client = redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithOwner("billing-7f9c"), redimutex.WithFencing())
	return s
}

func (s *scene) close() {
	s.stop()
	s.work.Wait()
	s.client.Close() //nolint:errcheck // it is always nil
	s.server.Close()
}

// hold takes a lock and keeps it.
func (s *scene) hold(key string, opts ...redimutex.Option) *redimutex.Mutex {
	m := s.client.Mutex(key, opts...)
	m.Lock()
	return m
}

// wait starts goroutines that wait for a lock until the end.
func (s *scene) wait(key string, goroutines int) {
	for range goroutines {
		s.work.Go(func() {
			m := s.client.Mutex(key)
			if m.LockContext(s.ctx, 0) == nil {
				m.Unlock()
			}
		})
	}
}

// foreign sets a lock that another process holds.
func (s *scene) foreign(key, owner string) error {
	if err := s.server.Set(key, "d9ad4a0c-2a5c-4d1c-a4b0-6ba4a8b0f2f1 "+owner); err != nil {
		return err
	}
	s.server.SetTTL(key, time.Hour)
	return nil
}

// play sets the whole scene: healthy leases, two that run out within seconds, waiters, a lease that is lost, and calls that
// gave up.
func (s *scene) play() error {
	s.hold("invoices:2026-11")
	s.hold("tenant/42/reports/nightly", redimutex.WithTTL(30*time.Second))
	s.hold("склад:резерв", redimutex.WithTTL(time.Minute))
	s.hold("</td><script>alert(1)</script>")
	s.hold("bytes\x00\xff\u202e", redimutex.WithTTL(20*time.Second))
	s.hold("import:customers", redimutex.WithoutRenewal(), redimutex.WithTTL(9*time.Second))
	s.hold("payments:settle", redimutex.WithoutRenewal(), redimutex.WithTTL(6*time.Second))
	s.wait("invoices:2026-11", 3)
	s.wait("payments:settle", 1)
	if err := s.foreign("stock:rebuild", "warehouse-1"); err != nil {
		return err
	}
	s.wait("stock:rebuild", 2)
	for i := range 3 {
		m := s.client.Mutex(fmt.Sprint("mail:", i))
		m.Lock()
		m.Unlock()
	}
	if err := s.client.Mutex("stock:rebuild").LockContext(s.ctx, 20*time.Millisecond); err == nil {
		return fmt.Errorf("a lock was taken that another holds")
	}
	gone := s.hold("cache:warm", redimutex.WithTTL(300*time.Millisecond))
	s.server.Del("cache:warm")
	<-gone.Lease().Done()
	return nil
}
