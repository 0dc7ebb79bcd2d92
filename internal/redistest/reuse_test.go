package redistest_test

import (
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// after returns the process of a server after a test that did this with it, and a server of the next test.
func after(t *testing.T, test func(t *testing.T, s *redistest.Server)) (pid int, next *redistest.Server) {
	t.Helper()
	t.Run("a test", func(t *testing.T) {
		s := redistest.Real(t)
		pid = s.PID()
		test(t, s)
	})
	return pid, redistest.Real(t)
}

// The tests are not parallel: each wants the server that the one before has left.
func TestAServerThatWasLeftAsItWasServesTheNextTest(t *testing.T) {
	var script string
	pid, s := after(t, func(t *testing.T, s *redistest.Server) {
		s.Do("SET", "k", "v")
		script, _ = redis.String(s.Do("SCRIPT", "LOAD", "return 1"), nil)
		s.Do("CONFIG", "SET", "maxmemory", "1mb")
		s.Do("CONFIG", "SET", "maxmemory", "0")
		c := s.Pool().Get() // the pool is closed with the test
		defer c.Close()
		_, err := c.Do("PING")
		require.NoError(t, err)
	})
	require.Equal(t, pid, s.PID())
	assert.Empty(t, s.Keys())
	assert.Equal(t, []any{int64(0)}, s.Do("SCRIPT", "EXISTS", script))
	assert.NotContains(t, fmt.Sprintf("%s", s.Do("INFO", "commandstats")), "cmdstat_set:")
	s.Do("SET", "k", "v")
	assert.Equal(t, "v", s.Get("k"), "it still works")
}

func TestAServerThatSomethingWasDoneToServesNobodyElse(t *testing.T) {
	var stay redis.Conn
	for what, do := range map[string]func(t *testing.T, s *redistest.Server){
		"a setting":       func(_ *testing.T, s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1mb") },
		"a user":          func(_ *testing.T, s *redistest.Server) { s.Do("ACL", "SETUSER", "u", "on") },
		"a restart":       func(_ *testing.T, s *redistest.Server) { s.Restart() },
		"a death":         func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"a pause":         func(_ *testing.T, s *redistest.Server) { s.Pause() },
		"another primary": func(t *testing.T, s *redistest.Server) { s.ReplicaOf(redistest.Real(t)) },
		"a client": func(t *testing.T, s *redistest.Server) {
			c, err := redis.Dial("tcp", s.Addr())
			require.NoError(t, err)
			stay = c
		},
	} {
		t.Run(what, func(t *testing.T) {
			pid, s := after(t, do)
			assert.NotEqual(t, pid, s.PID())
		})
	}
	if stay != nil { // the servers are real
		stay.Close()
	}
}
