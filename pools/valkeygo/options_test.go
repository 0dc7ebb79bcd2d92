package valkeygo_test

import (
	"reflect"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex/pools/valkeygo"
)

// What becomes of an option.
const (
	carried   = "carried"     // counts for the pool as it does for the client
	refused   = "refused"     // is an error when the pool is made
	unchanged = "no business" // changes nothing for locks
)

// decided has all fields of the ClientOption of the version in go.mod, and those of what is in it.
var decided = map[string]string{
	"InitAddress": carried, "ForceSingleClient": carried, "Dialer": carried, "DialFn": carried, "DialCtxFn": carried,
	"TLSConfig": carried, "Username": carried, "Password": carried, "AuthCredentialsFn": carried, "ClientName": carried,
	"SelectDB": carried, "ClientNoTouch": carried, "ClientNoEvict": carried,
	"ConnWriteTimeout": carried, "ConnLifetime": carried,
	"Sentinel": carried, "Sentinel.Dialer": carried, "Sentinel.TLSConfig": carried, "Sentinel.MasterSet": carried,
	"Sentinel.Username": carried, "Sentinel.Password": carried, "Sentinel.ClientName": carried,
	"Standalone": carried, "Standalone.ReplicaAddress": carried, "ClusterOption": carried,

	"ReplicaOnly": refused, "Standalone.EnableRedirect": refused, "ClusterOption.ShardsRefreshInterval": refused,

	// Each new connection asks the Sentinels, and none becomes old.
	"Sentinel.TopologyRefreshInterval": unchanged,
	// A lock tries again by its own options, and redisc follows MOVED, asks any node, and by CLUSTER SLOTS.
	"RetryDelay": unchanged, "DisableRetry": unchanged, "ShuffleInit": unchanged,
	"ClusterOption.MaxMovedRedirections": unchanged, "ClusterOption.PreferInitAddressRefresh": unchanged,
	"ClusterOption.PreferClusterShards": unchanged,
	// Reading from replicas and caches. Locks are at primaries.
	"SendToReplicas": unchanged, "ReplicaSelector": unchanged, "ReadNodeSelector": unchanged,
	"EnableReplicaAZInfo": unchanged, "AZFromInfo": unchanged, "NewCacheStoreFn": unchanged, "OnInvalidations": unchanged,
	"ClientTrackingOptions": unchanged, "CacheSizeEachConn": unchanged, "DisableCache": unchanged,
	// How valkey-go treats its own connections; redigo speaks RESP2, and sends no name of a library.
	"ClientSetInfo": unchanged, "AlwaysRESP2": unchanged, "RingScaleEachConn": unchanged, "ReadBufferEachConn": unchanged,
	"WriteBufferEachConn": unchanged, "BlockingPoolCleanup": unchanged, "BlockingPoolMinSize": unchanged,
	"BlockingPoolSize": unchanged, "BlockingPipeline": unchanged, "PipelineMultiplex": unchanged,
	"MaxFlushDelay": unchanged, "DisableTCPNoDelay": unchanged, "DisableAutoPipelining": unchanged,
	"AlwaysPipelining": unchanged,
}

// If this fails after an update of valkey-go: decide what becomes of the new field, here and in the documentation.
func TestEveryOptionIsDecided(t *testing.T) {
	left := make(map[string]bool)
	for name := range decided {
		left[name] = true
	}
	check := func(prefix string, options reflect.Type) {
		for _, field := range reflect.VisibleFields(options) {
			assert.Contains(t, decided, prefix+field.Name, "it is not decided what becomes of this option")
			delete(left, prefix+field.Name)
		}
	}
	check("", reflect.TypeFor[valkey.ClientOption]())
	check("Sentinel.", reflect.TypeFor[valkey.SentinelOption]())
	check("Standalone.", reflect.TypeFor[valkey.StandaloneOption]())
	check("ClusterOption.", reflect.TypeFor[valkey.ClusterOption]())
	assert.Empty(t, left, "valkey-go has no such option")
}

func TestWhatCantBeCarriedOverIsAnErrorThatNamesIt(t *testing.T) {
	addr := []string{"127.0.0.1:1"}
	options := map[string]valkey.ClientOption{
		"ReplicaOnly":               {InitAddress: addr, ReplicaOnly: true},
		"Standalone.EnableRedirect": {InitAddress: addr, Standalone: valkey.StandaloneOption{EnableRedirect: true}},
		"ClusterOption.ShardsRefreshInterval": {
			InitAddress: addr, ClusterOption: valkey.ClusterOption{ShardsRefreshInterval: time.Second},
		},
		"InitAddress": {},
	}
	for name, fate := range decided {
		if fate == refused {
			assert.Contains(t, options, name)
		}
	}
	for name, option := range options {
		pool, err := valkeygo.Pool(option)
		require.ErrorContains(t, err, name)
		assert.Nil(t, pool)
	}
}

func TestConnectionsLiveAsLongAsTheOptionSays(t *testing.T) {
	pool := open(t, valkey.ClientOption{InitAddress: []string{"127.0.0.1:1"}, ForceSingleClient: true, ConnLifetime: time.Hour})
	assert.Equal(t, time.Hour, pool.(*redigo.Pool).MaxConnLifetime)
	pool = open(t, valkey.ClientOption{
		InitAddress: []string{"127.0.0.1:1"}, Sentinel: valkey.SentinelOption{MasterSet: "main"}, ConnLifetime: time.Millisecond,
	})
	assert.Equal(t, time.Millisecond, pool.(*redigo.Pool).MaxConnLifetime)
}
