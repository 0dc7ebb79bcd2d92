package doctor

import (
	"errors"
	"slices"
	"strings"
	"time"

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

// tryFeatures tries what the program may use.
func (r *nodeReport) tryFeatures() {
	if r.has("replica") || r.has("sentinel") || r.has("version") || r.has("cluster") && r.several {
		return
	}
	t := &trial{nodeReport: r, server: server.New(r.node.Pool)}
	defer t.server.Close(commandLimit)
	if !t.attempt(features[0], levelError) { // without a lock no other feature works
		return
	}
	for _, f := range features[1:] {
		if l, wanted := r.wants(f.name); wanted && !t.gone {
			t.attempt(f, l)
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
func (t *trial) attempt(f feature, l level) bool {
	err := t.fresh()
	if err == nil {
		err = f.try(t)
	}
	if err == nil {
		t.about.Tried = append(t.about.Tried, f.name)
		return true
	}
	readers, writers, waiting, entitled := server.PhaseKeys(t.key)
	for _, key := range []string{t.key, readers, writers, waiting, entitled} { // one by one: this user may be refused some
		t.do("DEL", key) //nolint:errcheck // otherwise it expires
	}
	t.failed(f, l, err)
	return false
}

// conditions are the errors of a server that does not let any client lock now, by their first words.
var conditions = map[string]struct{ check, what string }{
	"READONLY":    {"replica", "refuses writes"},
	"NOREPLICAS":  {"min-replicas", "refuses writes"},
	"OOM":         {"memory", "refuses locks"},
	"MISCONF":     {"disk", "refuses writes"},
	"CLUSTERDOWN": {"not-ready", "is in a cluster that is down"},
}

// failed classifies the error of a trial. Some errors have nothing to do with the feature that was tried.
func (t *trial) failed(f feature, l level, err error) {
	said, ok := servers.Said(err)
	if !ok {
		switch {
		case errors.Is(err, errNoMessage):
			t.report("pubsub", l, "does not deliver messages: %s", err)
		case f.name == "replicas" && t.replicas > 0:
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
	switch c, known := conditions[code]; {
	case code == "NOREPLICAS" && t.has("min-replicas"): // it was seen before
	case known:
		// The error says more than a warning about the same condition, such as full memory.
		t.findings = slices.DeleteFunc(t.findings, func(f finding) bool { return f.ID == c.check })
		t.report(c.check, levelError, "%s: %s", c.what, said)
	case code == "MOVED":
		t.report("cluster", levelError, "is a node of a cluster, and serves no key that begins with %s: %s", t.prefix, said)
	case code == "max": // number of clients reached
		t.unreached(said)
	default:
		key := t.key
		if f.name == "guard" {
			key = guardMark
		}
		t.report(f.check, l, "does not allow what %s needs, tried on the key %s: %s", f.title, key, said)
		last := &t.findings[len(t.findings)-1]
		if rules := t.permissions(f); rules != "" {
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
