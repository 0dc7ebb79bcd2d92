package topologies_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/FZambia/sentinel"
	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/topologies.md shows what follows, word for word.

// sentinel pool begins

// sentinelPool returns a pool of connections to the primary that the Sentinels at addrs call name.
func sentinelPool(addrs []string, name string, opts ...redis.DialOption) *redis.Pool {
	opts = append([]redis.DialOption{ // for dialling and the check of the role; locks have their own
		redis.DialConnectTimeout(500 * time.Millisecond),
		redis.DialReadTimeout(500 * time.Millisecond),
		redis.DialWriteTimeout(500 * time.Millisecond),
	}, opts...)
	watchers := &sentinel.Sentinel{
		Addrs:      slices.Clone(addrs), // which it sorts
		MasterName: name,
		Dial: func(addr string) (redis.Conn, error) {
			return redis.Dial("tcp", addr, opts[:3]...) // a Sentinel may have another password
		},
	}
	var asking sync.Mutex // Sentinel v1.1.1 sorts Addrs while another goroutine may read it
	primary := func() (string, error) {
		asking.Lock()
		defer asking.Unlock()
		return watchers.MasterAddr()
	}
	return &redis.Pool{
		MaxIdle:     16,
		IdleTimeout: 4 * time.Minute,
		Dial: func() (redis.Conn, error) {
			addr, err := primary()
			if err != nil {
				return nil, err
			}
			c, err := redis.Dial("tcp", addr, opts...)
			if err != nil {
				return nil, err
			}
			if err := checkRole(c, time.Time{}); err != nil { // the Sentinels may be behind
				c.Close()
				return nil, err
			}
			return c, nil
		},
		TestOnBorrow: checkRole, // it may have been a primary when it was put back
	}
}

func checkRole(c redis.Conn, _ time.Time) error {
	if !sentinel.TestRole(c, "master") {
		return errors.New("the server is no primary (any more)")
	}
	return nil
}

// sentinel pool ends

// cluster pool begins

// clusterPool returns the cluster that some of its nodes are at addrs of. A *redisc.Cluster is a
// redimutex.Pool as it is.
func clusterPool(addrs []string, opts ...redis.DialOption) *redisc.Cluster {
	return &redisc.Cluster{
		StartupNodes: addrs,
		DialOptions: append([]redis.DialOption{
			redis.DialConnectTimeout(500 * time.Millisecond),
			redis.DialReadTimeout(500 * time.Millisecond), // of the map of slots; locks have their own
			redis.DialWriteTimeout(500 * time.Millisecond),
		}, opts...),
		CreatePool: func(addr string, opts ...redis.DialOption) (*redis.Pool, error) {
			return &redis.Pool{
				MaxIdle:     16,
				IdleTimeout: 4 * time.Minute,
				Dial:        func() (redis.Conn, error) { return redis.Dial("tcp", addr, opts...) },
			}, nil
		},
	}
}

// cluster pool ends

func TestPageShowsThePoolsThatAreTested(t *testing.T) {
	source, err := os.ReadFile("pools_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/topologies.md")
	require.NoError(t, err)
	for _, name := range []string{"sentinel pool", "cluster pool"} {
		_, rest, found := strings.Cut(string(source), "// "+name+" begins\n")
		require.True(t, found)
		code, _, found := strings.Cut(rest, "// "+name+" ends\n")
		require.True(t, found)
		assert.Contains(t, string(page), "```go\n"+strings.TrimSpace(code)+"\n```\n", name)
	}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(name[1], "TestOnBorrow") { // fields of redis.Pool
			continue
		}
		assert.True(t, slices.ContainsFunc(testFiles(t), func(text string) bool {
			return strings.Contains(text, "func "+name[1]+"(")
		}), "%s is on the page, and no test", name[1])
	}
}

func testFiles(t *testing.T) (texts []string) {
	names, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	return texts
}
