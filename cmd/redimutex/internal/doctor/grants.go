package doctor

import "strings"

// A grant is what a user of the server must be allowed to do for a feature. KEY stands for what the
// names of the locks begin with. docs/security.md has them too.
type grant struct {
	feature string
	title   string // as the library calls it
	check   string // the finding if it does not work
	rules   string
	try     func(*trial) error
}

var grants = []grant{
	{"lock", "a lock", "cannot-lock", "~KEY* +set +getrange +del +pexpire +pttl +time +eval +evalsha +ping", (*trial).lock},
	{"fencing", "WithFencing", "cannot-fence", "~redimutex:fence:{KEY*} +get", (*trial).fence},
	{
		"queue", "WithQueue", "cannot-queue", "~redimutex:queue:{KEY*} ~redimutex:fence:{KEY*} &redimutex:* " +
			"+role +zadd +zrem +zrange +zscore +publish +subscribe", (*trial).queue,
	},
	{"semaphore", "a Semaphore", "cannot-count", "+zremrangebyscore +zrange +zscore +zcount +zadd +zrem", (*trial).semaphore},
	{
		"readers", "an RWMutex", "cannot-read", "~redimutex:readers:{KEY*} ~redimutex:writers:{KEY*} ~redimutex:waiting:{KEY*} " +
			"~redimutex:entitled:{KEY*} +zremrangebyscore +zrange +zscore +zadd +zrem +zunionstore", (*trial).readers,
	},
	{"replicas", "WithReplicas", "cannot-wait", "+wait", (*trial).replicate},
	{"guard", "WithRestartGuard", "cannot-guard", "~redimutex:guard +get", (*trial).guard},
}

// exceptions are when a server refuses rules: where the user has all keys or channels already, and where we could
// not see that the server is a Redis 6.0.
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

// permissions are the rules of a grant as the server understands them: none before Redis 6, and none for
// channels before 6.2.
func (t *trial) permissions(g grant) string {
	var rules []string
	for rule := range strings.FieldsSeq(g.rules) {
		if !t.older(6, 0) && (!t.older(6, 2) || !strings.HasPrefix(rule, "&")) {
			rules = append(rules, strings.ReplaceAll(rule, "KEY", t.checkup.prefix))
		}
	}
	return strings.Join(rules, " ")
}
