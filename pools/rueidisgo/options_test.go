package rueidisgo_test

import (
	"reflect"
	"testing"

	"github.com/redis/rueidis"

	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

func TestEveryOptionIsDecided(t *testing.T) {
	pooltest.EveryOptionIsDecided(t, pooltest.Clients, map[string][]reflect.Type{
		"":               {reflect.TypeFor[rueidis.ClientOption]()},
		"Sentinel.":      {reflect.TypeFor[rueidis.SentinelOption]()},
		"Standalone.":    {reflect.TypeFor[rueidis.StandaloneOption]()},
		"ClusterOption.": {reflect.TypeFor[rueidis.ClusterOption]()},
	})
}
