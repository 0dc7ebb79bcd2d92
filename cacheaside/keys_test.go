package cacheaside_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cacheaside"
)

func TestAValueNeverOverwritesALock(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		naming := func(name func(string) string) []cacheaside.Option {
			return []cacheaside.Option{cacheaside.WithLockKey(name)}
		}
		for key, opts := range map[string][]cacheaside.Option{
			"door:lock":   nil,
			":lock":       nil,
			"lock:door":   naming(func(key string) string { return "lock:" + key }),
			"{door}:lock": naming(func(key string) string { return "{" + key + "}:lock" }),
			"door":        naming(func(key string) string { return key }),
			"all":         naming(func(string) string { return "all" }),
		} {
			_, err := cacheaside.Fetch(t.Context(), w.cache(opts...), key, unwanted)
			require.ErrorContains(t, err, "is that of a lock", key)
		}
		v, err := cacheaside.Fetch(t.Context(), w.cache(naming(func(key string) string { return "lock:" + key })...), "door:lock", value("v"))
		require.NoError(t, err, "no lock has that name")
		assert.Equal(t, "v", v)
	})
}

func TestAKeyThatCannotBeUsedIsAnError(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		constant := func(name string) cacheaside.Option {
			return cacheaside.WithLockKey(func(string) string { return name })
		}
		for _, c := range []struct {
			key  string
			opts []cacheaside.Option
			want string
		}{
			{"redimutex:fence:{door}", nil, "reserved"},
			{"redimutex:fence:{door}", []cacheaside.Option{constant("one")}, "reserved"},
			{"door", []cacheaside.Option{constant("redimutex:door")}, "reserved"},
			{"door", []cacheaside.Option{constant("")}, "empty"},
		} {
			_, err := cacheaside.Fetch(t.Context(), w.cache(c.opts...), c.key, unwanted)
			assert.ErrorContains(t, err, c.want)
		}
		assert.Empty(t, w.server.Keys())
	})
}
