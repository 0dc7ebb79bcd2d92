package servers

import (
	"regexp"

	"github.com/redimutex/redimutex/internal/redistest"
)

// refusals are all known ways in which a server refuses.
var refusals = []*refusal{
	{
		name: "OOM", words: regexp.MustCompile("OOM"),
		strike: configured("maxmemory", "1", "0"),
	},
	{
		name: "NOREPLICAS", words: regexp.MustCompile("NOREPLICAS"), needs: []redistest.Feature{redistest.MinReplicas},
		strike: configured("min-replicas-to-write", "1", "0"),
	},
	{
		name: "READONLY", words: regexp.MustCompile("READONLY"),
		strike: demoted,
	},
	{
		name: "MASTERDOWN", words: regexp.MustCompile("MASTERDOWN"), args: []string{"--replica-serve-stale-data", "no"},
		strike: demoted,
	},
	{
		name: "MISCONF", words: regexp.MustCompile("MISCONF"),
		strike: unsaved,
	},
	{
		name: "LOADING", words: regexp.MustCompile("LOADING"),
		needs: []redistest.Feature{redistest.LoadSlowly},
		args:  []string{"--loading-process-events-interval-bytes", "1024"}, debug: true,
		strike: loading,
	},
	{
		name: "BUSY", words: regexp.MustCompile("BUSY"), args: []string{"--lua-time-limit", "1"},
		strike: busy,
	},
	{
		name: "max clients", words: regexp.MustCompile("max number of clients"), cold: true,
		strike: killing(configured("maxclients", "1", "1000")),
	},
	{
		// The server refuses a command of more than ten words, as those of the queue are, before it checks the password.
		name: "NOAUTH", class: forGood, words: regexp.MustCompile("NOAUTH|unauthenticated"), cold: true,
		strike: killing(locked),
	},
	{
		name: "WRONGPASS", class: forGood, words: regexp.MustCompile("WRONGPASS"), cold: true, login: []any{"app", "old"},
		needs:  []redistest.Feature{redistest.ChannelRules},
		ready:  user,
		strike: killing(ruled([]any{"resetpass", ">new"}, []any{">old"})),
	},
	forbidden("for scripts", "", []any{"-eval", "-evalsha", "-set"}, []any{"+@all"}),
	forbidden("inside of scripts", "|can't run this command|ACL failure in script", []any{"-set", "-pexpire", "-del"}, []any{"+@all"}),
	forbidden("for keys", "|can't access|ACL failure in script", []any{"resetkeys", "~other:*"}, []any{"~*"}),
	{
		name: "WRONGTYPE", class: forGood, words: regexp.MustCompile("WRONGTYPE"),
		strike: wrongType,
	},
	{
		name: "unknown command", class: forGood, words: regexp.MustCompile("unknown command|no Lua scripting"), cold: true,
		strike: elsewhere("--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "", "--rename-command", "SET", ""),
	},
	{
		name: "connection refused", words: regexp.MustCompile("refused"), cold: true,
		strike: nowhere,
	},
	{
		name: "NOSCRIPT", class: unseen, words: regexp.MustCompile("NOSCRIPT"),
		strike: forgetful,
	},
	{
		name: "CLIENT PAUSE", words: regexp.MustCompile("no answer|does not answer"),
		strike: func(s *site, _ []*cell) func() {
			s.must("CLIENT", "PAUSE", 700)
			return func() { s.must("PING") } // answered when the pause is over
		},
	},
	{
		name: "DEBUG SLEEP", words: regexp.MustCompile("no answer|does not answer"), debug: true,
		strike: func(s *site, _ []*cell) func() {
			s.begin(s.admin, "DEBUG", "SLEEP", "0.7")
			return func() { s.must("PING") }
		},
	},
	{
		name: "SIGSTOP", words: regexp.MustCompile("no answer|does not answer"),
		strike: func(s *site, _ []*cell) func() {
			s.server.Pause()
			return s.server.Resume
		},
	},
	{
		name: "CLUSTERDOWN", words: regexp.MustCompile("CLUSTERDOWN"), args: clusterNode, ready: cluster,
		strike: func(s *site, _ []*cell) func() {
			s.must("CLUSTER", "DELSLOTS", 0) // one missing slot is enough
			s.clusterState("fail")
			return func() {
				s.must("CLUSTER", "ADDSLOTS", 0)
				s.clusterState("ok")
			}
		},
	},
	{
		name: "MOVED", words: regexp.MustCompile("MOVED|CLUSTERDOWN"), args: clusterNode, ready: cluster,
		strike: reslotted("NODE", false),
	},
	{
		name: "ASK and TRYAGAIN", words: regexp.MustCompile("ASK|TRYAGAIN"), args: clusterNode, ready: cluster,
		strike: reslotted("MIGRATING", true),
	},
}

// forbidden takes permissions away and gives them back. Some servers report that in other words than NOPERM.
func forbidden(what, words string, bad, good []any) *refusal {
	return &refusal{
		name: "NOPERM " + what, class: forGood, words: regexp.MustCompile("NOPERM" + words), login: []any{"app", "old"},
		needs: []redistest.Feature{redistest.ChannelRules}, ready: user, strike: ruled(bad, good),
	}
}
