package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

// miniredis, which was not made for this simulation, decides what the right answers are.
func TestServerAnswersAsMiniredisDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := redistest.Virtual(t)
		real := pool.Get()
		defer real.Close()
		s := newWorld(Config{Servers: 1}, 1).servers[0]
		random := rand.New(rand.NewPCG(1, 2))
		for range 20000 {
			if random.IntN(4) == 0 {
				// The two servers differ in whether a key still exists in the very millisecond in which it expires.
				time.Sleep(time.Duration(3*(1+random.IntN(8))) * time.Millisecond) // no key expires in such a millisecond
			}
			args := anyCommand(random)
			want, err := real.Do(args[0], anys(args[1:])...)
			if err != nil {
				want = err
			}
			s.mu.Lock()
			got := wire(s.execute(nil, args))
			s.mu.Unlock()
			if _, failed := want.(error); failed {
				require.IsType(t, redis.Error(""), got, "%q: %v", args, want)
				continue
			}
			require.Equal(t, want, got, "%q", args)
		}
	})
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}

// anyCommand draws one of the commands that locks use.
func anyCommand(r *rand.Rand) []string {
	of := func(words ...string) string { return words[r.IntN(len(words))] }
	text, set := of("a", "b"), of("y", "z")
	ms := fmt.Sprint(1 + 3*(1+r.IntN(30)))
	commands := [][]string{
		{"SET", text, of("t1", "t2"), "NX", "PX", ms},
		{"SET", text, of("t1", "t2"), "PX", ms},
		{"GET", text},
		{"DEL", text},
		{"EXISTS", text},
		{"PTTL", text},
		{"PEXPIRE", of(text, set), ms},
		{"ZADD", set, fmt.Sprint(r.IntN(5)), of("m", "n", "o")},
		{"ZREM", set, of("m", "n", "o")},
		{"ZCARD", set},
		{"ZRANGE", set, "0", "0"},
		{"ZRANGE", set, of("-2", "-1", "0", "1"), of("-2", "-1", "0", "2"), "WITHSCORES"},
		{"ZSCORE", set, of("m", "n", "o")},
		{"ZCOUNT", set, of("-inf", "(1", "2"), of("+inf", "(3", "3")},
		{"ZREMRANGEBYSCORE", set, "-inf", fmt.Sprint(r.IntN(4))},
		{"ZUNIONSTORE", "x", "2", "y", "z", "AGGREGATE", "MAX"},
		{"ZRANGE", "x", "0", "-1", "WITHSCORES"},
		{"EVAL", "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), #ARGV}", "1", text, "x"},
		{"EVAL", "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 7.9 end", "1", text, "t3", ms},
		{"EVAL", "return redis.call('GET', KEYS[1]) == ARGV[1]", "1", text, "t1"},
		{"EVAL", "return redis.error_reply('GUARD ' .. KEYS[1])", "1", text},
		{"EVALSHA", "0000000000000000000000000000000000000000", "0"},
	}
	return commands[r.IntN(len(commands))]
}
