package election

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redimutex/redimutex"
	lead "github.com/redimutex/redimutex/election"
)

// argument makes a program that calls Main a process of candidates. The job follows it.
const argument = "election-candidates"

// A job is what a process of candidates does.
type job struct {
	Name  string
	Addrs []string // of the servers, as this process reaches them
}

// A message is what a candidate says. Times are in ns on the monotonic clock that all processes share.
type message struct {
	Who   string
	Term  int64
	Begun bool  // f has begun
	Valid int64 // the candidate did lead at this time
}

const (
	key = "election"
	ttl = time.Second
	// A crowded machine is not a broken server.
	nodeTimeout = 300 * time.Millisecond

	pace = 3 * time.Millisecond // of a leader that looks whether it still leads
	seat = 3                    // candidates in a process
)

func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every kernel that Go runs on has that clock
	}
	return ts.Nano()
}

// Main is main of the processes of candidates: a program that uses this package calls it first of all. It
// returns only in the other processes.
func Main() {
	if len(os.Args) != 3 || os.Args[1] != argument {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(os.Args[2]), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex // of the output
	out := json.NewEncoder(os.Stdout)
	say := func(m message) {
		mu.Lock()
		defer mu.Unlock()
		if out.Encode(m) != nil {
			os.Exit(2) // no reader is left
		}
	}
	var all []*lead.Election
	failing := make(chan error)
	for n := range seat {
		name := j.Name + strconv.Itoa(n)
		e, err := candidate(j, name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		all = append(all, e)
		go func() {
			failing <- e.Run(context.Background(), func(ctx context.Context) error {
				govern(ctx, e, name, say)
				return nil
			})
		}()
	}
	go func() {
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); { // each is to resign
			for _, e := range all {
				e.Resign()
			}
		}
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, "a candidate gives up:", <-failing)
	os.Exit(1)
}

// candidate makes one, with connections of its own.
func candidate(j job, name string) (*lead.Election, error) {
	pools := make([]redimutex.Pool, len(j.Addrs))
	for i, addr := range j.Addrs {
		p, err := redimutex.NewPool("redis://" + addr)
		if err != nil {
			return nil, err
		}
		pools[i] = p
	}
	client := redimutex.NewClient(pools, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(nodeTimeout))
	return lead.New(client, key, name), nil
}

// govern says again and again that this candidate leads, as long as it does. A time is taken before the look: who
// leads at the look did so then.
func govern(ctx context.Context, e *lead.Election, name string, say func(message)) {
	m := message{Who: name, Term: lead.Term(ctx), Begun: true}
	for {
		m.Valid = now()
		valid := e.IsLeader()
		if valid || m.Begun {
			if !valid {
				m.Valid = 0 // it has lost its lease before it could begin
			}
			say(m)
		}
		if m.Begun = false; !valid {
			return
		}
		time.Sleep(pace)
	}
}
