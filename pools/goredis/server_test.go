package goredis_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/pools/internal/pooltest"
)

// guarded starts a server with a password, and with a user "locks" that has the same password.
func guarded(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Real(t, append([]string{"--requirepass", pooltest.Secret}, args...)...)
	admin := single(t, &redis.Options{Addr: s.Addr(), Password: pooltest.Secret})
	_, err := pooltest.Ask(admin, "ACL", "SETUSER", "locks", "on", ">"+pooltest.Secret, "~*", "&*", "+@all")
	require.NoError(t, err)
	return s
}

// A static provider streams credentials that never change.
type static struct{ subscribed atomic.Int32 }

func (p *static) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.subscribed.Add(1)
	return auth.NewBasicCredentials("locks", pooltest.Secret), func() error { p.subscribed.Add(-1); return nil }, nil
}

func TestALockWorksOverTheServerOfAClient(t *testing.T) {
	socket := redistest.Socket(t)
	s := guarded(t, "--unixsocket", socket)
	front := redistest.NewTLSFront(t, s)
	streaming := new(static)
	for name, c := range map[string]struct {
		opt  redis.Options
		says []string
	}{
		"password":        {redis.Options{Addr: s.Addr(), Password: pooltest.Secret}, []string{" user=default ", " db=0 ", " name= "}},
		"superfluous":     {redis.Options{Addr: redistest.Start(t).Addr(), Password: pooltest.Secret}, []string{" user=default "}},
		"user":            {redis.Options{Addr: s.Addr(), Username: "locks", Password: pooltest.Secret}, []string{" user=locks "}},
		"name, database":  {redis.Options{Addr: s.Addr(), Password: pooltest.Secret, ClientName: "us", DB: 7}, []string{" name=us ", " db=7 "}},
		"socket":          {redis.Options{Addr: socket, Password: pooltest.Secret}, []string{" user=default ", socket + ":0"}}, // Valkey 9: addr=[SOCKET:0]:0
		"TLS":             {redis.Options{Addr: front.Addr(), TLSConfig: front.TLS(), Username: "locks", Password: pooltest.Secret}, []string{" user=locks "}},
		"TLS of a dialer": {redis.Options{Addr: front.Addr(), Password: pooltest.Secret, Dialer: redis.NewDialer(&redis.Options{TLSConfig: front.TLS()})}, nil},
		"provider": {redis.Options{Addr: s.Addr(), Password: "x", CredentialsProvider: func() (string, string) {
			return "locks", pooltest.Secret
		}}, []string{" user=locks "}},
		"provider with a context": {redis.Options{
			Addr: s.Addr(), CredentialsProvider: func() (string, string) { return "x", "x" },
			CredentialsProviderContext: func(context.Context) (string, string, error) { return "locks", pooltest.Secret, nil },
		}, []string{" user=locks "}},
		"streaming provider": {redis.Options{
			Addr: s.Addr(), StreamingCredentialsProvider: streaming,
			CredentialsProviderContext: func(context.Context) (string, string, error) { return "x", "x", nil },
		}, []string{" user=locks "}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := single(t, &c.opt)
			assert.True(t, conn.Of(pool).Punctual, "locks run on the caller's goroutine")
			pooltest.Lock(t, pool, "k", redimutex.WithQueue(), redimutex.WithFencing())
			about, err := pooltest.Ask(pool, "CLIENT", "INFO")
			require.NoError(t, err)
			for _, words := range c.says {
				assert.Contains(t, about, words)
			}
		})
	}
	assert.Zero(t, streaming.subscribed.Load(), "a subscription to the provider is left")
}

func TestCredentialsAreAskedForEachConnection(t *testing.T) {
	s := guarded(t)
	now := atomic.Pointer[string]{}
	first, second := pooltest.Secret, pooltest.Secret+"2"
	now.Store(&first)
	var asked atomic.Int32
	pool := single(t, &redis.Options{
		Addr: s.Addr(), ConnMaxLifetime: time.Nanosecond,
		CredentialsProvider: func() (string, string) { asked.Add(1); return "locks", *now.Load() },
	})
	pooltest.Lock(t, pool, "k")
	_, err := pooltest.Ask(pool, "ACL", "SETUSER", "locks", "resetpass", ">"+second)
	require.NoError(t, err)
	_, err = pooltest.Ask(pool, "PING")
	require.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), pooltest.Secret)
	now.Store(&second)
	pooltest.Lock(t, pool, "k")
	assert.GreaterOrEqual(t, asked.Load(), int32(4))
}

func TestNoErrorShowsAPassword(t *testing.T) {
	s := guarded(t)
	front := redistest.NewFront(t, s)
	unknown := func(words []string) redistest.Fate { // as Redis before 6 replies, and servers that are not Redis
		return redistest.Fate{Reply: "-ERR unknown command `" + words[0] + "`, with args beginning with: `" + words[len(words)-1] + "`, \r\n"}
	}
	for name, c := range map[string]struct {
		opt  redis.Options
		hook func([]string) redistest.Fate
		want string
	}{
		"wrong":                           {redis.Options{Password: "x" + pooltest.Secret}, nil, "WRONGPASS"},
		"wrong for the user":              {redis.Options{Username: "locks", Password: "x" + pooltest.Secret}, nil, "WRONGPASS"},
		"neither HELLO nor AUTH":          {redis.Options{Password: pooltest.Secret}, unknown, "unknown command"},
		"in a database that is not there": {redis.Options{Password: pooltest.Secret, DB: 99}, nil, "out of range"},
		"with a name that can't be":       {redis.Options{Password: pooltest.Secret, ClientName: "a b"}, nil, "spaces"},
		"none":                            {redis.Options{}, nil, "NOAUTH"},
	} {
		t.Run(name, func(t *testing.T) {
			front.On(c.hook)
			c.opt.Addr = front.Addr()
			pool := single(t, &c.opt)
			_, err := pooltest.Ask(pool, "PING")
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), pooltest.Secret)
			err = redimutex.New(pool, "k").TryLockContext(t.Context())
			require.Error(t, err)
			assert.NotContains(t, err.Error(), pooltest.Secret)
		})
	}
}

// redisc dials some connections by itself. No later code cuts secrets out of their errors, so the dial must do it.
func TestNoErrorOfAClusterShowsAPassword(t *testing.T) {
	front := redistest.NewFront(t, redistest.Start(t))
	front.On(func(words []string) redistest.Fate {
		return redistest.Fate{Reply: "-ERR unknown command `AUTH`, with args beginning with: `" + words[len(words)-1] + "`, \r\n"}
	})
	cluster := open(t, redis.NewClusterClient(&redis.ClusterOptions{Password: pooltest.Secret})).(*redisc.Cluster)
	_, err := redigo.Dial("tcp", front.Addr(), cluster.DialOptions...)
	require.ErrorContains(t, err, "unknown command")
	assert.NotContains(t, err.Error(), pooltest.Secret)
}

// A refusing server answers the first command with the reason, and hangs up. A second command would lose the reason.
func TestWhatARefusingServerSaysIsToldInItsWords(t *testing.T) {
	s := guarded(t)
	front := redistest.NewFront(t, s)
	for _, says := range []string{"ERR max number of clients reached", "DENIED Redis is running in protected mode"} {
		front.On(func(words []string) (f redistest.Fate) {
			if words[0] == "HELLO" {
				f.Reply = "-" + says + "\r\n"
			}
			return f
		})
		for _, password := range []string{"", pooltest.Secret} {
			_, err := pooltest.Ask(single(t, &redis.Options{Addr: front.Addr(), Password: password}), "PING")
			assert.ErrorContains(t, err, says)
		}
	}
}

// A server older than Redis 6 knows AUTH, but not HELLO.
func TestAServerWithoutHELLOIsLoggedInToAsBefore(t *testing.T) {
	s := guarded(t)
	front := redistest.NewFront(t, s)
	front.On(func(words []string) redistest.Fate {
		if words[0] == "HELLO" {
			return redistest.Fate{Reply: "-ERR unknown command `HELLO`, with args beginning with: `2` \r\n"}
		}
		return redistest.Fate{}
	})
	for _, opt := range []*redis.Options{{Password: pooltest.Secret}, {Username: "locks", Password: pooltest.Secret}} {
		opt.Addr, opt.ClientName, opt.DB = front.Addr(), "us", 2
		pool := single(t, opt)
		pooltest.Lock(t, pool, "k")
		about, err := pooltest.Ask(pool, "CLIENT", "INFO")
		require.NoError(t, err)
		assert.Contains(t, about, " name=us ")
		assert.Contains(t, about, " db=2 ")
	}
}

func TestThePoolIsOfTheSizeOfTheClient(t *testing.T) {
	pool := single(t, &redis.Options{PoolSize: 7, MaxIdleConns: 3, ConnMaxIdleTime: time.Minute, ConnMaxLifetime: time.Hour})
	assert.Equal(t, []any{7, true, 3, time.Minute, time.Hour},
		[]any{pool.MaxActive, pool.Wait, pool.MaxIdle, pool.IdleTimeout, pool.MaxConnLifetime})
	pool = single(t, &redis.Options{PoolSize: 7, MaxActiveConns: 5, ConnMaxIdleTime: -1})
	assert.Equal(t, []any{5, 5, time.Duration(0)}, []any{pool.MaxActive, pool.MaxIdle, pool.IdleTimeout})
	pool = single(t, &redis.Options{})
	assert.Equal(t, 30*time.Minute, pool.IdleTimeout, "as go-redis has it")
}

// Commands without a context have the timeouts of the client.
func TestTheTimeoutsAreThoseOfTheClient(t *testing.T) {
	s := redistest.Start(t)
	front := redistest.NewFront(t, s)
	pool := single(t, &redis.Options{Addr: front.Addr(), ReadTimeout: 50 * time.Millisecond, Protocol: 2})
	c := pool.Get()
	defer c.Close()
	front.Hang(redistest.AtCommand)
	_, err := c.Do("PING")
	requireTimeout(t, err)
	front.Lift()
	assert.Error(t, c.Err())
}

func requireTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
}
