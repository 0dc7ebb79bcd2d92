package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/lab/stats"
	"github.com/redimutex/redimutex/internal/redistest"
)

// named returns the refusal of that name.
func named(t *testing.T, name string) *refusal {
	t.Helper()
	for _, r := range refusals {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("there is no refusal %q", name)
	return nil
}

// A liar is a connection to a server that grants locks where it should refuse them for want of memory.
type liar struct{ net.Conn }

var refused = regexp.MustCompile(`(?s)^-OOM.*\r\n$`)

func (l liar) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	switch {
	case !refused.Match(b[:n]):
	case bytes.Contains(b[:n], []byte("script")):
		n = copy(b, "*2\r\n:1\r\n:0\r\n")
	default: // the refusal of a plain SET
		n = copy(b, "+OK\r\n")
	}
	return n, err
}

func TestFalseHoldIsFound(t *testing.T) {
	problems, _, _ := named(t, "OOM").conduct(t, func(d peers.Dialer) peers.Dialer {
		return func(ctx context.Context) (net.Conn, error) {
			c, err := d(ctx)
			return liar{c}, err
		}
	})
	assert.Contains(t, strings.Join(problems, "\n"), "a false hold")
}

func TestErrorOfTheWrongKindIsFound(t *testing.T) {
	r := *named(t, "READONLY") // a refusal that time fixes
	r.class = forGood
	problems, _, _ := r.conduct(t, nil)
	assert.Contains(t, strings.Join(problems, "\n"), "of the wrong kind")
	assert.Contains(t, strings.Join(problems, "\n"), "waits for what time can't fix")
}

func TestCallThatIgnoresItsContextIsFound(t *testing.T) {
	noise := evidence.Noise{Lateness: redistest.MeasureLatenessBy(evidence.NoiseStep)}
	defer noise.Stop()
	lateness := newCalls(noise, true)
	deaf := func(context.Context) error {
		<-time.After(time.Second)
		return redimutex.ErrUnavailable
	}
	fine := func(error) string { return "" }
	lateness.call(10*time.Millisecond, false, deaf, fine)
	assert.False(t, lateness.figure().OK(), lateness.figure())
	lateness = newCalls(noise, false)
	lateness.call(time.Minute, false, func(context.Context) error { return nil }, func(err error) string {
		return checkSilence(err, false)
	})
	assert.False(t, lateness.figure().OK(), "success without an answer")
}

func TestMajorityErrorHasToNameEachServer(t *testing.T) {
	two := errors.Join(redimutex.ErrUnavailable, context.DeadlineExceeded, &redimutex.NodeError{Node: 0}, fmt.Errorf("%w", &redimutex.NodeError{Node: 1}))
	assert.Empty(t, checkSilence(two, false, 0, 1))
	assert.Contains(t, checkSilence(two, false, 0, 1, 4), "server 4 is not named")
	assert.NotEmpty(t, checkSilence(nil, false))
	assert.NotEmpty(t, checkSilence(context.DeadlineExceeded, false))
}

func TestRoundThatWaitsIsFound(t *testing.T) {
	prompt := stats.Times{time.Millisecond}
	assert.True(t, cycles{lock: prompt, unlock: prompt}.within(promptly))
	assert.False(t, cycles{lock: stats.Times{time.Second}, unlock: prompt}.within(promptly))
	assert.False(t, cycles{lock: prompt, unlock: prompt, failed: redimutex.ErrUnavailable}.within(promptly))
}

func TestLeaksAreFound(t *testing.T) {
	before := inventory()
	stop := make(chan struct{})
	go func() { <-stop }()
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	assert.Equal(t, 1, before.grown(0).goroutines)
	if before.descriptors > 0 {
		assert.Equal(t, 1, before.grown(0).descriptors)
	}
	close(stop)
	require.NoError(t, f.Close())
	assert.Zero(t, before.grown(forever))
}

func TestConnectionThatIsNotGivenBackIsFound(t *testing.T) {
	dialers := []peers.Dialer{direct(redistest.Start(t))}
	p := pool(t, dialers[0], 0)
	c := p.Get()
	_, err := c.Do("PING")
	require.NoError(t, err)
	assert.Equal(t, 1, out([]*redis.Pool{p}))
	require.NoError(t, c.Close())
	assert.Zero(t, checkedOut([]*redis.Pool{p}))
}

// What is sent while the path is broken arrives when it is fixed, and no caller is told before.
func TestBrokenPathHoldsBackAndDeliversLate(t *testing.T) {
	servers, _ := start(t, 1)
	proxies, dialers := proxied(t, servers)
	c, err := dialers[0](t.Context())
	require.NoError(t, err)
	defer c.Close()
	proxies[0].Hold()
	_, err = c.Write([]byte("SET k v\r\n"))
	require.NoError(t, err)
	buf := make([]byte, 100)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = c.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Empty(t, servers[0].Get("k"))
	proxies[0].Release()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(forever)))
	n, err := c.Read(buf)
	require.NoError(t, err)
	assert.True(t, bytes.HasPrefix(buf[:n], []byte("+OK")))
	assert.Equal(t, "v", servers[0].Get("k"))
}
