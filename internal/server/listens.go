package server

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// NobodyListens reports whether the server to which the pool leads now counts no one who listens on channel, so that it would
// hand no lock over there. Where that can't be known it reports false: a cluster counts the listeners of one node.
//
// It asks as a hand-off does, by a message, which is empty: that needs no other permission.
func (s *Server) NobodyListens(ctx context.Context, channel string, timeout time.Duration) bool {
	nobody := false
	err := s.Run(ctx, timeout, channel, func(ses *Session) error {
		if ses.Pinned() {
			return nil
		}
		heard, err := redis.Int(ses.Do("PUBLISH", channel, ""))
		nobody = err == nil && heard == 0
		return err
	})
	return err == nil && nobody
}
