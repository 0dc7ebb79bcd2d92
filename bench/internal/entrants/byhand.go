package entrants

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A recipe is a lock as programs write it for themselves. The script try is repeated until it returns 1. The script end ends
// the hold. Both get the key, the token, the TTL in ms, the limit, and 1 for a writer or 0 for a reader.
type recipe struct{ try, end *redis.Script }

var (
	// readersFirst counts readers. As long as readers come, no writer gets in.
	readersFirst = recipe{
		redis.NewScript(1, `if ARGV[4] == "1" then return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) and 1 or 0 end
			local n = redis.call("GET", KEYS[1])
			if n and not tonumber(n) then return 0 end
			redis.call("SET", KEYS[1], (n or 0) + 1, "PX", ARGV[2])
			return 1`),
		redis.NewScript(1, `if ARGV[4] == "0" and redis.call("DECR", KEYS[1]) > 0 then return 1 end
			return redis.call("DEL", KEYS[1])`),
	}
	counting = recipe{
		redis.NewScript(1, `local t = redis.call("TIME")
			local now = t[1] * 1000 + math.floor(t[2] / 1000)
			redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
			if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
			redis.call("ZADD", KEYS[1], now + ARGV[2], ARGV[1])
			return redis.call("PEXPIRE", KEYS[1], ARGV[2])`),
		redis.NewScript(1, `return redis.call("ZREM", KEYS[1], ARGV[1])`),
	}
)

// A byHandLocker follows a recipe.
type byHandLocker struct {
	recipe
	*redis.Pool
	env Env
}

func byHand(r recipe) func(Env) (Locker, error) {
	return func(e Env) (Locker, error) { return byHandLocker{r, e.pool(), e}, nil }
}

func (l byHandLocker) Pair(key string, writes bool) Pair {
	token, writer := uuid.NewString(), 0
	if writes {
		writer = 1
	}
	run := func(s *redis.Script) (bool, error) {
		c := l.Get()
		defer c.Close()
		return redis.Bool(s.Do(c, key, token, l.env.TTL.Milliseconds(), l.env.Permits, writer))
	}
	return Pair{
		func(ctx context.Context) error {
			for {
				if ok, err := run(l.try); ok || err != nil {
					return err
				}
				select {
				case <-time.After(peers.Eager):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		},
		func(context.Context) error {
			ok, err := run(l.end)
			if err == nil && !ok {
				err = peers.ErrGone
			}
			return err
		},
	}
}

// wires are connections whose commands are counted, one for each server.
type wires []redis.Conn

// wired dials the addresses, for one goroutine.
func (e Env) wired(addrs []string) (all wires, err error) {
	for _, addr := range addrs {
		c, dialErr := e.Requests.Dial(context.Background(), "tcp", addr)
		if dialErr != nil {
			return nil, errors.Join(dialErr, all.Close())
		}
		all = append(all, redis.NewConn(c, 0, 0))
	}
	return all, nil
}

func (w wires) Close() error {
	var all []error
	for _, c := range w {
		all = append(all, c.Close())
	}
	return errors.Join(all...)
}

// A limit is not a lock. It sends the least that any lock must send.
type limit struct {
	io.Closer
	pair func(key string) Pair
}

func (l limit) Pair(key string, _ bool) Pair { return l.pair(key) }

func ping(e Env) (Locker, error) {
	w, err := e.wired(e.Addrs[:1])
	return limit{w, func(string) Pair {
		return Pair{
			func(context.Context) error { _, err := w[0].Do("PING"); return err },
			func(context.Context) error { return nil },
		}
	}}, err
}

// list sends the least with which a process lets the server wake another one: one pushes, the other waits for the push.
func list(e Env) (Locker, error) {
	w, err := e.wired(e.Addrs[:1])
	return limit{w, func(key string) Pair {
		push := func(context.Context) error { _, err := w[0].Do("RPUSH", key, 1); return err }
		return Pair{
			func(ctx context.Context) error {
				first, err := w[0].Do("SET", key+":first", 1, "NX")
				if err == nil && first != nil {
					err = push(ctx)
				}
				for got := any(nil); err == nil && got == nil; {
					if err = ctx.Err(); err == nil {
						got, err = w[0].Do("BLPOP", key, 1)
					}
				}
				return err
			},
			push,
		}
	}}, err
}

// handOn does the least that a release must do to wake another process: it compares a token and sends a message.
var handOn = redis.NewScript(2, `return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("PUBLISH", KEYS[2], "") or -1`)

// message is for two goroutines that take turns. Each listens to the channel to which the other one sends.
func message(e Env) (Locker, error) {
	w, err := e.wired([]string{e.Addrs[0], e.Addrs[0]})
	return limit{w, func(key string) Pair {
		other := ""
		listen := func() (first bool, err error) {
			number, err := redis.Int(w[0].Do("INCR", key+":number"))
			if err == nil {
				other = key + strconv.Itoa(1-number%2)
				_, err = w[0].Do("SET", key, key)
			}
			if err == nil {
				_, err = w[1].Do("SUBSCRIBE", key+strconv.Itoa(number%2))
			}
			return number == 1, err
		}
		return Pair{
			func(ctx context.Context) error {
				defer context.AfterFunc(ctx, func() { w.Close() })()
				if other == "" {
					if first, err := listen(); first || err != nil {
						return err
					}
				}
				_, err := w[1].Receive()
				return errors.Join(ctx.Err(), err)
			},
			func(context.Context) error {
				for range 100 {
					heard, err := redis.Int(handOn.Do(w[0], key, other, key))
					if heard != 0 || err != nil {
						return err
					}
					time.Sleep(time.Millisecond) // the other goroutine does not listen yet, or has ended
				}
				return nil
			},
		}
	}}, err
}

// pipelines sends a command to all servers before it reads the first reply.
func pipelines(e Env) (Locker, error) {
	w, err := e.wired(e.Addrs)
	for _, c := range w {
		err = errors.Join(err, peers.CompareAndDelete.Load(c))
	}
	all := func(send func(redis.Conn) error) error {
		var errs []error
		for _, c := range w {
			errs = append(errs, send(c), c.Flush())
		}
		for _, c := range w {
			_, err := c.Receive()
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return limit{w, func(key string) Pair {
		var token string
		return Pair{
			func(context.Context) error {
				token = uuid.NewString()
				return all(func(c redis.Conn) error { return c.Send("SET", key, token, "NX", "PX", e.TTL.Milliseconds()) })
			},
			func(context.Context) error {
				return all(func(c redis.Conn) error { return peers.CompareAndDelete.SendHash(c, key, token) })
			},
		}
	}}, err
}

// local is a lock in the memory of one process.
type local struct{ mu sync.RWMutex }

func (l *local) Pair(_ string, writes bool) Pair {
	do := func(f func()) func(context.Context) error {
		return func(context.Context) error { f(); return nil }
	}
	if writes {
		return Pair{do(l.mu.Lock), do(l.mu.Unlock)}
	}
	return Pair{do(l.mu.RLock), do(l.mu.RUnlock)}
}

func (l *local) Close() error { return nil }
