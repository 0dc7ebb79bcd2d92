package holds

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// An event is one call of a library, by one goroutine, about one hold.
type event struct {
	ID     int64 // unique in its process
	Client int   // the goroutine
	Key    string
	Op     string
	Hold   int64   `json:",omitempty"` // unique
	Call   instant // just before it
	Return instant `json:",omitempty"` // just after it; 0: that is not known yet, or never
	Result string  `json:",omitempty"`
	Until  instant `json:",omitempty"` // the validity that it promised
	Fence  int64   `json:",omitempty"`
}

// What the calls are.
const (
	opLock   = "lock"
	opTry    = "try"
	opCheck  = "valid?"
	opExtend = "extend"
	opUnlock = "unlock"
)

// What comes of them.
const (
	resultOK     = "ok"
	resultGone   = "gone"   // the servers have said that the key is gone or another's
	resultFailed = "failed" // everything else
)

// never is when a call returns of which no process knows whether it had an effect.
const never = instant(math.MaxInt64)

// The state of a lock, as far as those who use it can tell: who was last given it, and until when
// no other caller may be.
type state struct {
	holder int64 // 0: no holder
	until  instant
	fence  int64
}

// step says whether a call can have gone as it did, at some moment between Call and Return, and what
// it makes of the lock.
func (s state) step(e event) (bool, state) {
	ours := s.holder == e.Hold
	switch e.Op {
	case opLock, opTry:
		legal := (s.holder == 0 || s.until <= e.Return) && (e.Fence == 0 || e.Fence > s.fence)
		return legal, state{e.Hold, e.Until, max(e.Fence, s.fence)}
	case opCheck, opExtend:
		if e.Result == resultGone {
			return !ours || s.until <= e.Return, s
		}
		s.until = max(s.until, e.Until)
		return ours, s
	case opUnlock:
		switch {
		case !ours:
			return e.Result != resultOK, s
		case e.Result == resultGone && s.until > e.Return:
			return false, s // the key was gone before its time
		}
		s.holder = 0
		return true, s
	}
	return false, s
}

// constrains reports whether the call belongs into the history. A call that did not get the lock, or
// has found it lost, is legal at any time; so is one that has died with its process, except for an
// Unlock, which may set the lock free before its time.
func (e event) constrains() bool {
	switch {
	case e.Return == never:
		return e.Op == opUnlock
	case e.Op == opUnlock:
		return true
	case e.Op == opExtend:
		return e.Result != resultFailed
	}
	return e.Result == resultOK
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) { return s.(state).step(in.(event)) },
	DescribeOperation: func(in, _ any) string {
		e := in.(event)
		text := fmt.Sprintf("%s %d", e.Op, e.Hold)
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
		if now.holder == 0 {
			return "free"
		}
		return fmt.Sprintf("held by %d, fence %d", now.holder, now.fence)
	},
}

// A verdict is what came of checking the history of one key.
type verdict struct {
	result  porcupine.CheckResult
	info    porcupine.LinearizationInfo
	key     string
	calls   int // in the history
	holds   int
	unknown int // calls that stay open
}

// checkTime is for one history. A legal one takes a fraction of a second.
const checkTime = 30 * time.Second

// check asks porcupine whether the calls of one key can have happened one after the other.
func check(key string, events []event) verdict {
	v := verdict{key: key}
	var history []porcupine.Operation
	for _, e := range events {
		if !e.constrains() {
			continue
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
