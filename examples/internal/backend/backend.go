// Package backend gives the examples their Redis: the one at REDIS_URL, or an embedded one.
package backend

import (
	"os"

	"github.com/alicebob/miniredis/v2"
)

// A Server is a Redis that an example can use.
type Server struct {
	URL  string // may contain a password
	Name string // for people
	mini *miniredis.Miniredis
}

// Open returns the server at REDIS_URL, or starts one inside this process, on a loopback port.
func Open() (*Server, error) {
	if url := os.Getenv("REDIS_URL"); url != "" {
		return &Server{URL: url, Name: "the Redis at REDIS_URL"}, nil
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else nothing expires
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	return &Server{URL: "redis://" + m.Addr(), Name: "a Redis inside this program", mini: m}, nil
}

// Close stops an embedded server.
func (s *Server) Close() {
	if s.mini != nil {
		s.mini.Close()
	}
}
