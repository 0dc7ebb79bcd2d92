package holds

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// An event is one call of a library, by one goroutine, about one hold. A hold that is handed over keeps its number.
type event struct {
	ID     int64 // unique in its process
	Client int   // the goroutine
	Keys   []string
	Op     string
	Hold   int64            `json:",omitempty"` // its number, unique
	Reads  bool             `json:",omitempty"` // readers share
	Limit  int              `json:",omitempty"` // the number of permits of a semaphore; 0: the lock is no semaphore
	Call   evidence.Instant // just before it
	Return evidence.Instant `json:",omitempty"` // just after it; 0: it has not returned yet, or never will
	Result string           `json:",omitempty"`
	Until  evidence.Instant `json:",omitempty"` // the end of the validity that it promised
	Fence  int64            `json:",omitempty"`
}

// The operations.
const (
	opLock      = "lock"
	opTry       = "try"
	opCheck     = "valid?"
	opExtend    = "extend"
	opDowngrade = "downgrade"
	opHandOver  = "hand over"
	opTakeOver  = "take over"
	opUnlock    = "unlock"
)

// The results.
const (
	resultOK     = "ok"
	resultGone   = "gone"   // the servers have said that the key is gone or another's
	resultFailed = "failed" // everything else
)

// never is the Return of a call that has not returned, so that no process knows whether it had an effect.
const never = evidence.Instant(math.MaxInt64)

// A state is what the users of a lock can know of it: the holds that were let in, and until when each keeps others out.
type state struct {
	holds []held // in order of their numbers; the slice is never changed, only replaced
	fence int64  // the highest so far
}

type held struct {
	id    int64
	until evidence.Instant
	reads bool
	given bool // handed over, and not taken over yet
}

// with returns the state with h, which replaces the hold of the same number, if there is one.
func (s state) with(h held) state {
	s = s.without(h.id)
	i, _ := slices.BinarySearchFunc(s.holds, h.id, func(a held, id int64) int { return cmp.Compare(a.id, id) })
	s.holds = slices.Insert(slices.Clone(s.holds), i, h)
	return s
}

func (s state) without(id int64) state {
	s.holds = slices.DeleteFunc(slices.Clone(s.holds), func(h held) bool { return h.id == id })
	return s
}

// enter reports whether a new hold can have got the lock, and returns the next state. Holds in its way must have expired.
func (s state) enter(e event) (bool, state) {
	var inTheWay []held
	switch {
	case e.Limit > 0: // the permits that ended first
		inTheWay = slices.SortedFunc(slices.Values(s.holds), func(a, b held) int { return cmp.Compare(a.until, b.until) })
		inTheWay = inTheWay[:max(0, len(inTheWay)-e.Limit+1)]
	default:
		for _, h := range s.holds {
			if !e.Reads || !h.reads {
				inTheWay = append(inTheWay, h)
			}
		}
	}
	next := s
	for _, h := range inTheWay {
		if h.until > e.Return {
			return false, s
		}
		next = next.without(h.id)
	}
	if e.Fence != 0 && e.Fence <= s.fence && !(e.Reads && e.Fence == s.fence) {
		return false, s
	}
	next.fence = max(s.fence, e.Fence)
	return true, next.with(held{id: e.Hold, until: e.Until, reads: e.Reads})
}

// step reports whether a call can have gone as it did, at some moment between Call and Return, and returns the next state.
func (s state) step(e event) (bool, state) {
	if e.Op == opLock || e.Op == opTry {
		return s.enter(e)
	}
	i := slices.IndexFunc(s.holds, func(h held) bool { return h.id == e.Hold })
	if i < 0 {
		return e.Result != resultOK || e.Return == never, s
	}
	h := s.holds[i]
	if e.Result == resultGone && e.Return != never {
		return h.until <= e.Return, s.without(h.id) // the key must not be gone before the hold ends
	}
	sure := e.Result == resultOK && e.Return != never
	switch e.Op {
	case opCheck, opExtend:
		h.until = max(h.until, e.Until)
	case opDowngrade: // if the result is not known, the hold may be a reader
		h.reads, h.until = true, max(h.until, e.Until)
	case opHandOver: // if the result is not known, the next hold may come at the earlier end, and a taker may come too
		if !sure {
			e.Until = min(h.until, e.Until)
		}
		h.given, h.until = true, e.Until
	case opTakeOver:
		if !h.given || e.Fence != 0 && e.Fence <= s.fence {
			return false, s
		}
		s.fence = max(s.fence, e.Fence)
		h.given, h.until = false, e.Until
	case opUnlock:
		return true, s.without(h.id)
	}
	return true, s.with(h)
}

// constrains reports whether the call belongs in the history. A call that did not get the lock, or has found it lost, is legal
// at any time. So is a call that died with its process, unless it may have freed the lock before its time, or shared it.
func (e event) constrains() bool {
	switch e.Op {
	case opUnlock, opDowngrade, opHandOver:
		return true
	case opExtend:
		return e.Return != never && e.Result != resultFailed
	}
	return e.Return != never && e.Result == resultOK
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) { return s.(state).step(in.(event)) },
	Equal: func(a, b any) bool {
		return a.(state).fence == b.(state).fence && slices.Equal(a.(state).holds, b.(state).holds)
	},
	DescribeOperation: func(in, _ any) string {
		e := in.(event)
		text := fmt.Sprintf("%s %d", e.Op, e.Hold)
		if e.Reads {
			text += " (reader)"
		}
		if e.Fence != 0 {
			text += fmt.Sprintf(" fence %d", e.Fence)
		}
		if e.Return == never {
			return text + ": killed"
		}
		return text + ": " + e.Result
	},
	DescribeState: func(s any) string {
		now := s.(state)
		if len(now.holds) == 0 {
			return "free"
		}
		return fmt.Sprintf("held by %v, fence %d", now.holds, now.fence)
	},
}

// A verdict is the result of checking the history of one key.
type verdict struct {
	result  porcupine.CheckResult
	info    porcupine.LinearizationInfo
	key     string
	calls   int // in the history
	holds   int
	unknown int // calls that never returned
}

// checkTime is how long the check of one history may take. For a legal history it takes a fraction of a second.
const checkTime = 30 * time.Second

// check asks porcupine whether the calls of one key can have happened one after the other.
func check(key string, events []event) verdict {
	v := verdict{key: key}
	// A permit that was valid at some moment was valid all the time before: a renewal, which is no call, has extended it.
	// Otherwise it could only be guessed which of two permits has ended when a third one is given.
	there := make(map[int64]evidence.Instant)
	for _, e := range events {
		if e.Result == resultOK && (e.Op == opCheck || e.Op == opExtend || e.Op == opUnlock) {
			there[e.Hold] = max(there[e.Hold], e.Call)
		}
	}
	var history []porcupine.Operation
	for _, e := range events {
		if !e.constrains() {
			continue
		}
		if e.Limit > 0 {
			e.Until = max(e.Until, there[e.Hold])
		}
		if e.Return == never {
			v.unknown++
		}
		if e.Op == opLock || e.Op == opTry {
			v.holds++
		}
		history = append(history, porcupine.Operation{ClientId: e.Client, Input: e, Call: int64(e.Call), Return: int64(e.Return)})
	}
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	v.calls = len(history)
	v.result, v.info = porcupine.CheckOperationsVerbose(model, history, checkTime)
	return v
}
