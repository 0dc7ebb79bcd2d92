package goredis_test

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/pools/goredis"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

const carried, refused, unchanged = pooltest.Carried, pooltest.Refused, pooltest.Unchanged

// decided has all fields of redis.Options and redis.ClusterOptions of the version in go.mod.
var decided = map[string]string{
	"Network": carried, "Addr": carried, "Addrs": carried, "ClientName": carried, "Dialer": carried,
	"Username": carried, "Password": carried, "DB": carried, "TLSConfig": carried,
	"CredentialsProvider": carried, "CredentialsProviderContext": carried, "StreamingCredentialsProvider": carried,
	"DialTimeout": carried, "ReadTimeout": carried, "WriteTimeout": carried,
	"PoolSize": carried, "MaxIdleConns": carried, "MaxActiveConns": carried, "ConnMaxIdleTime": carried,
	"ConnMaxLifetime": carried, "PoolTimeout": carried,

	"OnConnect": refused, "Limiter": refused, "NewClient": refused, "ClusterSlots": refused,

	// redigo speaks RESP2, which is enough for locks, and has no pushes.
	"Protocol": unchanged, "UnstableResp3": unchanged, "PushNotificationProcessor": unchanged,
	"MaintNotificationsConfig": unchanged, "NodeAddress": unchanged,
	// Locks repeat tries and dials by their own options. A call that is under way always ends with its context.
	"MaxRetries": unchanged, "MinRetryBackoff": unchanged, "MaxRetryBackoff": unchanged, "MaxRedirects": unchanged,
	"DialerRetries": unchanged, "DialerRetryTimeout": unchanged, "DialerRetryBackoff": unchanged,
	"MaxConcurrentDials": unchanged, "maxConcurrentDialsSet": unchanged, "maxConcurrentDialsInit": unchanged,
	"ContextTimeoutEnabled": unchanged, "FailingTimeoutSeconds": unchanged, "ClusterStateReloadInterval": unchanged,
	// How go-redis treats its own connections.
	"ReadBufferSize": unchanged, "WriteBufferSize": unchanged, "PoolFIFO": unchanged, "MinIdleConns": unchanged,
	"ConnMaxLifetimeJitter": unchanged, "PipelineReadBufferSize": unchanged, "PipelineWriteBufferSize": unchanged,
	"PipelinePoolSize": unchanged, "AutoPipelineOptions": unchanged,
	"DisableIndentity": unchanged, "DisableIdentity": unchanged, "IdentitySuffix": unchanged,
	// Reading from replicas and caches, and choosing nodes. Locks are on primaries.
	"readOnly": unchanged, "ReadOnly": unchanged, "RouteByLatency": unchanged, "RouteByLatencyTolerance": unchanged,
	"RouteRandomly": unchanged, "DisableRoutingPolicies": unchanged, "ShardPicker": unchanged,
	"ClientSideCacheConfig": unchanged, "ClientSideCache": unchanged, "ClientSideCacheStrategy": unchanged,
	"ClientSideCacheRefreshOnInvalidate": unchanged, "ClientSideCacheCoalesceMisses": unchanged,
	"ClientSideCacheInvalidationBatchWindow": unchanged,
}

// later has the options that are new in go-redis v9.23.0. That version needs Go 1.26; go.mod asks for an older one.
var later = []string{
	"ClientSideCacheCoalesceMisses", "ClientSideCacheInvalidationBatchWindow", "ClientSideCacheRefreshOnInvalidate",
	"RouteByLatencyTolerance", "maxConcurrentDialsInit", "maxConcurrentDialsSet",
}

func TestEveryOptionIsDecided(t *testing.T) {
	options := map[string][]reflect.Type{"": {reflect.TypeFor[redis.Options](), reflect.TypeFor[redis.ClusterOptions]()}}
	pooltest.EveryOptionIsDecided(t, decided, options, later...)
}

type limiter struct{}

func (limiter) Allow() error       { return nil }
func (limiter) ReportResult(error) {}

func TestWhatCantBeCarriedOverIsAnErrorThatNamesIt(t *testing.T) {
	onConnect := func(context.Context, *redis.Conn) error { return nil }
	clients := map[string][]redis.UniversalClient{
		"OnConnect": {
			redis.NewClient(&redis.Options{OnConnect: onConnect}),
			redis.NewClusterClient(&redis.ClusterOptions{OnConnect: onConnect}),
		},
		"Limiter":   {redis.NewClient(&redis.Options{Limiter: limiter{}})},
		"NewClient": {redis.NewClusterClient(&redis.ClusterOptions{NewClient: func(opt *redis.Options) *redis.Client { return redis.NewClient(opt) }})},
		"ClusterSlots": {
			redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }}),
			redis.NewFailoverClusterClient(&redis.FailoverOptions{}),
		},
		"*redis.Ring": {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}})},
	}
	pooltest.EveryRefusalIsTried(t, decided, clients)
	for name, of := range clients {
		for _, client := range of {
			pool, err := goredis.Pool(client)
			require.ErrorContains(t, err, name)
			assert.Nil(t, pool)
			client.Close()
		}
	}
	_, err := goredis.Pool(nil)
	require.Error(t, err)
}

func TestWhatChangesNothingForLocksIsNoError(t *testing.T) {
	open(t, redis.NewClient(&redis.Options{
		Protocol: 2, MaxRetries: 7, PoolFIFO: true, MinIdleConns: 0, IdentitySuffix: "x", PipelinePoolSize: -1,
		DialerRetryBackoff: func(int) time.Duration { return 0 }, TLSConfig: &tls.Config{},
	}))
	open(t, redis.NewClusterClient(&redis.ClusterOptions{RouteByLatency: true, ReadOnly: true, MaxRedirects: 9}))
	var got []string
	pool := single(t, &redis.Options{Network: "udp", Addr: "x:1", Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
		got = append(got, network, addr)
		return nil, net.ErrClosed
	}})
	_, err := pooltest.Ask(pool, "PING")
	require.ErrorIs(t, err, net.ErrClosed)
	assert.Equal(t, []string{"udp", "x:1"}, got, "the dialer hears what go-redis tells it")
}
