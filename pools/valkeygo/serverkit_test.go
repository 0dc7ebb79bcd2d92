package valkeygo_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

const secret = "s3cr3t-Pa55w0rd"

// lock takes a lock over pool, with what is wanted, and gives it back.
func lock(t testing.TB, pool redimutex.Pool, key string, opts ...redimutex.Option) {
	t.Helper()
	opts = append([]redimutex.Option{redimutex.WithNodeTimeout(4 * time.Second)}, opts...) // the machine may be late
	client := redimutex.NewClient([]redimutex.Pool{pool}, opts...)
	defer func() { require.NoError(t, client.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := client.Mutex(key)
	require.NoError(t, m.LockContext(ctx, 0))
	require.NoError(t, m.UnlockContext(ctx))
}

// ask has the pool connect and run a command.
func ask(p redimutex.Pool, command string, args ...any) (string, error) {
	c := p.Get()
	defer c.Close()
	return redigo.String(c.Do(command, args...))
}

// addUser adds the user "locks" to a server.
func addUser(s *redistest.Server) {
	s.Do("ACL", "SETUSER", "locks", "on", ">"+secret, "~*", "&*", "+@all")
}

// It is a copy, because modules can share internal packages only if they are always released together.
func TestTheLoginIsThatOfGoredis(t *testing.T) {
	ours, err := os.ReadFile("login.go")
	require.NoError(t, err)
	theirs, err := os.ReadFile("../goredis/login.go")
	require.NoError(t, err)
	_, want, _ := strings.Cut(string(theirs), "\n")
	_, got, _ := strings.Cut(string(ours), "\n")
	assert.Equal(t, want, got)
}
