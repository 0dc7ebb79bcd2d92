package valkeygo_test

import (
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex/pools/internal/pooltest"
	"github.com/redimutex/redimutex/pools/valkeygo"
)

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
	pooltest.EveryRefusalIsTried(t, pooltest.Clients, options)
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
