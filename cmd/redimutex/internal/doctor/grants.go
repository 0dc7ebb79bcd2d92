package doctor

import "strings"

// A grant is what a user of the server must be allowed to do for a feature. KEY stands for what the
// names of the locks begin with. docs/security.md has them too.
type grant struct{ feature, check, rules string }

var grants = []grant{
	{"lock", "cannot-lock", "~KEY* +set +getrange +del +pexpire +pttl +time +eval +evalsha +ping"},
	{"fencing", "cannot-fence", "~redimutex:fence:{KEY*} +get"},
	{"queue", "cannot-queue", "~redimutex:queue:{KEY*} ~redimutex:fence:{KEY*} &redimutex:* +role +zadd +zrem +zrange +zscore +publish +subscribe"},
	{"semaphore", "cannot-count", "+zremrangebyscore +zrange +zscore +zcount +zadd +zrem"},
	{
		"readers", "cannot-read", "~redimutex:readers:{KEY*} ~redimutex:writers:{KEY*} ~redimutex:waiting:{KEY*} ~redimutex:entitled:{KEY*} " +
			"+zremrangebyscore +zrange +zscore +zadd +zrem +zunionstore",
	},
	{"replicas", "cannot-wait", "+wait"},
	{"guard", "cannot-guard", "~redimutex:guard +get"},
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

// title names a feature as the library does.
func title(feature string) string {
	return map[string]string{
		"lock": "a lock", "fencing": "WithFencing", "queue": "WithQueue", "semaphore": "a Semaphore", "readers": "an RWMutex",
		"replicas": "WithReplicas", "guard": "WithRestartGuard",
	}[feature]
}
