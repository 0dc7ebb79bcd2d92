package mux

import (
	"fmt"
	"strings"
)

// A RefusedError is the answer to a command that can't go over a connection that others share.
type RefusedError struct {
	Command string
	Reason  string
}

func (e RefusedError) Error() string {
	return fmt.Sprintf("%s can't be sent over a multiplexed pool: it %s; use a connection of your own for it", e.Command, e.Reason)
}

const (
	blocks = "would keep the replies of everybody else on the connection waiting"
	alters = "would change the connection for everybody else"
	pushes = "makes the server send what is no reply"
)

var refused = map[string]string{
	"WAIT": blocks, "WAITAOF": blocks,
	"BLPOP": blocks, "BRPOP": blocks, "BRPOPLPUSH": blocks, "BLMOVE": blocks, "BLMPOP": blocks,
	"BZPOPMIN": blocks, "BZPOPMAX": blocks, "BZMPOP": blocks,

	"MULTI": alters, "EXEC": alters, "DISCARD": alters, "WATCH": alters, "UNWATCH": alters,
	"SELECT": alters, "AUTH": alters, "HELLO": alters, "RESET": alters, "QUIT": alters,
	"ASKING": alters, "READONLY": alters, "READWRITE": alters,

	"SUBSCRIBE": pushes, "PSUBSCRIBE": pushes, "SSUBSCRIBE": pushes,
	"UNSUBSCRIBE": pushes, "PUNSUBSCRIBE": pushes, "SUNSUBSCRIBE": pushes,
	"MONITOR": pushes, "SYNC": pushes, "PSYNC": pushes,
}

// refuse returns an error for commands that would do something to others on the same connection.
func refuse(name string, args []any) error {
	switch name {
	case "EVALSHA", "SET", "EVAL", "TIME": // what the library sends most
		return nil
	}
	name = strings.ToUpper(name)
	if reason := refused[name]; reason != "" {
		return RefusedError{name, reason}
	}
	switch name {
	case "XREAD", "XREADGROUP":
		if name == "XREADGROUP" {
			args = args[min(3, len(args)):] // GROUP and two names
		}
		for _, arg := range args {
			switch word(arg) {
			case "BLOCK":
				return RefusedError{name + " BLOCK", blocks}
			case "STREAMS": // the rest are keys and IDs
				return nil
			}
		}
	case "CLIENT":
		if len(args) > 0 {
			switch sub := word(args[0]); sub {
			case "REPLY", "TRACKING", "CACHING", "SETNAME", "SETINFO", "NO-EVICT", "NO-TOUCH":
				return RefusedError{name + " " + sub, alters}
			}
		}
	case "SCRIPT":
		if len(args) > 0 && word(args[0]) == "DEBUG" {
			return RefusedError{"SCRIPT DEBUG", alters}
		}
	}
	return nil
}

// word returns an argument in capitals if it is text.
func word(arg any) string {
	switch v := arg.(type) {
	case string:
		return strings.ToUpper(v)
	case []byte:
		return strings.ToUpper(string(v))
	}
	return ""
}
