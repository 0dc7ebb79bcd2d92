package cacheaside

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/server"
)

const (
	defaultInterval = 100 * time.Millisecond
	defaultMaxTries = 50
)

// A Store is the cache itself. It decides how long it keeps a value. It must be safe for concurrent use, and return soon after
// ctx has ended. [NewRedisStore] makes one.
type Store interface {
	// Get returns the value of key, or nil if there is none.
	Get(ctx context.Context, key string) ([]byte, error)

	// Set keeps value under key, in place of the old value.
	Set(ctx context.Context, key string, value []byte) error
}

// A Cache is shared by the calls of [Fetch] in one process. Make one and keep it. It is safe for concurrent use. It runs no
// goroutine while no caller fetches.
type Cache struct {
	client   *redimutex.Client
	store    Store
	interval time.Duration
	maxTries int
	lockKey  func(key string) string
	logger   *slog.Logger

	mu      sync.Mutex
	flights map[string]*flight // of the keys that callers wait for
}

// An Option changes how a [Cache] behaves. A senseless value panics, with a sentence that says what is allowed.
type Option func(*Cache)

// WithInterval sets the wait between two tries for the lock; the cache is looked at again after each wait. The default is 100
// ms. If it is much shorter than a load takes, most requests are in vain.
func WithInterval(d time.Duration) Option {
	demand(d > 0, "WithInterval(%v): has to be more than 0", d)
	return func(c *Cache) { c.interval = d }
}

// WithMaxTries sets how often a caller tries to get the lock, one interval apart, before it gives up. The default is 50, so a
// caller waits for about 5 s.
func WithMaxTries(n int) Option {
	demand(n > 0, "WithMaxTries(%d): has to be 1 at least", n)
	return func(c *Cache) { c.maxTries = n }
}

// WithLockKey sets how the key of the lock is made from the key of the value. The default appends ":lock". A value must not
// have the key of a lock, because it would overwrite the lock. [Fetch] refuses such keys if name puts something before or
// behind the key, or returns the same lock for all keys. By default it refuses keys that end in ":lock".
func WithLockKey(name func(key string) string) Option {
	demand(name != nil, "WithLockKey: the function is nil")
	return func(c *Cache) { c.lockKey = name }
}

// WithLogger sets the logger for loaded values that could not be cached. The default is [slog.Default], looked up each time.
func WithLogger(l *slog.Logger) Option { return func(c *Cache) { c.logger = l } }

// New returns a Cache that keeps its values in store and its locks with client, whose options apply to them. A lease is
// renewed while its loader runs, so a load may take longer than the TTL (see [redimutex.WithTTL]). If a holder crashes, the
// others wait for the TTL.
//
// It panics if client or store is nil, or if an option makes no sense.
func New(client *redimutex.Client, store Store, opts ...Option) *Cache {
	demand(client != nil, "the Client is nil")
	demand(store != nil, "the Store is nil")
	c := &Cache{
		client:   client,
		store:    store,
		interval: defaultInterval,
		maxTries: defaultMaxTries,
		lockKey:  func(key string) string { return key + ":lock" },
		flights:  make(map[string]*flight),
	}
	for _, o := range opts {
		demand(o != nil, "an Option is nil")
		o(c)
	}
	return c
}

// Fetch returns the value of key from the cache. If it is not there, Fetch calls load and caches the result.
//
// The ctx of load ends when ctx does, and when the lock is lost. load must not Fetch the same key. It may Fetch
// another key under the same lock if the Client has [redimutex.WithReentrancy]. A Fetch inside a [redimutex.Mutex.Do]
// of the value's lock then runs inside that hold. Without that option both are an error at once, unless the value is
// cached, because they would wait for themselves.
//
// Values are cached as JSON, and every caller gets a copy of its own, decoded from that. A value that can't be
// decoded into a T counts as absent and is loaded anew. An error of load is not cached: to have "there is none"
// cached, return a value that says so.
//
//   - the error of load; joined with one that matches [redimutex.ErrLost] if the lock was lost meanwhile;
//   - one that matches [redimutex.ErrLost] if the lock was lost before the value was cached;
//   - one that matches [redimutex.ErrLocked] when the tries are used up (see [WithMaxTries]), and at once for a
//     nested Fetch, as above;
//   - one that matches [redimutex.ErrUnavailable] when the tries are used up and the servers of the lock did not
//     answer;
//   - the cause of ctx if ctx has ended;
//   - an error of [encoding/json], if the result of load can't be encoded;
//   - an error that says so if key begins with "redimutex:" or is the key of a lock (see [WithLockKey]);
//   - the error of the Store, if the cache can't be read. Loading in that case would send all callers to the database
//     at once.
//
// If a loaded value can't be written to the cache, that is logged. The callers in this process that wait for it get
// it all the same.
func Fetch[T any](ctx context.Context, c *Cache, key string, load func(ctx context.Context) (T, error)) (T, error) {
	demand(load != nil, "Fetch needs a function that loads, and got nil")
	var value, none T
	f := fetch{
		cache: c,
		key:   key,
		load: func(ctx context.Context) ([]byte, error) {
			v, err := load(ctx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(v)
		},
		decode: func(b []byte) error {
			value = none // a failed decode may have filled some fields
			return json.Unmarshal(b, &value)
		},
	}
	if err := f.run(ctx); err != nil {
		return none, err
	}
	return value, nil
}

// refuse returns an error if no value may have that key: the key belongs to a lock, or no lock can be made for it.
func (c *Cache) refuse(key string) error {
	lock := c.lockKey(key)
	before, behind, affixed := strings.Cut(lock, key)
	switch {
	case server.Reserved(key):
		return fmt.Errorf("cacheaside: the key %q begins with redimutex:, which is reserved for what belongs to locks", key)
	case lock == "":
		return fmt.Errorf("cacheaside: %q: the key of its lock is empty", key)
	case server.Reserved(lock):
		return fmt.Errorf("cacheaside: %q: the key of its lock, %q, begins with redimutex:, which is reserved for what belongs to locks", key, lock)
	case lock == key, affixed && key != "" && isAffixed(key, before, behind):
		return fmt.Errorf("cacheaside: the key %q is that of a lock, and a value would overwrite it; see WithLockKey", key)
	}
	return nil
}

// isAffixed reports whether key is the lock key of another value: before and behind, with that value's key between them.
func isAffixed(key, before, behind string) bool {
	return len(key) >= len(before)+len(behind) && strings.HasPrefix(key, before) && strings.HasSuffix(key, behind)
}

func (c *Cache) log() *slog.Logger {
	if c.logger != nil {
		return c.logger
	}
	return slog.Default()
}

// demand panics with the sentence unless ok.
func demand(ok bool, sentence string, args ...any) {
	if !ok {
		panic("cacheaside: " + fmt.Sprintf(sentence, args...))
	}
}
