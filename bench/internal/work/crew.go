package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redimutex/redimutex/internal/lab/crew"
)

// role is the role of the worker processes.
const role = "bench"

// A Crew is a group of worker processes, as seen by the program that started them. One goroutine at a time may use it.
type Crew struct{ hands []*crew.Hand[answer] }

// Start starts n worker processes of a program that calls Main.
func Start(program string, n int) (*Crew, error) {
	c := new(Crew)
	for range n {
		h, err := crew.HireFrom[answer](program, role)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.hands = append(c.hands, h)
	}
	return c, nil
}

// head is how long before the start of a job its workers are told to start.
const head = 30 * time.Millisecond

// patience is how much longer than planned a job may take on a slow machine.
const patience = 2 * time.Minute

// Do makes all workers run the job at the same time, and returns their results.
func (c *Crew) Do(ctx context.Context, j Job) ([]Result, error) {
	ctx, cancel := context.WithTimeout(ctx, j.Warm+j.Run+10*j.SetUp()+patience)
	defer cancel()
	for i, h := range c.hands {
		j.Worker = i
		if err := h.Tell(order{Job: &j}); err != nil {
			return nil, err
		}
	}
	results := make([]Result, len(c.hands))
	for _, h := range c.hands {
		a, err := h.Hear(ctx)
		if err != nil {
			return nil, err
		}
		if !a.Ready {
			return nil, errors.New(a.Result.Error)
		}
	}
	start := time.Now().Add(head).UnixNano()
	for _, h := range c.hands {
		if err := h.Tell(order{Start: start}); err != nil {
			return nil, err
		}
	}
	for i, h := range c.hands {
		a, err := h.Hear(ctx)
		if err != nil {
			return nil, err
		}
		if a.Result == nil || a.Result.Error != "" {
			return nil, fmt.Errorf("worker %d: %+v", i, a)
		}
		results[i] = *a.Result
	}
	return results, nil
}

// Close ends the processes.
func (c *Crew) Close() {
	for _, h := range c.hands {
		h.Dismiss()
	}
	for _, h := range c.hands {
		h.Close(time.Second)
	}
}
