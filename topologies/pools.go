package topologies

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/FZambia/sentinel"
	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
)

// docs/topologies.md shows the code below, word for word.

// sentinel pool begins

// SentinelPool returns a pool of connections to the primary that the Sentinels at addrs call name.
func SentinelPool(addrs []string, name string, opts ...redis.DialOption) *redis.Pool {
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
		MaxIdle:         16,
		MaxConnLifetime: time.Second, // the Sentinels are asked again
		IdleTimeout:     4 * time.Minute,
		Dial: func() (redis.Conn, error) {
			addr, err := primary()
			if err != nil {
				return nil, err
			}
			c, err := redis.Dial("tcp", addr, opts...)
			if err != nil {
				return nil, err
			}
			if err := CheckRole(c, time.Time{}); err != nil { // the Sentinels may be behind
				c.Close()
				return nil, err
			}
			return c, nil
		},
		TestOnBorrow: CheckRole, // it may have been a primary when it was put back
	}
}

// CheckRole returns an error if the server is not a primary.
func CheckRole(c redis.Conn, _ time.Time) error {
	if !sentinel.TestRole(c, "master") {
		return errors.New("the server is no primary (any more)")
	}
	return nil
}

// sentinel pool ends

// cluster pool begins

// ClusterPool returns the cluster to which the nodes at addrs belong; some of its nodes are enough. A
// *redisc.Cluster is a redimutex.Pool as it is.
func ClusterPool(addrs []string, opts ...redis.DialOption) *redisc.Cluster {
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
