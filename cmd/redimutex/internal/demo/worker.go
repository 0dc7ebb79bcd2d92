package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// workerVerb makes a process a worker. It is told everything else on its standard
// input: URLs may contain passwords, which a command line would show to everybody.
const workerVerb = "demo-worker"

// Worker declares the verb of that process.
func Worker() *cli.Command {
	return &cli.Command{Name: workerVerb, Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
		if err := cli.NoWords(in); err != nil {
			return 0, err
		}
		return demoWorker(t.In, t.Out), nil
	}}
}

// A demoJob is what a worker has to know. It works until all is done, or its standard input ends.
type demoJob struct {
	Worker int // from 0
	Victim int // the worker whose holder stops halfway through an update, until it is killed; -1: none
	URLs   servers.URLs
	Key    string
	File   string
	Lock   bool
}

// An event is what a worker tells the demo. Times are of the machine's clock, which all processes
// share, in ns.
type event struct {
	Kind      string
	Goroutine int    `json:",omitempty"`
	At        int64  `json:",omitempty"`
	Text      string `json:",omitempty"`
}

const (
	eventEnter   = "enter"   // in the critical section
	eventLinger  = "linger"  // the same, and stays until it is killed
	eventDone    = "done"    // the update was written: from now on it is acknowledged
	eventGivenUp = "givenup" // out of the critical section without having written
	eventError   = "error"   // an update was not even begun
)

// What a goroutine does with its time.
const (
	lockLimit = demoTTL * 3 / 2       // for getting the lock; a killed holder takes less
	thinkMin  = 20 * time.Millisecond // between reading and writing
	thinkMax  = 30 * time.Millisecond
	restMax   = 500 * time.Millisecond // between two updates
)

// A demoHand is the worker process: its goroutines, and the counter that they raise.
type demoHand struct {
	mutex   *redimutex.Mutex // nil: it works without a lock
	counter *counter
	victim  bool

	mu   sync.Mutex // of all below
	out  *json.Encoder
	done int // updates
}

// demoWorker is the main function of a worker.
func demoWorker(in io.Reader, out io.Writer) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT) // Ctrl-C and Ctrl-\ reach all processes, and the demo decides
	h := &demoHand{out: json.NewEncoder(out)}
	var j demoJob
	orders := json.NewDecoder(in)
	if orders.Decode(&j) != nil {
		return cli.OK // the demo has ended
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		orders.Decode(new(demoJob)) //nolint:errcheck // there is none, so this waits for the end
		cancel()
	}()
	if err := h.take(&j); err != nil {
		h.tell(event{Kind: eventError, Text: err.Error()})
		return cli.Failure
	}
	var team sync.WaitGroup
	for g := range demoGoroutines {
		team.Go(func() {
			for range demoUpdates {
				cli.Rest(ctx, rand.N(restMax))
				if err := h.update(ctx, g); err != nil && ctx.Err() == nil {
					h.tell(event{Kind: eventError, Text: err.Error()})
				}
			}
		})
	}
	team.Wait()
	return cli.OK
}

// take sets the worker up for its job.
func (h *demoHand) take(j *demoJob) (err error) {
	if h.counter, err = openCounter(j.File); err != nil || !j.Lock {
		return err
	}
	nodes, err := servers.Find(j.URLs, demoTTL/4)
	if err != nil {
		return err
	}
	h.victim = j.Worker == j.Victim
	h.mutex = demoClient(nodes, fmt.Sprintf("demo worker %d, process %d", j.Worker+1, os.Getpid())).Mutex(j.Key)
	return nil
}

// update raises the counter by one, under the lock or without.
func (h *demoHand) update(ctx context.Context, goroutine int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if h.mutex == nil {
		return h.raise(ctx, goroutine, func() (time.Time, bool) { return time.Now(), true })
	}
	if err := h.mutex.LockContext(ctx, lockLimit); err != nil {
		return err
	}
	// A lock that can't be given back expires.
	defer h.mutex.UnlockContext(ctx) //nolint:errcheck // see above
	held := h.mutex.Lease()
	// A process that was paused for longer than its lease finds out before it writes, and does not.
	return h.raise(held.Context(ctx), goroutine, func() (time.Time, bool) { return held.Until(), held.Err() == nil })
}

// raise is the critical section: it reads, thinks, and writes if it still may.
func (h *demoHand) raise(ctx context.Context, goroutine int, may func() (until time.Time, ok bool)) error {
	kind := eventEnter
	lingers := h.lingers()
	if lingers {
		kind = eventLinger
	}
	h.tell(event{Kind: kind, Goroutine: goroutine, At: time.Now().UnixNano()})
	n, err := h.counter.read()
	if err != nil {
		return err
	}
	if lingers {
		<-ctx.Done()
	} else {
		cli.Rest(context.WithoutCancel(ctx), thinkMin+rand.N(thinkMax-thinkMin))
	}
	e := event{Kind: eventGivenUp, Goroutine: goroutine}
	until, ok := may()
	if ok && !lingers {
		if err := h.counter.write(n + 1); err != nil {
			return err
		}
		e.Kind, until = eventDone, time.Now()
	}
	e.At = min(until.UnixNano(), time.Now().UnixNano()) // one that gives up was there no longer than its lease
	h.tell(e)
	return nil
}

// lingers reports whether the caller is to stop halfway. To kill the process that holds the lock at some moment would not
// do: it could be done with it before the signal arrives, or could have written without having reported it.
func (h *demoHand) lingers() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.victim && h.done >= demoGoroutines
}

func (h *demoHand) tell(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == eventDone {
		h.done++
	}
	h.out.Encode(e) //nolint:errcheck // no reader is left: the end of the input says so as well
}
