package sim

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// word returns an argument as redigo writes it.
func word(a any) string {
	switch a := a.(type) {
	case string:
		return a
	case []byte:
		return string(a)
	case bool:
		return fmt.Sprint(number(a))
	}
	return fmt.Sprint(a)
}

// kindOf returns a number by which a command differs from others: it depends on the command's name, its length and its token.
// Deadlines don't count, because their last digit depends on when this process began.
func kindOf(args []string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, args[0], len(args), tokenIn(args))
	return h.Sum64()
}

// wire returns a reply as redigo reads it.
func wire(v any) any {
	switch v := v.(type) {
	case string:
		return []byte(v)
	case status:
		return string(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = wire(v[i])
		}
		return all
	}
	return v
}

// summary describes a command and its reply, without times and tokens.
func summary(args []string, reply any) string {
	what := args[0]
	if strings.HasPrefix(what, "EVAL") && len(args) > 2 {
		what = fmt.Sprintf("%s/%s/%d", "EVAL", args[2], len(args))
	}
	switch v := reply.(type) {
	case nil:
		return what + " nil"
	case int64:
		if v > 1 {
			v = 2 // a time
		}
		if v < -1 {
			v = -2
		}
		return fmt.Sprintf("%s %d", what, v)
	case redis.Error:
		word, _, _ := strings.Cut(string(v), " ")
		return what + " " + word
	}
	return fmt.Sprintf("%s %T", what, reply)
}
