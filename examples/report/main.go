// Command report has many machines that read a report, and one that writes it. The report is 20 rows, written one after the
// other. A reader that comes meanwhile sees rows of two editions, unless it locks an RWMutex for reading: readers share it,
// and the writer has it alone. Each edition ends with a Downgrade: the writer reads back what it has written, together with
// the readers, before the next edition can begin.
//
// The lock keeps apart readers and writers that are running. A writer that crashes halfway leaves a torn report. A writer that
// was paused for longer than its lease may tear it when it wakes: see docs/fencing.md.
//
// The machines are goroutines with a Client each. Run it, without anything installed, by
//
//	go run ./report
//
// or with REDIS_URL set to use a Redis of yours. The exit status is 1 if a report was torn in spite of the lock.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/examples/internal/backend"
)

const (
	rows     = 20
	readers  = 8
	editions = 15
)

// key is different in each run, so that several runs can share a server.
var key = "example:report:" + rand.Text()

func main() { backend.Main("report", backend.WithPool(run)) }

// run makes the machines write and read the report without a lock, then with it.
func run(ctx context.Context, out io.Writer, pool *redis.Pool) error {
	fmt.Fprintf(out, "%d machines read a report of %d rows, while one writes %d editions of it.\n\n", readers, rows, editions)
	plain, err := publish(ctx, pool, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "without a lock:  %v\n", plain)
	locked, err := publish(ctx, pool, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "with an RWMutex: %v\n", locked)
	if locked.torn > 0 {
		return errors.New("a report was torn, although it was read under the lock")
	}
	return nil
}

// An outcome is what the readers have seen.
type outcome struct {
	reads, torn int64
	together    int64 // the most readers at a time
}

func (o outcome) String() string {
	return fmt.Sprintf("%4d reads, %4d of them torn, up to %d at a time", o.reads, o.torn, o.together)
}

// publish writes all editions, while other machines read.
func publish(ctx context.Context, pool *redis.Pool, lock bool) (o outcome, err error) {
	locks := make([]*redimutex.RWMutex, 1+readers) // one for each machine
	for i := range locks {
		c := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(10*time.Second), redimutex.WithPollInterval(5*time.Millisecond))
		defer c.Close()
		locks[i] = c.RWMutex(key)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var reads, torn, inside, together atomic.Int64
	read := func(ctx context.Context) error {
		n := inside.Add(1)
		defer inside.Add(-1)
		for most := together.Load(); n > most && !together.CompareAndSwap(most, n); most = together.Load() { //nolint:revive // the maximum
		}
		whole, err := readReport(ctx, pool)
		if err == nil && !whole {
			torn.Add(1)
		}
		reads.Add(1)
		return err
	}
	failures := make([]error, readers)
	var all sync.WaitGroup
	for i, m := range locks[1:] {
		all.Go(func() {
			do := m.RDo
			if !lock {
				do = func(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
			}
			for reading.Err() == nil && failures[i] == nil {
				if err := do(reading, read); reading.Err() == nil {
					failures[i] = err
				}
			}
		})
	}
	for edition := 1; edition <= editions && err == nil; edition++ {
		err = write(ctx, locks[0], pool, edition, lock)
	}
	stop()
	all.Wait()
	return outcome{reads.Load(), torn.Load(), together.Load()}, errors.Join(err, errors.Join(failures...))
}

// write writes one edition.
func write(ctx context.Context, m *redimutex.RWMutex, pool *redis.Pool, edition int, lock bool) error {
	if !lock {
		return writeReport(ctx, pool, edition)
	}
	return m.Do(ctx, func(ctx context.Context) error {
		if err := writeReport(ctx, pool, edition); err != nil {
			return err
		}
		if err := redimutex.LeaseFrom(ctx).Downgrade(ctx); err != nil {
			return err
		}
		whole, err := readReport(ctx, pool) // the edition just written: no other writer has come between
		if err == nil && !whole {
			err = errors.New("the writer has read a torn report")
		}
		return err
	})
}

func writeReport(ctx context.Context, pool *redis.Pool, edition int) error {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for row := range rows {
		if _, err := redis.DoContext(c, ctx, "HSET", key+":rows", row, edition); err != nil {
			return err
		}
	}
	_, err = redis.DoContext(c, ctx, "EXPIRE", key+":rows", 600)
	return err
}

// readReport reads row by row, and reports whether all rows are of the same edition.
func readReport(ctx context.Context, pool *redis.Pool) (whole bool, err error) {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	var editions []int
	for row := range rows {
		edition, err := redis.Int(redis.DoContext(c, ctx, "HGET", key+":rows", row))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			return false, err
		}
		editions = append(editions, edition)
	}
	return len(slices.Compact(editions)) == 1, nil
}
