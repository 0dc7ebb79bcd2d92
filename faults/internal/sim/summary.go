package sim

import (
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// summary says what a command was and what came of it, without times and tokens.
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
