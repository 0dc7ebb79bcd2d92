package server

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Terms are what a call asks of a lock. They never change. Calls whose terms are equal may follow each other in one grant.
type Terms struct {
	Kind     *Kind
	Want     string // see Kind.Want
	TTL      time.Duration
	Timeout  time.Duration // the node timeout: bound of every operation on a server
	Fence    Fence
	Guard    bool // a server that has lost its data does not vote for one TTL
	Queue    bool // the lock has a queue
	Replicas Replicas

	// What the process does with the lock.
	Renew            bool
	MaxHold, MinHold time.Duration
	Owner            string
	Reuse            time.Duration
}

// A Fence says which fencing token a hold gets: none, one above all earlier ones, or that of the last writer.
type Fence string

const (
	NoFence   Fence = "0"
	NextFence Fence = "next"
	LastFence Fence = "last"
)

// Replicas says how many replicas must have a write before it counts.
type Replicas struct {
	N       int           // 0: none
	Timeout time.Duration // how long to wait for them, on top of the Timeout of an operation
}

// MaxTimeout is the longest default Timeout.
const MaxTimeout = 3 * time.Second

func (t *Terms) Bound() time.Duration { return t.Timeout + t.Replicas.Timeout }

// A Lock says what a token may have on a server. A release needs to know no more. It never changes.
type Lock struct {
	*Terms
	Key   string
	Token string
	*Extras
}

// Extras are what few locks need. They are apart, because a process may hold very many locks. They are never nil.
type Extras struct {
	More    []string      // further keys: all are locked, or none
	Channel string        // where the process listens; "": the token has no place in the queue, and no mark
	HandOff time.Duration // how long the lock is the token's after a hand-off
}

// NoExtras are the Extras of a lock of one key whose caller does not wait.
var NoExtras = new(Extras)

func (l *Lock) Keys(yield func(string) bool) {
	if yield(l.Key) {
		slices.Values(l.More)(yield)
	}
}

// fenced reports whether the scripts of the lock get fence counters.
func (l *Lock) fenced() bool { return l.Fence != NoFence || l.Queue }

// member returns what stands for the token in the queue, or "". queue.lua parses it.
func (l *Lock) member() string {
	if l.Channel == "" || !l.Queue {
		return ""
	}
	return l.Channel + " " + l.Want + " " + string(l.Fence) + " " +
		strconv.FormatInt(max(l.HandOff.Milliseconds(), 1), 10) + " " + l.Token
}

// mark returns what shows the other callers that this one waits, or "".
func (l *Lock) mark() string {
	if !l.Kind.Shows {
		return ""
	}
	return l.Channel
}

const (
	OwnerMark = " "              // stands in a token between the UUID and the owner's label
	StepMark  = OwnerMark + "\t" // ends the token of a taker in its first step; no label has a control character
)

// Token returns a new token: a random UUID, and the owner's label.
func (t *Terms) Token() string {
	id := uuid.NewString()
	if t.Owner != "" {
		id += OwnerMark + t.Owner
	}
	return id
}

// Owner returns the label in a token, or "" if it has none or is not one of ours.
func Owner(token string) string {
	id, label, ok := strings.Cut(strings.TrimSuffix(token, StepMark), OwnerMark)
	if !ok || uuid.Validate(id) != nil {
		return ""
	}
	return label
}

// A Kind is one kind of lock. Its file in lua/ says which token may enter, and how a token enters, stays and leaves.
// Everything else (deadlines, fences, the queue, hand-offs) is written once, for all kinds.
type Kind struct {
	Name   string
	Shared bool // several callers of one process may hold it at a time

	Want    string   // what a caller wants; "": the terms say it, as the number of permits of a Semaphore
	keys    []string // the words in the names of the keys that only this kind has: see sibling
	Shows   bool     // a waiter shows the others that it waits, by a mark
	plain   bool     // SET NX PX can take it
	scripts *scripts
}

var (
	Mutex     = &Kind{Name: "mutex", Want: "m", plain: true, scripts: load("simple", "mutex")}
	Semaphore = &Kind{Name: "semaphore", Shared: true, scripts: load("", "set", "semaphore")}
	Writer    = &Kind{Name: "writer", Want: "w", keys: phases, Shows: true, scripts: readersWriters}
	Reader    = &Kind{Name: "reader", Shared: true, Want: "r", keys: phases, Shows: true, scripts: readersWriters}

	phases         = []string{"readers", "writers", "waiting", "entitled"}
	readersWriters = load("", "set", "rwmutex")
)

type verb int8

const (
	acquire   verb = iota
	swap           // our token takes the place of another one
	downgrade      // a writer becomes a reader
	extend
	release
	raise   // lift the fence counters
	inUse   // how many permits are in use
	session // commands of a Session; no script
)

var verbs = [...]struct {
	creates bool     // a try: it may leave a lock on the server
	timed   bool     // the script carries a deadline
	files   []string // of lua/, behind those of the kind; "queue" only if the lock has a queue
}{
	acquire:   {true, true, []string{"fence", "queue", "acquire"}},
	swap:      {true, true, []string{"fence", "swap"}},
	downgrade: {true, true, []string{"fence", "queue", "downgrade"}},
	extend:    {false, true, []string{"extend"}},
	release:   {false, false, []string{"fence", "queue", "release"}},
	raise:     {false, false, []string{"fence", "raise"}},
	inUse:     {false, false, []string{"inuse"}},
	session:   {},
}

// scripts are the scripts of a kind, by verb and by whether the lock has a queue. Each is joined when it is first needed.
type scripts [len(verbs)]map[bool]func() script

// load returns the scripts of the kind that these files define. first goes in front of the release without a queue; "": none.
func load(first string, kind ...string) *scripts {
	s := new(scripts)
	for v := range s {
		with := slices.Concat([]string{"head", "holder"}, kind, verbs[v].files)
		without := slices.DeleteFunc(slices.Clone(with), func(file string) bool { return file == "queue" })
		if verb(v) == release && first != "" {
			without = slices.Insert(without, 0, first)
		}
		s[v] = map[bool]func() script{
			true:  sync.OnceValue(func() script { return newScript(with) }),
			false: sync.OnceValue(func() script { return newScript(without) }),
		}
	}
	return s
}

//go:embed lua/*.lua
var lua embed.FS

// A script is a Lua script, and the hash that runs it on a server that has it. Both are kept as arguments, ready to be sent.
type script struct{ hash, source any }

// newScript joins files of lua/. Their comment lines are not sent.
func newScript(files []string) script {
	var code strings.Builder
	for _, name := range files {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "--") {
				code.WriteString(line)
			}
		}
	}
	sum := sha1.Sum([]byte(code.String())) //nolint:gosec // see above
	return script{hash: hex.EncodeToString(sum[:]), source: code.String()}
}
