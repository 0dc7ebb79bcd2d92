package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A sortedSet is in order of score, then name.
type sortedSet struct{ members []member }

type member struct {
	score float64
	name  string
}

// onSet runs a command on a sorted set.
func (s *server) onSet(command, key string, v *value, args []string) any {
	if v == nil {
		v = &value{set: new(sortedSet)}
	}
	z := v.set
	if z == nil {
		return wrongType
	}
	reply := z.run(command, args)
	switch {
	case len(z.members) == 0:
		delete(s.data, key)
		delete(s.expires, key)
	case command == "ZADD":
		s.data[key] = v
	}
	return reply
}

func (z *sortedSet) run(command string, args []string) any {
	switch command {
	case "ZADD":
		score, err := strconv.ParseFloat(args[0], 64)
		if err != nil {
			return redis.Error("ERR value is not a valid float")
		}
		before := z.remove(args[1])
		z.insert(member{score, args[1]})
		return int64(1 - before)
	case "ZREM":
		return int64(z.remove(args[0]))
	case "ZSCORE":
		for _, m := range z.members {
			if m.name == args[0] {
				return text(m.score)
			}
		}
		return nil
	case "ZCARD":
		return int64(len(z.members))
	case "ZCOUNT", "ZREMRANGEBYSCORE":
		inside, err := scores(args[0], args[1])
		if err != nil {
			return redis.Error("ERR min or max is not a float")
		}
		rest := slices.DeleteFunc(slices.Clone(z.members), func(m member) bool { return inside(m.score) })
		n := int64(len(z.members) - len(rest))
		if command == "ZREMRANGEBYSCORE" {
			z.members = rest
		}
		return n
	case "ZRANGE":
		return z.slice(args)
	}
	return redis.Error(fmt.Sprintf("ERR unknown command '%s'", command))
}

// text returns a score as it is in a reply.
func text(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// slice returns the reply of ZRANGE: members by index, with their scores if args ask for them.
func (z *sortedSet) slice(args []string) any {
	low, err := strconv.Atoi(args[0])
	high, wrong := strconv.Atoi(args[1])
	if err != nil || wrong != nil {
		return redis.Error("ERR value is not an integer or out of range")
	}
	n := len(z.members)
	if low < 0 {
		low = max(low+n, 0)
	}
	if high < 0 {
		high += n
	}
	high = min(high+1, n)
	list := []any{}
	for i := low; i < high; i++ {
		list = append(list, z.members[i].name)
		if len(args) > 2 {
			list = append(list, text(z.members[i].score))
		}
	}
	return list
}

// scores reads an interval of scores, such as (1 +inf.
func scores(from, to string) (inside func(float64) bool, err error) {
	low, lowOut, err := bound(from)
	if err != nil {
		return nil, err
	}
	high, highOut, err := bound(to)
	return func(x float64) bool {
		return (x > low || x == low && !lowOut) && (x < high || x == high && !highOut)
	}, err
}

// bound reads one end of an interval. out reports that the end itself is not part of the interval.
func bound(s string) (x float64, out bool, err error) {
	s, out = strings.CutPrefix(s, "(")
	x, err = strconv.ParseFloat(s, 64)
	return x, out, err
}

// unite is ZUNIONSTORE of sorted sets with AGGREGATE MAX.
func (s *server) unite(key string, args []string) any {
	n, err := strconv.Atoi(args[0])
	if err != nil || !slices.Equal(args[1+n:], []string{"AGGREGATE", "MAX"}) {
		return redis.Error("ERR syntax error")
	}
	union := new(sortedSet)
	for _, source := range args[1 : 1+n] {
		v := s.live(source)
		switch {
		case v == nil:
			continue
		case v.set == nil:
			return wrongType
		}
		for _, m := range v.set.members {
			if old, there := union.run("ZSCORE", []string{m.name}).(string); there {
				score, _ := strconv.ParseFloat(old, 64) //nolint:errcheck // it was made of a number
				m.score = max(m.score, score)
				union.remove(m.name)
			}
			union.insert(m)
		}
	}
	delete(s.data, key)
	delete(s.expires, key)
	if len(union.members) > 0 {
		s.data[key] = &value{set: union}
	}
	return int64(len(union.members))
}

func (z *sortedSet) insert(m member) {
	z.members = append(z.members, m)
	slices.SortFunc(z.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
}

func (z *sortedSet) remove(name string) int {
	before := len(z.members)
	z.members = slices.DeleteFunc(z.members, func(m member) bool { return m.name == name })
	return before - len(z.members)
}
