package bounds_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/redistest/bounds"
)

// What a server that hangs may cost a process, whatever it does and for how long: connections to it, and
// goroutines beside those that wait for their locks. They are counted in generous numbers.
const (
	mostConnections = 60
	mostGoroutines  = 120
)

// A pool without timeouts never gives back what hangs.
func TestAServerThatHangsCostsFewConnectionsAndGoroutines(t *testing.T) {
	redistest.Needs(t, redistest.ChannelRules)
	for name, c := range map[string]struct {
		phase redistest.Phase
		make  func(bounds.Address) redimutex.Pool
	}{
		"dial":               {redistest.AtDial, bounds.Documented},
		"authentication":     {redistest.AtAuth, bounds.Documented},
		"command":            {redistest.AtCommand, bounds.Documented},
		"Get alone, command": {redistest.AtCommand, bounds.NewGetAlone},
		"NewPool, command":   {redistest.AtCommand, bounds.NewPool},
	} {
		t.Run(name, func(t *testing.T) { // by itself, because goroutines are counted
			s := redistest.Real(t)
			bounds.AddUser(s)
			f := redistest.NewFront(t, s)
			pool := c.make(bounds.Address{HostPort: f.Addr(), DB: 1})
			var tries atomic.Int64
			client := redimutex.NewClient([]redimutex.Pool{pool},
				redimutex.WithTrace(&redimutex.Trace{Attempt: func(redimutex.Event) { tries.Add(1) }}),
				redimutex.WithTTL(10*time.Second), redimutex.WithNodeTimeout(20*time.Millisecond), redimutex.WithPollInterval(5*time.Millisecond))
			f.Hang(c.phase)
			const callers = 16
			ctx, cancel := context.WithCancel(t.Context())
			var team sync.WaitGroup
			for i := range callers {
				team.Go(func() { client.Mutex(string(rune('a'+i))).LockContext(ctx, 0) }) //nolint:errcheck // it can't be had
			}
			redistest.Wait(t, "many tries of each", func() bool { return tries.Load() >= 30*callers })
			assert.LessOrEqual(t, f.Most(), mostConnections, "connections at once")
			assert.LessOrEqual(t, working(), mostGoroutines, "goroutines")
			cancel()
			team.Wait()
			f.Lift()
			require.NoError(t, client.Close())
		})
	}
}

// working counts the goroutines that the library has started.
func working() int {
	const module = "github.com/redimutex/redimutex"
	buf := make([]byte, 1<<25)
	n := 0
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if _, by, ok := strings.Cut(stack, "created by "); ok && strings.Contains(stack, module) &&
			!strings.HasPrefix(by, module+"/tests/") && !strings.Contains(stack, "redistest.(*Front") {
			n++
		}
	}
	return n
}
