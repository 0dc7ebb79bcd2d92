package security_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Not parallel: the test measures what the whole process allocates.
func TestAValueOfManyMegabytesIsAHolderLikeAnyOther(t *testing.T) {
	const size = 16 << 20
	s := redistest.Start(t)
	s.Do("SETRANGE", "k", size-1, "x")
	for name, opts := range map[string][]redimutex.Option{
		"plain": nil, "fencing": {redimutex.WithFencing()}, "queue": {redimutex.WithQueue()}, "reuse": {redimutex.WithLeaseReuse(time.Second)},
	} {
		m := newClient(t, s.Pool(), append(opts, redimutex.WithNodeTimeout(4*time.Second), redimutex.WithMaxAttempts(2))...).Mutex("k")
		for verb, lock := range map[string]func() error{
			"TryLockContext": func() error { return m.TryLockContext(context.Background()) },
			"LockContext":    func() error { return m.LockContext(context.Background(), 0) },
		} {
			before := allocated()
			err := lock()
			assert.ErrorIs(t, err, redimutex.ErrLocked, "%s, %s", name, verb)
			assert.Less(t, allocated()-before, uint64(size/8), "%s, %s: what a client allocates for a holder that it needs to know nothing of", name, verb)
		}
	}
	require.EqualValues(t, size, s.Do("STRLEN", "k"), "and it is left alone")
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
