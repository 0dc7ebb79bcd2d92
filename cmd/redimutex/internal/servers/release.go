package servers

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// Release ends the hold of the token on the server, if it has one, as Unlock does: the first in the queue gets the lock.
// ttl is how long the fence of the next holder has to last at least.
func (n Node) Release(kind *server.Kind, key, token string, ttl time.Duration, queue bool) server.Reply {
	s := server.New(n.Pool)
	defer s.Close(0)
	c := s.Foreign(server.Lock{Key: key, Token: token, Terms: &server.Terms{
		Kind: kind, Want: kind.Want, TTL: max(ttl, time.Second), Timeout: LookTimeout, Fence: server.NoFence, Queue: queue,
	}})
	return c.Release(context.Background(), time.Now(), time.Time{})
}
