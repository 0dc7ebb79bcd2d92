// Command download is a fleet that fetches files from a site that can serve ten downloads at a time, from all machines
// together. A limit inside each process would allow ten per machine; a Semaphore is one limit for all of them. One machine
// crashes while it downloads: its permits are free again when their TTL is over.
//
// The machines are goroutines with a Client each, and the site is a server inside the program. Run it, without anything
// installed, by
//
//	go run ./download
//
// or with REDIS_URL set to use a Redis of yours. Look at how many downloads the site has seen at a time. The exit status
// is 1 if there were more than ten in spite of the Semaphore.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/examples/internal/backend"
)

const (
	limit    = 10
	machines = 4
	files    = 12          // that each machine fetches, all at once
	ttl      = time.Second // of the machine that crashes
	transfer = 20 * time.Millisecond
)

// key is different in each run, so that several runs can share a server.
var key = "example:download:site:" + rand.Text()

func main() { backend.Main("download", backend.WithPool(run)) }

// A site counts the downloads that it serves at a time.
type site struct{ now, most, served atomic.Int64 }

func (s *site) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	time.Sleep(transfer)
	s.served.Add(1)
	_, _ = io.WriteString(w, "a file")
}

// run starts the fleet without the Semaphore, then with it.
func run(ctx context.Context, out io.Writer, pool *redis.Pool) error {
	fmt.Fprintf(out, "%d machines fetch %d files each from a site that bears %d downloads at a time.\n", machines, files, limit)
	for _, limited := range []bool{false, true} {
		s := new(site)
		if err := fleet(ctx, pool, s, limited); err != nil {
			return err
		}
		words := "without a Semaphore"
		if limited {
			words = "with one          "
		}
		fmt.Fprintf(out, "  %s  %2d files, %2d downloads at a time\n", words, s.served.Load(), s.most.Load())
		if limited && s.most.Load() > limit {
			return errors.New("there were more downloads at a time than the Semaphore allows")
		}
	}
	return nil
}

// fleet makes all machines download.
func fleet(ctx context.Context, pool redimutex.Pool, s *site, limited bool) error {
	server := httptest.NewServer(s)
	defer server.Close()
	if limited {
		if err := crash(ctx, pool); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	failures := make([]error, machines*files)
	for m := range machines {
		client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithQueue())
		defer client.Close()
		downloads := client.Semaphore(key, limit)
		for f := range files {
			all.Go(func() {
				fetch := func(ctx context.Context) error { return get(ctx, server.URL) }
				if limited {
					failures[m*files+f] = downloads.Do(ctx, fetch)
				} else {
					failures[m*files+f] = fetch(ctx)
				}
			})
		}
	}
	all.Wait()
	return errors.Join(failures...)
}

// crash is a machine that takes all permits and ends without releasing them.
func crash(ctx context.Context, pool redimutex.Pool) error {
	client := redimutex.NewClient([]redimutex.Pool{pool}, redimutex.WithTTL(ttl))
	defer client.Close() // ends the renewals, and leaves the permits to expire
	for range limit {
		if _, err := client.Semaphore(key, limit).TryAcquire(ctx); err != nil {
			return err
		}
	}
	return nil
}

// get downloads a file. It stops when ctx ends, also because the permit is lost.
func get(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, reply.Body)
	return err
}
