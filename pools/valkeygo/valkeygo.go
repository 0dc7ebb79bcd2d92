// Package valkeygo makes pools for redimutex from the ClientOption of valkey-go, so that a team that has valkey-go needs
// no second configuration:
//
//	go get github.com/redimutex/redimutex/pools/valkeygo
//
// No client of valkey-go is made, so what is attached to one (such as by valkeyotel or valkeyhook) does not show what locks
// do. redimutex.WithTrace tells of locks, and metrics/otel makes spans and metrics of that.
//
//	option := valkey.ClientOption{InitAddress: []string{"localhost:6379"}, Username: "locks", Password: password}
//	pool, err := valkeygo.Pool(option)
//	...
//	defer pool.Close()
//	mu := redimutex.New(pool, "invoices")
//
// The pool dials connections of its own, those of redigo, with what the ClientOption says; nothing is emulated. They end
// with their context in every phase, and a lock over one server runs on the caller's goroutine, as with
// redimutex.NewPool.
//
// # Which servers
//
// As with valkey.NewClient:
//
//   - Sentinel.MasterSet: the primary that the Sentinels at InitAddress name. All are asked at once, for each new
//     connection, and a connection lives for a second at most, so that none stays with an old primary.
//   - ForceSingleClient, or Standalone.ReplicaAddress: the server at the first InitAddress.
//   - several addresses: a cluster, which is a *redisc.Cluster of mna/redisc. What docs/topologies.md says of that
//     holds, such as calling its Refresh now and then.
//   - one address: Pool asks the server whether it is a cluster.
//
// # Which options
//
// InitAddress, Sentinel, Standalone.ReplicaAddress, ForceSingleClient, Dialer, DialFn, DialCtxFn, TLSConfig, Username,
// Password, AuthCredentialsFn, ClientName, SelectDB, ClientNoTouch, ClientNoEvict, ConnWriteTimeout (of commands without
// a context) and ConnLifetime count as they do for valkey-go. AuthCredentialsFn is asked for each new connection. An
// open one is not logged in again, whatever RefreshAfter says: set ConnLifetime to less than credentials live.
//
// These are errors, because something would be missing: ReplicaOnly, Standalone.EnableRedirect and
// ClusterOption.ShardsRefreshInterval.
//
// All others concern commands and caches of valkey-go, or reading from replicas, and change nothing for locks. A pool
// keeps up to 16 idle connections to a server; for a few that many goroutines share there is
// redimutex.WithMultiplexing.
package valkeygo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex"
)

// A PoolCloser is a pool that its owner closes, after the Clients that use it.
type PoolCloser interface {
	redimutex.Pool
	io.Closer
}

// Pool returns a pool that dials as a client with this option does: a *redis.Pool of redigo, or a *redisc.Cluster. It
// connects only where it has to ask whether a single address is that of a cluster, as valkey.NewClient does; that takes
// three times Dialer.Timeout (5 s by default) at most. What can't be carried over is an error, which names the option and
// says what to do.
func Pool(option valkey.ClientOption) (PoolCloser, error) {
	if err := refuse(&option); err != nil {
		return nil, err
	}
	option.InitAddress = slices.Clone(option.InitAddress)
	first := option.InitAddress[0]
	switch {
	case option.Sentinel.MasterSet != "":
		s := newSentinels(&option)
		l := newLogin(&option, s.dial)
		l.primary = true
		pool := newPool(&option, s.name, l)
		if pool.MaxConnLifetime == 0 || pool.MaxConnLifetime > maxAge {
			pool.MaxConnLifetime = maxAge
		}
		return pool, nil
	case len(option.Standalone.ReplicaAddress) > 0 || option.ForceSingleClient:
		return newPool(&option, first, newLogin(&option, dialler(&option))), nil
	case len(option.InitAddress) > 1:
		return newCluster(&option), nil
	}
	pool := newPool(&option, first, newLogin(&option, dialler(&option)))
	clustered, err := isCluster(pool, 3*patience(&option.Dialer))
	if err == nil && !clustered {
		return pool, nil
	}
	pool.Close()
	if err != nil {
		return nil, fmt.Errorf("valkeygo: asking whether %s is a cluster (ForceSingleClient says that it is not): %w", first, err)
	}
	return newCluster(&option), nil
}

// refuse returns an error for what can't be carried over.
func refuse(option *valkey.ClientOption) error {
	var errs []error
	for _, r := range []struct {
		option string
		set    bool
		advice string
	}{
		{"ReplicaOnly", option.ReplicaOnly, "locks need the primary; set it to false in the option that Pool gets"},
		{"Standalone.EnableRedirect", option.Standalone.EnableRedirect, "redigo does not follow REDIRECT; set it to false, and have Sentinel or the name of the host lead to the primary"},
		{"ClusterOption.ShardsRefreshInterval", option.ClusterOption.ShardsRefreshInterval > 0, "redisc does not refresh by itself; set it to 0, and call Refresh of the *redisc.Cluster every so often"},
	} {
		if r.set {
			errs = append(errs, fmt.Errorf("valkeygo: connections of redigo can't do what %s asks for; %s", r.option, r.advice))
		}
	}
	if len(option.InitAddress) == 0 {
		errs = append(errs, errors.New("valkeygo: InitAddress is empty; it needs a server, some nodes of a cluster, or Sentinels"))
	}
	return errors.Join(errs...)
}

// isCluster asks as valkey.NewClient does.
func isCluster(pool *redis.Pool, bound time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	c, err := pool.GetContext(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	_, err = redis.DoContext(c, ctx, "CLUSTER", "SLOTS")
	var said redis.Error
	if errors.As(err, &said) && (strings.Contains(strings.ToUpper(string(said)), "CLUSTER") || string(said) == "command is not allowed") {
		return false, nil
	}
	return err == nil, err
}

func newCluster(option *valkey.ClientOption) *redisc.Cluster {
	return &redisc.Cluster{
		StartupNodes: option.InitAddress,
		DialOptions:  dialOptions(option, newLogin(option, dialler(option))),
		CreatePool: func(address string, opts ...redis.DialOption) (*redis.Pool, error) {
			return limit(redimutex.NewPoolAt("tcp", address, opts...), option), nil
		},
	}
}
