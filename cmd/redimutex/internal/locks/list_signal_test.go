//go:build unix

package locks

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// stall returns the URL of a proxy that passes everything on until a client sends command for the nth time, and then nothing
// more. At that moment it closes stalled.
func stall(s *redistest.Server, command string, n int) (url string, stalled <-chan struct{}) {
	p := s.Proxy()
	for range n - 1 {
		p.Catch("\r\n" + command + "\r\n").Release()
	}
	return p.URL(), p.Catch("\r\n" + command + "\r\n").Arrived()
}

func TestInterruptedListPrintsWhatItHasFound(t *testing.T) {
	t.Parallel()
	redistest.Differs(t, "takes seconds to scan many keys")
	s := redistest.Start(t)
	c := s.Pool().Get()
	defer c.Close()
	for i := range 600 {
		require.NoError(t, c.Send("SET", fmt.Sprint("job:", i), clitest.Token(""), "PX", 600000))
	}
	_, err := c.Do("")
	require.NoError(t, err)
	for number, args := range map[syscall.Signal][]string{
		syscall.SIGINT:  {"list", "-sort", "ttl"},
		syscall.SIGTERM: {"list", "-json"},
	} {
		url, stalled := stall(s, "TIME", 3) // the third look at some locks
		p := clitest.Launch(t, nil, append(args, "-redis", url)...)
		p.Reaches(stalled)
		p.Signal(number)
		assert.Equal(t, 128+int(number), p.Status())
		assert.Regexp(t, `redimutex: interrupted after \d+ keys: the list is incomplete\n$`, p.Err())
		if number == syscall.SIGINT {
			assert.Equal(t, 201, bytes.Count([]byte(p.Out()), []byte("\n")), "the head, and two times a hundred locks")
			continue
		}
		r := clitest.FromJSON[inventory](t, p.Out())
		assert.False(t, r.Complete)
		assert.Len(t, r.Locks, 200)
	}
}

func TestInterruptedListDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	url, stalled := stall(redistest.Start(t), "SCAN", 1)
	p := clitest.Launch(t, nil, "list", "-redis", url)
	p.Reaches(stalled)
	p.Signal(syscall.SIGINT)
	assert.Equal(t, 130, p.Status())
	assert.Empty(t, p.Out())
	assert.Contains(t, p.Err(), "redimutex: interrupted after 0 keys: the list is incomplete\n")
}

func TestASecondSignalEndsAListThatIsNotRead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "job", clitest.Token(""), "PX", 600000)
	proxy := s.Proxy()
	look := proxy.Catch("\r\nTIME\r\n")
	p := clitest.Prepare(t, nil, "list", "-redis", proxy.URL())
	p.Cmd.Stdout = clitest.FullPipe(t)
	p.Start()
	p.Reaches(look.Arrived())
	look.Release()
	clitest.Pass(t, "the attempt to write", 300*time.Millisecond)
	redistest.Wait(t, "the end", func() bool {
		p.Cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		return p.Ended()
	})
	assert.Equal(t, syscall.SIGTERM, p.DiedOf(), "%v: %s", p.Cmd.ProcessState, p.Err())
}

func TestListSaysForWhichServerItWaits(t *testing.T) {
	t.Parallel()
	s, other := redistest.Start(t), redistest.Start(t)
	s.Pause()
	defer s.Resume()
	p := clitest.Launch(t, nil, "list", "-redis", s.URL(), "-redis", other.URL())
	p.Warns("redimutex: waiting for " + s.Addr() + "/0, which has not answered for 1s\n")
	assert.NotZero(t, p.Status())
	assert.Contains(t, p.Err(), s.Addr()+"/0: no answer in time")
}
