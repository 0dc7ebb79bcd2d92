package kinds_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestAWriterThatGivesUpBeforeAPlainMutexOfItsProcessKeepsNoReaderWaiting(t *testing.T) {
	eachWay(t, func(t *testing.T, s *redistest.Server, opts []redimutex.Option) {
		const timeout = 40 * time.Second // so long the others would see a writer that is gone
		opts = append(slices.Clip(opts), redimutex.WithNodeTimeout(timeout), redimutex.WithTTL(time.Hour))
		m, r := process(t, s, opts), process(t, s, opts)
		first := start(t, r.RAcquire).get(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		writer := startWith(t, ctx, m.Acquire)
		shown(t, s, "writers", 1)
		if strings.HasSuffix(t.Name(), "queue") {
			redistest.Wait(t, "it to be in the queue", func() bool { return s.Exists("redimutex:queue:{k}") })
		}
		plain := start(t, m.Client().Mutex("k").Acquire)
		redistest.Wait(t, "both to wait", func() bool { return m.Client().Stats().Waiting == 2 })
		reader := start(t, r.RAcquire)
		redistest.Wait(t, "the reader to wait", func() bool { return r.Client().Stats().Waiting == 1 })
		began := time.Now()
		cancel()
		<-writer.done
		second := reader.get(t)
		assert.Less(t, time.Since(began), timeout/2)
		release(t, first)
		release(t, second)
		release(t, plain.get(t))
	})
}
