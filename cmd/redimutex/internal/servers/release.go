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

// Release deletes the lock on the server if it still has the token. A waiter in its queue gets it. ttl
// is how long the fence of the next holder has to last at least.
func (n Node) Release(key, token string, ttl time.Duration, queue bool) (Release, error) {
	s := server.New(n.Pool)
	defer s.Close(0)
	c := s.Foreign(server.Lock{Key: key, Token: token, Terms: &server.Terms{
		Kind: server.Mutex, Want: server.Mutex.Want, TTL: max(ttl, time.Second), Timeout: LookTimeout, Fence: server.NoFence, Queue: queue,
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
