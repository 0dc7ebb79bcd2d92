package watch

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// A chronicle is what was seen of all locks and servers.
type chronicle struct {
	histories []*history
	down      map[string]outage // the servers that do not answer
}

// An outage says since when a server has not answered, and why.
type outage struct {
	since  time.Time
	reason string
}

func newChronicle(keys []string) *chronicle {
	c := &chronicle{down: make(map[string]outage)}
	for range keys {
		c.histories = append(c.histories, new(history))
	}
	return c
}

// take adds a survey. It returns what has happened to each lock, and to the servers.
func (c *chronicle) take(s *survey) (news [][]event, servers []string) {
	for _, name := range slices.Sorted(maps.Keys(s.down)) {
		o, known := c.down[name]
		if !known {
			o.since = s.at
		}
		if reason := s.down[name]; reason != o.reason {
			servers = append(servers, name+": "+reason)
			o.reason = reason
		}
		c.down[name] = o
	}
	for _, name := range slices.Sorted(maps.Keys(c.down)) {
		if _, still := s.down[name]; !still {
			servers = append(servers, fmt.Sprintf("%s: answers again, after %v", name, cli.Brief(s.at.Sub(c.down[name].since))))
			delete(c.down, name)
		}
	}
	for i, r := range s.locks {
		news = append(news, c.histories[i].look(r, s.at, s.gone))
	}
	return news, servers
}
