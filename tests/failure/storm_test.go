package failure_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

var (
	queue  = redimutex.WithQueue()
	reuse  = redimutex.WithLeaseReuse(5 * time.Millisecond)
	fenced = redimutex.WithFencing()
	ttl    = redimutex.WithTTL(10 * time.Minute)
	node   = redimutex.WithNodeTimeout(100 * time.Millisecond)
)

// vandal calls f at random intervals, with a mean of every, until stop is called. So it is never in step with pollers.
func vandal(every time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var w sync.WaitGroup
	w.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(rand.N(2 * every)):
				f()
			}
		}
	})
	return func() { close(done); w.Wait() }
}

func TestMixedCallsOfSeveralClientsExcludeEachOtherAndLeaveNothing(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "can't be paused")
	type row struct {
		name string
		opts [][]redimutex.Option
		do   func(s *redistest.Server) (time.Duration, func())
		pool func(s *redistest.Server) redimutex.Pool
	}
	plain := func(s *redistest.Server) redimutex.Pool { return s.Pool() }
	punctual := func(s *redistest.Server) redimutex.Pool { return redimutex.NewPoolAt("tcp", s.Addr()) }
	one := func(s *redistest.Server) redimutex.Pool { p := s.Pool(); p.MaxActive = 1; p.Wait = true; return p }
	mixed := [][]redimutex.Option{{queue, fenced, reuse}, {queue, fenced}, {fenced}, {fenced, reuse}}
	all := [][]redimutex.Option{{queue, fenced, reuse}}
	cmd := func(name string, args ...any) func(s *redistest.Server) (time.Duration, func()) {
		return func(s *redistest.Server) (time.Duration, func()) {
			c, _ := redis.Dial("tcp", s.Addr())
			t.Cleanup(func() { c.Close() })
			return 60 * time.Millisecond, func() { c.Do(name, args...) }
		}
	}
	pause := func(s *redistest.Server) (time.Duration, func()) {
		return 60 * time.Millisecond, func() {
			s.Pause()
			time.Sleep(rand.N(250 * time.Millisecond))
			s.Resume()
		}
	}
	for _, r := range []row{
		{"queue", [][]redimutex.Option{{queue}}, nil, punctual},
		{"all", all, nil, punctual},
		{"all plain pool", all, nil, plain},
		{"all one conn", all, nil, one},
		{"all multiplexed", all, nil, punctual},
		{"mixed", mixed, nil, punctual},
		{
			"mixed minhold",
			[][]redimutex.Option{{queue, fenced, reuse}, {queue, fenced, redimutex.WithMinHold(3 * time.Millisecond)}},
			nil, punctual,
		},
		{"kill pubsub", all, cmd("CLIENT", "KILL", "TYPE", "pubsub"), punctual},
		{"kill normal", mixed, cmd("CLIENT", "KILL", "TYPE", "normal"), punctual},
		{"kill normal, multiplexed", mixed, cmd("CLIENT", "KILL", "TYPE", "normal"), punctual},
		{"script flush", mixed, cmd("SCRIPT", "FLUSH"), punctual},
		{"pause", mixed, pause, punctual},
		{"pause, multiplexed", mixed, pause, punctual},
		{"reuse", [][]redimutex.Option{{reuse, fenced}}, nil, punctual},
		{"none", [][]redimutex.Option{{}}, nil, plain},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			opts := []redimutex.Option{ttl, node}
			if strings.HasSuffix(r.name, "multiplexed") {
				opts = append(opts, redimutex.WithMultiplexing(2))
			}
			cs := clients(t, 3, func() []redimutex.Pool { return []redimutex.Pool{r.pool(s)} }, opts...)
			stop := func() {}
			if r.do != nil {
				every, f := r.do(s)
				stop = sync.OnceFunc(vandal(every, f))
				defer stop()
			}
			b := newBook(t)
			(&load{
				clients: cs, key: "k", opts: r.opts, each: 8, last: 600 * time.Millisecond,
				cancel: 20 * time.Millisecond, extend: true, hold: time.Millisecond,
			}).run(t, b)
			stop() // otherwise it would kill the connection of the checks below
			nothingLeft(t, s)
			for _, c := range cs {
				redistest.Wait(t, "locks gone", func() bool { return len(c.Locks()) == 0 })
			}
		})
	}
}

func TestCloseInTheMiddleOfEverythingLeavesNothing(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "may execute what a cut connection has sent behind a later release")
	s := redistest.Start(t)
	// After Close there is no second try, so a late machine must not make a try fail.
	patient := redimutex.WithNodeTimeout(30 * time.Second)
	stay := redimutex.NewClient([]redimutex.Pool{redimutex.NewPoolAt("tcp", s.Addr())}, ttl, patient, queue, fenced)
	defer stay.Close()
	b := newBook(t)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		cs := clients(t, 2, func() []redimutex.Pool { return []redimutex.Pool{redimutex.NewPoolAt("tcp", s.Addr())} }, ttl, patient)
		var w sync.WaitGroup
		for _, c := range cs {
			w.Go(func() { time.Sleep(rand.N(30 * time.Millisecond)); c.Close() })
		}
		(&load{
			clients: append(cs, stay), key: "k", opts: [][]redimutex.Option{{queue, fenced, reuse}, {queue, fenced}}, each: 4,
			last: 30 * time.Millisecond, cancel: 20 * time.Millisecond, hold: time.Millisecond,
		}).run(t, b)
		w.Wait()
		began := time.Now()
		m := stay.Mutex("k")
		m.Lock()
		m.Unlock()
		if d := time.Since(began); d > 50*time.Millisecond {
			t.Logf("after Close the lock took %v", d)
		}
		nothingLeft(t, s)
	}
}
