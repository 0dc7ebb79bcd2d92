package servers

import (
	"context"
	"time"

	"github.com/redimutex/redimutex/internal/server"
)

// What became of a lock that was to be deleted on a server.
type Release int8

const (
	Failed  Release = iota // the server did not answer, or refused
	Deleted                // or handed to the first in its queue
	Missing                // it was free
	Taken                  // it has another token
)

// Release ends the hold of the token on the server, if it has one, as Unlock does: the first in the queue gets the lock.
// ttl is how long the fence of the next holder has to last at least.
func (n Node) Release(kind *server.Kind, key, token string, ttl time.Duration, queue bool) (Release, error) {
	s := server.New(n.Pool)
	defer s.Close(0)
	c := s.Foreign(server.Lock{Key: key, Token: token, Terms: &server.Terms{
		Kind: kind, Want: kind.Want, TTL: max(ttl, time.Second), Timeout: LookTimeout, Fence: server.NoFence, Queue: queue,
	}})
	reply := c.Release(context.Background(), time.Now(), time.Time{})
	switch reply.Verdict {
	case server.Done:
		return Deleted, nil
	case server.Missing:
		return Missing, nil
	case server.Taken:
		return Taken, nil
	}
	return Failed, reply.Err
}
