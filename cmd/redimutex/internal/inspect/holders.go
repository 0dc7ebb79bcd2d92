package inspect

import (
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A Holder is one of many.
type Holder struct {
	Token string
	Left  time.Duration // of its own lease; 0 if unknown
}

// most is how many holders of a lock, and marks of a kind, are looked at: those that last longest.
const most = 1000

// last is the command that returns the members of a set which last longest.
func last(key string) []any { return []any{"ZRANGE", key, -most, -1, "WITHSCORES"} }

// living takes in the reply to last: members by the end of their leases, in µs. Those that are over are left out.
func living(reply any, now int64) (all []Holder) {
	members, _ := redis.Strings(reply, refusal(reply))
	for i := 0; i+1 < len(members); i += 2 {
		end, err := strconv.ParseFloat(members[i+1], 64)
		if err != nil || now != 0 && end <= float64(now) {
			continue
		}
		h := Holder{Token: members[i]}
		if now != 0 {
			h.Left = time.Duration(min(end-float64(now), float64(math.MaxInt64/2000))) * time.Microsecond
		}
		all = append(all, h)
	}
	return all
}

// readHolders takes in who of many holds the lock. Readers that may not be seen are there all the same, as their lock is.
func (v *View) readHolders(reply, count any, now int64) {
	if err := refusal(reply); err != nil && v.Kind == server.Semaphore {
		*v = View{Err: err}
		return
	}
	v.Holders = living(reply, now)
	v.Holding = len(v.Holders)
	if n, _ := redis.Int(count, nil); v.Holding == most {
		v.Holding = n
	}
	if v.Kind == server.Reader {
		return
	}
	for _, h := range v.Holders {
		if KindOf(h.Token) != Ours {
			*v = View{Err: redis.Error("WRONGTYPE the sorted set is no semaphore")}
			return
		}
	}
	if v.Held = v.Holding > 0; !v.Held {
		v.Kind, v.Left = nil, 0 // the permits have expired
	}
}
