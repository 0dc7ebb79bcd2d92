package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// sentinels asks Sentinels for the address of the primary.
type sentinels struct {
	addresses []string
	name      string // of the primary
	connect   Func
	onward    Func          // to the primary
	patience  time.Duration // the time for one question

	mu    sync.Mutex
	asked map[string]*question // questions under way, by the address of the Sentinel
}

// A question to a Sentinel is shared by all callers that want the answer while it is under way. So a DialFn that hangs and
// ignores its context keeps one goroutine per Sentinel, and not one per new connection.
type question struct {
	answered chan struct{} // closed once address and err are final
	address  string
	err      error
}

// sentinels returns the Sentinels at InitAddress. onward dials the primary.
func (o *Options) sentinels(onward Func) *sentinels {
	return &sentinels{
		addresses: o.InitAddress,
		name:      o.MasterSet,
		connect:   o.login(&o.Sentinel, nil).Connect,
		onward:    onward,
		patience:  3 * o.patience(&o.Sentinel), // to dial, to log in and to ask
		asked:     make(map[string]*question),
	}
}

// dial is a Func that dials the primary, whatever the address.
func (s *sentinels) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	address, err := s.primary(ctx)
	if err != nil {
		return nil, err
	}
	return s.onward(ctx, network, address)
}

// primary asks all Sentinels at once and takes the first answer, so that a Sentinel that hangs costs no time.
func (s *sentinels) primary(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan *question, len(s.addresses))
	for _, sentinel := range s.addresses {
		q := s.question(ctx, sentinel)
		go func() {
			select {
			case <-q.answered:
				answers <- q
			case <-ctx.Done():
				answers <- &question{err: fmt.Errorf("the Sentinel %s: %w", sentinel, ctx.Err())}
			}
		}()
	}
	var errs []error
	refused := true // by all of them
	for range s.addresses {
		a := <-answers
		if a.err == nil {
			return a.address, nil
		}
		errs = append(errs, a.err)
		var said redis.Error
		refused = refused && errors.As(a.err, &said)
	}
	err := errors.Join(errs...)
	if !refused { // a Sentinel that refuses for good does not speak for others that may still answer
		err = errors.New(err.Error())
	}
	return "", err
}

// question returns the question to a Sentinel that is under way, or starts one. The question does not end with ctx, because
// others may wait for its answer.
func (s *sentinels) question(ctx context.Context, sentinel string) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.asked[sentinel]
	if q == nil {
		q = &question{answered: make(chan struct{})}
		s.asked[sentinel] = q
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
			defer cancel()
			q.address, q.err = s.ask(ctx, sentinel)
			if q.err != nil {
				q.err = fmt.Errorf("the Sentinel %s: %w", sentinel, q.err)
			}
			s.mu.Lock()
			delete(s.asked, sentinel)
			s.mu.Unlock()
			close(q.answered)
		}()
	}
	return q
}

func (s *sentinels) ask(ctx context.Context, sentinel string) (primary string, err error) {
	defer func() {
		if r := recover(); r != nil { // a DialFn may panic, which would end the process
			err = fmt.Errorf("the dial panicked: %v", r)
		}
	}()
	raw, err := s.connect(ctx, "tcp", sentinel)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	address, err := redis.Strings(redis.NewConn(raw, 0, 0).Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, redis.ErrNil):
		return "", fmt.Errorf("it knows no primary %q", s.name)
	case err == nil && len(address) != 2:
		err = errors.New("it does not tell host and port")
	}
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(address[0], address[1]), nil
}
