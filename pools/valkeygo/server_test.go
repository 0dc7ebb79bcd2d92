package valkeygo_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
	"github.com/redimutex/redimutex/pools/valkeygo"
)

// open returns the pool of an option, and closes it at the end of the test.
func open(t testing.TB, option valkey.ClientOption) redimutex.Pool {
	t.Helper()
	pool, err := valkeygo.Pool(option)
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	return pool
}

func TestALockWorksOverTheServerOfAnOption(t *testing.T) {
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Start(t)
	pooltest.AddUser(s)
	front := redistest.NewTLSFront(t, s)
	plain := []string{s.Addr()}
	var asked atomic.Int32
	for name, c := range map[string]struct {
		option valkey.ClientOption
		says   []string
	}{
		"superfluous password": {valkey.ClientOption{InitAddress: plain, Password: "x"}, []string{" user=default ", " db=0 "}},
		"user":                 {valkey.ClientOption{InitAddress: plain, Username: "locks", Password: pooltest.Secret}, []string{" user=locks "}},
		"name, database": {
			valkey.ClientOption{InitAddress: plain, ForceSingleClient: true, ClientName: "us", SelectDB: 7, ClientNoEvict: true},
			[]string{" name=us ", " db=7 ", " flags=e "},
		},
		"TLS": {valkey.ClientOption{InitAddress: []string{front.Addr()}, TLSConfig: front.TLS(), Username: "locks", Password: pooltest.Secret}, []string{" user=locks "}},
		"replicas": {valkey.ClientOption{
			InitAddress: append(plain, "127.0.0.1:1"), Standalone: valkey.StandaloneOption{ReplicaAddress: []string{"127.0.0.1:2"}},
		}, nil},
		"function": {valkey.ClientOption{InitAddress: []string{"a"}, DialFn: func(_ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.Dial("tcp", s.Addr())
		}}, nil},
		"function with a context, and TLS": {valkey.ClientOption{
			InitAddress: []string{"a"}, TLSConfig: front.TLS(),
			DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
				return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, "tcp", front.Addr())
			},
		}, nil},
		"credentials": {valkey.ClientOption{
			InitAddress: plain, Password: "x",
			AuthCredentialsFn: func(about valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
				asked.Add(1)
				if about.Address.String() != s.Addr() {
					return valkey.AuthCredentials{}, errors.New("not the address of the server")
				}
				return valkey.AuthCredentials{Username: "locks", Password: pooltest.Secret}, nil
			},
		}, []string{" user=locks "}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := open(t, c.option)
			assert.True(t, conn.Of(pool.(*redigo.Pool)).Punctual, "locks run on the caller's goroutine")
			pooltest.Lock(t, pool, "k", redimutex.WithFencing())
			about, err := pooltest.Ask(pool, "CLIENT", "INFO")
			require.NoError(t, err)
			for _, words := range c.says {
				assert.Contains(t, about, words)
			}
		})
	}
	assert.Positive(t, asked.Load())
}

func TestNoErrorShowsAPassword(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	s := redistest.Real(t, "--requirepass", pooltest.Secret)
	addr := []string{s.Addr()}
	for name, c := range map[string]struct {
		option valkey.ClientOption
		want   string
	}{
		"wrong":                 {valkey.ClientOption{InitAddress: addr, Password: "x" + pooltest.Secret}, "WRONGPASS"},
		"unknown user":          {valkey.ClientOption{InitAddress: addr, Username: "unknown", Password: pooltest.Secret}, "WRONGPASS"},
		"none":                  {valkey.ClientOption{InitAddress: addr}, "NOAUTH"},
		"no such database":      {valkey.ClientOption{InitAddress: addr, Password: pooltest.Secret, SelectDB: 99}, "out of range"},
		"Sentinel that is none": {valkey.ClientOption{InitAddress: addr, Sentinel: valkey.SentinelOption{MasterSet: "main", Password: pooltest.Secret}}, "SENTINEL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := valkeygo.Pool(c.option)
			if c.option.Sentinel.MasterSet == "" {
				require.ErrorContains(t, err, c.want, "Pool has to ask")
				assert.NotContains(t, err.Error(), pooltest.Secret)
				c.option.ForceSingleClient = true
			}
			err = redimutex.New(open(t, c.option), "k").TryLockContext(t.Context())
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), pooltest.Secret)
		})
	}
}

func TestADialFunctionThatReturnsNothingGetsAnError(t *testing.T) {
	pool := open(t, valkey.ClientOption{
		InitAddress: []string{"host:1"}, ForceSingleClient: true,
		DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, nil },
	})
	assert.ErrorContains(t, redimutex.New(pool, "k").TryLockContext(t.Context()), "the dial function returned no connection")
}

func TestEveryPhaseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	option := func(front *redistest.Front) valkey.ClientOption {
		return valkey.ClientOption{InitAddress: []string{front.Addr()}, TLSConfig: front.TLS(), SelectDB: 1}
	}
	pooltest.EveryPhaseEndsWithTheContext(t, func(t *testing.T, front *redistest.Front) *redigo.Pool {
		o := option(front)
		o.ForceSingleClient, o.Dialer.Timeout = true, time.Hour
		return open(t, o).(*redigo.Pool)
	}, func(t *testing.T, front *redistest.Front) {
		o := option(front)
		o.Dialer.Timeout = 20 * time.Millisecond
		_, err := valkeygo.Pool(o)
		var late net.Error
		require.ErrorAs(t, err, &late)
		assert.True(t, late.Timeout())
	})
}

func TestALockWorksOverTheClusterOfAnOption(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	c := redistest.StartCluster(t)
	for _, n := range c.Nodes {
		pooltest.AddUser(n)
	}
	for _, addrs := range [][]string{c.Addrs()[:1], c.Addrs()} {
		pool := open(t, valkey.ClientOption{InitAddress: addrs, Username: "locks", Password: pooltest.Secret, ClientName: "us"})
		require.IsType(t, (*redisc.Cluster)(nil), pool)
		for _, key := range []string{"a", "b", "c", "d"} {
			pooltest.Lock(t, pool, key, redimutex.WithFencing())
		}
		pooltest.WaitInLine(t, pool, c)
		about, err := pooltest.Ask(pool, "CLIENT", "INFO")
		require.NoError(t, err)
		assert.Contains(t, about, " name=us ")
		assert.Contains(t, about, " user=locks ")
	}
}

func TestAfterAFailoverLocksAreAtTheNewPrimary(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ChannelRules)
	g := redistest.StartSentinel(t)
	for _, s := range append(g.Servers, g.Sentinels...) {
		pooltest.AddUser(s)
	}
	pool := open(t, valkey.ClientOption{
		InitAddress: g.Addrs(), Username: "locks", Password: pooltest.Secret,
		Sentinel: valkey.SentinelOption{MasterSet: g.Name, Username: "locks", Password: pooltest.Secret},
	}).(*redigo.Pool)
	assert.True(t, conn.Of(pool).Punctual, "locks run on the caller's goroutine")
	pooltest.Lock(t, pool, "before", redimutex.WithQueue(), redimutex.WithReplicas(1, 5*time.Second))
	g.Sentinels[0].Pause() // a Sentinel that hangs must cost no time
	primary := func() *redistest.Server {
		at, _ := redigo.Strings(g.Sentinels[1].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.Name), nil)
		for _, s := range g.Servers {
			if len(at) == 2 && s.Addr() == net.JoinHostPort(at[0], at[1]) {
				return s
			}
		}
		return nil
	}
	now := g.Failover(t, g.Sentinels[1], primary)
	late, began := redistest.MeasureLateness(), time.Now()
	redistest.Wait(t, "the pool writes to the new primary, also while the old one takes writes", func() bool {
		_, err := pooltest.Ask(pool, "SET", "probe", "1")
		return err == nil && now.Get("probe") == "1"
	})
	assert.Less(t, time.Since(began), 5*time.Second+late.Stop(), "Sentinel takes 8 s to demote the old one")
	pooltest.Lock(t, pool, "after")

	_, err := pooltest.Ask(open(t, valkey.ClientOption{InitAddress: g.Addrs()[1:], Sentinel: valkey.SentinelOption{MasterSet: "other"}}), "PING")
	require.ErrorContains(t, err, "it knows no primary")
}

// valkey-go gives DialFn no context, so a dial that hangs can't be ended.
func TestADialThatHangsKeepsOneGoroutineForEachSentinel(t *testing.T) {
	g := redistest.StartSentinel(t)
	hangs, lift := g.Sentinels[0].Addr(), make(chan struct{})
	var hanging atomic.Int32
	pool := open(t, valkey.ClientOption{
		InitAddress: g.Addrs(), Sentinel: valkey.SentinelOption{MasterSet: g.Name}, ConnLifetime: time.Nanosecond,
		DialFn: func(addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if addr == hangs {
				defer hanging.Add(-1)
				hanging.Add(1)
				<-lift
			}
			return d.Dial("tcp", addr)
		},
	})
	for range 20 {
		_, err := pooltest.Ask(pool, "SET", "probe", "1")
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, hanging.Load())
	close(lift)
	redistest.Wait(t, "the question is over", func() bool { return hanging.Load() == 0 })
	_, err := pooltest.Ask(pool, "SET", "probe", "2")
	require.NoError(t, err)
}

// The pool asks Sentinels on goroutines of its own, where no caller can recover from a panic.
func TestADialThatPanicsIsAnError(t *testing.T) {
	t.Parallel()
	pool := open(t, valkey.ClientOption{
		InitAddress: []string{redistest.FreeAddr(t)}, Sentinel: valkey.SentinelOption{MasterSet: "main"},
		DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) { panic("no idea where it is") },
	})
	_, err := pooltest.Ask(pool, "PING")
	require.ErrorContains(t, err, "panicked: no idea where it is")
}

// Lock would panic if the refusal counted as permanent. But the Sentinel that is away may come back, and know the primary.
func TestASentinelThatRefusesDoesNotSpeakForOneThatIsAway(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	s, away := redistest.Real(t, "--requirepass", pooltest.Secret), redistest.FreeAddr(t)
	option := valkey.ClientOption{
		InitAddress: []string{s.Addr(), away}, Sentinel: valkey.SentinelOption{MasterSet: "main", Password: "x" + pooltest.Secret},
	}
	var said redigo.Error
	_, err := pooltest.Ask(open(t, option), "PING")
	require.ErrorContains(t, err, "WRONGPASS")
	require.ErrorContains(t, err, away)
	assert.False(t, errors.As(err, &said))
	option.InitAddress = option.InitAddress[:1]
	_, err = pooltest.Ask(open(t, option), "PING")
	assert.ErrorAs(t, err, &said)
}
