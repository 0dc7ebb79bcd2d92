package redimutexgocron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	redimutexgocron "github.com/redimutex/redimutex/schedulers/gocron"
)

// embedded returns a Client of an empty embedded server, so that the examples run without Redis.
func embedded() (client *redimutex.Client, end func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	m.ClockTTL(true)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", m.Addr()) }}
	client = redimutex.NewClient([]redimutex.Pool{pool})
	return client, func() {
		client.Close()
		pool.Close()
		m.Close()
	}
}

// Two machines have the same job, and one of them runs it.
func ExampleNewLocker() {
	client, end := embedded() // or redimutex.NewClient([]redimutex.Pool{pool})
	defer end()

	ran := make(chan string, 2)
	at := gocron.OneTimeJobStartDateTime(time.Now().Add(time.Second))
	for _, machine := range []string{"one", "two"} {
		locker := redimutexgocron.NewLocker(client, "billing:", 30*time.Second)
		s, _ := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		defer s.Shutdown()
		_, _ = s.NewJob(gocron.OneTimeJob(at), gocron.NewTask(func() { ran <- machine }),
			gocron.WithName("invoices"))
		s.Start()
	}
	<-ran
	select {
	case machine := <-ran:
		fmt.Println("also on", machine)
	case <-time.After(300 * time.Millisecond):
		fmt.Println("once")
	}
	// Output: once
}

func ExampleNewElector() {
	client, end := embedded()
	defer end()

	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error)
	e := election.New(client, "billing", "machine-1")
	go func() {
		over <- e.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()

	s, _ := gocron.NewScheduler(gocron.WithDistributedElector(redimutexgocron.NewElector(e)))
	defer s.Shutdown()
	ran := make(chan bool)
	_, _ = s.NewJob(gocron.DurationJob(20*time.Millisecond), gocron.NewTask(func() {
		select {
		case ran <- e.IsLeader():
		case <-ctx.Done():
		}
	}))
	s.Start()
	fmt.Println("the leader runs it:", <-ran)
	cancel()
	fmt.Println(<-over)
	// Output:
	// the leader runs it: true
	// context canceled
}
