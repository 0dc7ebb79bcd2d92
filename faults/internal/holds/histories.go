package holds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// histories has processes lock and unlock at random while clients are killed and stopped, servers
// stopped and connections broken, and asks porcupine whether what they saw can have happened.
func histories() evidence.Row {
	return staged(evidence.Row{
		ID: 20, Name: "histories", Fault: "every history on a real server, checked by porcupine",
		Must: "linearizable", Short: 18 * time.Second, Long: 200 * time.Second,
	}, func(t testing.TB, row evidence.Row, s evidence.Setup) (evidence.Result, error) {
		kits := []kit{
			{Library: "redimutex"},
			{Library: "redimutex", Queue: true},
			{Library: "redimutex", Reuse: 20 * time.Millisecond},
			{Library: "redimutex", Fencing: true},
			{Library: "redimutex", Queue: true, Reuse: 20 * time.Millisecond},
			{Library: "redimutex", Fencing: true, Addrs: make([]string, 3)},
			{Library: "redimutex", Addrs: make([]string, 3)},
		}
		if s.Long {
			kits = append(kits, kit{Library: "redsync"}, kit{Library: "redislock"})
		}
		return checkAll(t, row, s, kits)
	})
}

const (
	historyTTL       = 400 * time.Millisecond
	historyProcesses = 3
	historyThreads   = 2
	historyKeys      = 2
)

// checkAll makes and checks histories of all kits, two at a time.
func checkAll(t testing.TB, row evidence.Row, s evidence.Setup, kits []kit) (evidence.Result, error) {
	trials := make([]*trial, len(kits))
	places := make(chan struct{}, 2)
	lap := 2500 * time.Millisecond
	if s.Long {
		lap = 5 * time.Second
	}
	for i, k := range kits {
		k.TTL, k.Poll = historyTTL, 5*time.Millisecond
		var servers []*redistest.Server
		for range max(1, len(k.Addrs)) {
			servers = append(servers, redistest.Real(t))
		}
		k.Addrs = nil
		for _, server := range servers {
			k.Addrs = append(k.Addrs, server.Addr())
		}
		trials[i] = &trial{kit: k, servers: servers, random: random(s, i), prefix: fmt.Sprintf("history-%d-", i), lap: lap}
	}
	_, err := sideBySide(t, row, s, trials, 1, 8, func(_ int, h *trial, q *quota) (_ []evidence.Figure, err error) {
		for err == nil && q.more() {
			places <- struct{}{}
			err = h.run(t, q.ctx)
			<-places
			q.done++
		}
		return nil, err
	})
	return report(s, trials), err
}

// A trial is a kit under faults.
type trial struct {
	kit     kit
	servers []*redistest.Server
	random  *rand.Rand
	prefix  string        // of the keys
	lap     time.Duration // how long a history is

	laps     int
	clients  int // goroutines so far
	verdicts []verdict
	calls    int // those in no history included
	struck   map[string]int

	mu     sync.Mutex
	events map[string][]event
}

// run makes a history, and checks it.
func (h *trial) run(t testing.TB, ctx context.Context) error {
	h.laps++
	keys := make([]string, historyKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%d-%d", h.prefix, h.laps, i)
	}
	h.events = make(map[string][]event)
	var listening sync.WaitGroup
	hands := make([]hand, historyProcesses)
	employ := func(i int) error {
		h.clients += historyThreads
		worker, err := hire(t, job{Kit: h.kit, Keys: keys, History: &pattern{historyThreads, h.clients, h.random.Uint64()}})
		if err != nil {
			return err
		}
		hands[i] = worker
		listening.Go(func() { h.listen(worker) })
		return nil
	}
	for i := range hands {
		if err := employ(i); err != nil {
			return err
		}
	}
	end := time.Now().Add(h.lap)
	for time.Now().Before(end) && ctx.Err() == nil {
		pause(ctx, between(h.random, 20*time.Millisecond, 120*time.Millisecond))
		if err := h.strike(ctx, hands, employ); err != nil {
			return err
		}
	}
	for _, worker := range hands {
		worker.Dismiss() // they come to an end by themselves
	}
	listening.Wait()
	for _, key := range keys {
		h.verdicts = append(h.verdicts, check(key, h.events[key]))
	}
	return nil
}

// listen notes down what a process says, until it has ended.
func (h *trial) listen(worker hand) {
	open := make(map[int64]event)
	for m := range worker.Messages {
		if m.Event == nil {
			continue
		}
		if m.Event.Return == 0 {
			open[m.Event.ID] = *m.Event
			continue
		}
		delete(open, m.Event.ID)
		h.note(*m.Event)
	}
	for _, e := range open {
		e.Return = never
		h.note(e)
	}
}

func (h *trial) note(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[e.Key] = append(h.events[e.Key], e)
	h.calls++
}

// strike does something to a client or a server.
func (h *trial) strike(ctx context.Context, hands []hand, employ func(int) error) error {
	if h.struck == nil {
		h.struck = make(map[string]int)
	}
	i, server := h.random.IntN(len(hands)), h.servers[h.random.IntN(len(h.servers))]
	switch h.random.IntN(5) {
	case 0:
		h.struck["kill -9 of a client"]++
		if err := hands[i].Kill(); err != nil {
			return err
		}
		return employ(i)
	case 1:
		h.struck["SIGSTOP of a client"]++
		if err := hands[i].Stop(patience); err != nil {
			return err
		}
		pause(ctx, between(h.random, 0, 3*historyTTL/2))
		return hands[i].Resume()
	case 2:
		h.struck["SIGSTOP of a server"]++
		server.Pause()
		pause(ctx, between(h.random, 0, historyTTL))
		if h.random.IntN(2) == 0 {
			h.struck["kill -9 of a client"]++ // with commands under way
			if err := errors.Join(hands[i].Kill(), employ(i)); err != nil {
				return err
			}
		}
		server.Resume()
	case 3:
		h.struck["CLIENT KILL"]++
		server.Do("CLIENT", "KILL", "TYPE", "normal")
	case 4:
		h.struck["CLIENT KILL of subscribers"]++
		server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
	return nil
}

// report sums up, and draws one history that holds and all that do not.
func report(s evidence.Setup, trials []*trial) evidence.Result {
	var r evidence.Result
	var example *verdict
	struck := make(map[string]int)
	for i, h := range trials {
		f := evidence.Figure{Library: h.kit.String(), NotJudged: !h.kit.judged()}
		var holds, calls, unknown int
		for j, v := range h.verdicts {
			f.Tried++
			holds, calls, unknown = holds+v.holds, calls+v.calls, unknown+v.unknown
			if v.result == porcupine.Ok {
				f.Held++
				if example == nil || v.calls < example.calls {
					example = &h.verdicts[j]
				}
				continue
			}
			r.Files = append(r.Files, draw(s, v, fmt.Sprintf("history-%d-%d-%s.html", i, j, v.result)))
		}
		f.Worst = fmt.Sprintf("%d calls (%d constrain), %d holds, %d open for ever", h.calls, calls, holds, unknown)
		r.Figures = append(r.Figures, f)
		for what, n := range h.struck {
			struck[what] += n
		}
	}
	if example != nil {
		r.Files = append(r.Files, draw(s, *example, "history.html"))
	}
	r.Notes = append(r.Notes, "Row 20: the faults were "+tally(struck)+
		". A history is that of one key; one that porcupine could not decide in time does not count as held.")
	return r
}

// draw writes porcupine's picture of a history, and returns the name of the file.
func draw(s evidence.Setup, v verdict, name string) string {
	if err := porcupine.VisualizePath(model, v.info, filepath.Join(s.Dir, name)); err != nil {
		return fmt.Sprintf("%s (%v)", name, err)
	}
	return name
}
