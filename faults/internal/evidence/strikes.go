package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A Strike is a fault of a server. When Hit returns, the server is as it was before.
type Strike struct {
	Name string
	Hit  func(s *redistest.Server, wait func())
}

// These faults are possible with every server.
var (
	Restart    = Strike{"kill -9 and restart of a server", func(s *redistest.Server, wait func()) { s.Kill(); wait(); s.Restart() }}
	Stop       = Strike{"SIGSTOP of a server", func(s *redistest.Server, wait func()) { s.Pause(); wait(); s.Resume() }}
	Disconnect = Strike{"CLIENT KILL", func(s *redistest.Server, _ func()) { s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }}
	Deafen     = Strike{"CLIENT KILL of all subscribers", func(s *redistest.Server, _ func()) { s.Do("CLIENT", "KILL", "TYPE", "pubsub") }}
)

// Struck counts a fault.
func (s *Scene) Struck(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.struck == nil {
		s.struck = make(map[string]int)
	}
	s.struck[what]++
}

// Strikes says how often each fault was counted.
func (s *Scene) Strikes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string
	for _, what := range slices.Sorted(maps.Keys(s.struck)) {
		words = append(words, fmt.Sprintf("%d times %s", s.struck[what], what))
	}
	return strings.Join(words, ", ")
}
