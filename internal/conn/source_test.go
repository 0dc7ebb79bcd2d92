package conn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
)

type (
	embedding struct{ *redis.Pool }
	exporting struct {
		Primary *redis.Pool
		name    string
	}
	two    struct{ Primary, Replica *redis.Pool }
	hiding struct{ pool *redis.Pool }
	alone  struct{ conn.Pool }
)

func (p exporting) Get() redis.Conn { return p.Primary.Get() }
func (p two) Get() redis.Conn       { return p.Primary.Get() }
func (p hiding) Get() redis.Conn    { return p.pool.Get() }

// A wrapper of a pool may choose a database for each connection, so no operation may bypass it.
func TestOnlyAPoolItselfDialsForOperationsAndOneThatIsShownForSubscriptions(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	for _, c := range []struct {
		pool         conn.Pool
		dial, listen bool
	}{
		{pool, true, true},
		{embedding{pool}, false, true},
		{&embedding{pool}, false, true},
		{exporting{pool, "x"}, false, true},
		{two{pool, pool}, false, false},
		{hiding{pool}, false, false},
		{alone{pool}, false, true},
		{&redis.Pool{}, false, false},
	} {
		s := conn.Of(c.pool)
		assert.Equal(t, c.dial, s.Dial != nil, "%T", c.pool)
		assert.Equal(t, c.listen, s.Listen != nil, "%T", c.pool)
		if c.listen {
			got, err := s.Listen(t.Context())
			require.NoError(t, err)
			require.NoError(t, got.Close())
		}
	}
	assert.Zero(t, pool.ActiveCount())
}

func TestNothingBetweenASchemeAndAnAtIsShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial redis://:pw@host: no":                                "dial redis://***@host: no",
		"redis://user:p@w/@d@host:1/2 is away":                     "redis://***@host:1/2 is away",
		"rediss://:a b@one, rediss://:c@two":                       "rediss://***@two",
		"see https://redis.io/docs":                                "see https://redis.io/docs",
		"mail me@example.org":                                      "mail me@example.org",
		"unix://:pw@/run/redis.sock: no such file":                 "unix://***@/run/redis.sock: no such file",
		"dial tcp: address me:s3cret@127.0.0.1:1: too many colons": "dial tcp: address ***@127.0.0.1:1: too many colons",
		"dial tcp: lookup s3cret@host: no such host":               "dial tcp: lookup ***@host: no such host",
		"dial tcp s3cret@host:1: deadline exceeded":                "dial tcp ***@host:1: deadline exceeded",
		parsed("redis://:p#w@host"):                                "dial: parse ***",
		parsed("redis://:p/w@host"):                                "dial: parse ***",
		parsed(":p%w@host"):                                        "dial: parse ***",
		dialled("redis:pw@host"):                                   "dial: invalid redis URL, url is opaque: ***",
		dialled("redis://:12/pw@host"):                             "dial: invalid database: ***",
	} {
		for _, err := range []error{errors.New(text), redis.Error(text), fmt.Errorf("%w", redis.Error(text)), timeout{text}} {
			shown := conn.Plain(err)
			assert.Contains(t, shown.Error(), want)
			var said, was redis.Error
			assert.Equal(t, errors.As(err, &was), errors.As(shown, &said), "its class")
			for e := shown; e != nil; e = errors.Unwrap(e) {
				assert.NotRegexp(t, `(://|redis:|database: )[^*]*@`, fmt.Sprintf("%v %+v %#v %s %#v", e, e, e, said, struct{ error }{e}))
			}
		}
	}
	shown := conn.Plain(fmt.Errorf("redis://:pw@host: %w", context.DeadlineExceeded))
	assert.ErrorIs(t, shown, conn.ErrTimeout)
	assert.NotContains(t, fmt.Sprintf("%+v", shown), "pw")
}

// The server was never asked: only the pool had no free connection.
func TestAPoolWithoutAFreeConnectionIsNotTakenForASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &redis.Pool{MaxActive: 1, Wait: true, DialContext: (&peer{silentAt: "SELECT"}).dialer().DialContext}
		source := conn.Of(pool)
		get := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := source.Get(ctx)
			require.ErrorIs(t, err, conn.ErrTimeout)
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, err, &timeout)
			require.True(t, timeout.Timeout())
			return err
		}
		require.ErrorContains(t, get(), "no answer")
		pool.DialContext = (&peer{}).dialer().DialContext
		c := pool.Get()
		require.NoError(t, c.Err())
		require.ErrorContains(t, get(), "no connection of the pool came free")
		c.Close()
		pool.Close()
		synctest.Wait()
	})
}

// While its server hangs, a unix socket may have no room for more connections. It says so at once with EAGAIN, which calls
// itself a timeout.
func TestAUnixSocketWithoutRoomIsNotTakenForASilentServer(t *testing.T) {
	t.Parallel()
	socket := redistest.Socket(t)
	server := redistest.Real(t, "--unixsocket", socket, "--tcp-backlog", "1")
	server.Pause()
	t.Cleanup(server.Resume)
	var err error
	for range 100 {
		var c net.Conn
		if c, err = net.Dial("unix", socket); err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
	}
	require.Error(t, err, "there is room")
	source := conn.Of(&redis.Pool{DialContext: conn.NewDialer("unix", socket).DialContext})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, get := range []conn.Dial{source.Get, source.Dial} {
		_, err = get(ctx)
		require.ErrorContains(t, err, "connect")
		require.NotErrorIs(t, err, conn.ErrTimeout)
	}
}

// parsed returns what a pool says about a URL that it can't parse, without wrapping the error.
func parsed(rawURL string) string {
	_, err := url.Parse(rawURL)
	return fmt.Sprintf("dial: %v", err)
}

// dialled returns what redigo says about a URL that it can't dial.
func dialled(rawURL string) string {
	_, err := redis.DialURL(rawURL)
	return fmt.Sprintf("dial: %v", err)
}

type timeout struct{ text string }

func (t timeout) Error() string { return t.text }
func (timeout) Timeout() bool   { return true }

// Nothing ends a dial that ignores its ctx.
func TestFewDialsHangAndOnesThatHaveEndedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let, dials := make(chan struct{}), new(atomic.Int32)
		s := conn.Of(&redis.Pool{Dial: func() (redis.Conn, error) {
			dials.Add(1)
			<-let
			return nil, errors.New("no route")
		}})
		const few = 16
		for range few {
			_, err := s.Dial(until{t.Context(), time.Now().Add(time.Second)})
			require.ErrorIs(t, err, conn.ErrTimeout)
		}
		_, err := s.Dial(t.Context())
		require.ErrorContains(t, err, "too many dials hang already")
		assert.EqualValues(t, few, dials.Load())
		close(let)
		synctest.Wait()
		_, err = s.Dial(t.Context())
		require.ErrorContains(t, err, "no route")
	})
}

// The caller's slice may have room for the options that the Dialer adds. The race detector finds shared ones.
func TestDialsAtOnceShareNoOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opts := append(make([]redis.DialOption, 0, 16), redis.DialDatabase(0))
	d := conn.NewDialer("tcp", s.Addr(), opts...)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			c, err := d.DialContext(t.Context())
			if assert.NoError(t, err) {
				defer c.Close()
				got, err := redis.Int(c.Do("ECHO", i))
				assert.NoError(t, err)
				assert.Equal(t, i, got)
			}
		})
	}
	group.Wait()
}

func TestAPoolKeepsNoConnectionThatIsBad(t *testing.T) {
	t.Parallel()
	pool := redistest.Start(t).Pool()
	for _, bad := range []bool{false, true} {
		c := pool.Get()
		_, err := c.Do("PING")
		require.NoError(t, err)
		conn.Close(c, bad)
		assert.Equal(t, !bad, pool.IdleCount() == 1)
	}
}

// A lost is a connection that its pool could not make.
type lost struct {
	redis.Conn
	closed bool
}

func (c *lost) Get() redis.Conn { return c }
func (c *lost) Err() error      { return errors.New("no route") }
func (c *lost) Close() error    { c.closed = true; return nil }

// Such a connection may count against the limit of the pool.
func TestAConnectionThatIsNoneIsGivenBack(t *testing.T) {
	t.Parallel()
	c := new(lost)
	_, err := conn.Of(c).Get(t.Context())
	require.ErrorContains(t, err, "no route")
	assert.True(t, c.closed)
}

func TestOnlyAConnectionThatWasIdleIsTested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{silentAt: "PING"}
		d := p.dialer()
		c := dial(t, d)
		assert.NoError(t, d.TestIdle(t.Context(), c, time.Now().Add(-9*time.Second)))
		assert.Error(t, d.TestIdle(until{t.Context(), time.Now().Add(time.Second)}, c, time.Now().Add(-11*time.Second)))
	})
}
