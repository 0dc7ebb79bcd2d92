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

// none reports whether there is no reply yet.
func (r *Reply) none() bool { return r.Verdict == Failed && r.Err == nil }

// answer reads the reply of a script of a lock, or the error in its place, to a command that was sent then. now is the
// server's clock where the reply has it, negative where the command came too late.
//
//	{now, fence} and {…, left}      granted
//	{holder, ms} and {…, now, gap}  another holds it
//	{0, i}, {-1, i}                 lock i is gone, another holds it
//	1, 0, -now                      done; the waiter was passed over; too late
func answer(raw any, sent time.Time) (r Reply, now int64) {
	r = Reply{Sent: sent}
	number := func(v any) int64 { n, _ := v.(int64); return n }
	switch v := raw.(type) {
	case error:
		r.Err = v
	case int64:
		switch {
		case v < 0:
			return Reply{Err: errLate, Sent: sent}, v
		case v == 0:
			r.Verdict = Lapsed
		case v == 1:
			r.Verdict = Done
		}
	case []any:
		if len(v) < 2 {
			break
		}
		switch first := v[0].(type) {
		case []byte:
			r.Verdict, r.Holder, r.Left = Held, string(first), time.Duration(number(v[1]))*time.Millisecond
			if len(v) == 4 {
				r.Now, r.Gap = number(v[2]), time.Duration(number(v[3]))*time.Microsecond
			}
		case int64:
			switch {
			case first > 0:
				r.Verdict, r.Now, r.Fence = Done, first, number(v[1])
				if len(v) == 3 {
					r.Left = time.Duration(number(v[2])) * time.Millisecond
				}
			case first == 0:
				r.Verdict, r.Which = Missing, int(number(v[1]))-1
			default:
				r.Verdict, r.Which = Taken, int(number(v[1]))-1
			}
		}
	}
	if r.none() {
		r.Err = fmt.Errorf("unexpected reply %T to a script", raw)
	}
	return r, r.Now
}
