package doctor

import (
	"strings"

	"github.com/redimutex/redimutex/internal/server"
)

// A feature is what a program may use of the library.
type feature struct {
	name  string // for -need
	title string // as the library calls it
	check string // the finding if the feature does not work
	rules string // the permissions that it needs. KEY stands for the common prefix of the names of locks
	try   func(*trial) error
}

// features are all features that doctor tries. docs/security.md lists their permissions too.
var features = []feature{
	{"lock", "a lock", "cannot-lock", "~KEY* +set +getrange +del +pexpire +pttl +time +eval +evalsha +ping", (*trial).lock},
	{"fencing", "WithFencing", "cannot-fence", "~redimutex:fence:{KEY*} +get", (*trial).fence},
	{
		"queue", "WithQueue", "cannot-queue", "~redimutex:queue:{KEY*} ~redimutex:fence:{KEY*} &redimutex:* " +
			"+role +zadd +zrem +zrange +zscore +zcard +publish +subscribe", (*trial).queue,
	},
	{"semaphore", "a Semaphore", "cannot-count", "+zremrangebyscore +zrange +zscore +zcount +zadd +zrem", (*trial).semaphore},
	{
		"readers", "an RWMutex", "cannot-read", "~redimutex:readers:{KEY*} ~redimutex:writers:{KEY*} ~redimutex:waiting:{KEY*} " +
			"~redimutex:entitled:{KEY*} +zremrangebyscore +zrange +zscore +zadd +zrem +zunionstore", (*trial).readers,
	},
	{"replicas", "WithReplicas", "cannot-wait", "+wait", (*trial).replicate},
	{"guard", "WithRestartGuard", "cannot-guard", "~redimutex:guard +get", (*trial).guard},
}

// exceptions says when a server refuses rules: if the user already has all keys or channels, and if doctor could not see that
// the server is a Redis 6.0.
func exceptions(rules string) string {
	if !strings.Contains(rules, "~") {
		return ""
	}
	channels := ""
	if strings.Contains(rules, "&") {
		channels = "; without & where it has all channels, as new users of Redis 6.2 have, and on Redis 6.0"
	}
	return " (without ~ where the user has ~*" + channels + ")"
}

// permissions returns the rules of a feature as the server understands them: none before Redis 6, and no rules for channels
// before 6.2.
func (t *trial) permissions(f feature) string {
	var rules []string
	for rule := range strings.FieldsSeq(f.rules) {
		if !t.older(6, 0) && (!t.older(6, 2) || !strings.HasPrefix(rule, "&")) {
			rule = strings.Replace(rule, ":{KEY*}", siblings(t.prefix), 1)
			rules = append(rules, strings.ReplaceAll(rule, "KEY", t.prefix))
		}
	}
	return strings.Join(rules, " ")
}

// siblings returns the pattern for the names of the keys that belong to locks with this prefix, without the first word of
// those names. A prefix with a closing brace may contain the {tag} of all of them, or have none.
func siblings(prefix string) string {
	form := strings.TrimPrefix(server.FenceKey(prefix), "redimutex:fence")
	switch {
	case strings.HasPrefix(form, "::"):
		return "::KEY*"
	case strings.HasPrefix(form, ":."):
		return ":.{*}KEY*"
	}
	return ":{KEY*}"
}
