package election

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redimutex/redimutex"
	lead "github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/crew"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// role is the name of the processes of candidates.
const role = "election"

// A job is what a process of candidates does.
type job struct {
	Name  string
	Addrs []string // of the servers, as this process reaches them
}

// A message is what a candidate says. As an order to a process, it says that the candidates have to resign.
type message struct {
	Who   string
	Term  int64
	Begun bool             // the candidate has just begun to lead
	Valid evidence.Instant // the candidate did lead at this time
}

const (
	key = "election"
	ttl = time.Second
	// Long enough for a busy machine, which is no broken server.
	nodeTimeout = 300 * time.Millisecond

	pace = 3 * time.Millisecond // of a leader that looks whether it still leads
	seat = 3                    // candidates in a process
)

// Main is the main function of the processes of candidates. A program that uses this package must call it first. It returns
// only in other processes.
func Main() {
	crew.Main(role, func(p *crew.Post) error {
		var j job
		if !p.Hear(&j) {
			return errors.New("there is no job")
		}
		var all []*lead.Election
		failing := make(chan error, 1)
		for n := range seat {
			name := j.Name + strconv.Itoa(n)
			pools := make([]redimutex.Pool, len(j.Addrs))
			for i, addr := range j.Addrs {
				pools[i] = peers.Pool(peers.To(addr), 0)
			}
			e := lead.New(redimutex.NewClient(pools, redimutex.WithTTL(ttl), redimutex.WithNodeTimeout(nodeTimeout)), key, name)
			all = append(all, e)
			go func() {
				failing <- e.Run(context.Background(), func(ctx context.Context) error {
					govern(ctx, e, name, p)
					return nil
				})
			}()
		}
		go func() {
			var order message
			for p.Hear(&order) {
				for _, e := range all {
					e.Resign()
				}
			}
			failing <- nil
		}()
		return <-failing
	})
}

// govern reports again and again that this candidate leads, as long as it does. It takes the time before it looks: a candidate
// that leads at the look also led at that time.
func govern(ctx context.Context, e *lead.Election, name string, p *crew.Post) {
	m := message{Who: name, Term: lead.Term(ctx), Begun: true}
	for {
		m.Valid = evidence.Now()
		valid := e.IsLeader()
		if valid || m.Begun {
			if !valid {
				m.Valid = 0 // it has lost its lease before it could begin
			}
			p.Say(m)
		}
		m.Begun = false
		if !valid {
			return
		}
		time.Sleep(pace)
	}
}
