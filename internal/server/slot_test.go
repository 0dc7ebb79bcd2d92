package server_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// randomKey is short and made of few characters, so that braces come in every order.
func randomKey() string {
	alphabet := "{}{}ab:0\x00\xff\r\n "
	var key strings.Builder
	for range 1 + rand.IntN(10) {
		key.WriteByte(alphabet[rand.IntN(len(alphabet))])
	}
	return key.String()
}

func TestSlotsAreThoseOfARealCluster(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t, "--cluster-enabled", "yes")
	c := r.Pool().Get()
	defer c.Close()
	for range 2000 {
		key := randomKey()
		for _, k := range []string{key, server.FenceKey(key)} {
			want, err := redis.Int(c.Do("CLUSTER", "KEYSLOT", k))
			require.NoError(t, err)
			require.EqualValues(t, want, server.Slot(k), "%q", k)
		}
		require.Equal(t, server.Slot(key), server.Slot(server.FenceKey(key)), "%q", key)
		require.Equal(t, server.Slot(key), server.Slot(server.TermKey(key)), "%q", key)
	}
}

func TestSiblingsReadAsOneWouldGuess(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redimutex:fence:{job}", server.FenceKey("job"))
	assert.Equal(t, "redimutex:queue:{job}", server.QueueKey("job"))
	assert.Equal(t, "redimutex:fence::{user}:job", server.FenceKey("{user}:job"))
}

func FuzzSibling(f *testing.F) {
	f.Add("a", "{a}")
	f.Add("}", "{5}:fence:}")
	f.Add("a}b", "{}a")
	f.Add("{a}b", "{a}")
	f.Add("}", ".{0}}")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			t.Skip("no key is empty")
		}
		sa, sb := server.QueueKey(a), server.QueueKey(b)
		if server.Slot(sa) != server.Slot(a) {
			t.Errorf("%q lies in another slot than %q", sa, a)
		}
		if a != b && sa == sb {
			t.Errorf("%q and %q have the same sibling %q", a, b, sa)
		}
		if sa == server.FenceKey(a) || sa == server.FenceKey(b) {
			t.Errorf("%q is a queue and a fence counter", sa)
		}
	})
}
