// Package election kills, pauses and cuts off leaders and makes them resign, and counts leaders.
package election

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	lead "github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/crew"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{evidence.Played(evidence.Row{
		ID: 26, Name: "election",
		Fault: "3 processes of 3 candidates: leaders killed, paused, cut off, resigned, and all at once",
		Must:  "never two leaders with valid leases, no term twice, always a new leader",
		Short: 40 * time.Second, Long: 5 * time.Minute,
	}, func(s *evidence.Scene) {
		figures := make([]evidence.Figure, 2)
		s.SideBySide(2, func(i int) error {
			figures[i] = (&scene{Scene: s, judge: newJudge(), servers: []int{1, 3}[i]}).play()
			return nil
		})
		s.Figure(figures...)
		s.Note("A leader says each 3 ms that it leads, with a time taken before it looked, on a clock that " +
			"all processes share; two that led at the same time by their own words are wrong, however short that was. A strike " +
			"has held when a leader with a new term comes after it. The two other candidates of a paused process stand in line " +
			"and hang too, which may delay that by a hand-off each: a node timeout, here 300 ms, and 85 ms.")
	})}
}

// A strike is a fault that hits the leader. The process that was hit is back when all calls of later have ended, unless it was
// killed.
type strike struct {
	name string
	hit  func(x *scene, p *process)
}

var strikes = []strike{
	{"killed", func(_ *scene, p *process) { p.kill() }},
	{"resigned", func(_ *scene, p *process) { p.Tell(message{}) }}, //nolint:errcheck // it may have ended
	{"paused", func(x *scene, p *process) { x.pause(p, ttl*3/2) }},
	{"cut off", func(x *scene, p *process) { x.cut(p, ttl*3/2) }},
	{"all at once", func(x *scene, p *process) {
		var others []*process
		for _, other := range x.all {
			if other != p {
				others = append(others, other)
			}
		}
		x.cut(others[0], ttl/2)
		x.pause(others[1], ttl/2)
		p.kill()
	}},
}

// A scene has the servers, the processes, and the judge.
type scene struct {
	*evidence.Scene
	servers int
	running []*redistest.Server
	judge   *judge
	hired   int
	all     []*process
	pending sync.WaitGroup // the calls of later that have not ended
}

// play strikes again and again, and returns what held.
func (x *scene) play() evidence.Figure {
	defer x.pending.Wait()
	for range x.servers {
		x.running = append(x.running, redistest.Real(x))
	}
	x.observe()
	for range 3 {
		x.all = append(x.all, x.hire())
	}
	f := evidence.Figure{Library: fmt.Sprintf("%s, %d servers", evidence.Ours, x.servers)}
	if _, ok := x.next(0); !ok {
		f.Tried, f.Worst = 1, "no candidate leads at the beginning"
		return f
	}
	r := x.Random(x.servers)
	longest := make(map[string]time.Duration)
	began := time.Now()
	for hits := 0; (time.Since(began) < x.Time || hits < len(strikes)) && x.Context().Err() == nil; hits++ {
		evidence.Sleep(x.Context(), evidence.Between(r, 0, ttl/2))
		kind := strikes[hits%len(strikes)]
		if hits >= len(strikes) {
			kind = strikes[r.IntN(len(strikes))]
		}
		who, begun, _ := x.judge.leader()
		p := x.process(who)
		if p == nil {
			continue
		}
		at := evidence.Now()
		kind.hit(x, p)
		f.Tried++
		came, ok := x.next(begun)
		if !ok {
			f.Worst = "; no new leader after the last was " + kind.name
			break
		}
		f.Held++
		longest[kind.name] = max(longest[kind.name], came.Sub(at))
		x.pending.Wait()
		for i, p := range x.all {
			if p.dead {
				x.all[i] = x.hire()
			}
		}
		x.Progress(int(time.Since(began)/time.Millisecond), int(x.Time/time.Millisecond))
	}
	for _, p := range x.all {
		p.kill() // when kill returns, the judge has heard all that the process said
	}
	terms, wrong := x.judge.verdict()
	f.Tried, f.Held = f.Tried+terms, f.Held+max(0, terms-len(wrong))
	f.Worst = fmt.Sprintf("%d terms%s", terms, f.Worst)
	if len(wrong) > 0 {
		f.Worst += fmt.Sprintf("; %d wrong, such as: %s", len(wrong), wrong[0])
	}
	for _, k := range strikes {
		f.Worst += fmt.Sprintf("; a new leader after %v at most (%s)", longest[k.name].Round(time.Millisecond), k.name)
	}
	f.Worst += fmt.Sprintf("; the TTL is %v", ttl)
	return f
}

// patience is how long a new leader may take, on a machine whose load is not known.
const patience = 30 * time.Second

// next waits until more than begun candidates have begun to lead, and returns when the last did.
func (x *scene) next(begun int) (at evidence.Instant, ok bool) {
	for end := time.Now().Add(patience); time.Now().Before(end) && x.Context().Err() == nil; time.Sleep(time.Millisecond) {
		if _, n, at := x.judge.leader(); n > begun {
			return at, true
		}
	}
	return 0, false
}

// A process has some of the candidates.
type process struct {
	*crew.Hand[message]
	name    string
	proxies []*redistest.Proxy
	dead    bool
	heard   chan struct{} // closed when it has ended, and all that it said was heard
}

func (x *scene) hire() *process {
	x.hired++
	p := &process{name: "process " + strconv.Itoa(x.hired) + " candidate ", heard: make(chan struct{})}
	j := job{Name: p.name}
	for _, s := range x.running {
		proxy := s.Proxy()
		p.proxies = append(p.proxies, proxy)
		j.Addrs = append(j.Addrs, proxy.Addr())
	}
	var err error
	p.Hand, err = crew.Hire[message](role)
	x.Must(err)
	x.Must(p.Tell(j))
	go func() {
		defer close(p.heard)
		for m := range p.Messages {
			x.judge.hear(m)
		}
	}()
	x.Cleanup(p.kill)
	return p
}

// process returns the living process to which the candidate belongs, or nil.
func (x *scene) process(who string) *process {
	for _, p := range x.all {
		if !p.dead && strings.HasPrefix(who, p.name) {
			return p
		}
	}
	return nil
}

// kill is kill -9, and returns when all that the process has said was heard.
func (p *process) kill() {
	if !p.dead {
		p.dead = true
		p.Kill() //nolint:errcheck // it may have ended
		<-p.heard
	}
}

// pause stops a process for a while.
func (x *scene) pause(p *process, d time.Duration) {
	p.Stop(patience)                  //nolint:errcheck // it may have ended
	x.later(d, func() { p.Resume() }) //nolint:errcheck // the same
}

// cut cuts a process off from the servers for a while.
func (x *scene) cut(p *process, d time.Duration) {
	for _, proxy := range p.proxies {
		proxy.Cut()
		x.later(d, proxy.Heal)
	}
}

func (x *scene) later(d time.Duration, undo func()) {
	x.pending.Go(func() {
		time.Sleep(d)
		undo()
	})
}

// observe lets an observer tell the judge who leads, until the end of the row.
func (x *scene) observe() {
	pools := make([]redimutex.Pool, len(x.running))
	for i, s := range x.running {
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
	x.Cleanup(func() {
		stop()
		watching.Wait()
		client.Close()
	})
}
