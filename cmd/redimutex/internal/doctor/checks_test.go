//go:build unix

package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// told returns the report of a server whose INFO has this text.
func told(info string) *nodeReport {
	c := &checkup{ttl: 10 * time.Second, nodeTimeout: 500 * time.Millisecond}
	r := c.newReport(servers.Node{Address: "server:1", Name: "server:1"})
	r.info = fields(strings.ReplaceAll(strings.ReplaceAll(info, " ", "\r\n"), "_KeyDB", " KeyDB"))
	r.role = r.info["role"]
	return r
}

func TestDoctorTellsTheKindsOfServersApart(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]struct{ software, id, config string }{
		"redis_version:7.0.15 role:master":                                     {"Redis 7.0.15", "", ""},
		"redis_version:4.0.14 role:master":                                     {"Redis 4.0.14", "version", ""},
		"redis_version:6.0.15 role:master":                                     {"Redis 6.0.15", "", "lua-replicate-commands yes"},
		"redis_version:6.0.16 role:master":                                     {"Redis 6.0.16", "version", "lua-replicate-commands no"},
		"redis_version:7.2.4 server_name:valkey valkey_version:8.1.0":          {"Valkey 8.1.0", "", ""},
		"redis_version:7.2.0 dragonfly_version:df-v1.21.2 role:master":         {"Dragonfly df-v1.21.2", "", ""},
		"redis_version:6.3.4 #_KeyDB mvcc_depth:0 role:master":                 {"KeyDB 6.3.4", "", ""},
		"redis_version:6.3.4 #_KeyDB role:active-replica":                      {"KeyDB 6.3.4", "multi-master", ""},
		"redis_version:6.3.4 #_KeyDB role:active-replica master_host:a":        {"KeyDB 6.3.4", "multi-master", "active-replica yes"},
		"redis_version:6.3.4 #_KeyDB role:master connected_slaves:1":           {"KeyDB 6.3.4", "multi-master", "active-replica yes"},
		"redis_version:7.0.15 executable:/srv/keydb/redis-server role:master":  {"Redis 7.0.15", "", ""},
		"redis_version:7.0.15 redis_mode:sentinel":                             {"Redis 7.0.15", "sentinel", ""},
		"redis_version:7.0.15 role:slave master_host:a master_port:1":          {"Redis 7.0.15", "replica", ""},
		"redis_version:unstable role:master":                                   {"Redis unstable", "", ""},
		"redis_version:255.255.255 role:master something:else:with:colons a:b": {"Redis 255.255.255", "", ""},
	} {
		r := told(info)
		if name, value, ok := strings.Cut(want.config, " "); ok {
			r.config = map[string]string{name: value}
		}
		r.checkSoftware()
		r.checkRole()
		assert.Equal(t, want.software, r.about.Software)
		if d := (&diagnosis{Findings: r.findings}); want.id == "" {
			assert.Empty(t, ids(d.Findings), info)
		} else {
			assert.Equal(t, []string{want.id}, ids(d.Findings), info)
			assert.Equal(t, levelError, the(t, d.Findings, want.id).Level, info)
		}
	}
}

func TestDoctorSaysWhereMinReplicasIsNotEnforced(t *testing.T) {
	t.Parallel()
	for info, enforced := range map[string]bool{
		"redis_version:5.0.14": false, "#_KeyDB redis_version:6.3.4": false, "redis_version:6.2.0": true, "redis_version:7.2.4 valkey_version:8.0.0": true,
	} {
		r := told(info + " role:master connected_slaves:1 slave0:state=online,lag=0")
		r.config = map[string]string{"min-replicas-to-write": "1"}
		r.checkReplicas()
		if enforced {
			assert.Empty(t, ids(r.findings), info)
		} else {
			f := the(t, r.findings, "min-replicas")
			assert.Equal(t, levelWarning, f.Level, info)
			assert.Contains(t, f.What, "does not enforce it for scripts")
			assert.NotContains(t, f.What, "refuses", "there are enough")
			r.findings, r.config = nil, map[string]string{"min-replicas-to-write": "2"}
			r.checkReplicas()
			assert.Contains(t, the(t, r.findings, "min-replicas").What, "refuses single commands now")
		}
	}
}

// A user who may call INFO but not CONFIG GET does not learn whether there are snapshots.
func TestDoctorDoesNotVouchForSnapshotsThatItMayNotSee(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		needs  map[string]bool
		config map[string]string
		want   level
		words  string
	}{
		"guard, not told":     {map[string]bool{"guard": true}, nil, levelWarning, "an old snapshot, if it keeps any, which CONFIG GET does not tell"},
		"guard, none":         {map[string]bool{"guard": true}, map[string]string{"save": ""}, levelOK, "does not come back with old data"},
		"guard, snapshots":    {map[string]bool{"guard": true}, map[string]string{"save": "60 1"}, levelWarning, "an old snapshot, which"},
		"no guard, not told":  {nil, nil, levelWarning, "snapshots alone, if it keeps any, which CONFIG GET does not tell"},
		"no guard, none":      {nil, map[string]string{"save": ""}, levelWarning, "keeps nothing on disk"},
		"no guard, snapshots": {nil, map[string]string{"save": "60 1"}, levelWarning, "snapshots alone: "},
	} {
		r := told("aof_enabled:0")
		r.needs, r.config = c.needs, c.config
		r.checkPersistence()
		assert.Equal(t, c.want, r.findings[0].Level, name)
		assert.Contains(t, r.findings[0].What, c.words, name)
	}
}

// Advice must not contain rules that the server does not understand.
func TestDoctorAdvisesWhatTheServerUnderstands(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"redis_version:5.0.14": "", "redis_version:6.0.16": "~K +publish", "redis_version:6.2.0": "~K &c +publish", "redis_version:255.255.255": "~K &c +publish",
	} {
		r := told(info)
		r.prefix = "K"
		assert.Equal(t, want, (&trial{nodeReport: r}).permissions(feature{rules: "~KEY &c +publish"}), info)
	}
}

func TestDoctorSeesReplicasThatLag(t *testing.T) {
	t.Parallel()
	const lags = "connected_slaves:3 slave0:ip=a,port=1,state=online,offset=5,lag=0 " +
		"slave1:ip=b,port=2,state=online,offset=5,lag=30 slave2:ip=c,port=3,state=wait_bgsave,offset=0,lag=0"
	for name, c := range map[string]struct {
		wanted int
		least  string
		ids    []string
	}{
		"pollers work":            {0, "0", []string{"replica-lag", "replica-lag"}},
		"one is enough":           {1, "1", []string{"replica-lag", "replica-lag"}},
		"two are wanted":          {2, "0", []string{"replica-lag", "replica-lag", "replicas"}},
		"the server wants two":    {1, "2", []string{"min-replicas", "replica-lag", "replica-lag"}},
		"CONFIG GET is forbidden": {1, "", []string{"replica-lag", "replica-lag"}},
	} {
		r := told(lags)
		r.replicas, r.config = c.wanted, map[string]string{"min-replicas-to-write": c.least}
		r.checkReplicas()
		assert.Equal(t, c.ids, ids(r.findings), name)
	}
	r := told("connected_slaves:2 slave0:state=online,lag=0 slave1:state=online,lag=1")
	r.replicas, r.config = 1, map[string]string{"min-replicas-to-write": "2"}
	r.checkReplicas()
	f := the(t, r.findings, "min-replicas")
	assert.Equal(t, levelWarning, f.Level, "two are there, and the server is stricter than the program")
}

func TestDoctorComparesClocksWithOursAndWithEachOther(t *testing.T) {
	t.Parallel()
	at := func(address string, offset, fuzz time.Duration) *nodeReport {
		r := told("")
		r.node.Name, r.timed, r.offset, r.fuzz = address, true, offset, fuzz
		r.checkClock()
		return r
	}
	skews := func(reports ...*nodeReport) []string {
		c := &checkup{several: true}
		return ids(c.conclude(reports).Findings)
	}
	const ms = time.Millisecond
	assert.Empty(t, skews(at("a", 299*ms, 0), at("b", 0, 0), at("c", ms, 0)))
	assert.Equal(t, []string{"clock-skew"}, skews(at("a", 301*ms, 0), at("b", 0, 0), at("c", ms, 0)))
	assert.Equal(t, []string{"clock-skew"}, skews(at("a", -time.Hour, time.Second), at("b", 0, 0), at("c", 0, 0)))
	assert.Empty(t, skews(at("a", 400*ms, 200*ms), at("b", 0, 0), at("c", ms, 0)), "a slow network explains it")
	assert.Equal(t, []string{"clock-skew"}, skews(at("a", 200*ms, 0), at("b", -200*ms, 0), at("c", 0, 0)), "each is near ours")
}

func TestDoctorHoldsLatencyAgainstTheNodeTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		median, worst, dial time.Duration
		want                level
	}{
		"quick":                  {time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond, levelOK},
		"one that took long":     {time.Millisecond, 300 * time.Millisecond, time.Millisecond, levelWarning},
		"all take long":          {150 * time.Millisecond, 160 * time.Millisecond, 300 * time.Millisecond, levelWarning},
		"most come after that":   {600 * time.Millisecond, 700 * time.Millisecond, time.Second, levelError},
		"a slow dial":            {60 * time.Millisecond, 70 * time.Millisecond, 240 * time.Millisecond, levelWarning},
		"no time after the dial": {90 * time.Millisecond, 100 * time.Millisecond, 450 * time.Millisecond, levelError},
	} {
		r := told("")
		r.checkLatency(c.median, c.worst, c.dial)
		assert.Equal(t, c.want, r.findings[0].Level, name)
	}
}

func TestDoctorSaysUnusableWithoutAMajority(t *testing.T) {
	t.Parallel()
	ill := func(n int) (reports []*nodeReport) {
		for i := range 5 {
			r := told("")
			if i < n {
				r.report("refused", levelError, "refuses connections")
			}
			reports = append(reports, r)
		}
		return reports
	}
	c := &checkup{several: true}
	assert.Equal(t, statusFine, c.conclude(ill(0)).Status)
	assert.Equal(t, statusWarnings, c.conclude(ill(2)).Status)
	assert.Equal(t, statusUnusable, c.conclude(ill(3)).Status)
}

func TestOperationsExplainEveryFinding(t *testing.T) {
	t.Parallel()
	page := clitest.Page(t, "operations.md")
	for _, d := range checks {
		assert.Contains(t, page, "\n- `"+d.id+"`: ", "the lists of the findings")
	}
	assert.Equal(t, len(checks), strings.Count(clitest.Between(t, page, "## What each finding means", "\n## "), "\n- `"), "no others")
}

func TestDoctorAndThePageAskForTheSamePermissions(t *testing.T) {
	t.Parallel()
	page := clitest.Rules(t, "permissions", "locks")
	for name, title := range map[string]string{
		"lock": "Lock, LockContext,", "fencing": "WithFencing, and", "queue": "WithQueue, and",
		"replicas": "WithReplicas: also", "guard": "WithRestartGuard: also",
	} {
		i := slices.IndexFunc(features, func(f feature) bool { return f.name == name })
		require.GreaterOrEqual(t, i, 0, name)
		assert.ElementsMatch(t, page[title], strings.Fields(strings.ReplaceAll(features[i].rules, "KEY", "lock:")), name)
	}
	assert.Len(t, page, len(features)+1, "doctor tries each but the one of elections")
}
