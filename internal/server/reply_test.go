package server_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestPermanentIsWhatWaitingCannotFix(t *testing.T) {
	t.Parallel()
	const returned = "@user_script: 36: " // an error that the script itself returns
	const wrapped = "ERR Error running script (call to f_3b2c1d): @user_script:36: @user_script: 36: "
	for _, text := range []string{
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 3b2c, on @user_script:5.",
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"NOPERM No permissions to access a key",
		"NOPROTO unsupported protocol version",
		"CROSSSLOT Keys in request don't hash to the same slot",
		"DENIED Redis is running in protected mode because protected mode is enabled",
		"ERR unknown command 'EVALSHA', with args beginning with: ",
		"ERR unknown command `TIME`, with args beginning with: ",
		"ERR Could not find scripting engine 'lua'",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 3b2c, on @user_script:5.",
		"ERR Protocol error: unauthenticated multibulk length",
		"ERR Protocol error: unauthenticated bulk length",
		"ERR Client sent AUTH, but no password is set",
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
		"ERR invalid password",
		"ERR DB index is out of range",
		"ERR ACL failure in script: User u has no permissions to run the 'set' command",
		wrapped + "Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script in order to switch to single commands replication mode.",
		wrapped + "Unknown Redis command called from Lua script",
		wrapped + "WRONGTYPE Operation against a key holding the wrong kind of value",
		wrapped + "-WRONGTYPE Operation against a key holding the wrong kind of value",
		wrapped + "-NOPERM this user has no permissions to run the 'set' command or its subcommand",
		wrapped + "The user executing the script can't run this command or subcommand",
		returned + "The user executing the script can't run this command or subcommand",
		returned + "Unknown Redis command called from Lua script",
		returned + "-NOPERM this user has no permissions to run the 'set' command or its subcommand",
		wrapped + "The user executing the script can't access at least one of the keys mentioned in the command arguments",
	} {
		assert.True(t, server.Permanent(redis.Error(text)), "%q", text)
	}
	for _, text := range []string{
		wrapped + "-READONLY You can't write against a read only replica.",
		returned + "-READONLY You can't write against a read only replica.",
		returned + "-OOM command not allowed when used memory > 'maxmemory'.",
		returned + "something unknown",
		wrapped + "-OOM command not allowed when used memory > 'maxmemory'.",
		wrapped + "OOM command not allowed when used memory > 'maxmemory'.",
		wrapped + "-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to",
		wrapped + "-NOREPLICAS Not enough good replicas to write.",
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN Hash slot not served",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"MOVED 3999 127.0.0.1:6381",
		"ASK 3999 127.0.0.1:6381",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"OOM command not allowed when used memory > 'maxmemory'. script: 3b2c, on @user_script:40.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"NOREPLICAS Not enough good replicas to write.",
		"UNBLOCKED force unblock from blocking operation",
		"NOSCRIPT No matching script. Please use EVAL.",
		"GUARD the server started without data; it votes again in 900 ms",
		"SOMETHING that a future server may say",
		"ERR something that a future server may say",
		"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
		"ERR max number of clients reached",
		"ERR max number of clients + cluster connections reached",
		"ERR Connection refused",   // twemproxy
		"ERR No route to host",     // twemproxy
		"ERR Connection timed out", // twemproxy
		"upstream failure",         // envoy
		"no upstream host",         // envoy
		"",
	} {
		assert.False(t, server.Permanent(redis.Error(text)), "%q", text)
	}
	for _, err := range []error{
		nil, io.EOF, io.ErrUnexpectedEOF, redis.ErrPoolExhausted, redistest.ErrCut, context.Canceled,
		context.DeadlineExceeded, &net.OpError{Op: "dial", Err: errors.New("connection refused")},
	} {
		assert.False(t, server.Permanent(err), "%v", err)
	}
}

// randomKey returns a short key of few different characters, so that braces come in every order.
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
