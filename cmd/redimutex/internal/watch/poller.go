package watch

import (
	"context"
	"slices"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// A poller looks at locks on all servers again and again. It asks all servers at once, and asks none again before that has
// answered.
type poller struct {
	keys     []string
	nodes    servers.Set
	interval time.Duration
	sources  []source
	answers  chan answer // has room for one answer of each server, so that a late goroutine need not wait
	rounds   int
}

// A source is the poller's knowledge about one server.
type source struct {
	busy  bool // it has not answered yet
	heard time.Time
	views []inspect.View
	err   error
}

type answer struct {
	node, round int
	at          time.Time
	views       []inspect.View
	err         error
}

// A survey is what all servers have said in one look.
type survey struct {
	at    time.Time
	locks []*sight.Lock
	down  map[string]string // the servers that do not answer at all, and why
	gone  bool              // too many servers are down
}

func newPoller(keys []string, nodes servers.Set, interval time.Duration) *poller {
	return &poller{
		keys: keys, nodes: nodes, interval: interval, sources: make([]source, len(nodes)), answers: make(chan answer, len(nodes)),
	}
}

// start looks until ctx ends. The first survey may take as long as connecting.
func (p *poller) start(ctx context.Context) <-chan *survey {
	surveys := make(chan *survey)
	go func() {
		next := time.NewTicker(p.interval)
		defer next.Stop()
		patience := servers.DialTimeout
		for ctx.Err() == nil {
			s := p.look(ctx, patience)
			select {
			case surveys <- s:
			case <-ctx.Done():
				return
			}
			patience = p.interval
			select {
			case <-next.C:
			case <-ctx.Done():
			}
		}
	}()
	return surveys
}

// look asks the servers that are not busy. It returns what is known when all of them have answered or patience is over.
func (p *poller) look(ctx context.Context, patience time.Duration) *survey {
	p.rounds++
	asked := 0
	for i := range p.sources {
		src := &p.sources[i]
		if src.busy {
			continue
		}
		src.busy = true
		asked++
		round := p.rounds
		go func() {
			views, err := sight.LookAt(ctx, p.nodes[i], p.keys, 0, servers.LookTimeout)
			p.answers <- answer{i, round, time.Now(), views, err}
		}()
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for asked > 0 || len(p.answers) > 0 {
		select {
		case a := <-p.answers:
			src := &p.sources[a.node]
			src.busy, src.heard, src.views, src.err = false, a.at, a.views, a.err
			if a.round == p.rounds {
				asked--
			}
			continue
		case <-enough.C:
		case <-ctx.Done():
		}
		break
	}
	return p.conclude(time.Now())
}

// stale returns the age from which a server's last answer says nothing about the present.
func (p *poller) stale() time.Duration { return max(2*time.Second, 3*p.interval) }

func (p *poller) conclude(now time.Time) *survey {
	s := &survey{at: now, down: make(map[string]string)}
	views, errs := make([][]inspect.View, len(p.sources)), make([]error, len(p.sources))
	for i, src := range p.sources {
		for _, v := range src.views {
			views[i] = append(views[i], aged(v, now.Sub(src.heard)))
		}
		errs[i] = src.err
		if now.Sub(src.heard) > p.stale() {
			errs[i] = servers.ErrSilent
		}
		if errs[i] != nil {
			s.down[p.nodes[i].Name] = servers.Words(errs[i])
		}
	}
	s.gone = servers.TooMany(len(s.down), len(p.nodes))
	s.locks = sight.Join(p.nodes, p.keys, views, errs)
	return s
}

// aged returns a view as it would be after d, if nothing has happened since.
func aged(v inspect.View, d time.Duration) inspect.View {
	if v.Left > 0 {
		v.Left = max(v.Left-d, 0)
	}
	if v.Age > 0 {
		v.Age += d
	}
	return v
}

// unknown returns the first lock about which too few servers have an answer, or nil.
func (s *survey) unknown() *sight.Lock {
	for _, r := range s.locks {
		if r.Failure() != nil {
			return r
		}
	}
	return nil
}

// free reports whether, for each lock, a majority says that it is free.
func (s *survey) free() bool {
	return !slices.ContainsFunc(s.locks, func(r *sight.Lock) bool { return freeOn(r) <= len(r.Servers)/2 })
}

// freeOn returns how many servers say that the lock is free.
func freeOn(r *sight.Lock) (n int) {
	for _, s := range r.Servers {
		if !s.Held && s.Error == "" {
			n++
		}
	}
	return n
}
