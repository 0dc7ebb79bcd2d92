package work

import (
	"context"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/lab/stats"
)

// dial opens a connection that is counted, and that waits for replies for ever.
func (r *runner) dial() (redis.Conn, error) {
	c, err := r.requests.Dial(context.Background(), "tcp", r.Addrs[0])
	if err != nil {
		return nil, err
	}
	return redis.NewConn(c, 0, 0), nil
}

// ping measures the round trip of a PING.
func (r *runner) ping() (Result, error) {
	c, err := r.dial()
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	result := Result{Waits: make(stats.Histogram)}
	begin := time.Now().Add(r.Warm)
	for end := begin.Add(r.Run); time.Now().Before(end); {
		sent := time.Now()
		if _, err := c.Do("PING"); err != nil {
			return Result{}, err
		}
		if sent.After(begin) {
			result.Waits.Add(time.Since(sent))
		}
		if r.Think > 0 {
			time.Sleep(r.Think)
		}
	}
	result.Elapsed = time.Since(begin)
	return result, nil
}

// pipeline takes and releases the keys of all goroutines by hand, over one connection.
func (l *load) pipeline(int) tally {
	c, err := l.dial()
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	keys := make([]string, l.Goroutines)
	for g := range keys {
		keys[g] = l.ownKey(g)
	}
	p, err := peers.NewPipeline(c, l.TTL, keys...)
	if err != nil {
		return failed(err)
	}
	var t tally
	for l.phase.Load() != over {
		if err := p.Pairs(); err != nil {
			return failed(err)
		}
		if l.phase.Load() == measuring {
			t.holds += int64(len(keys))
		}
	}
	return t
}

// toAndFro has the first two processes send each other a message in turn. Each waits for the reply to its PUBLISH,
// and then for the message of the other. It counts the messages that it has sent.
func (l *load) toAndFro(int) tally {
	c, err := l.dial()
	if err != nil {
		return failed(err)
	}
	defer c.Close()
	subscriber, err := l.dial()
	if err != nil {
		return failed(err)
	}
	defer subscriber.Close()
	messages := redis.PubSubConn{Conn: subscriber}
	if err := messages.Subscribe(l.Key + ":" + strconv.Itoa(l.Worker)); err != nil {
		return failed(err)
	}
	if subscribed, ok := messages.Receive().(error); ok {
		return failed(subscribed)
	}
	defer context.AfterFunc(l.ctx, func() { subscriber.Close() })()
	other := l.Key + ":" + strconv.Itoa(1-l.Worker)
	var t tally
	for mine := l.Worker == 0; l.phase.Load() != over; mine = true {
		if mine {
			heard, err := redis.Int(c.Do("PUBLISH", other, "your turn"))
			if err != nil {
				return failed(err)
			}
			if heard == 0 { // the other is not there yet
				time.Sleep(time.Millisecond)
				continue
			}
			if l.phase.Load() == measuring {
				t.holds++
			}
		}
		if ended, ok := messages.Receive().(error); ok && l.ctx.Err() == nil {
			return failed(ended)
		}
	}
	return t
}

func failed(err error) tally { return tally{failures: 1, failure: err} }
