package sim

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
	lua "github.com/yuin/gopher-lua"
)

// The scripts of the libraries run as they are, in one interpreter for all servers.
var interpreter struct {
	sync.Mutex
	state   *lua.LState
	scripts map[string]*lua.LFunction // by hash
	grants  map[string]bool           // by hash: those that can take a lock
	server  *server                   // whose script is running
	plant   Plant
	planted map[string]bool // the texts that were found, and replaced
}

// load compiles a script and returns its hash.
func load(source string) string {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	hash := hex.EncodeToString(sum[:])
	in := &interpreter
	in.Lock()
	defer in.Unlock()
	if in.state == nil {
		in.state, in.scripts, in.planted = newState(), make(map[string]*lua.LFunction), make(map[string]bool)
		in.grants = make(map[string]bool)
	}
	if in.scripts[hash] != nil {
		return hash
	}
	for bug := &in.plant; bug != nil && bug.From != ""; bug = bug.And {
		if strings.Contains(source, bug.From) {
			source = strings.ReplaceAll(source, bug.From, bug.To)
			in.planted[bug.From] = true
		}
	}
	f, err := in.state.LoadString(source)
	if err != nil {
		panic(fmt.Sprintf("a script can't be compiled: %v", err))
	}
	in.scripts[hash], in.grants[hash] = f, strings.Contains(source, "return {1, now, fence}")
	return hash
}

// grants reports whether a server that executes args may give the lock to a token that did not have it.
func grants(args []string) bool {
	hash := args[min(1, len(args)-1)]
	switch args[0] {
	case "EVAL":
		hash = load(hash)
	case "EVALSHA":
	default:
		return false
	}
	in := &interpreter
	in.Lock()
	defer in.Unlock()
	return in.grants[hash]
}

func newState() *lua.LState {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	module := l.NewTable()
	l.SetFuncs(module, map[string]lua.LGFunction{"call": call, "pcall": pcall, "error_reply": errorReply, "set_repl": setRepl})
	for i, name := range []string{"REPL_NONE", "REPL_AOF", "REPL_SLAVE", "REPL_ALL"} {
		module.RawSetString(name, lua.LNumber(i))
	}
	l.SetGlobal("redis", module)
	return l
}

// call is redis.call of the scripts. Errors end the script.
func call(l *lua.LState) int {
	reply := command(l)
	if err, failed := reply.(redis.Error); failed {
		l.RaiseError("%s", string(err))
	}
	l.Push(toLua(l, reply))
	return 1
}

// pcall is redis.pcall: the script sees errors.
func pcall(l *lua.LState) int {
	l.Push(toLua(l, command(l)))
	return 1
}

// command runs the command that is on the stack.
func command(l *lua.LState) any {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = lua.LVAsString(l.Get(i + 1))
	}
	return interpreter.server.execute(nil, args)
}

func errorReply(l *lua.LState) int {
	l.Push(failure(l, lua.LVAsString(l.Get(1))))
	return 1
}

func failure(l *lua.LState, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString("err", lua.LString(text))
	return t
}

// setRepl is redis.set_repl: it says whether the next commands of the script go to the replicas.
func setRepl(l *lua.LState) int {
	interpreter.server.unsent = lua.LVAsNumber(l.Get(1)) == 0
	return 0
}

// eval runs a script that was loaded. args are the arguments of the command after the script.
func (s *server) eval(hash string, args []string) any {
	keys, err := strconv.Atoi(args[0])
	if err != nil {
		return redis.Error("ERR value is not an integer or out of range")
	}
	in := &interpreter
	in.Lock()
	defer in.Unlock()
	in.server, s.unsent = s, false
	l := in.state
	l.SetGlobal("KEYS", list(l, args[1:1+keys]))
	l.SetGlobal("ARGV", list(l, args[1+keys:]))
	if err := l.CallByParam(lua.P{Fn: in.scripts[hash], NRet: 1, Protect: true}); err != nil {
		return redis.Error("ERR " + err.Error())
	}
	reply := fromLua(l.Get(-1))
	l.Pop(1)
	return reply
}

func list(l *lua.LState, all []string) *lua.LTable {
	t := l.CreateTable(len(all), 0)
	for _, a := range all {
		t.Append(lua.LString(a))
	}
	return t
}

// toLua converts a reply as Redis does.
func toLua(l *lua.LState, reply any) lua.LValue {
	switch v := reply.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case status:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(v))
		return t
	case redis.Error:
		return failure(l, string(v))
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, e := range v {
			t.Append(toLua(l, e))
		}
		return t
	}
	panic(fmt.Sprintf("a reply of type %T", reply))
}

// fromLua converts what a script returns as Redis does.
func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case *lua.LTable:
		if e := v.RawGetString("err"); e != lua.LNil {
			return redis.Error(lua.LVAsString(e))
		}
		if ok := v.RawGetString("ok"); ok != lua.LNil {
			return status(lua.LVAsString(ok))
		}
		all := []any{}
		for i := 1; i <= v.Len(); i++ {
			all = append(all, fromLua(v.RawGetInt(i)))
		}
		return all
	}
	return nil
}
