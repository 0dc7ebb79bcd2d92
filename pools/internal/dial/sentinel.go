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

// sentinels know the primary.
type sentinels struct {
	addresses []string
	name      string // of the primary
	connect   Func
	onward    Func          // to the primary
	patience  time.Duration // with a question

	mu    sync.Mutex
	asked map[string]*question // under way, by the address of the Sentinel
}

// A question to a Sentinel is for all who want to know while it is under way: so a DialFn that hangs, which no context
// ends, keeps one goroutine for each Sentinel and not one for each new connection.
type question struct {
	answered chan struct{} // closed once address and err are what they will be
	address  string
	err      error
}

// sentinels returns those at InitAddress. onward dials the primary.
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

// dial is a Func that goes to the primary, whatever the address.
func (s *sentinels) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	address, err := s.primary(ctx)
	if err != nil {
		return nil, err
	}
	return s.onward(ctx, network, address)
}

// primary asks all Sentinels at once, so that one which hangs costs no time, and takes the first answer.
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
	if !refused { // one that refuses for good does not speak for those that may answer yet
		err = errors.New(err.Error())
	}
	return "", err
}

// question returns the question to a Sentinel that is under way, or a new one. It does not end with ctx, because others
// may wait for its answer.
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
		if r := recover(); r != nil { // of a DialFn; it would end the process
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
