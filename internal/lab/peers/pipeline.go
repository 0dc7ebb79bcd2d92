package peers

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
)

// A Pipeline takes and releases many keys by hand over one connection, each time with all commands in one packet. That is
// the most that redigo can do, and no more than that: no caller waits, retries or cleans up.
type Pipeline struct {
	conn   redis.Conn
	ttl    time.Duration
	keys   []string
	tokens []string
}

// NewPipeline has the script loaded.
func NewPipeline(c redis.Conn, ttl time.Duration, keys ...string) (*Pipeline, error) {
	return &Pipeline{c, ttl, keys, make([]string, len(keys))}, compareAndDelete.Load(c)
}

// Pairs takes all keys, and then releases them.
func (p *Pipeline) Pairs() error {
	for i, key := range p.keys {
		p.tokens[i] = uuid.NewString()
		if err := p.conn.Send("SET", key, p.tokens[i], "NX", "PX", p.ttl.Milliseconds()); err != nil {
			return err
		}
	}
	if err := p.receive(func(reply any, err error) error {
		_, err = redis.String(reply, err)
		return err
	}); err != nil {
		return err
	}
	for i, key := range p.keys {
		if err := compareAndDelete.SendHash(p.conn, key, p.tokens[i]); err != nil {
			return err
		}
	}
	return p.receive(func(reply any, err error) error {
		n, err := redis.Int(reply, err)
		return goneUnless(n > 0, err)
	})
}

// receive sends what is in the buffer, and has every reply checked.
func (p *Pipeline) receive(check func(any, error) error) error {
	err := p.conn.Flush()
	for range p.keys {
		err = errors.Join(err, check(p.conn.Receive()))
	}
	return err
}
