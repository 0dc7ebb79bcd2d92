package server

import (
	"fmt"
	"time"
)

// A Verdict is what a server said.
type Verdict int8

const (
	Failed  Verdict = iota // nothing that counts; see Reply.Err
	Done                   // granted, extended, released
	Held                   // acquire: another holds it
	Missing                // extend, release: the lock is gone
	Taken                  // extend, release: another holds it
	Lapsed                 // acquire: the waiter is no longer queued; it let its hand-off lapse, or was passed over
)

// A Reply is one server's answer to one operation.
type Reply struct {
	Verdict Verdict
	Err     error         // with Failed
	Unasked bool          // the server was not asked: there was no need
	Unknown bool          // with Failed: the operation may have been executed, or may be yet
	There   bool          // acquire, with Failed: it was executed, but does not count
	Twice   bool          // acquire: it was sent twice, because a connection broke; the first may be executed yet
	Sent    time.Time     // just before the command was sent
	Fence   int64         // with Done
	Holder  string        // with Held: the value of the lock, 320 bytes at most
	Left    time.Duration // with Held: what is left of the holder's TTL; negative without a TTL. Of a swap: what old had left
	Which   int           // with Missing and Taken: which of the keys
	Now     int64         // the server's clock in µs, where the script tells it
	Gap     time.Duration // with Held, in the queue: since anybody looked at it before; 0: no waiter has
}

// parseAcquire reads the reply of acquire.lua and swap.lua. now is the server's clock where the reply has it, negative
// where the try came too late.
func parseAcquire(raw any) (r Reply, now int64) {
	switch v := raw.(type) {
	case int64:
		if v < 0 {
			return Reply{Err: errLate}, v
		}
		if v == 0 {
			return Reply{Verdict: Lapsed}, 0
		}
	case []any:
		if len(v) < 2 {
			break
		}
		second, _ := v[1].(int64)
		switch first := v[0].(type) {
		case int64:
			if first <= 0 {
				return lost(first, second), 0
			}
			r := Reply{Verdict: Done, Fence: second, Now: first}
			if len(v) == 3 {
				left, _ := v[2].(int64)
				r.Left = time.Duration(left) * time.Millisecond
			}
			return r, first
		case []byte:
			r := Reply{Verdict: Held, Holder: string(first), Left: time.Duration(second) * time.Millisecond}
			if len(v) == 4 {
				gap, _ := v[3].(int64)
				r.Now, _ = v[2].(int64)
				r.Gap = time.Duration(gap) * time.Microsecond
			}
			return r, r.Now
		}
	}
	return Reply{Err: fmt.Errorf("unexpected reply %T to the acquiring script", raw)}, 0
}

// lost is the reply of a script that did not find the token.
func lost(code, which int64) Reply {
	if code == 0 {
		return Reply{Verdict: Missing, Which: int(which) - 1}
	}
	return Reply{Verdict: Taken, Which: int(which) - 1}
}

// parseEnd reads the reply of release.lua, extend.lua and downgrade.lua.
func parseEnd(raw any, err error, sent time.Time) (r Reply) {
	if e, ok := raw.(error); ok {
		err = e
	}
	switch v := raw.(type) {
	case int64:
		if r = (Reply{Err: errLate}); v == 1 {
			r = Reply{Verdict: Done}
		}
	case []any:
		if len(v) == 2 {
			code, _ := v[0].(int64)
			which, _ := v[1].(int64)
			r = lost(code, which)
			break
		}
		err = fmt.Errorf("unexpected reply to a script")
	default:
		if err == nil {
			err = fmt.Errorf("unexpected reply %T to a script", raw)
		}
	}
	if err != nil {
		r = Reply{Err: err}
	}
	r.Sent = sent
	return r
}
