package redimutexgocron_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexgocron "github.com/redimutex/redimutex/schedulers/gocron"
)

// machineVariable makes the test binary run as a machine. Its value is the server's address, and how far the clock is ahead.
const machineVariable = "GOCRON_TEST_MACHINE"

func TestMain(m *testing.M) {
	redistest.Main(m, redistest.Role{Variable: machineVariable, Run: machine})
}

const (
	jobs    = 40
	tick    = 3 * time.Second // each job runs every three seconds of the clock
	minHold = tick / 2
	skew    = 500 * time.Millisecond // between the first clock and the last
	tired   = 300 * time.Millisecond // a tick is not judged if a machine comes later than this
	work    = time.Second
)

// ahead is a clock that does not show the true time.
type ahead struct {
	clockwork.Clock
	by time.Duration
}

func (c ahead) Now() time.Time                  { return c.Clock.Now().Add(c.by) }
func (c ahead) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c ahead) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// naive is a Locker like gocron's own for Redis: it tries once, and releases the lock when the job is done.
type naive struct{ client *redimutex.Client }

func (n naive) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	m := n.client.Mutex("naive:" + name)
	return naiveLock{m}, m.TryLockContext(ctx)
}

type naiveLock struct{ m *redimutex.Mutex }

func (l naiveLock) Unlock(ctx context.Context) error { return l.m.UnlockContext(ctx) }

// punctual notes each tick for which this machine is late, or the server is late or fails.
type punctual struct {
	gocron.Locker
	note func(kind, name string, at time.Time)
	kind string
	now  func() time.Time
}

func (p punctual) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	began := p.now()
	l, err := p.Locker.Lock(ctx, name)
	if early := tickOf(began).Sub(began); early > tired || p.now().Sub(tickOf(began)) > tired ||
		err != nil && !errors.Is(err, redimutex.ErrLocked) {
		p.note("late "+p.kind, name, tickOf(began))
	}
	return l, err
}

// tickOf returns the tick that is nearest to now, on the clock of a machine.
func tickOf(now time.Time) time.Time { return now.Round(tick) }

// machine runs one of several machines with the same jobs. Each machine has each job twice: with our Locker, and with the
// naive one. The jobs of the naive one take no time.
func machine(what string) int {
	addr, offset, _ := strings.Cut(what, " ")
	by, _ := time.ParseDuration(offset)
	clock := ahead{clockwork.NewRealClock(), by}
	pool := &redis.Pool{MaxIdle: 200, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithNodeTimeout(2*tired))
	note := func(kind, name string, at time.Time) {
		c := pool.Get()
		defer c.Close()
		if _, err := c.Do("RPUSH", fmt.Sprintf("%s %s %d", kind, name, at.Unix()), offset); err != nil {
			panic(err)
		}
	}
	each := fmt.Sprintf("*/%d * * * * *", int(tick.Seconds()))
	for kind, locker := range map[string]gocron.Locker{
		"ours":  redimutexgocron.NewLocker(client, "ours:", minHold, redimutex.WithNodeTimeout(2*tired)),
		"naive": naive{client},
	} {
		s, err := gocron.NewScheduler(gocron.WithClock(clock),
			gocron.WithDistributedLocker(punctual{locker, note, kind, clock.Now}))
		if err != nil {
			panic(err)
		}
		for n := range jobs {
			name := strconv.Itoa(n)
			_, err := s.NewJob(gocron.CronJob(each, true), gocron.NewTask(func() {
				note("ran "+kind, name, tickOf(clock.Now()))
				if kind == "ours" && n%2 == 0 {
					time.Sleep(work) // the odd jobs are done before the next machine comes
				}
			}), gocron.WithName(name))
			if err != nil {
				panic(err)
			}
		}
		s.Start()
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan() // until the test ends
	return 0
}

func startMachine(t *testing.T, s *redistest.Server, offset time.Duration) *redistest.Worker {
	t.Helper()
	w := redistest.StartWorker(t, machineVariable, fmt.Sprintf("%s %s", s.Addr(), offset))
	require.Equal(t, "ready", w.Hear())
	return w
}

// count returns for each job how many notes of one kind there are for a tick.
func count(s *redistest.Server, kind string, at time.Time) (all [jobs]int) {
	for n := range all {
		length, _ := s.Do("LLEN", fmt.Sprintf("%s %d %d", kind, n, at.Unix())).(int64)
		all[n] = int(length)
	}
	return all
}

// Three machines have the same 40 jobs, due every 3 s. One machine is killed while its jobs run. The clocks differ by up to
// 500 ms. So ticks must be some seconds apart, and the test takes about 20 s.
func TestEachTickRunsOnceThoughClocksDifferAndAMachineIsKilled(t *testing.T) {
	s := redistest.Start(t)
	var all []*redistest.Worker
	for _, offset := range []time.Duration{skew, skew / 2, 0} {
		all = append(all, startMachine(t, s, offset))
	}
	first := tickOf(time.Now()).Add(2 * tick)
	var once, twice, never, late, naiveTwice int
	for at, killed := first, false; once < 200; at = at.Add(tick) {
		if at == first.Add(2*tick) {
			// The machine whose clock is ahead wins, so it has most of the locks, and its jobs still run.
			redistest.Wait(t, "the jobs run", func() bool {
				ran := count(s, "ran ours", at)
				return ran != [jobs]int{}
			})
			all[0].Kill()
			killed = true
		}
		redistest.Wait(t, "the tick is over on all machines", func() bool { return time.Since(at) > tick-2*tired })
		ran, plain := count(s, "ran ours", at), count(s, "ran naive", at)
		tardy, plainTardy := count(s, "late ours", at), count(s, "late naive", at)
		for n := range jobs {
			if plain[n] > 1 && plainTardy[n] == 0 {
				naiveTwice++
			}
			switch {
			case tardy[n] > 0:
				late++
			case ran[n] == 1:
				once++
			case ran[n] > 1:
				twice++
			case killed && at == first.Add(2*tick):
				late++ // it may have died between the lock and the note
			default:
				never++
			}
		}
		require.Less(t, time.Since(first), 4*time.Minute, "too few ticks to which all machines came in time")
	}
	t.Logf("%d ticks ran once, %d twice, %d never; %d not judged; with a lock given back at the end %d ran twice or more",
		once, twice, never, late, naiveTwice)
	assert.Zero(t, twice)
	assert.Zero(t, never)
	assert.Greater(t, naiveTwice, 50, "without the minimum hold they should have run more than once")
}
