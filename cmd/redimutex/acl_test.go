package main

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A user with read permissions only can look with each of the commands. The server refuses nothing on the way, and each
// permission is needed.
func TestReaderMayLookAndNothingElse(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	rw := redimutex.NewRWMutex(s.Pool(), "lock:job", redimutex.WithFencing(), redimutex.WithQueue(), redimutex.WithTTL(time.Minute))
	holder, err := rw.RAcquire(t.Context())
	require.NoError(t, err)
	defer holder.Release(t.Context())
	s.Do("SET", "lock:text", "of another kind", "PX", 3600000)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithQueue())
	defer client.Close()
	go client.RWMutex("lock:job").Acquire(t.Context()) //nolint:errcheck // it waits until the end of the test
	locktest.WaitQueued(t, s, "lock:job", 1)
	url := "redis://looks:hunter2@" + s.Addr()
	page := clitest.Rules(t, "reader", "looks")
	watch, show, list := page["redimutex watch"], page["redimutex show:"], page["redimutex list:"]
	for _, words := range [][]string{watch, show, list} {
		require.NotEmpty(t, words)
	}
	for _, c := range []struct {
		args  []string
		words []string // the permissions without which it must fail
		all   []string
	}{
		{[]string{"show", "-json", "lock:job"}, slices.Concat(watch, show), slices.Concat(watch, show)},
		{[]string{"watch", "-json", "-for", "0.01", "lock:job"}, watch, watch},
		{[]string{"list", "-json", "lock:*"}, list, slices.Concat(watch, list)},
	} {
		look := func(words []string) (out string) {
			s.SetUser("looks", slices.Concat([]string{"reset", "on", ">hunter2"}, words)...)
			s.Do("ACL", "LOG", "RESET")
			_, out, stderr := clitest.Call(slices.Concat(c.args, []string{"-redis", url})...)
			assert.NotContains(t, out+stderr, "hunter2")
			assert.NotContains(t, out+stderr, holder.Token())
			return out
		}
		out := look(c.all)
		assert.Contains(t, out, "lock:job", c.args)
		assert.Contains(t, out, `"waiting":1`, c.args)
		require.Empty(t, refusals(t, s), c.args)
		for _, word := range c.words {
			look(slices.DeleteFunc(slices.Clone(c.all), func(w string) bool { return w == word }))
			assert.NotEmpty(t, refusals(t, s), "%v needs no %s", c.args, word)
		}
	}
}

// refusals returns what the server has refused.
func refusals(t *testing.T, s *redistest.Server) (objects []string) {
	log, err := redis.Values(s.Do("ACL", "LOG"), nil)
	require.NoError(t, err)
	for _, entry := range log {
		fields, err := redis.Values(entry, nil)
		require.NoError(t, err)
		for i := 0; i+1 < len(fields); i += 2 {
			if name, _ := redis.String(fields[i], nil); name == "object" {
				object, _ := redis.String(fields[i+1], nil)
				objects = append(objects, object)
			}
		}
	}
	return objects
}
