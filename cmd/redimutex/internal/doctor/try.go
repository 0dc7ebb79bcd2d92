package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/server"
)

const trialTTL = 10 * time.Second // what an interrupted trial leaves behind expires after this time

// A trial is a lock with a random name, which the library's own code takes and releases. So the needed permissions are not
// written down a second time. A trial also shows what a proxy or a managed service blocks.
type trial struct {
	*nodeReport
	server *server.Server
	key    string
	gone   bool // the server has stopped answering
}

// guardMark is the key of the restart guard.
const guardMark = "redimutex:guard"

// try tries each feature on the server.
func (r *nodeReport) try() {
	if r.has("replica") || r.has("sentinel") || r.has("version") || r.has("cluster") && r.several {
		return
	}
	t := &trial{nodeReport: r, server: server.New(r.node.Pool)}
	defer t.server.Close(commandLimit)
	if !t.attempt(grants[0], levelError) { // without a lock no other feature works
		return
	}
	for _, g := range grants[1:] {
		if l, wanted := r.wants(g.feature); wanted && !t.gone {
			t.attempt(g, l)
		}
	}
}

// wants reports whether to try a feature, and how serious it is if the feature does not work.
func (r *nodeReport) wants(feature string) (l level, wanted bool) {
	switch {
	case feature == "replicas" && r.replicas > 0:
		return levelError, true
	case r.needs != nil:
		return levelError, r.needs[feature]
	case feature == "guard": // it is for several servers, and not for a cluster
		return levelWarning, r.several
	case feature == "queue", feature == "semaphore", feature == "readers":
		return levelWarning, !r.several
	case feature == "replicas":
		return levelWarning, r.info == nil || r.number("connected_slaves") > 0
	}
	return levelWarning, true
}

// attempt runs one trial, and reports the reason if it fails.
func (t *trial) attempt(g grant, l level) bool {
	err := t.fresh()
	if err == nil {
		err = g.try(t)
	}
	if err == nil {
		t.about.Tried = append(t.about.Tried, g.feature)
		return true
	}
	readers, writers, waiting, entitled := server.PhaseKeys(t.key)
	for _, key := range []string{t.key, readers, writers, waiting, entitled} { // one by one: this user may be refused some
		t.do("DEL", key) //nolint:errcheck // otherwise it expires
	}
	t.failed(g, l, err)
	return false
}

// failed classifies the error of a trial. Some errors have nothing to do with the feature that was tried.
func (t *trial) failed(g grant, l level, err error) {
	said, ok := servers.Said(err)
	if !ok {
		switch {
		case errors.Is(err, errNoMessage):
			t.report("pubsub", l, "does not deliver messages: %s", err)
		case g.feature == "replicas" && t.replicas > 0:
			if !t.has("replicas") {
				t.report("replicas", levelError, "did not get a lock to its replicas: %s", err)
			}
		default:
			t.gone = true
			t.unreached(err)
		}
		return
	}
	code, _, _ := strings.Cut(strings.TrimPrefix(string(said), "ERR "), " ")
	switch code {
	case "READONLY":
		t.report("replica", levelError, "refuses writes: %s", said)
	case "NOREPLICAS":
		if !t.has("min-replicas") {
			t.report("min-replicas", levelError, "refuses writes: %s", said)
		}
	case "OOM":
		t.report("memory", levelError, "refuses locks: %s", said)
	case "MISCONF":
		t.report("disk", levelError, "refuses writes: %s", said)
	case "MOVED":
		t.report("cluster", levelError, "is a node of a cluster, and serves no key that begins with %s: %s", t.prefix, said)
	case "max": // number of clients reached
		t.unreached(said)
	case "CLUSTERDOWN":
		t.report("not-ready", levelError, "is in a cluster that is down: %s", said)
	default:
		key := t.key
		if g.feature == "guard" {
			key = guardMark
		}
		t.report(g.check, l, "does not allow what %s needs, tried on the key %s: %s", g.title, key, said)
		last := &t.findings[len(t.findings)-1]
		if rules := t.permissions(g); rules != "" {
			last.Do += " ACL SETUSER NAME " + cli.Printable(rules) + exceptions(rules)
		}
	}
}

// fresh chooses another key for the next trial. If the server is a node of a cluster, it is a key that the node serves.
func (t *trial) fresh() (err error) {
	for end := time.Now().Add(commandLimit); time.Now().Before(end); {
		t.key = t.prefix + uuid.NewString()
		_, err = t.do("PTTL", t.key)
		if said, _ := servers.Said(err); !strings.HasPrefix(string(said), "MOVED ") {
			return nil // the trial reports any other error
		}
	}
	return err
}

// claim returns a claim of a new token on the lock. If f is not nil, f changes the terms.
func (t *trial) claim(f func(*server.Terms)) *server.Claim {
	terms := &server.Terms{
		Kind: server.Mutex, Want: server.Mutex.Want, TTL: trialTTL, Timeout: commandLimit, Fence: server.NoFence,
	}
	if f != nil {
		f(terms)
	}
	c := new(server.Claim)
	t.server.Claim(c, server.Lock{Terms: terms, Key: t.key, Token: uuid.NewString(), Extras: server.NoExtras})
	return c
}

func acquires(c *server.Claim, try server.Try, want server.Verdict) func() error {
	return func() error { return must(want, c.Try(context.Background(), try)) }
}

func releases(c *server.Claim, keep time.Duration) func() error {
	return func() error {
		var until time.Time
		if keep > 0 {
			until = time.Now().Add(keep)
		}
		return must(server.Done, c.Release(context.Background(), time.Now(), until))
	}
}

func (t *trial) extends(c *server.Claim) func() error {
	return func() (err error) {
		x := server.Extension{Claim: c, TTL: trialTTL}
		t.server.Extend(context.Background(), time.Now(), []server.Extension{x}, func(_ int, r server.Reply) { err = must(server.Done, r) })
		return err
	}
}

var errNotOurs = errors.New("another client has a lock with a random name: several servers seem to be behind this address")

// must turns anything but the wanted verdict into an error.
func must(want server.Verdict, r server.Reply) error {
	if r.Verdict == want {
		return nil
	}
	if r.Err != nil {
		return r.Err
	}
	return errNotOurs
}

// first runs steps until one of them fails.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// lock takes a lock in both ways, renews it, and releases it in both ways.
func (t *trial) lock() error {
	scripted, quick, plain := t.claim(nil), t.claim(nil), server.Try{Plain: true} // plain works once a script has worked
	return first(
		func() error { _, err := t.do("PING"); return err },
		func() error { _, err := t.do("EVAL", "return 1", 0); return err }, // for scripts that the server does not know yet
		acquires(scripted, server.Try{}, server.Done),
		acquires(quick, plain, server.Held), // asks for the holder
		t.extends(scripted),
		releases(scripted, 0),
		acquires(quick, plain, server.Done),
		releases(quick, time.Millisecond),
	)
}

// fence takes a lock with a fence, and raises the fence as a Redlock does. It deletes the counter, which would otherwise stay
// for an hour.
func (t *trial) fence() error {
	c := t.claim(func(terms *server.Terms) { terms.Fence = server.NextFence })
	defer t.do("DEL", server.FenceKey(t.key)) //nolint:errcheck // otherwise it expires
	return first(
		acquires(c, server.Try{}, server.Done),
		func() error { return must(server.Done, t.server.Raise(context.Background(), &c.Lock, 1, commandLimit)) },
		releases(c, 0),
	)
}

// replicate waits until as many replicas as the program wants have confirmed a lock.
func (t *trial) replicate() error {
	if t.replicas == 0 {
		_, err := t.do("WAIT", 0, 1)
		return err
	}
	c := t.claim(func(terms *server.Terms) { terms.Replicas = server.Replicas{N: t.replicas, Timeout: commandLimit} })
	return first(acquires(c, server.Try{}, server.Done), releases(c, 0))
}

// guard tries the key of the restart guard. It must not leave one on servers whose clients do not use it. NX and XX exclude
// each other, so the server checks the permission and writes nothing.
func (t *trial) guard() error {
	if t.info["cluster_enabled"] == "1" {
		return redis.Error("CROSSSLOT the guard is one key, and scripts of a cluster stay in one slot")
	}
	if _, err := t.do("GET", guardMark); err != nil {
		return err
	}
	_, err := t.do("SET", guardMark, "0", "NX", "XX", "PX", 1)
	if said, _ := servers.Said(err); strings.Contains(string(said), "syntax") {
		return nil
	}
	return err
}
