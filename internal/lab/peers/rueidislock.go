package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisLibrary struct{ rueidislock.Locker }

// Rueidislock locks on one server, with the settings that its README gives for that.
func Rueidislock(addr string, d Dialer, ttl time.Duration) (Library, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{addr},
			DialCtxFn:   func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) { return d(ctx) },
		},
		KeyValidity:    ttl,
		KeyMajority:    1,
		NoLoopTracking: true,
		// There is no next key to try. A try that is cut short waits for another holder's release, and hangs if there is no
		// other caller.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidisLibrary{l}, nil
}

func (l rueidisLibrary) Slot(key string) Slot { return &rueidisSlot{locker: l, key: key} }

func (l rueidisLibrary) Close() error {
	l.Locker.Close()
	return nil
}

// RueidisKey returns the name that rueidislock gives the first key of a lock on the server.
func RueidisKey(key string) string { return "rueidislock:0:" + key }

type rueidisSlot struct {
	silent
	locker rueidisLibrary
	key    string
	held   context.Context // ends with the lock
	unlock context.CancelFunc
}

func (s *rueidisSlot) Lock(ctx context.Context) (err error) {
	s.held, s.unlock, err = s.locker.WithContext(ctx, s.key)
	return err
}

func (s *rueidisSlot) TryLock(ctx context.Context) (err error) {
	s.held, s.unlock, err = s.locker.TryWithContext(ctx, s.key)
	return err
}

// Extend is not supported: rueidislock renews by itself.
func (s *rueidisSlot) Extend(context.Context, time.Duration) error { return errors.ErrUnsupported }

// Unlock ends the lock. The cancel function returns when the key is deleted, and reports no error.
func (s *rueidisSlot) Unlock(context.Context) error {
	s.unlock()
	return nil
}

func (s *rueidisSlot) Valid() bool           { return s.held.Err() == nil }
func (s *rueidisSlot) Done() <-chan struct{} { return s.held.Done() }
