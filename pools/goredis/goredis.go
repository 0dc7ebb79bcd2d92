// Package goredis makes pools for redimutex from clients of go-redis, so that a team that uses go-redis needs no second
// configuration:
//
//	go get github.com/redimutex/redimutex/pools/goredis
//
// Hooks of the client (AddHook, such as those of redisotel) are not called for locks, neither for commands nor for dialling.
// So their traces and metrics do not show locks. redimutex.WithTrace reports locks, and metrics/otel makes spans and metrics
// from that.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", Username: "locks", Password: password})
//	pool, err := goredis.Pool(client)
//	...
//	defer pool.Close()
//	mu := redimutex.New(pool, "invoices")
//
// The pool dials its own redigo connections with the Options of the client; nothing is emulated. They end with their context
// in every phase, and a lock over one server runs on the caller's goroutine, as with redimutex.NewPool. The client remains the
// caller's to close.
//
// # Which clients
//
//   - redis.NewClient: a pool for one server.
//   - redis.NewFailoverClient: its dialer asks the Sentinels for the primary, so keep the client open as long as the
//     pool. A server that says it is a replica is refused, and a connection that returned READONLY is not used again.
//     Redis 5.0 shows only by READONLY that it is a replica.
//     go-redis gives up a Sentinel that hangs after ReadTimeout * (MaxRetries + 1) * 3, a minute by default. Until then
//     no caller can lock: set ReadTimeout to less than a tenth of the TTL, and MaxRetries to -1.
//   - redis.NewClusterClient: a *redisc.Cluster of mna/redisc. See docs/topologies.md, for example on calling its
//     Refresh now and then.
//   - redis.NewUniversalClient: any of these. A Ring is refused, because it moves a key to another server when one is
//     down; use redimutex.NewRedlock, or a pool for each server.
//
// # Which options
//
// Network, Addr, Addrs, Dialer, TLSConfig, DialTimeout, ReadTimeout and WriteTimeout (of commands without a context),
// Username, Password, ClientName, DB, PoolSize, MaxIdleConns, MaxActiveConns, ConnMaxIdleTime and ConnMaxLifetime work as in
// go-redis. If ReadTimeout or WriteTimeout is -2, because connections can't keep deadlines (as through an SSH tunnel), a
// connection is closed when an operation on it does not end in time. PoolTimeout bounds the wait for a connection in clusters;
// elsewhere the node timeout does. CredentialsProvider, CredentialsProviderContext and StreamingCredentialsProvider are asked
// for each new connection. An open connection is not logged in again: set ConnMaxLifetime to less than the lifetime of the
// credentials.
//
// These are errors, because their effect would be missing: OnConnect, Limiter, NewClient and ClusterSlots.
//
// All others concern commands and caches of go-redis, or reading from replicas, and make no difference to locks: the protocol
// (redigo speaks RESP2), retries, buffers, pipelines, identity, maintenance notifications.
package goredis

import (
	"fmt"
	"io"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/pools/internal/dial"
)

// A PoolCloser is a pool that its owner closes, after the Clients that use it.
type PoolCloser interface {
	redimutex.Pool
	io.Closer
}

// Pool returns a pool that dials as client does: a *redis.Pool of redigo, or a *redisc.Cluster for a ClusterClient. It does
// not connect. If an option can't be carried over, Pool returns an error that names it and says what to do.
func Pool(client redis.UniversalClient) (PoolCloser, error) {
	switch c := client.(type) {
	case *redis.Client:
		return single(c)
	case *redis.ClusterClient:
		return cluster(c)
	}
	return nil, fmt.Errorf("goredis: no pool can be made from a %T: it takes a *redis.Client or a *redis.ClusterClient; "+
		"for several independent servers make a pool for each, and see redimutex.NewClient", client)
}

func single(c *redis.Client) (PoolCloser, error) {
	opt := c.Options()
	r := dial.Refusals{Package: "goredis"}
	r.Refuse("OnConnect", opt.OnConnect != nil, withoutIt)
	r.Refuse("Limiter", opt.Limiter != nil, withoutIt)
	if err := r.Err(); err != nil {
		return nil, err
	}
	pool := redimutex.NewPoolAt(opt.Network, opt.Addr, dialOptions(opt)...)
	limit(pool, opt)
	return pool, nil
}

func cluster(c *redis.ClusterClient) (PoolCloser, error) {
	opt := c.Options()
	r := dial.Refusals{Package: "goredis"}
	r.Refuse("OnConnect", opt.OnConnect != nil, withoutIt)
	r.Refuse("NewClient", code(opt.NewClient) != code(redis.NewClient), withoutIt)
	r.Refuse("ClusterSlots", opt.ClusterSlots != nil, "use redis.NewFailoverClient with Sentinels, and a cluster that tells its slots otherwise")
	if err := r.Err(); err != nil {
		return nil, err
	}
	node := nodeOptions(opt)
	return &redisc.Cluster{
		StartupNodes: opt.Addrs,
		DialOptions:  dialOptions(node),
		PoolWaitTime: node.PoolTimeout,
		CreatePool: func(address string, opts ...redigo.DialOption) (*redigo.Pool, error) {
			pool := redimutex.NewPoolAt("tcp", address, opts...)
			limit(pool, node)
			return pool, nil
		},
	}, nil
}
