package server

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Kind is what a lock is on a server: a file of lua/ that says who may enter, and how a token comes, stays and goes.
// All else (deadlines, fences, the queue, hand-offs) is written once, for every kind.
type Kind struct {
	Name   string
	Shared bool // many of one process may be in at a time

	Want    string   // what a caller says that it wants, if that is always the same
	keys    []string // the kinds of siblings that belong to the lock
	Shows   bool     // waiters show themselves to the others
	plain   bool     // SET NX PX takes it
	scripts func() *scripts
}

// The kinds of locks.
var (
	Mutex     = &Kind{Name: "mutex", Want: "m", plain: true, scripts: load("simple", "mutex")}
	Semaphore = &Kind{Name: "semaphore", Shared: true, scripts: load("", "set", "semaphore")}
	Writer    = &Kind{Name: "writer", Want: "w", keys: phases, Shows: true, scripts: readersWriters}
	Reader    = &Kind{Name: "reader", Shared: true, Want: "r", keys: phases, Shows: true, scripts: readersWriters}

	phases         = []string{"readers", "writers", "waiting", "entitled"}
	readersWriters = load("", "set", "rwmutex")
)

// Permits is what a caller of a semaphore wants.
func Permits(n int) string { return strconv.Itoa(n) }

// scripts are those of a kind. Of two, the second is for locks with a queue.
type scripts struct {
	acquire, release, downgrade [2]script
	extend, inUse               script
}

// load joins the scripts of a kind, which is some files, when they are needed. first stands in front of its release without
// a queue.
func load(first string, kind ...string) func() *scripts {
	return sync.OnceValue(func() *scripts {
		join := func(rest ...string) script {
			return newScript(slices.Concat([]string{"head", "holder"}, kind, rest)...)
		}
		s := &scripts{extend: join("demoted", "extend"), inUse: join("inuse")}
		for i, queue := range []string{"noqueue", "queue"} {
			s.acquire[i] = join("demoted", "fence", "guard", queue, "acquire")
			s.release[i] = join("demoted", "fence", queue, "release")
			s.downgrade[i] = join("demoted", "fence", queue, "downgrade")
		}
		if first != "" {
			s.release[0] = newScript(slices.Concat([]string{first, "head", "holder"}, kind, []string{"demoted", "fence", "noqueue", "release"})...)
		}
		return s
	})
}

var (
	swapScript  = newScript("head", "holder", "demoted", "fence", "guard", "swap")
	raiseScript = newScript("raise")
)

func queued(queue bool) int {
	if queue {
		return 1
	}
	return 0
}

//go:embed lua/*.lua
var lua embed.FS

// A script is a Lua script and the hash by which a server that has seen it knows it. Both are
// kept as arguments, ready to be sent.
type script struct{ hash, source any }

// newScript joins files of lua/. What is comment there is not sent.
func newScript(files ...string) script {
	var source strings.Builder
	for _, name := range files {
		source.WriteString(read(name))
	}
	text := source.String()
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return script{hash: hex.EncodeToString(sum[:]), source: text}
}

// read returns a file of lua/ without its comments.
func read(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	var code strings.Builder
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "--") {
			code.WriteString(line)
		}
	}
	return code.String()
}
