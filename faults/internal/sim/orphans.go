package sim

import (
	"strconv"
	"strings"
	"time"
)

// Here the TTL is so long that the simulation sees a lock that its owner has left behind. A released lock must go soon, and
// not only when it expires.

const (
	longTTL  = 10 * time.Second
	patience = 4 * time.Second // a release is retried in the background after a second, and faults come again and again
)

// creates reports whether a command can bring its token to a server, or keep it there.
func creates(args []string) bool {
	if args[0] == "SET" {
		return true
	}
	if !strings.HasPrefix(args[0], "EVAL") {
		return false
	}
	keys, err := strconv.Atoi(args[2])
	return err == nil && len(args) > 3+keys+2 && args[3+keys+2] != "0" // the deadline of a release is 0
}

// orphans looks on the servers for locks that have no owner any more.
func (w *world) orphans() {
	if w.TTL == 0 {
		return
	}
	for _, s := range w.servers {
		if token := s.holder(); token != "" {
			w.judge.orphan(s.number, token)
		}
	}
}

// holder returns the token that has the lock on the server, or "".
func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.live(key); v != nil {
		return v.text // "" of a set
	}
	return ""
}

// orphan judges a token that a server has.
func (j *judge) orphan(server int, token string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, known := j.last[token]
	if !known || j.world.now()-last < patience {
		return
	}
	// A SET carries no deadline. If it arrives this late and its undo never does, both releases were answered before the SET.
	if j.world.Foreign && j.late[token] {
		return
	}
	for _, h := range j.alive {
		if h.token == token {
			return
		}
	}
	delete(j.last, token) // it is counted once
	j.wrong(&j.report.Orphans, "server %d has the token %s of a lock that was left %v ago", server, token, j.world.now()-last)
}

// messy is a weather in which tries are given up, connections break before their commands arrive, and nothing makes a
// lease expire.
var messy = Weather{
	Drift: .009, Offset: time.Second, Slow: .01, Late: .1, Break: .02, Calm: time.Second,
	Hang: 3, Crash: 1, Cut: true, Cancel: .3,
}

// orphanages returns the Configs of row 36.
func orphanages() []Config {
	all := []Config{
		{Name: "redimutex, 1 server", Servers: 1, Renew: true},
		{Name: "redimutex, 1 server, queue, fences", Servers: 1, Renew: true, Fencing: true, Queue: true},
		{Name: "redimutex, 3 servers", Servers: 3, Renew: true},
		{Name: "redimutex, 1 server, foreign pool", Servers: 1, Renew: true, Foreign: true},
	}
	for i := range all {
		all[i].TTL, all[i].Weather = longTTL, messy
	}
	return all
}
