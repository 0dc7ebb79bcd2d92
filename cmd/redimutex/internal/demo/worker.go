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

// workerVerb makes a process a worker. The worker gets everything else on its standard input, because URLs may contain
// passwords, which a command line would show to every user.
const workerVerb = "demo-worker"

// Worker declares the verb of that process.
func Worker() *cli.Command {
	return &cli.Command{Name: workerVerb, Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
		return work(t.In, t.Out), nil
	}}
}

// A job is what a worker must know. The worker ends when all is done, or when its standard input ends.
type job struct {
	Worker int // from 0
	Victim int // the worker whose holder stops halfway through an update, until it is killed; -1: none
	URLs   servers.URLs
	Key    string
	File   string
	Lock   bool
}

// An event is what a worker reports to the demo. Times are in ns of the machine's clock, which all processes share.
type event struct {
	Kind      string
	Goroutine int    `json:",omitempty"`
	At        int64  `json:",omitempty"`
	Text      string `json:",omitempty"`
}

const (
	eventEnter   = "enter"   // in the critical section
	eventLinger  = "linger"  // the same, and stays there until it is killed
	eventDone    = "done"    // the update was written: it counts as acknowledged
	eventGivenUp = "givenup" // left the critical section without writing
	eventError   = "error"   // an update could not begin
)

// The times of a goroutine's work.
const (
	lockLimit = lockTTL * 3           // for getting the lock on a busy machine; a killed holder takes less
	thinkMin  = 20 * time.Millisecond // between reading and writing
	thinkMax  = 30 * time.Millisecond
	restMax   = 500 * time.Millisecond // between two updates
)

// A worker is what the goroutines of a worker process share.
type worker struct {
	mutex   *redimutex.Mutex // nil: it works without a lock
	counter *counter
	victim  bool

	mu   sync.Mutex // of all below
	out  *json.Encoder
	done int // updates
}

// work does the job of a worker process, and returns its exit status.
func work(in io.Reader, out io.Writer) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT) // Ctrl-C and Ctrl-\ reach all processes; the demo decides
	w := &worker{out: json.NewEncoder(out)}
	var j job
	orders := json.NewDecoder(in)
	if orders.Decode(&j) != nil {
		return cli.OK // the demo has ended
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		orders.Decode(new(job)) //nolint:errcheck // there are no orders: this waits for the end of the input
		cancel()
	}()
	if err := w.take(&j); err != nil {
		w.tell(event{Kind: eventError, Text: err.Error()})
		return cli.Failure
	}
	var team sync.WaitGroup
	for g := range goroutineCount {
		team.Go(func() {
			for range updateCount {
				cli.Rest(ctx, rand.N(restMax))
				if err := w.update(ctx, g); err != nil && ctx.Err() == nil {
					w.tell(event{Kind: eventError, Text: err.Error()})
				}
			}
		})
	}
	team.Wait()
	return cli.OK
}

// take sets the worker up for its job.
func (w *worker) take(j *job) (err error) {
	if w.counter, err = openCounter(j.File); err != nil || !j.Lock {
		return err
	}
	nodes, err := servers.Find(j.URLs, lockTTL/4)
	if err != nil {
		return err
	}
	w.victim = j.Worker == j.Victim
	w.mutex = newClient(nodes, fmt.Sprintf("demo worker %d, process %d", j.Worker+1, os.Getpid())).Mutex(j.Key)
	return nil
}

// update raises the counter by one, under the lock or without.
func (w *worker) update(ctx context.Context, goroutine int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.mutex == nil {
		return w.raise(ctx, goroutine, func() (time.Time, bool) { return time.Now(), true })
	}
	if err := w.mutex.LockContext(ctx, lockLimit); err != nil {
		return err
	}
	// A lock that can't be released expires.
	defer w.mutex.UnlockContext(ctx) //nolint:errcheck // see above
	held := w.mutex.Lease()
	// A process that was paused for longer than its lease notices that before the write, and does not write.
	return w.raise(held.Context(ctx), goroutine, func() (time.Time, bool) { return held.Until(), held.Err() == nil })
}

// raise is the critical section: it reads, waits, and writes if the lease still allows it.
func (w *worker) raise(ctx context.Context, goroutine int, may func() (until time.Time, ok bool)) error {
	kind := eventEnter
	lingers := w.lingers()
	if lingers {
		kind = eventLinger
	}
	w.tell(event{Kind: kind, Goroutine: goroutine, At: time.Now().UnixNano()})
	n, err := w.counter.read()
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
		if err := w.counter.write(n + 1); err != nil {
			return err
		}
		e.Kind, until = eventDone, time.Now()
	}
	e.At = min(until.UnixNano(), time.Now().UnixNano()) // if it gave up, it was inside no longer than its lease
	w.tell(e)
	return nil
}

// lingers reports whether the caller must stop halfway, so that it can be killed there. The demo can't kill a holder at a
// random moment: the holder might leave before the signal arrives, or might have written and not reported it.
func (w *worker) lingers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.victim && w.done >= goroutineCount
}

func (w *worker) tell(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == eventDone {
		w.done++
	}
	w.out.Encode(e) //nolint:errcheck // no reader is left: the end of the input shows that as well
}
