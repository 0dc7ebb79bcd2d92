package server

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Terms are what a lock asks of the servers. They are not changed.
type Terms struct {
	Kind     *Kind
	Want     string // see the kind
	TTL      time.Duration
	Timeout  time.Duration // bound on every operation of a server
	Fence    Fence
	Guard    bool // a server without data does not vote for one TTL
	Queue    bool // the lock has a queue
	Replicas Replicas
}

// A Fence says which fencing token a hold gets.
type Fence string

// The fences: none, one above all before, and that of the last writer.
const (
	NoFence   Fence = "0"
	NextFence Fence = "next"
	LastFence Fence = "last"
)

// Replicas says how many replicas must have what was written before it counts.
type Replicas struct {
	N       int           // 0: none
	Timeout time.Duration // how long to wait for them, on top of the Timeout of an operation
}

// Bound is how long an operation may take.
func (t *Terms) Bound() time.Duration { return t.Timeout + t.Replicas.Timeout }

// A Lock says what a token may have on a server. It is all that a release has to know, and is not changed.
type Lock struct {
	*Terms
	Key    string
	More   []string // further keys: all are locked, or none
	Token  string
	Waiter *Waiter // nil: it does not wait in the queue, and does not show that it waits
}

// keys are all that it locks.
func (l *Lock) keys(yield func(string) bool) {
	if yield(l.Key) {
		slices.Values(l.More)(yield)
	}
}

// A Waiter is how a server knows one who waits.
type Waiter struct {
	Channel string        // where its process listens
	HandOff time.Duration // how long a hand-off gives the lock to it
}

// fences is how many counters the scripts of the lock get.
func (l *Lock) fenced() bool { return l.Fence != NoFence || l.Queue }

// member is what stands for the token in the queue; queue.lua takes it apart.
func (l *Lock) member() string {
	if l.Waiter == nil || !l.Queue {
		return ""
	}
	return l.Waiter.Channel + " " + l.Want + " " + string(l.Fence) + " " +
		strconv.FormatInt(max(l.Waiter.HandOff.Milliseconds(), 1), 10) + " " + l.Token
}

// mark is what is seen of a waiter by the others.
func (l *Lock) mark() string {
	if l.Waiter == nil || !l.Kind.Shows {
		return ""
	}
	return l.Waiter.Channel
}

// OwnerMark stands in a token between the UUID and the owner's label.
const OwnerMark = " "

// Owner returns the label in a token, or "" if it has none or is not one of ours.
func Owner(token string) string {
	id, label, ok := strings.Cut(token, OwnerMark)
	if !ok || uuid.Validate(id) != nil {
		return ""
	}
	return label
}
