// Package election has leaders killed, paused, cut off and made to resign, and counts leaders.
package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"

	lead "github.com/redimutex/redimutex/election"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{{
		ID: 26, Name: "election",
		Fault: "3 processes of 3 candidates: leaders killed, paused, cut off, resigned, and all at once",
		Must:  "never two leaders with valid leases, no term twice, always a new leader",
		Short: 40 * time.Second, Long: 5 * time.Minute,
		Run: run,
	}}
}

func run(ctx context.Context, s evidence.Setup) (r evidence.Result, _ error) {
	numbers := []int{1, 3} // of servers
	r.Figures = make([]evidence.Figure, len(numbers))
	errs := make([]error, len(numbers))
	var playing sync.WaitGroup
	for i, servers := range numbers {
		own := s
		if i > 0 {
			own.Report = nil
		}
		playing.Go(func() {
			errs[i] = evidence.Stage(ctx, func(t testing.TB) { r.Figures[i] = play(ctx, t, own, servers) })
		})
	}
	playing.Wait()
	r.Notes = []string{"Row 26: a leader says each 3 ms that it leads, with a time taken before it looked, on a clock that " +
		"all processes share; two that led at the same time by their own words are wrong, however short that was. A strike " +
		"has held when a leader with a new term comes after it. The two other candidates of a paused process stand in line " +
		"and hang too, which may delay that by a hand-off each: a node timeout, here 300 ms, and 85 ms."}
	return r, errors.Join(errs...)
}

// A strike is what is done to the leaders. The caller that was hit is back when it returns, unless it was killed.
type strike struct {
	name string
	hit  func(x *scene, p *process)
}

var strikes = []strike{
	{"killed", func(_ *scene, p *process) { p.kill() }},
	{"resigned", func(_ *scene, p *process) { fmt.Fprintln(p.orders, "resign") }},
	{"paused", func(x *scene, p *process) {
		p.signal(syscall.SIGSTOP)
		x.later(ttl*3/2, func() { p.signal(syscall.SIGCONT) })
	}},
	{"cut off", func(x *scene, p *process) {
		p.cut(true)
		x.later(ttl*3/2, func() { p.cut(false) })
	}},
	{"all at once", func(x *scene, p *process) {
		others := x.others(p)
		others[0].cut(true)
		others[1].signal(syscall.SIGSTOP)
		p.kill()
		x.later(ttl/2, func() {
			others[0].cut(false)
			others[1].signal(syscall.SIGCONT)
		})
	}},
}

// A scene is the servers, the processes, and who judges them.
type scene struct {
	t       testing.TB
	servers []*redistest.Server
	judge   *judge
	hired   int
	all     []*process
	pending sync.WaitGroup // of later
}

// play strikes again and again, and returns what held.
func play(ctx context.Context, t testing.TB, s evidence.Setup, servers int) evidence.Figure {
	x := &scene{t: t, judge: newJudge()}
	defer x.pending.Wait()
	for range servers {
		x.servers = append(x.servers, redistest.Real(t))
	}
	x.observe()
	for range 3 {
		x.all = append(x.all, x.hire())
	}
	if _, ok := x.next(ctx, 0); !ok {
		return evidence.Figure{Library: evidence.Ours, Tried: 1, Worst: "nobody leads at the beginning"}
	}
	r := rand.New(rand.NewPCG(s.Seed, uint64(servers))) //nolint:gosec // it is to be repeatable
	f := evidence.Figure{Library: evidence.Ours}
	if servers > 1 {
		f.Library += fmt.Sprintf(", %d servers", servers)
	}
	longest := make(map[string]time.Duration)
	began := time.Now()
	hits := 0
	for ; time.Since(began) < s.Time || hits < len(strikes); hits++ {
		time.Sleep(rand.N(ttl / 2)) //nolint:gosec // it is no secret
		kind := strikes[hits%len(strikes)]
		if hits >= len(strikes) {
			kind = strikes[r.IntN(len(strikes))]
		}
		who, begun, _ := x.judge.leader()
		p := x.process(who)
		if p == nil {
			continue
		}
		at := now()
		kind.hit(x, p)
		f.Tried++
		came, ok := x.next(ctx, begun)
		if !ok {
			f.Worst = "no new leader after the last was " + kind.name
			break
		}
		f.Held++
		longest[kind.name] = max(longest[kind.name], time.Duration(came-at))
		x.pending.Wait() // who was hit is back
		x.replace()
		if s.Report != nil {
			s.Report(int(time.Since(began)/time.Millisecond), int(s.Time/time.Millisecond))
		}
	}
	for _, p := range x.all {
		p.kill() // what it has said is heard when it has ended
	}
	terms, wrong := x.judge.verdict()
	f.Tried += terms
	f.Held += max(0, terms-len(wrong))
	words := []string{fmt.Sprintf("%d terms", terms)}
	if f.Worst != "" {
		words = append(words, f.Worst)
	}
	if len(wrong) > 0 {
		words = append(words, fmt.Sprintf("%d wrong, such as: %s", len(wrong), wrong[0]))
	}
	for _, k := range strikes {
		words = append(words, fmt.Sprintf("a new leader after %v at most (%s)",
			longest[k.name].Round(time.Millisecond), k.name))
	}
	f.Worst = strings.Join(words, "; ") + fmt.Sprintf("; the TTL is %v", ttl)
	return f
}

// patience is how long a new leader may take, on a machine of which nothing is known.
const patience = 30 * time.Second

// next waits until more than begun candidates have begun to lead, and returns when the last did.
func (x *scene) next(ctx context.Context, begun int) (at int64, ok bool) {
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if _, n, at := x.judge.leader(); n > begun {
			return at, true
		}
	}
	return 0, false
}

// later undoes a strike.
func (x *scene) later(d time.Duration, undo func()) {
	x.pending.Go(func() {
		time.Sleep(d)
		undo()
	})
}

// observe has an observer tell the judge who leads, until the end.
func (x *scene) observe() {
	pools := make([]redimutex.Pool, len(x.servers))
	for i, s := range x.servers {
		pools[i] = s.Pool()
	}
	client := redimutex.NewClient(pools)
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for l := range lead.New(client, key, "").Observe(ctx) {
			if l.Term != 0 {
				x.judge.observed(l.Term, l.Owner)
			}
		}
	})
	x.t.Cleanup(func() {
		stop()
		watching.Wait()
		client.Close()
	})
}
