package peers

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisLocker struct{ rueidislock.Locker }

func openRueidislock(e Env) (Locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{e.Addr},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return e.Requests.Dial(ctx, "tcp", addr)
			},
		},
		KeyValidity:    e.TTL,
		KeyMajority:    1,
		NoLoopTracking: true,
		// There is no next key to try. A try that is cut short waits for somebody else's release, and
		// hangs if there is nobody else.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidisLocker{l}, nil
}

func (l rueidisLocker) Slot(key string) Slot { return &rueidisSlot{locker: l, key: key} }

func (l rueidisLocker) Close() error {
	l.Locker.Close()
	return nil
}

// RueidisKey is what rueidislock calls the first key of a lock on the server.
func RueidisKey(key string) string { return "rueidislock:0:" + key }

type rueidisSlot struct {
	locker rueidisLocker
	key    string
	unlock context.CancelFunc
}

func (s *rueidisSlot) Lock(ctx context.Context) (err error) {
	_, s.unlock, err = s.locker.WithContext(ctx, s.key)
	return err
}

// Unlock ends the lock; that returns when the key is deleted, and tells nothing.
func (s *rueidisSlot) Unlock() error {
	s.unlock()
	return nil
}
