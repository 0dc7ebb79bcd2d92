package server

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
)

type Verdict int8

const (
	Failed  Verdict = iota // no answer that counts: see Reply.Err
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
	Sent    time.Time     // just before the command was sent
	Fence   int64         // with Done; of InUse: the number of permits in use
	Holder  string        // with Held, and with Taken of a swap: the value of the lock, 320 bytes at most
	Left    time.Duration // with Held: the rest of the holder's TTL, negative without one; with Done of a swap: the token's TTL
	Which   int           // with Held, Missing and Taken: which of the keys
	Now     int64         // the server's clock in µs, if the script tells it; with errLate as well
	Waiting int           // with Held: how many wait in the queue, if the caller does
}

// verdicts are the numbers at the beginning of the scripts' replies: see head.lua and acquire.lua. late: nothing was done.
var verdicts = map[int64]Verdict{-1: Taken, 0: Missing, 1: Done, 2: Held, 3: Lapsed}

const late = 4

// answer reads the reply of a script, or the error in its place. sent: when the command was sent. A reply is a verdict, or a
// list: a verdict, the server's clock, and the values that belong to the verdict.
func answer(raw any, sent time.Time) Reply {
	r := Reply{Sent: sent}
	list, _ := raw.([]any)
	if len(list) < 2 {
		list = []any{raw, int64(0)}
	}
	number := func(i int) (n int64) {
		if i < len(list) {
			n, _ = list[i].(int64)
		}
		return n
	}
	code, known := list[0].(int64)
	verdict, counts := verdicts[code]
	switch {
	case known && counts:
		r.Verdict, r.Now = verdict, number(1)
	case known && code == late:
		r.Err, r.Now = errLate, number(1)
	default:
		if r.Err, known = raw.(error); !known {
			r.Err = fmt.Errorf("unexpected reply %T to a script", raw)
		}
	}
	switch r.Verdict {
	case Done:
		r.Fence, r.Left = number(2), time.Duration(number(3))*time.Millisecond
	case Held:
		r.Left, r.Waiting, r.Which = time.Duration(number(2))*time.Millisecond, int(number(3)), int(number(4))-1
		r.Holder, _ = redis.String(list[len(list)-1], nil)
	case Missing, Taken:
		r.Which = int(number(2)) - 1
		if len(list) > 3 {
			r.Holder, _ = redis.String(list[3], nil)
		}
	}
	return r
}

// Plainer words for errors. Behind a colon at the end come the words of the server.
const (
	wrongKind = "the key holds a lock of another kind, or no lock; a Mutex or RWMutex, a Semaphore and other data need keys " +
		"of their own: "
	wrongSlots = "the keys are in different slots of the cluster; give them a {tag} in common, as in account:{eu}:1 and " +
		"account:{eu}:2: "
	wrongDB = "the server does not have that database; choose a lower number in the URL, from 0, or raise databases in its " +
		"configuration: "
	noScripts = "the server can't run the scripts of the lock: "
	needed    = "; it has to be Redis 5.0, Valkey 7.2 or newer, with Lua scripting and its default lua-replicate-commands yes"
	tooOld    = noScripts + "it is too old, or set to lua-replicate-commands no" + needed
	lacking   = noScripts + "it is too old, or lacks a command that they call" + needed
	noQueue   = "the server can't keep a queue, because its scripts lack redis.set_repl; leave WithQueue out, and waiters poll"
	noLua     = noScripts + "it has no Lua scripting" + needed + ": "
)

// permanent are the errors that waiting can't fix: codes, words in the text (in lower case), plainer words. The first counts.
var permanent = []struct{ codes, words, plainer string }{
	{"WRONGTYPE", "", wrongKind},
	{"CROSSSLOT", "", wrongSlots},
	{"NOAUTH WRONGPASS NOPERM NOPROTO DENIED", "", ""},
	{"ERR", "command 'eval", noLua}, // unknown, or not allowed
	{"ERR", "command `eval", noLua},
	{"ERR", "command eval not support", noLua},                // Alibaba Cloud
	{"ERR", "bad lua script for redis cluster", noLua},        // the same: it wants each key as KEYS[n] in the text of the script
	{"ERR", "lua scripting support disabled", noLua},          // Garnet
	{"ERR", "could not find scripting engine", noLua},         // a Valkey 9 without its Lua
	{"ERR", "has no redis.set_repl", noQueue},                 // acquire.lua: Dragonfly, Kvrocks
	{"ERR", "command called from", lacking},                   // "Unknown Redis command", and of Valkey 8.0 "Unknown command"
	{"ERR", "after non deterministic commands", tooOld},       // lua-replicate-commands no
	{"ERR", "turning on single commands replication", tooOld}, // the same, at redis.set_repl
	{"ERR", "db index is out of range", wrongDB},              // SELECT
	{"ERR", "unknown command", ""},
	{"ERR", "unknown subcommand", ""},
	{"ERR", "the user executing the script can't", ""}, // ACL, Redis 7.0
	{"ERR", "acl failure in script", ""},               // Redis 7.2, Valkey
	{"ERR", "unauthenticated ", ""},                    // NOAUTH: "multibulk length" of more than ten words, "bulk length" of a script
	{"ERR", "password", ""},                            // AUTH: the server has none, or, before Redis 6, another one
	{"ERR", "invalid db index", ""},
	{"ERR", "select is not allowed in cluster mode", ""},      // SELECT
	{"ERR", "wrong number of arguments", ""},                  // of a command that differs from the one we know
	{"ERR", "invalid expire time", ""},                        // SET, PEXPIRE
	{"ERR", "the fence counter is not a number", ""},          // fence.lua
	{"ERR", "this instance has cluster support disabled", ""}, // CLUSTER SLOTS
}

// Permanent reports whether waiting can't fix err: the server says, in words of the list above, that the command will never
// work, or the pool is closed. Every other error passes with time: a broken network, a server that loads, fails over, is full
// or read-only, and a reply that we don't know.
func Permanent(err error) bool {
	forever, _ := refusal(err)
	return forever || errors.Is(err, conn.ErrPoolClosed)
}

// refusal is Permanent for what servers say. It also finds plainer words, if there are any.
func refusal(err error) (forever bool, plainer string) {
	code, text := said(err)
	if code == "" {
		return false, ""
	}
	text = strings.ToLower(text)
	for _, known := range permanent {
		if slices.Contains(strings.Fields(known.codes), code) && strings.Contains(text, known.words) {
			return true, known.plainer
		}
	}
	return false, ""
}

// explain finds plainer words if a server can't run our scripts, at all or for these keys. It hides secrets.
func explain(err error) error {
	err = conn.Mask(err)
	var said redis.Error
	_, plainer := refusal(err)
	if plainer == "" || !errors.As(err, &said) {
		return err
	}
	if strings.HasSuffix(plainer, ": ") {
		plainer += string(said)
	}
	return conn.Masked(plainer, said)
}

// OfOneLock reports whether err may concern one lock alone, so that the server may serve other locks: the command will never
// work with this key, the restart guard has to wait for the TTL of this lock, or the lock has ended.
func OfOneLock(err error) bool {
	code, _ := said(err)
	return code == "GUARD" || Permanent(err) || errors.Is(err, errEnded)
}

func coded(err error, code string) bool {
	if err == nil {
		return false
	}
	c, _ := said(err)
	return c == code
}

// replicas reports whether err is the answer of a server that is a replica now.
func replicas(err error) bool {
	code, text := said(err)
	return code == "READONLY" || code == "MASTERDOWN" || strings.Contains(text, "on a stale replica")
}

// turnedAway reports whether err is about this connection: one too many, without its login (RESET), or subscribed (SSUBSCRIBE).
func turnedAway(err error) bool {
	code, text := said(err)
	return code == "NOAUTH" || strings.Contains(text, "max number of clients") || strings.Contains(text, "in this context")
}

// full reports whether err may mean that the pool or the server has no connection left. Over TLS a full server only hangs up.
func full(err error) bool {
	_, text := said(err)
	return strings.Contains(text, "max number of clients") || errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// said returns the code and the text of a server's error; both are empty if err is something else. Before Redis 7 an error
// inside a script comes wrapped: "ERR Error running script (call to f_…): @user_script:9: @user_script: 9: -OOM …", or the
// same without the dash. An error that the script returns begins with "@user_script: 9: " if it has no code of its own.
func said(err error) (code, text string) {
	var e redis.Error
	if !errors.As(err, &e) {
		return "", ""
	}
	words := string(e)
	if returned, ok := strings.CutPrefix(words, "@user_script: "); ok {
		_, words, _ = strings.Cut(returned, ": ")
		if words, ok = strings.CutPrefix(words, "-"); !ok {
			return "ERR", words
		}
	}
	code, text, _ = strings.Cut(words, " ")
	if code == "ERR" && strings.HasPrefix(text, "Error running script") {
		for _, field := range strings.Fields(text) {
			field = strings.TrimPrefix(field, "-")
			if len(field) > 2 && strings.Trim(field, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
				_, rest, _ := strings.Cut(text, field)
				return field, strings.TrimSpace(rest)
			}
		}
	}
	return code, text
}

// timedOut reports whether err is the silence of a server, and not an answer or a broken connection.
func timedOut(err error) bool {
	return err != nil && errors.Is(err, errTimeout) && !errors.Is(err, errLate)
}

var errTimeout = conn.ErrTimeout
