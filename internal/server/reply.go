package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/conn"
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
	Gap     time.Duration // with Held, in the queue: since a waiter looked at it before; 0: none has
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

// permanentCodes are the errors that waiting can't fix, by their first word.
var permanentCodes = map[string]bool{
	"WRONGTYPE": true, "NOAUTH": true, "WRONGPASS": true, "NOPERM": true, "NOPROTO": true, "CROSSSLOT": true, "DENIED": true,
}

// permanentTexts are those that servers call ERR, by their words.
var permanentTexts = []string{
	"unknown command",
	"unknown subcommand",
	"Unknown subcommand",
	"Unknown Redis command called from",
	"after non deterministic commands",           // lua-replicate-commands no
	"turning on single commands replication",     // the same, at redis.set_repl
	"The user executing the script can't",        // ACL, Redis 7.0
	"ACL failure in script",                      // Redis 7.2, Valkey
	"unauthenticated multibulk length",           // NOAUTH, to a command of more than ten words
	"unauthenticated bulk length",                // NOAUTH, to a script that is sent for the first time
	"without any password configured",            // AUTH
	"but no password is set",                     // AUTH, before Redis 6
	"invalid password",                           // AUTH, before Redis 6
	"DB index is out of range",                   // SELECT
	"invalid DB index",                           // SELECT
	"SELECT is not allowed in cluster mode",      // SELECT
	"wrong number of arguments",                  // of a command that we don't know so
	"invalid expire time",                        // SET, PEXPIRE
	"the fence counter is not a number",          // fence.lua
	"This instance has cluster support disabled", // CLUSTER SLOTS
}

// Permanent reports whether waiting can't fix err: the server understood us and says that what
// we want will never work, for the reason in its words. What that is is a list. Everything else passes with time: broken
// networks, servers that load, fail over, are full or read-only, and replies that we don't know.
func Permanent(err error) bool {
	code, text := said(err)
	if permanentCodes[code] {
		return true
	}
	if code != "ERR" {
		return false
	}
	for _, known := range permanentTexts {
		if strings.Contains(text, known) {
			return true
		}
	}
	return false
}

// OfOneLock reports whether err may concern one lock alone, and others find the server in a better mood: it will never
// work with this key, or the guard has to wait for another TTL.
func OfOneLock(err error) bool {
	code, _ := said(err)
	return code == "GUARD" || Permanent(err)
}

// readOnly reports whether err says that the server is a replica.
func readOnly(err error) bool {
	code, text := said(err)
	return code == "READONLY" || strings.Contains(text, "against a read only") ||
		strings.Contains(text, "WAIT cannot be used with replica instances")
}

// coded reports whether err is what a server said with that code.
func coded(err error, code string) bool {
	if err == nil {
		return false
	}
	c, _ := said(err)
	return c == code
}

// said returns the code and the text of what a server said; both are empty where err is something else.
func said(err error) (code, text string) {
	var e redis.Error
	if !errors.As(err, &e) {
		return "", ""
	}
	return words(string(e))
}

// words splits a server error into its code and text. Before Redis 7 an error inside a script
// comes wrapped: "ERR Error running script (call to f_…): @user_script:9: @user_script: 9: -OOM …",
// or the same without the dash; and one that the script returns begins with "@user_script: 9: ", where it has no code
// of its own.
func words(e string) (code, text string) {
	if returned, ok := strings.CutPrefix(e, "@user_script: "); ok {
		_, said, _ := strings.Cut(returned, ": ")
		if own, ok := strings.CutPrefix(said, "-"); ok {
			return words(own)
		}
		return "ERR", said
	}
	code, text, _ = strings.Cut(e, " ")
	if code == "ERR" && strings.HasPrefix(text, "Error running script") {
		for _, field := range strings.Fields(text) {
			field = strings.TrimPrefix(field, "-")
			if len(field) > 2 && field == strings.ToUpper(field) && isLetters(field) {
				_, rest, _ := strings.Cut(text, field)
				return field, strings.TrimSpace(rest)
			}
		}
	}
	return code, text
}

func isLetters(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' }) < 0
}

// TimedOut reports whether err is the silence of a server, rather than its word or a broken connection.
func TimedOut(err error) bool {
	return err != nil && errors.Is(err, errTimeout) && !errors.Is(err, errLate)
}

var errTimeout = conn.ErrTimeout

// explain finds plainer words for what a server says that can't run our scripts, or never for these keys.
func explain(err error) error {
	err = conn.Mask(err)
	var said redis.Error
	if !errors.As(err, &said) {
		return err
	}
	var cause string
	switch text := string(said); {
	case strings.Contains(text, "WRONGTYPE"):
		return conn.Masked("the key holds a lock of another kind, or no lock; a Mutex or RWMutex, a Semaphore and other data "+
			"need keys of their own: "+text, said)
	case strings.HasPrefix(text, "CROSSSLOT"):
		return conn.Masked("the keys are in different slots of the cluster; give them a {tag} in common, as in "+
			"account:{eu}:1 and account:{eu}:2: "+text, said)
	case strings.Contains(text, "DB index is out of range"):
		return conn.Masked("the server does not have that database; choose a lower number in the URL, from 0, "+
			"or raise databases in its configuration: "+text, said)
	case strings.Contains(text, "after non deterministic commands"), strings.Contains(text, "turning on single commands replication"):
		cause = "it is too old, or set to lua-replicate-commands no"
	case strings.Contains(text, "Unknown Redis command called from"):
		cause = "it is too old, or lacks a command that they call"
	case strings.Contains(text, "unknown command") && (strings.Contains(text, "EVAL") || strings.Contains(text, "eval")):
		cause = "it has no Lua scripting"
	default:
		return err
	}
	return conn.Masked("the server can't run the scripts of the lock: "+cause+
		"; it has to be Redis 5.0, Valkey 7.2 or newer, with Lua scripting and its default lua-replicate-commands yes", said)
}
