//go:build unix

package list

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// stall returns the URL of a proxy that passes on everything until a client sends command for the
// nth time, and from then on nothing. Then it closes stalled.
func stall(t *testing.T, s *redistest.Server, command string, n int) (url string, stalled <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	over := make(chan struct{})
	go func() {
		near, err := l.Accept() // list has one connection, which it uses again
		if err != nil {
			return
		}
		t.Cleanup(func() { near.Close() })
		far, err := net.Dial("tcp", s.Addr())
		if err != nil {
			return
		}
		t.Cleanup(func() { far.Close() })
		go func() {
			buffer := make([]byte, 1<<16)
			for {
				n, err := far.Read(buffer)
				if err != nil {
					return
				}
				near.Write(buffer[:n]) //nolint:errcheck // list has ended
			}
		}()
		buffer := make([]byte, 1<<16)
		for {
			got, err := near.Read(buffer)
			if err != nil {
				return
			}
			if bytes.Contains(buffer[:got], []byte("\r\n"+command+"\r\n")) {
				if n--; n == 0 {
					close(over)
					return
				}
			}
			far.Write(buffer[:got]) //nolint:errcheck // the test has ended
		}
	}()
	return "redis://" + l.Addr().String(), over
}

func TestInterruptedListPrintsWhatItHasFound(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Pool().Get()
	defer c.Close()
	for i := range 600 {
		require.NoError(t, c.Send("SET", fmt.Sprint("job:", i), uuid.NewString(), "PX", 600000))
	}
	_, err := c.Do("")
	require.NoError(t, err)
	for number, args := range map[syscall.Signal][]string{
		syscall.SIGINT:  {"list", "-sort", "ttl"},
		syscall.SIGTERM: {"list", "-json"},
	} {
		url, stalled := stall(t, s, "TIME", 3) // the third look at some locks
		p := clitest.Launch(t, nil, append(args, "-redis", url)...)
		<-stalled
		p.Signal(number)
		assert.Equal(t, 128+int(number), p.Status())
		assert.Regexp(t, `^redimutex: interrupted after \d+ keys: the list is incomplete\n$`, p.Err())
		if number == syscall.SIGINT {
			assert.Equal(t, 201, bytes.Count([]byte(p.Out()), []byte("\n")), "the head, and two times a hundred locks")
			continue
		}
		var r inventory
		require.NoError(t, json.Unmarshal([]byte(p.Out()), &r))
		assert.False(t, r.Complete)
		assert.Len(t, r.Locks, 200)
	}
}

func TestInterruptedListDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	url, stalled := stall(t, redistest.Start(t), "SCAN", 1)
	p := clitest.Launch(t, nil, "list", "-redis", url)
	<-stalled
	p.Signal(syscall.SIGINT)
	assert.Equal(t, 130, p.Status())
	assert.Empty(t, p.Out())
	assert.Equal(t, "redimutex: interrupted after 0 keys: the list is incomplete\n", p.Err())
}
