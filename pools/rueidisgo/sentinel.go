package rueidisgo

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"
	"github.com/redis/rueidis"
)

// sentinels know the primary.
type sentinels struct {
	addresses []string
	name      string // of the primary
	connect   dialFunc
	onward    dialFunc // to the primary
}

func newSentinels(option *rueidis.ClientOption) *sentinels {
	theirs := sentinelOption(*option)
	return &sentinels{
		addresses: theirs.InitAddress,
		name:      option.Sentinel.MasterSet,
		connect:   newLogin(theirs, dialler(theirs)).connect,
		onward:    dialler(option),
	}
}

// dial is a dialFunc that goes to the primary, whatever the address.
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
	type answer struct {
		address string
		err     error
	}
	answers := make(chan answer, len(s.addresses))
	for _, sentinel := range s.addresses {
		go func() { // it ends with ctx, and nobody has to wait for it
			address, err := s.ask(ctx, sentinel)
			if err != nil {
				err = fmt.Errorf("the Sentinel %s: %w", sentinel, err)
			}
			answers <- answer{address, err}
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

func (s *sentinels) ask(ctx context.Context, sentinel string) (string, error) {
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
