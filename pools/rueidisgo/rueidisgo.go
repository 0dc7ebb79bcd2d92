// Package rueidisgo makes pools for redimutex from the ClientOption of rueidis, so that a team that uses rueidis needs no
// second configuration:
//
//	go get github.com/redimutex/redimutex/pools/rueidisgo
//
// No client of rueidis is made, so hooks and wrappers of a client (such as valkeyotel or valkeyhook) do not show locks.
// redimutex.WithTrace reports locks, and metrics/otel makes spans and metrics from that.
//
//	option := rueidis.ClientOption{InitAddress: []string{"localhost:6379"}, Username: "locks", Password: password}
//	pool, err := rueidisgo.Pool(option)
//	...
//	defer pool.Close()
//	mu := redimutex.New(pool, "invoices")
//
// The pool dials its own redigo connections as the ClientOption says; nothing is emulated. They end with their context in
// every phase, and a lock over one server runs on the caller's goroutine, as with redimutex.NewPool.
//
// # Which servers
//
// As with rueidis.NewClient:
//
//   - Sentinel.MasterSet: the primary that the Sentinels at InitAddress name. All are asked at once, for each new
//     connection. A connection lives for at most a second, so that none stays with an old primary.
//   - ForceSingleClient, or Standalone.ReplicaAddress: the server at the first InitAddress.
//   - several addresses: a cluster, which is a *redisc.Cluster of mna/redisc. See docs/topologies.md, for example on
//     calling its Refresh now and then.
//   - one address: Pool asks the server whether it is a cluster.
//
// # Which options
//
// InitAddress, Sentinel, Standalone.ReplicaAddress, ForceSingleClient, Dialer, DialFn, DialCtxFn, TLSConfig, Username,
// Password, AuthCredentialsFn, ClientName, SelectDB, ClientNoTouch, ClientNoEvict, ConnWriteTimeout (of commands without a
// context) and ConnLifetime work as in rueidis. AuthCredentialsFn is asked for each new connection. An open connection is
// not logged in again, whatever RefreshAfter says: set ConnLifetime to less than the lifetime of the credentials.
//
// These are errors, because their effect would be missing: ReplicaOnly, Standalone.EnableRedirect and
// ClusterOption.ShardsRefreshInterval.
//
// All others concern commands and caches of rueidis, or reading from replicas, and make no difference to locks. A pool keeps
// up to 64 idle connections to a server. To share a few connections among many goroutines, use redimutex.WithMultiplexing.
package rueidisgo

import (
	"io"
	"net"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/redis/rueidis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/pools/internal/dial"
)

// A PoolCloser is a pool that its owner closes, after the Clients that use it.
type PoolCloser interface {
	redimutex.Pool
	io.Closer
}

// Pool returns a pool that dials as a client with this option does: a *redis.Pool of redigo, or a *redisc.Cluster. It connects
// only if it must ask whether a single address belongs to a cluster, as rueidis.NewClient does. That takes at most three times
// Dialer.Timeout (5 s by default). If an option can't be carried over, Pool returns an error that names it and says what to
// do.
func Pool(option rueidis.ClientOption) (PoolCloser, error) {
	sentinel := option.Sentinel
	o := &dial.Options{
		Refusals:    dial.Refusals{Package: "rueidisgo"},
		InitAddress: option.InitAddress,
		MasterSet:   sentinel.MasterSet,
		Single:      option.ForceSingleClient || len(option.Standalone.ReplicaAddress) > 0,
		Server: dial.Account{
			Username: option.Username, Password: option.Password, ClientName: option.ClientName,
			Dialer: option.Dialer, TLSConfig: option.TLSConfig,
		},
		Sentinel: dial.Account{
			Username: sentinel.Username, Password: sentinel.Password, ClientName: sentinel.ClientName,
			Dialer: sentinel.Dialer, TLSConfig: sentinel.TLSConfig,
		},
		DialFn: option.DialFn, DialCtxFn: option.DialCtxFn,
		WriteTimeout: option.ConnWriteTimeout, Lifetime: option.ConnLifetime,
		KeepAlive: rueidis.DefaultTCPKeepAlive, DialTimeout: rueidis.DefaultDialTimeout,
		Cluster: cluster,
	}
	o.Refuse("ReplicaOnly", option.ReplicaOnly, "locks need the primary; set it to false in the option that Pool gets")
	o.Refuse("Standalone.EnableRedirect", option.Standalone.EnableRedirect,
		"redigo does not follow REDIRECT; set it to false, and have Sentinel or the name of the host lead to the primary")
	o.Refuse("ClusterOption.ShardsRefreshInterval", option.ClusterOption.ShardsRefreshInterval > 0,
		"redisc does not refresh by itself; set it to 0, and call Refresh of the *redisc.Cluster every so often")
	if ask := option.AuthCredentialsFn; ask != nil {
		o.AuthCredentials = func(server net.Addr) (user, password string, err error) {
			got, err := ask(rueidis.AuthCredentialsContext{Address: server})
			return got.Username, got.Password, err
		}
	}
	if option.SelectDB != 0 {
		o.Commands = append(o.Commands, []any{"SELECT", option.SelectDB})
	}
	if option.ClientNoTouch {
		o.Commands = append(o.Commands, []any{"CLIENT", "NO-TOUCH", "ON"})
	}
	if option.ClientNoEvict {
		o.Commands = append(o.Commands, []any{"CLIENT", "NO-EVICT", "ON"})
	}
	return o.Pool()
}

func cluster(
	nodes []string, opts []redis.DialOption, create func(string, ...redis.DialOption) (*redis.Pool, error),
) dial.PoolCloser {
	return &redisc.Cluster{StartupNodes: nodes, DialOptions: opts, CreatePool: create}
}
