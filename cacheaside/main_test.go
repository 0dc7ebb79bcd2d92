package cacheaside_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cacheaside"
	"github.com/redimutex/redimutex/internal/redistest"
)

// reader makes this test binary a process that reads the hot key of the server that it names.
const reader = "CACHEASIDE_TEST_SERVER"

func TestMain(m *testing.M) {
	if url := os.Getenv(reader); url != "" {
		if err := read(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if code == 0 {
		if left := leaked(30 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines that outlive the tests:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of our goroutines that do not end within patience.
func leaked(patience time.Duration) string {
	buf := make([]byte, 1<<22)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if _, made, ok := strings.Cut(stack, "created by "); ok && strings.HasPrefix(made, "github.com/redimutex/") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}

const (
	processes  = 4
	goroutines = 50
)

// A figure is what one process has seen.
type figure struct {
	Loads, Looks int64
	Values       map[string]int
}

// read is the process: all its goroutines want the same key at the same time.
func read(url string) error {
	pool, err := redimutex.NewPool(url)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := redimutex.NewClient([]redimutex.Pool{pool})
	defer client.Close()
	store := &counting{Store: cacheaside.NewRedisStore(pool, time.Hour)}
	// A crowded machine is no reason to give up.
	cache := cacheaside.New(client, store, cacheaside.WithMaxTries(300))

	fmt.Println("ready")
	fmt.Scanln() //nolint:errcheck // it is empty

	var loads, callers atomic.Int64
	var mu sync.Mutex
	values := make(map[string]int)
	var failed error
	var team sync.WaitGroup
	team.Go(func() {
		for callers.Load() < goroutines || store.looks.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("waiting")
	})
	for range goroutines {
		team.Go(func() {
			callers.Add(1)
			v, err := cacheaside.Fetch(context.Background(), cache, "hot", func(context.Context) (string, error) {
				loads.Add(1)
				fmt.Scanln() //nolint:errcheck // the end of the input comes when everybody has come, and too early
				return fmt.Sprintf("made by process %d", os.Getpid()), nil
			})
			mu.Lock()
			defer mu.Unlock()
			values[v]++
			if err != nil {
				failed = err
			}
		})
	}
	team.Wait()
	if failed != nil {
		return failed
	}
	return json.NewEncoder(os.Stdout).Encode(figure{loads.Load(), store.looks.Load(), values})
}

func TestOneLoaderRunsHoweverManyProcessesAsk(t *testing.T) {
	s := redistest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)

	type process struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out io.Reader
	}
	var all []process
	for range processes {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), reader+"="+s.URL())
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		all = append(all, process{cmd, in, out})
	}
	says := func(p process, want string) {
		var word string
		_, err := fmt.Fscanln(p.out, &word)
		require.NoError(t, err)
		require.Equal(t, want, word)
	}
	for _, p := range all {
		says(p, "ready")
	}
	for _, p := range all {
		_, err := io.WriteString(p.in, "\n")
		require.NoError(t, err)
	}
	for _, p := range all {
		says(p, "waiting")
	}
	for _, p := range all {
		p.in.Close()
	}
	var loads, looks int64
	values := make(map[string]int)
	for _, p := range all {
		var f figure
		require.NoError(t, json.NewDecoder(p.out).Decode(&f))
		require.NoError(t, p.cmd.Wait())
		loads += f.Loads
		looks += f.Looks
		for v, n := range f.Values {
			values[v] += n
		}
	}
	t.Logf("%d callers: %d loads, %d looks in the cache", processes*goroutines, loads, looks)
	assert.EqualValues(t, 1, loads)
	assert.Len(t, values, 1)
	for _, n := range values {
		assert.Equal(t, processes*goroutines, n)
	}
}

// A counting Store counts how often it is looked in.
type counting struct {
	cacheaside.Store
	looks atomic.Int64
}

func (s *counting) Get(ctx context.Context, key string) ([]byte, error) {
	s.looks.Add(1)
	return s.Store.Get(ctx, key)
}
