// Package goredis makes pools for redimutex from clients of go-redis, so that a team that has go-redis needs no second
// configuration:
//
//	go get github.com/redimutex/redimutex/pools/goredis
//
// Traces and metrics that are attached to the client by hooks (AddHook, such as those of redisotel) do not show what locks
// do, because hooks are not called for it: neither for commands nor for dialling. redimutex.WithTrace tells of locks, and
// metrics/otel makes spans and metrics of that.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", Username: "locks", Password: password})
//	pool, err := goredis.Pool(client)
//	...
//	defer pool.Close()
//	mu := redimutex.New(pool, "invoices")
//
// The pool dials connections of its own, those of redigo, with what the Options of the client say; nothing is emulated.
// They end with their context in every phase, and a lock over one server runs on the caller's goroutine, as with
// redimutex.NewPool. The client stays the caller's.
//
// # Which clients
//
//   - redis.NewClient: a pool for one server.
//   - redis.NewFailoverClient: its dialer asks the Sentinels for the primary, so keep the client open as long as the
//     pool. A server that says it is a replica is refused, and a connection that said READONLY is not used again. Redis
//     5.0 says so only by READONLY.
//     go-redis leaves a Sentinel that hangs after ReadTimeout * (MaxRetries + 1) * 3, which is a minute by default, and
//     until then no caller can lock: set ReadTimeout to less than a tenth of the TTL, and MaxRetries to -1.
//   - redis.NewClusterClient: a *redisc.Cluster of mna/redisc. What docs/topologies.md says of that holds, such as
//     calling its Refresh now and then.
//   - redis.NewUniversalClient: any of these. A Ring is refused, because a key has another server when one is down; use
//     redimutex.NewRedlock, or a pool for each server.
//
// # Which options
//
// Network, Addr, Addrs, Dialer, TLSConfig, DialTimeout, ReadTimeout and WriteTimeout (of commands without a context),
// Username, Password, ClientName, DB, PoolSize, MaxIdleConns, MaxActiveConns, ConnMaxIdleTime and ConnMaxLifetime count
// as they do for go-redis. Where ReadTimeout or WriteTimeout is -2, because connections can't keep deadlines (as those
// through an SSH tunnel), a connection whose operation does not end in time is closed. PoolTimeout bounds the wait for
// a connection in clusters; elsewhere the node timeout does. CredentialsProvider, CredentialsProviderContext and
// StreamingCredentialsProvider are asked for each new connection. An open one is not logged in again: set
// ConnMaxLifetime to less than credentials live.
//
// These are errors, because something would be missing: OnConnect, Limiter, NewClient and ClusterSlots.
//
// All others concern commands and caches of go-redis, or reading from replicas, and change nothing for locks: the
// protocol (redigo speaks RESP2), retries, buffers, pipelines, identity, notifications of maintenance.
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

// Pool returns a pool that dials as client does: a *redis.Pool of redigo, or a *redisc.Cluster for a ClusterClient. It
// does not connect. An option that can't be carried over is an error, which names it and says what to do.
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
