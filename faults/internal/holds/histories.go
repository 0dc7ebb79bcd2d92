package holds

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// histories is the row in which processes lock and unlock at random. Meanwhile clients are killed and stopped, servers are
// stopped, killed and restarted, and connections break. porcupine decides whether what the processes saw can have happened.
func histories() evidence.Row {
	return evidence.Played(evidence.Row{
		ID: 20, Name: "histories", Fault: "every history on a real server, checked by porcupine",
		Must: "linearizable", Short: 24 * time.Second, Long: 270 * time.Second,
	}, func(s *evidence.Scene) {
		const reuse = 20 * time.Millisecond
		kits := []kit{
			{Library: "redimutex"},
			{Library: "redimutex", Queue: true},
			{Library: "redimutex", Queue: true, Reuse: reuse},
			{Library: "redimutex", Fencing: true, Addrs: make([]string, 3)},
			{Library: "redimutex", Kind: kindRW, Fencing: true},
			{Library: "redimutex", Kind: kindRW, Queue: true, Reuse: reuse},
			{Library: "redimutex", Kind: kindPermits},
			{Library: "redimutex", Kind: kindPermits, Queue: true},
			{Library: "redimutex", Kind: kindAll, Fencing: true, Queue: true},
			{Library: "redimutex", Kind: kindHandOver, Fencing: true},
			{Library: "redimutex", Kind: kindHandOver, Addrs: make([]string, 3)},
		}
		if s.Long {
			kits = append(kits, kit{Library: "redimutex", Reuse: reuse}, kit{Library: "redimutex", Fencing: true},
				kit{Library: "redimutex", Addrs: make([]string, 3)}, kit{Library: "redsync"}, kit{Library: "redislock"})
		}
		checkAll(s, kits)
	})
}

const (
	historyTTL       = 400 * time.Millisecond
	historyProcesses = 3
	historyThreads   = 2
	historyKeys      = 2
)

// checkAll makes and checks histories of all kits, two at a time.
func checkAll(s *evidence.Scene, kits []kit) {
	trials := make([]*trial, len(kits))
	places := make(chan struct{}, 2)
	lap := 2500 * time.Millisecond
	if s.Long {
		lap = 5 * time.Second
	}
	for i, k := range kits {
		k.TTL, k.Poll = historyTTL, 5*time.Millisecond
		h := &trial{Scene: s, kit: k, random: s.Random(i), prefix: fmt.Sprintf("history-%d-", i), lap: lap}
		h.kit.Addrs = nil
		for range max(1, len(k.Addrs)) { // the servers keep their data when they are killed
			server := redistest.Real(s, "--appendonly", "yes", "--appendfsync", "always")
			h.servers, h.kit.Addrs = append(h.servers, server), append(h.kit.Addrs, server.Addr())
		}
		trials[i] = h
	}
	sideBySide(s, trials, 1, 5, func(_ int, h *trial, q *evidence.Quota) (_ []evidence.Figure, err error) {
		for ; err == nil && q.More(); q.Done++ {
			places <- struct{}{}
			err = h.run()
			<-places
		}
		return nil, err
	})
	report(s, trials)
}

// A trial is a kit under faults.
type trial struct {
	*evidence.Scene
	kit     kit
	servers []*redistest.Server
	random  *rand.Rand
	prefix  string        // of the keys
	lap     time.Duration // how long a history is

	laps     int
	clients  int // goroutines so far
	verdicts []verdict
	calls    int // also those that belong to no history

	mu     sync.Mutex
	events map[string][]event
}

// run makes a history, and checks it.
func (h *trial) run() error {
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
		worker, err := hire(h, job{Kit: h.kit, Keys: keys, History: &pattern{historyThreads, h.clients, h.random.Uint64()}})
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
	for time.Now().Before(end) && h.Context().Err() == nil {
		evidence.Sleep(h.Context(), evidence.Between(h.random, 20*time.Millisecond, 120*time.Millisecond))
		if err := h.strike(hands, employ); err != nil {
			return err
		}
	}
	for _, worker := range hands {
		worker.Dismiss() // the workers end by themselves
	}
	listening.Wait()
	for _, key := range keys {
		h.verdicts = append(h.verdicts, check(key, h.events[key]))
	}
	return nil
}

// listen records the calls of a process until it has ended. Calls that are still open then have the Return never.
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
	for _, key := range e.Keys {
		h.events[key] = append(h.events[key], e)
	}
	h.calls++
}

// strike makes one fault of a client or of a server happen.
func (h *trial) strike(hands []hand, employ func(int) error) (err error) {
	i, server := h.random.IntN(len(hands)), h.servers[h.random.IntN(len(h.servers))]
	kill := func() error {
		h.Struck("kill -9 of a client")
		return errors.Join(hands[i].Kill(), employ(i))
	}
	strikes := []evidence.Strike{evidence.Stop, evidence.Disconnect, evidence.Deafen, evidence.Restart}
	switch n := h.random.IntN(2 + len(strikes)); n {
	case 0:
		return kill()
	case 1:
		h.Struck("SIGSTOP of a client")
		if err := hands[i].Stop(patience); err != nil {
			return err
		}
		evidence.Sleep(h.Context(), evidence.Between(h.random, 0, 3*historyTTL/2))
		return hands[i].Resume()
	default:
		h.Struck(strikes[n-2].Name)
		strikes[n-2].Hit(server, func() {
			evidence.Sleep(h.Context(), evidence.Between(h.random, 0, historyTTL))
			if h.random.IntN(2) == 0 {
				err = kill() // with commands under way, or without a server
			}
		})
	}
	return err
}

// report sums up. It draws one history that is linearizable, and each one that is not or that porcupine could not decide.
func report(s *evidence.Scene, trials []*trial) {
	var example *verdict
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
			draw(s, v, fmt.Sprintf("history-%d-%d-%s.html", i, j, v.result))
		}
		f.Worst = fmt.Sprintf("%d calls (%d constrain), %d holds, %d open for ever", h.calls, calls, holds, unknown)
		s.Figure(f)
	}
	if example != nil {
		draw(s, *example, "history.html")
	}
	s.Note("The faults were %s. A history is that of one key; one that porcupine could not decide in time does not count as held.", s.Strikes())
}

// draw writes porcupine's picture of a history.
func draw(s *evidence.Scene, v verdict, name string) {
	if err := porcupine.VisualizePath(model, v.info, filepath.Join(s.Dir, name)); err != nil {
		s.Note("%s: %v", name, err)
		return
	}
	s.File(name)
}
