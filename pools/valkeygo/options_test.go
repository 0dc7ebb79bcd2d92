package valkeygo_test

import (
	"reflect"
	"testing"

	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

func TestEveryOptionIsDecided(t *testing.T) {
	pooltest.EveryOptionIsDecided(t, pooltest.Clients, map[string][]reflect.Type{
		"":               {reflect.TypeFor[valkey.ClientOption]()},
		"Sentinel.":      {reflect.TypeFor[valkey.SentinelOption]()},
		"Standalone.":    {reflect.TypeFor[valkey.StandaloneOption]()},
		"ClusterOption.": {reflect.TypeFor[valkey.ClusterOption]()},
	})
}
