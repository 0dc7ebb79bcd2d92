package mux_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

const lua = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// BenchmarkAgainstAPipeline has goroutines take and release keys of their own over one shared connection, in turn
// with a loop that pipelines as many such pairs, which is the limit of redigo.
func BenchmarkAgainstAPipeline(b *testing.B) {
	const each = 50
	s := redistest.Real(b)
	p := share(b, s.Pool(), 1)
	loop, err := redis.Dial("tcp", s.Addr())
	require.NoError(b, err)
	defer loop.Close()
	sum, err := redis.String(loop.Do("SCRIPT", "LOAD", lua))
	require.NoError(b, err)
	for _, n := range []int{1, 8, 64} {
		keys := make([]string, n)
		for g := range keys {
			keys[g] = "key:" + strconv.Itoa(g)
		}
		pipelined := func() {
			for range each {
				for _, key := range keys {
					loop.Send("SET", key, "token", "NX", "PX", 10_000)
				}
				if _, err := loop.Do(""); err != nil {
					b.Fatal(err)
				}
				for _, key := range keys {
					loop.Send("EVALSHA", sum, 1, key, "token")
				}
				if _, err := loop.Do(""); err != nil {
					b.Fatal(err)
				}
			}
		}
		shared := func() {
			var group sync.WaitGroup
			for _, key := range keys {
				group.Go(func() {
					c := get(b, p)
					ctx := until(time.Hour)
					for range each {
						if _, err := do(ctx, c, "SET", key, "token", "NX", "PX", 10_000); err != nil {
							b.Error(err)
						}
						if _, err := do(ctx, c, "EVALSHA", sum, 1, key, "token"); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var theirs, mine, theirCPU, ourCPU time.Duration
			for b.Loop() {
				took, cpu := spent(b, pipelined)
				theirs, theirCPU = theirs+took, theirCPU+cpu
				took, cpu = spent(b, shared)
				mine, ourCPU = mine+took, ourCPU+cpu
			}
			pairs := float64(b.N * each * n)
			b.ReportMetric(theirs.Seconds()/mine.Seconds(), "rate/pipelined")
			b.ReportMetric(float64(ourCPU)/pairs, "cpu-ns/pair")
			b.ReportMetric(float64(theirCPU)/pairs, "cpu-ns/pipelined")
		})
	}
}

// spent returns how long f takes, and how much of the processor.
func spent(b *testing.B, f func()) (took, cpu time.Duration) {
	before, began := redistest.Processor(b), time.Now()
	f()
	return time.Since(began), redistest.Processor(b) - before
}
