package cacheaside_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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

// reader turns this test binary into a process that reads the hot key of the server that it names.
const reader = "CACHEASIDE_TEST_SERVER"

func TestMain(m *testing.M) {
	redistest.Main(m, redistest.Role{Variable: reader, Run: func(url string) int {
		if err := read(url); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}})
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
	// A busy machine is no reason to give up.
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
				fmt.Scanln() //nolint:errcheck // the line comes when all callers have come
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
	var all []*redistest.Worker
	for range processes {
		all = append(all, redistest.StartWorker(t, reader, s.URL()))
	}
	for _, says := range []string{"ready", "waiting"} {
		for _, w := range all {
			require.Equal(t, says, w.Hear())
		}
		for _, w := range all {
			w.Tell("")
		}
	}
	var loads, looks int64
	values := make(map[string]int)
	for _, w := range all {
		var f figure
		require.NoError(t, json.Unmarshal([]byte(w.Hear()), &f))
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

// A counting Store counts its looks.
type counting struct {
	cacheaside.Store
	looks atomic.Int64
}

func (s *counting) Get(ctx context.Context, key string) ([]byte, error) {
	s.looks.Add(1)
	return s.Store.Get(ctx, key)
}
