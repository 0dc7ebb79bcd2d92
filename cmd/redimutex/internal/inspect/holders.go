package inspect

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/server"
)

// A Holder is one of several holders.
type Holder struct {
	Token string
	Left  time.Duration // of its own lease; 0 if unknown
}

// mostMembers is the maximum number of holders of a lock, and of marks of a kind, that are read: those that last longest.
const mostMembers = 1000

// lastMembers returns the command for the members of a set that last longest.
func lastMembers(key string) []any { return []any{"ZRANGE", key, -mostMembers, -1, "WITHSCORES"} }

// unexpired parses the reply to lastMembers: members, scored by the end of their leases in µs. It leaves out those that have
// ended.
func unexpired(reply any, now int64) (all []Holder) {
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

// readHolders reads who holds a shared lock. Readers that this user may not see still hold it, because their lock exists.
func (v *View) readHolders(reply any, now int64) {
	if err := refusal(reply); err != nil && v.Kind == server.Semaphore {
		*v = View{Err: err}
		return
	}
	v.Holders = unexpired(reply, now)
	v.Holding = len(v.Holders)
	if v.Kind == server.Reader {
		return
	}
	foreign := func(h Holder) bool { return FormOf(h.Token) != Ours }
	if v.Left < 0 || slices.ContainsFunc(v.Holders, foreign) { // all tokens of this library expire
		*v = View{Err: redis.Error("WRONGTYPE the sorted set is no semaphore")}
		return
	}
	if v.Holding == 0 {
		v.Kind, v.Left = nil, 0 // the permits have expired
	}
}

// countHolders reads how many hold a shared lock, if they may be more than those that were read.
func (v *View) countHolders(reply any) {
	if n, _ := redis.Int(reply, nil); v.Holding == mostMembers { // n is 0 if this user may not count them
		v.Holding = max(n, mostMembers)
	}
}
