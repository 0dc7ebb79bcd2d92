package holds

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/lab/peers"
)

// A kit says which library to use, and how. It is sent to other processes.
type kit struct {
	Library string
	Addrs   []string // of the servers
	TTL     time.Duration
	Fencing bool          `json:",omitempty"`
	Queue   bool          `json:",omitempty"`
	Fixed   bool          `json:",omitempty"` // no renewal
	Reuse   time.Duration `json:",omitempty"`
	Poll    time.Duration `json:",omitempty"`
	Kind    string        `json:",omitempty"` // of the locks of a history
}

// The kinds of locks.
const (
	kindRW       = "readers and writers"
	kindPermits  = "2 permits"
	kindAll      = "several keys"
	kindHandOver = "handed over"

	permits = 2
)

// libraries makes the libraries by name, because a worker process gets only the name.
var libraries = map[string]func(kit) peers.Library{
	"redimutex": newOurs,
	"redsync": func(k kit) peers.Library {
		return peers.Redsync(k.pools(), redsync.WithExpiry(k.TTL), peers.Patient, redsync.WithRetryDelay(peers.Eager))
	},
	"redislock": func(k kit) peers.Library {
		return peers.Redislock(goredis.NewClient(peers.GoRedis(peers.To(k.Addrs[0]))), k.TTL)
	},
}

func (k kit) open() (peers.Library, error) {
	make, ok := libraries[k.Library]
	if !ok {
		return nil, fmt.Errorf("no library is called %q", k.Library)
	}
	return make(k), nil
}

// lock makes a Slot for key, and waits until it has the lock.
func lock(ctx context.Context, l peers.Library, key string) (peers.Slot, error) {
	s := l.Slot(key)
	return s, s.Lock(ctx)
}

// judged reports whether the library is this one, or a variant of it for tests, and so has to keep its promises.
func (k kit) judged() bool { return k.Library != "redsync" && k.Library != "redislock" }

// options returns what can be switched on. name is the option's name in the table, if it has one there.
func (k kit) options() []option {
	return []option{
		{k.Queue, "queue", redimutex.WithQueue},
		{k.Reuse > 0, "reuse", func() redimutex.Option { return redimutex.WithLeaseReuse(k.Reuse) }},
		{k.Fencing, "fencing", redimutex.WithFencing},
		{k.Fixed, "without renewal", redimutex.WithoutRenewal},
		{k.Poll > 0, "", func() redimutex.Option { return redimutex.WithPollInterval(k.Poll) }},
	}
}

type option struct {
	on   bool
	name string
	make func() redimutex.Option
}

// String names the library and what is switched on.
func (k kit) String() string {
	s := k.Library
	if k.Kind != "" {
		s += ", " + k.Kind
	}
	for _, o := range k.options() {
		if o.on && o.name != "" {
			s += ", " + o.name
		}
	}
	if n := len(k.Addrs); n > 1 {
		s += fmt.Sprintf(", %d servers", n)
	}
	return s
}

// pools returns the pools of a program that gives no thought to timeouts.
func (k kit) pools() (pools []*redis.Pool) {
	for _, addr := range k.Addrs {
		pools = append(pools, peers.Pool(peers.To(addr), 0))
	}
	return pools
}

// kinds is this library with its Client, which also makes other locks than Mutexes.
type kinds struct {
	peers.Library
	client *redimutex.Client
}

func newOurs(k kit) peers.Library {
	opts := []redimutex.Option{redimutex.WithTTL(k.TTL), redimutex.WithLogger(peers.Quiet)}
	for _, o := range k.options() {
		if o.on && (k.Kind != kindPermits || o.name != "reuse" && o.name != "fencing") {
			opts = append(opts, o.make())
		}
	}
	var pools []redimutex.Pool
	var closers []io.Closer
	for _, p := range k.pools() {
		pools, closers = append(pools, p), append(closers, p)
	}
	client := redimutex.NewClient(pools, opts...)
	return &kinds{peers.Redimutex(client, false, closers...), client}
}
