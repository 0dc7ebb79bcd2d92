// Package pooltest has the common tests of the pools for all clients.
package pooltest

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Secret is the password of the user "locks".
const Secret = "s3cr3t-Pa55w0rd"

// AddUser adds the user "locks" to a server.
func AddUser(s *redistest.Server) {
	s.Do("ACL", "SETUSER", "locks", "on", ">"+Secret, "~*", "&*", "+@all")
}

// StartRedis starts a server for an Example.
func StartRedis() (addr string, stop func()) {
	m, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	return m.Addr(), m.Close
}

// Lock acquires a lock over pool with the given options, and releases it.
func Lock(t testing.TB, pool redimutex.Pool, key string, opts ...redimutex.Option) {
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

// Ask makes the pool connect and run a command.
func Ask(p redimutex.Pool, command string, args ...any) (string, error) {
	c := p.Get()
	defer c.Close()
	return redis.String(c.Do(command, args...))
}

// Ping makes the pool connect and run PING, within ctx.
func Ping(ctx context.Context, pool *redis.Pool) error {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = redis.DoContext(c, ctx, "PING")
	return err
}

// EveryPhaseEndsWithTheContext connects to a server that hangs in each phase in turn. open returns a pool with TLS and a
// database other than 0, and without its own timeout. hung checks other calls that the user may make.
func EveryPhaseEndsWithTheContext(
	t *testing.T, open func(t *testing.T, front *redistest.Front) *redis.Pool, hung func(t *testing.T, front *redistest.Front),
) {
	t.Helper()
	s := redistest.Real(t)
	for phase, at := range map[string]redistest.Phase{
		"dial": redistest.AtDial, "handshake": redistest.AtHandshake, "HELLO": redistest.AtAuth,
		"SELECT": redistest.AtSelect, "command": redistest.AtCommand,
	} {
		t.Run(phase, func(t *testing.T) {
			front := redistest.NewTLSFront(t, s)
			pool := open(t, front)
			front.Hang(at)
			for range 20 { // more than the number of hanging dials that may be left behind
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				require.ErrorIs(t, Ping(ctx, pool), context.DeadlineExceeded)
				cancel()
				// If ctx ends before the command is sent, the connection is kept. One that hung would fail below.
				assert.Equal(t, pool.IdleCount(), pool.ActiveCount())
			}
			hung(t, front)
			front.Lift()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, Ping(ctx, pool))
		})
	}
}

// WaitInLine makes a caller wait for a lock. It subscribes over a connection that redisc dials without a pool.
func WaitInLine(t testing.TB, pool redimutex.Pool, cluster *redistest.Cluster) {
	t.Helper()
	first, second := redimutex.NewClient([]redimutex.Pool{pool}), redimutex.NewClient([]redimutex.Pool{pool})
	defer first.Close()
	defer second.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	holder := first.Mutex("line", redimutex.WithQueue())
	require.NoError(t, holder.LockContext(ctx, 0))
	waiter, done := second.Mutex("line", redimutex.WithQueue()), make(chan error)
	go func() { done <- waiter.LockContext(ctx, 0) }()
	redistest.Wait(t, "the subscription", func() bool {
		for _, n := range cluster.Nodes {
			list, _ := redis.String(n.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
			if strings.Contains(list, " user=locks ") {
				return true
			}
		}
		return false
	})
	require.NoError(t, holder.UnlockContext(ctx))
	require.NoError(t, <-done)
	require.NoError(t, waiter.UnlockContext(ctx))
}

// The fates of an option.
const (
	Carried   = "carried"     // works for the pool as for the client
	Refused   = "refused"     // is an error when the pool is made
	Unchanged = "no business" // changes nothing for locks
)

// EveryOptionIsDecided compares the names of decided with the fields of all types of options. Each type has a prefix for its
// fields in decided. The fields in later exist only in newer clients. If it fails after an update of the client, decide the
// fate of the new field, there and in the documentation.
func EveryOptionIsDecided(t *testing.T, decided map[string]string, types map[string][]reflect.Type, later ...string) {
	t.Helper()
	left := make(map[string]bool)
	for name := range decided {
		left[name] = true
	}
	for prefix, types := range types {
		for _, options := range types {
			for _, field := range reflect.VisibleFields(options) {
				assert.Contains(t, decided, prefix+field.Name, "it is not decided what becomes of this option")
				delete(left, prefix+field.Name)
			}
		}
	}
	for _, name := range later {
		delete(left, name)
	}
	assert.Empty(t, left, "the client has no such option")
}

// EveryRefusalIsTried checks that each refused option has a test.
func EveryRefusalIsTried[T any](t *testing.T, decided map[string]string, tried map[string]T) {
	t.Helper()
	for name, fate := range decided {
		if fate == Refused {
			assert.Contains(t, tried, name)
		}
	}
}

// Clients has the fates of the options of valkey-go and rueidis, which share one design.
var Clients = map[string]string{
	"InitAddress": Carried, "ForceSingleClient": Carried, "Dialer": Carried, "DialFn": Carried, "DialCtxFn": Carried,
	"TLSConfig": Carried, "Username": Carried, "Password": Carried, "AuthCredentialsFn": Carried, "ClientName": Carried,
	"SelectDB": Carried, "ClientNoTouch": Carried, "ClientNoEvict": Carried,
	"ConnWriteTimeout": Carried, "ConnLifetime": Carried,
	"Sentinel": Carried, "Sentinel.Dialer": Carried, "Sentinel.TLSConfig": Carried, "Sentinel.MasterSet": Carried,
	"Sentinel.Username": Carried, "Sentinel.Password": Carried, "Sentinel.ClientName": Carried,
	"Standalone": Carried, "Standalone.ReplicaAddress": Carried, "ClusterOption": Carried,

	"ReplicaOnly": Refused, "Standalone.EnableRedirect": Refused, "ClusterOption.ShardsRefreshInterval": Refused,

	// Each new connection asks the Sentinels, and no connection becomes old.
	"Sentinel.TopologyRefreshInterval": Unchanged,
	// A lock repeats tries by its own options. redisc follows MOVED, and asks any node by CLUSTER SLOTS.
	"RetryDelay": Unchanged, "DisableRetry": Unchanged, "ShuffleInit": Unchanged,
	"ClusterOption.MaxMovedRedirections": Unchanged, "ClusterOption.PreferInitAddressRefresh": Unchanged,
	"ClusterOption.PreferClusterShards": Unchanged,
	// Reads from replicas, and caches: locks are at primaries.
	"SendToReplicas": Unchanged, "ReplicaSelector": Unchanged, "ReadNodeSelector": Unchanged,
	"EnableReplicaAZInfo": Unchanged, "AZFromInfo": Unchanged, "NewCacheStoreFn": Unchanged, "OnInvalidations": Unchanged,
	"ClientTrackingOptions": Unchanged, "CacheSizeEachConn": Unchanged, "DisableCache": Unchanged,
	// Treatment of the client's own connections: redigo speaks RESP2, and sends no library name.
	"ClientSetInfo": Unchanged, "AlwaysRESP2": Unchanged, "RingScaleEachConn": Unchanged, "ReadBufferEachConn": Unchanged,
	"WriteBufferEachConn": Unchanged, "BlockingPoolCleanup": Unchanged, "BlockingPoolMinSize": Unchanged,
	"BlockingPoolSize": Unchanged, "BlockingPipeline": Unchanged, "PipelineMultiplex": Unchanged,
	"MaxFlushDelay": Unchanged, "DisableTCPNoDelay": Unchanged, "DisableAutoPipelining": Unchanged,
	"AlwaysPipelining": Unchanged,
}
