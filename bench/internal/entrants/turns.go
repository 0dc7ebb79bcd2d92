package entrants

import (
	"context"
	"strconv"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// turns is not a lock. It sends the least with which readers and writers can take turns: one command each, when they leave.
// All know how many they are, and the order: all readers, a writer, all readers, the next writer.
type turns struct {
	*redis.Pool
	env Env

	once    sync.Once
	mu      sync.Mutex     // guards the fields below
	began   map[string]int // by who: how often their turn has come
	changed chan struct{}  // closed, and replaced, when the next turn comes
}

const (
	turnReaders = 64
	turnWriters = 4
	ofReaders   = "readers"
)

// leave counts the goroutines that leave, or that have just arrived. The last of them passes the turn on. ARGV: how many they
// are; whose turn is next, empty for the next writer; how many writers there are.
var leave = redis.NewScript(3, `if redis.call("INCR", KEYS[1]) < tonumber(ARGV[1]) then return 0 end
	redis.call("DEL", KEYS[1])
	local next = ARGV[2]
	if next == "" then next = redis.call("INCR", KEYS[2]) % ARGV[3] end
	return redis.call("PUBLISH", KEYS[3], next)`)

func phases(e Env) (Locker, error) {
	return &turns{Pool: e.pool(), env: e, began: make(map[string]int), changed: make(chan struct{})}, nil
}

// listen notes whose turn it is, until the connection is closed.
func (t *turns) listen(c redis.Conn) {
	for {
		message, err := redis.Strings(c.Receive())
		if err != nil {
			return
		}
		t.mu.Lock()
		t.began[message[2]]++
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
	}
}

// await waits until who has had more turns than after.
func (t *turns) await(ctx context.Context, who string, after int) error {
	for {
		t.mu.Lock()
		n, changed := t.began[who], t.changed
		t.mu.Unlock()
		if n > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *turns) leave(key, counter string, many int, next string) error {
	c := t.Get()
	defer c.Close()
	_, err := leave.Do(c, key+counter, key+":next", key+":turn", many, next, turnWriters)
	return err
}

// first subscribes, once in a process, and reports that its goroutine has arrived. The first turn begins when all have.
func (t *turns) first(ctx context.Context, key string, writes bool) (who string, err error) {
	t.once.Do(func() {
		var w wires
		if w, err = t.env.wired(t.env.Addrs[:1]); err != nil {
			return
		}
		if _, err = w[0].Do("SUBSCRIBE", key+":turn"); err == nil {
			context.AfterFunc(ctx, func() { w.Close() })
			go t.listen(w[0])
		}
	})
	if who = ofReaders; writes && err == nil {
		c := t.Get()
		defer c.Close()
		var n int
		n, err = redis.Int(c.Do("INCR", key+":writers"))
		who = strconv.Itoa(n % turnWriters)
	}
	if err == nil {
		err = t.leave(key, ":here", turnReaders+turnWriters, ofReaders)
	}
	return who, err
}

func (t *turns) Pair(key string, writes bool) Pair {
	who, mine := "", 0
	return Pair{
		func(ctx context.Context) (err error) {
			if who == "" {
				if who, err = t.first(ctx, key, writes); err != nil {
					return err
				}
			}
			if err = t.await(ctx, who, mine); err == nil {
				mine++
			}
			return err
		},
		func(context.Context) error {
			if writes {
				return t.leave(key, ":wrote", 1, ofReaders)
			}
			return t.leave(key, ":read", turnReaders, "")
		},
	}
}
