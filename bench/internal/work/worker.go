package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/bench/internal/entrants"
	"github.com/redimutex/redimutex/internal/lab/crew"
)

// Main is the main function of the worker processes. A program that starts a Crew must call it first. It returns only in
// processes that are no workers. A worker ends when there are no more orders, even in the middle of a job: the program that
// started it has ended then.
func Main() {
	crew.Main(role, func(p *crew.Post) error {
		orders := make(chan order)
		go func() {
			for {
				var o order
				if !p.Hear(&o) {
					os.Exit(0)
				}
				orders <- o
			}
		}()
		for o := range orders {
			r, err := serve(o.Job, p, orders)
			if err != nil {
				r = Result{Error: err.Error()}
			}
			p.Say(answer{Result: &r})
		}
		return nil
	})
}

// serve prepares a job, says that it is ready, waits for the start and runs it.
func serve(j *Job, p *crew.Post, orders <-chan order) (Result, error) {
	if j == nil {
		return Result{}, errors.New("an order without a job")
	}
	r, err := prepare(j)
	if err != nil {
		return Result{}, err
	}
	defer r.close()
	p.Say(answer{Ready: true})
	time.Sleep(time.Until(time.Unix(0, (<-orders).Start)))
	return r.run()
}

// A runner is a job that is ready to start.
type runner struct {
	*Job
	locker   entrants.Locker
	missing  bool // this version of redimutex can't do the job
	requests entrants.Requests
	ctx      context.Context // ends when the job is over
	cancel   context.CancelFunc

	before marks      // taken before the library was opened
	info   redis.Conn // its commands are not counted; only the first process has it
}

// far is a deadline that is never reached. Without a deadline, redislock gives up after a TTL.
const far = time.Hour

func prepare(j *Job) (*runner, error) {
	r := &runner{Job: j}
	r.ctx, r.cancel = context.WithTimeout(context.Background(), far)
	var err error
	if j.Worker == 0 {
		if r.info, err = redis.Dial("tcp", j.Addrs[0]); err != nil {
			return nil, err
		}
	}
	r.before = r.mark(true)
	library, ok := entrants.Find(j.Library)
	if !ok {
		return nil, fmt.Errorf("there is no library %q", j.Library)
	}
	if library.Open == nil {
		r.missing = true
		return r, nil
	}
	r.locker, err = library.Open(entrants.Env{Addrs: j.Addrs, TTL: j.TTL, Permits: j.Permits, Requests: &r.requests, Crowd: j.Kind == Waiting})
	return r, err
}

func (r *runner) close() {
	r.cancel()
	if r.locker != nil {
		r.locker.Close()
	}
	if r.info != nil {
		r.info.Close()
	}
}

func (r *runner) run() (Result, error) {
	if r.missing {
		return Result{Missing: true}, nil
	}
	switch r.Kind {
	case Waiting:
		return r.waiting()
	case Held:
		return r.held()
	case Load:
	}
	return r.load()
}

// marks are the readings of the process's meters at one moment.
type marks struct {
	at         time.Time
	requests   int64
	mallocs    uint64
	bytes      int64
	cpu        time.Duration
	server     time.Duration
	goroutines int
}

// mark reads the meters. The memory is exact only after a collection.
func (r *runner) mark(collect bool) marks {
	if collect {
		runtime.GC()
		runtime.GC() // the first collection only moves what a sync.Pool has; the second frees it
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return marks{
		at:         time.Now(),
		requests:   r.requests.Count(),
		mallocs:    mem.Mallocs,
		bytes:      int64(mem.HeapAlloc + mem.StackInuse),
		cpu:        cpuTime(),
		server:     r.serverTime(),
		goroutines: runtime.NumGoroutine(),
	}
}

// between returns what was counted from one mark to the other.
func between(from, to marks) Result {
	return Result{
		Elapsed:  to.at.Sub(from.at),
		Requests: to.requests - from.requests,
		Mallocs:  to.mallocs - from.mallocs,
		CPU:      to.cpu - from.cpu,
		Server:   to.server - from.server,
	}
}

func cpuTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// serverTime returns the CPU time that the server has used.
func (r *runner) serverTime() (all time.Duration) {
	if r.info == nil {
		return 0
	}
	info, err := redis.String(r.info.Do("INFO", "cpu"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			d, _ := time.ParseDuration(value + "s")
			all += d
		}
	}
	return all
}
