package rueidisgo_test

import (
	"reflect"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/pools/internal/pooltest"
	"github.com/redimutex/redimutex/pools/rueidisgo"
)

func TestEveryOptionIsDecided(t *testing.T) {
	pooltest.EveryOptionIsDecided(t, pooltest.Clients, map[string][]reflect.Type{
		"":               {reflect.TypeFor[rueidis.ClientOption]()},
		"Sentinel.":      {reflect.TypeFor[rueidis.SentinelOption]()},
		"Standalone.":    {reflect.TypeFor[rueidis.StandaloneOption]()},
		"ClusterOption.": {reflect.TypeFor[rueidis.ClusterOption]()},
	})
}

func TestWhatCantBeCarriedOverIsAnErrorThatNamesIt(t *testing.T) {
	addr := []string{"127.0.0.1:1"}
	options := map[string]rueidis.ClientOption{
		"ReplicaOnly":               {InitAddress: addr, ReplicaOnly: true},
		"Standalone.EnableRedirect": {InitAddress: addr, Standalone: rueidis.StandaloneOption{EnableRedirect: true}},
		"ClusterOption.ShardsRefreshInterval": {
			InitAddress: addr, ClusterOption: rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
		},
		"InitAddress": {},
	}
	pooltest.EveryRefusalIsTried(t, pooltest.Clients, options)
	for name, option := range options {
		pool, err := rueidisgo.Pool(option)
		require.ErrorContains(t, err, name)
		assert.Nil(t, pool)
	}
}

func TestConnectionsLiveAsLongAsTheOptionSays(t *testing.T) {
	pool := open(t, rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, ForceSingleClient: true, ConnLifetime: time.Hour})
	assert.Equal(t, time.Hour, pool.(*redigo.Pool).MaxConnLifetime)
	pool = open(t, rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}, ConnLifetime: time.Millisecond,
	})
	assert.Equal(t, time.Millisecond, pool.(*redigo.Pool).MaxConnLifetime)
}
