package bounds_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

const (
	tolerance = 50 * time.Millisecond
	tooLong   = 500 * time.Millisecond // over its bound a call is not waited for any longer before the server goes on
	attempts  = 4                      // a call that outlasts its bound is tried again: perhaps it was the machine
	together  = 5                      // kinds of pools at once
)

// A way is how a server hangs.
type way struct {
	stopped bool // by SIGSTOP; else
	phase   redistest.Phase
	only    func(kind) bool // nil: all
}

func TestNoCallOutlastsItsBoundWhileTheServerIsStopped(t *testing.T) {
	t.Parallel()
	table(t, way{stopped: true})
}

func TestNoCallOutlastsItsBoundWhileDiallingHangs(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.AtDial})
}

func TestNoCallOutlastsItsBoundWhileTheHandshakeOfTLSHangs(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.AtHandshake, only: func(k kind) bool { return k.tls }})
}

func TestNoCallOutlastsItsBoundWhileAuthenticationHangs(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.AtAuth})
}

func TestNoCallOutlastsItsBoundWhileTheChoiceOfADatabaseHangs(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.AtSelect, only: func(k kind) bool { return k.dials }})
}

func TestNoCallOutlastsItsBoundWhileCommandsHang(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.AtCommand})
}

func TestNoCallOutlastsItsBoundWhileCommandsAreExecutedAndNotAnswered(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.AtReply})
}

func TestNoCallOutlastsItsBoundWhileOldConnectionsHangAndNewOnesWork(t *testing.T) {
	t.Parallel()
	table(t, way{phase: redistest.OnOldConns})
}

// A cell of the table is one verb over one kind of pool.
type cell struct {
	kind kind
	verb verb
	said string // how the last attempt outlasted its bound
}

// table runs all verbs over all kinds of pools while the server hangs in the way w. Those that outlast their bound
// run again, fewer at once.
func table(t *testing.T, w way) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	b := &bench{t: t, way: w, server: redistest.Real(t), fronts: make(map[string][]*redistest.Front)}
	b.server.Do("ACL", "SETUSER", user, "on", ">"+password, "~*", "&*", "+@all")
	var cells []*cell
	for _, k := range kinds() {
		if w.only == nil || w.only(k) {
			for _, v := range verbs() {
				cells = append(cells, &cell{kind: k, verb: v})
			}
		}
	}
	all := len(cells)
	for attempt := 0; attempt < attempts && len(cells) > 0; attempt++ {
		for wave := range b.waves(cells) {
			b.run(wave, attempt == attempts-1)
		}
		cells = slices.DeleteFunc(cells, func(c *cell) bool { return c.said == "" })
	}
	for _, c := range cells {
		t.Errorf("%s / %s: %s", c.kind.name, c.verb.name, c.said)
	}
	if b.failed.Load() == 0 {
		t.Error("no try has failed: the server did not hang, and nothing was shown")
	}
	t.Logf("%d of %d calls outlast their bounds; %d tries met the silence", len(cells), all, b.failed.Load())
}

// A bench is a server that hangs in one way, and what stands before it.
type bench struct {
	t      *testing.T
	way    way
	server *redistest.Server
	fronts map[string][]*redistest.Front // by kind
	keys   atomic.Int64
	failed atomic.Int64 // tries that met the silence
}

func (b *bench) waves(cells []*cell) func(func([]*cell) bool) {
	return func(yield func([]*cell) bool) {
		var wave []*cell
		seen := make(map[string]bool)
		for _, c := range cells {
			if !seen[c.kind.name] && len(seen) == together {
				if !yield(wave) {
					return
				}
				wave = nil
				clear(seen)
			}
			seen[c.kind.name] = true
			wave = append(wave, c)
		}
		if len(wave) > 0 {
			yield(wave)
		}
	}
}

func (b *bench) front(k kind) []*redistest.Front {
	if f := b.fronts[k.name]; f != nil {
		return f
	}
	var fronts []*redistest.Front
	for range k.count() {
		if k.tls {
			fronts = append(fronts, redistest.NewTLSFront(b.t, b.server))
		} else {
			fronts = append(fronts, redistest.NewFront(b.t, b.server))
		}
	}
	b.fronts[k.name] = fronts
	return fronts
}

// run prepares the calls, has the server hang, measures the calls, and lets it go on.
// How late the machine was is forgiven the last time alone, so that
// a busy machine hides little.
func (b *bench) run(cells []*cell, forgive bool) {
	var parties []*party
	fronts := make(map[string][]*redistest.Front)
	for _, c := range cells {
		fronts[c.kind.name] = b.front(c.kind)
		parties = append(parties, b.party(c))
	}
	each(parties, (*party).prepare)
	if b.way.stopped {
		b.server.Pause()
	}
	for _, group := range fronts {
		for _, f := range group {
			if !b.way.stopped {
				f.Hang(b.way.phase)
			}
		}
	}
	lateness := redistest.MeasureLateness()
	for _, p := range parties {
		p.start()
	}
	for _, p := range parties {
		p.await()
	}
	late := lateness.Stop()
	if !forgive {
		late = 0
	}
	if b.way.stopped {
		b.server.Resume()
	}
	for _, group := range fronts {
		for _, f := range group {
			f.Lift()
		}
	}
	for _, p := range parties {
		p.judge(late)
	}
	each(parties, (*party).end)
}

// each calls f for all parties, for a few at a time: two hundred at once would be busy with timing out.
func each(parties []*party, f func(*party)) {
	var team sync.WaitGroup
	few := make(chan struct{}, 4)
	for _, p := range parties {
		few <- struct{}{}
		team.Go(func() {
			defer func() { <-few }()
			f(p)
		})
	}
	team.Wait()
}

// A party is a Client in a process of its own, as it were, that makes one call.
type party struct {
	*cell
	t        *testing.T
	bench    *bench
	key      string
	pools    []redimutex.Pool
	client   *redimutex.Client
	mutex    *redimutex.Mutex
	patience context.Context
	cancel   context.CancelFunc

	call     func() error // nil: it could not be prepared
	unready  string       // why
	began    time.Time
	done     chan struct{}
	took     time.Duration
	err      error
	overtime bool          // it was still under way when the server went on
	busy     chan struct{} // closed when what uses the only connection is over
}

func (b *bench) party(c *cell) *party {
	p := &party{cell: c, t: b.t, bench: b, key: fmt.Sprintf("k%d", b.keys.Add(1)), done: make(chan struct{}), busy: make(chan struct{})}
	for i, f := range b.fronts[c.kind.name] {
		p.pools = append(p.pools, c.kind.make(address{hostPort: f.Addr(), tls: f.TLS(), db: i + 1}))
	}
	p.client = redimutex.NewClient(p.pools, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(nodeTimeout), redimutex.WithPollInterval(20*time.Millisecond))
	return p
}

type unprepared struct{ error }

// must ends the preparation if err is not nil.
func (p *party) must(err error) {
	if err != nil {
		panic(unprepared{err})
	}
}

func (p *party) prepare() {
	defer func() {
		if r := recover(); r != nil {
			p.unready = fmt.Sprintf("could not be prepared: %v", r) // by a machine that is too busy
		}
	}()
	p.patience, p.cancel = context.WithTimeout(context.Background(), 30*time.Second)
	patient := p.client.Mutex(p.key, redimutex.WithNodeTimeout(20*time.Second)) // has the connections opened
	p.must(patient.LockContext(p.patience, 0))
	p.must(patient.UnlockContext(p.patience))
	p.call = p.verb.begin(p)
}

// start begins the call.
func (p *party) start() {
	p.began = time.Now()
	if p.call == nil {
		close(p.done)
		close(p.busy)
		return
	}
	go func() {
		defer close(p.done)
		if p.kind.busy {
			p.occupy()
		} else {
			close(p.busy)
		}
		began := time.Now() // not p.began: this goroutine may be late
		p.err = p.call()
		p.took = time.Since(began)
	}()
}

// occupy has another call take the only connection, where the server's silence keeps it.
func (p *party) occupy() {
	pool := p.pools[0].(*redis.Pool)
	go func() {
		defer close(p.busy)
		p.client.Mutex(p.key + ":busy").TryLockContext(context.Background()) //nolint:errcheck // it can't
	}()
	for range 20 {
		if s := pool.Stats(); s.ActiveCount > s.IdleCount {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// await waits for the call, but not for ever.
func (p *party) await() {
	timer := time.NewTimer(time.Until(p.began.Add(p.verb.bound + tooLong)))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		select {
		case <-p.done: // while we waited for others
		default:
			p.overtime = true
		}
	}
}

// judge says whether the call has outlasted its bound, where the machine's being late by so much counts.
func (p *party) judge(late time.Duration) {
	p.said = p.unready
	switch {
	case p.call == nil:
	case p.overtime:
		p.said = fmt.Sprintf("still under way %v after its bound of %v", tooLong, p.verb.bound)
	case p.took > p.verb.bound+tolerance+late:
		p.said = fmt.Sprintf("took %v, its bound is %v (%v for the machine)", p.took, p.verb.bound, late)
	}
}

// end waits for what is left of the call, and looks for what it has left behind.
func (p *party) end() {
	defer p.cancel()
	<-p.done
	<-p.busy
	if p.verb.takes && p.err != nil {
		p.bench.failed.Add(1)
		for _, c := range p.direct() {
			redistest.Wait(p.t, "no lock that nobody owns: "+p.kind.name+" / "+p.verb.name, func() bool {
				n, err := redis.Int(c.Do("EXISTS", p.key))
				return err == nil && n == 0
			})
			c.Close()
		}
	}
	if err := p.client.Close(); err != nil {
		p.t.Errorf("%s / %s: Close: %v", p.kind.name, p.verb.name, err)
	}
	for _, pool := range p.pools {
		if c, ok := pool.(io.Closer); ok {
			c.Close()
		}
	}
}

// direct returns connections to the servers, past what hangs.
func (p *party) direct() []redis.Conn {
	conns := make([]redis.Conn, len(p.pools))
	for i := range conns {
		c, err := redis.Dial("tcp", p.bench.server.Addr(), redis.DialDatabase(i+1), redis.DialReadTimeout(10*time.Second))
		if err != nil {
			p.t.Error(strings.TrimSpace(err.Error()))
			c = nil
		}
		conns[i] = c
	}
	return conns
}
