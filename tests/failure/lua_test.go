package failure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// needsScripts asserts that each verb returns one sentence, which names the oldest supported servers, and takes no lock.
func needsScripts(t *testing.T, s *redistest.Server, addr string, opts ...redimutex.Option) {
	t.Helper()
	pool := &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	defer pool.Close()
	client := newClient(t, pool, append(opts, redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))...)
	m := client.Mutex("k")
	for range 2 { // the second time must be like the first
		for verb, f := range map[string]func() error{
			"TryLockContext": func() error { return m.TryLockContext(t.Context()) },
			"LockContext":    func() error { return m.LockContext(t.Context(), 20*time.Second) },
			"Do":             func() error { return m.Do(t.Context(), never(t)) },
			"TryDo":          func() error { return m.TryDo(t.Context(), never(t)) },
			"Lock":           func() error { return locktest.PanicOf(m.Lock) },
		} {
			err := f()
			if !assert.Error(t, err, "%s: a lock that can't be renewed", verb) {
				assert.NoError(t, m.UnlockContext(t.Context()))
				continue
			}
			assert.NotErrorIs(t, err, redimutex.ErrUnavailable, "%s: it will not pass", verb)
			assert.ErrorContains(t, err, "Redis 5.0", verb)
			assert.ErrorContains(t, err, "Valkey 7.2", verb)
			assert.NotContains(t, err.Error(), "user_script", "%s: the script's own words", verb)
			assert.NotContains(t, err.Error(), "args", "%s: what the server was sent", verb)
			assert.NotContains(t, err.Error(), "\n", verb)
		}
		assert.False(t, m.TryLock())
		assert.False(t, s.Exists("k"), "a lock that can't be renewed")
	}
}

func TestAServerWithoutScriptsIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	for how, opts := range kinds {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "", "--rename-command", "SCRIPT", "")
			needsScripts(t, s, s.Addr(), opts...)
		})
	}
}

// What old servers, or servers with other settings, answer to a script that asks for the time before it writes.
func TestAServerThatIsTooOldIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	const wrapped = "-ERR Error running script (call to f_0123456789abcdef0123456789abcdef01234567): @user_script:9: "
	for server, c := range map[string]struct{ version, words string }{
		"Redis 4.0": {
			"4.0.14", wrapped + "@user_script: 9: Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script in order to switch to single commands replication mode.",
		},
		"Redis 3.0": {"3.0.7", wrapped + "@user_script: 9: Write commands not allowed after non deterministic commands"},
		"Redis 5.0 with lua-replicate-commands no": {
			"5.0.14", wrapped + "@user_script: 9: Write commands not allowed after non deterministic commands. Call redis.replicate_commands() at the start of your script in order to switch to single commands replication mode.",
		},
		"Redis 5.0 with lua-replicate-commands no, at redis.set_repl": {
			"5.0.14", wrapped + "You can set the replication behavior only after turning on single commands replication with redis.replicate_commands().",
		},
		"Redis 2.4":                    {"2.4.18", "-ERR unknown command 'EVAL'"},
		"a service that forbids EVAL":  {"5.0.14", "-ERR command eval not support for normal user"},
		"a service that reads scripts": {"5.0.14", "-ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array"},
		"Garnet without --lua":         {"7.4.3", "-ERR This instance has Lua scripting support disabled"},
		"Redis 7.0 without PTTL": {
			"7.0.15", "-ERR Unknown Redis command called from script script: 0123456789abcdef0123456789abcdef01234567, on @user_script:9.",
		},
		"Valkey 8.0 without PTTL": {
			"7.2.4", "-ERR Unknown command called from script script: 0123456789abcdef0123456789abcdef01234567, on @user_script:9.",
		},
	} {
		for how, opts := range kinds {
			t.Run(server+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				front := redistest.NewFront(t, s)
				front.On(func(command []string) redistest.Fate {
					switch strings.ToUpper(command[0]) {
					case "EVALSHA":
						if c.version == "2.4.18" {
							return redistest.Fate{Reply: "-ERR unknown command 'EVALSHA'\r\n"}
						}
						return redistest.Fate{Reply: "-NOSCRIPT No matching script. Please use EVAL.\r\n"}
					case "EVAL":
						return redistest.Fate{Reply: c.words + "\r\n"}
					case "INFO":
						info := "# Server\r\nredis_version:" + c.version + "\r\nredis_mode:standalone\r\n"
						return redistest.Fate{Reply: redistest.Bulk(info)}
					}
					return redistest.Fate{}
				})
				needsScripts(t, s, front.Addr(), opts...)
			})
		}
	}
}

func TestAQueueIsRefusedWhereScriptsCannotKeepIt(t *testing.T) {
	t.Parallel()
	front := redistest.NewFront(t, redistest.Start(t))
	front.On(func(command []string) (f redistest.Fate) {
		if command[0] == "EVALSHA" {
			f.Reply = "-ERR this server has no redis.set_repl\r\n"
		}
		return f
	})
	err := newClient(t, front.Pool(), redimutex.WithQueue()).Mutex("k").LockContext(t.Context(), 20*time.Second)
	assert.ErrorContains(t, err, "leave WithQueue out")
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable, "it will not pass")
}

// A plain SET works on any server, so it must not be the first command that a server gets.
func TestNoLockIsTakenBeforeAScriptHasWorked(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
	client := newClient(t, s.Pool(), redimutex.WithTTL(time.Minute), redimutex.WithNodeTimeout(10*time.Second))
	monitor := s.Monitor()
	for range 3 {
		require.ErrorContains(t, locktest.PanicOf(client.Mutex("k").Lock), "ERR unknown command", "the server's own words")
		require.Error(t, client.Mutex("k").LockContext(t.Context(), time.Second))
	}
	assert.Empty(t, monitor.Executed("SET", "k"))
}
