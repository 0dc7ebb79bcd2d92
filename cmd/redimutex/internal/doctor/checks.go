package doctor

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// checkFacts judges what the server has said about itself.
func (r *nodeReport) checkFacts() {
	r.checkClock()
	if r.info == nil {
		r.report("unchecked", levelWarning, "INFO tells nothing to this user, so eviction, persistence, version and replicas could not be looked at")
	} else {
		r.checkSoftware()
		r.checkEviction()
		r.checkMemory()
		r.checkDisk()
		r.checkPersistence()
		r.checkCluster()
		if r.config == nil {
			r.report("unchecked", levelOK, "CONFIG GET is not allowed: appendfsync, save and min-replicas-to-write are unknown")
		}
	}
	r.checkRole()
	if r.info != nil && r.role == "master" {
		r.checkReplicas()
	}
	r.checkSlowCommands()
}

// checkLatency judges the times of PINGs and of a new connection: an operation that needs one must end in time too.
func (r *nodeReport) checkLatency(median, worst, dial time.Duration) {
	l, comment := levelOK, ""
	switch {
	case median > r.nodeTimeout:
		l, comment = levelError, ": most operations fail"
	case dial+median > r.nodeTimeout:
		l, comment = levelError, ": those that need one fail, and without one there is no first lock"
	case median > r.nodeTimeout/4 || max(worst, dial+median) > r.nodeTimeout/2:
		l, comment = levelWarning, ": little room is left"
	}
	r.report("latency", l, "answers PING in %v, in %v at worst, and a new connection takes %v, with a node timeout of %v for a TTL of %v%s",
		rough(median), rough(worst), rough(dial), r.nodeTimeout, r.ttl, comment)
}

const maxSkew = 300 * time.Millisecond

func (r *nodeReport) checkClock() {
	if !r.timed {
		return // without TIME no lock works either, which the trial reports
	}
	off := r.offset.Abs()
	direction := "ahead of"
	if r.offset < 0 {
		direction = "behind"
	}
	r.report("clock-skew", warning(off-r.fuzz > maxSkew), "has a clock that is %v %s this machine's, give or take %v", rough(off), direction, rough(r.fuzz))
}

// checkSoftware tells apart the kinds of servers, all of which report a version of Redis.
func (r *nodeReport) checkSoftware() {
	name, version := "Redis", r.info["redis_version"]
	switch {
	case r.info["valkey_version"] != "":
		name, version = "Valkey", r.info["valkey_version"]
	case r.info["dragonfly_version"] != "":
		name, version = "Dragonfly", r.info["dragonfly_version"]
	case r.keyDB():
		name = "KeyDB"
	}
	r.about.Software = cli.Printable(strings.TrimSpace(name + " " + version))
	if r.info["redis_mode"] == "sentinel" {
		r.report("sentinel", levelError, "is a Sentinel")
		return
	}
	switch {
	case r.older(5, 0):
		r.report("version", levelError, "is %s, which is older than 5", r.about.Software)
	case r.config["lua-replicate-commands"] == "no":
		r.report("version", levelError, "is %s, and does not let a script write that has read the clock (lua-replicate-commands no)", r.about.Software)
	default:
		r.report("version", levelOK, "is %s", r.about.Software)
	}
}

func (r *nodeReport) checkRole() {
	// The server of a pair that was started first may have no primary, and call itself one.
	active := r.config["active-replica"] == "yes"
	switch r.role {
	case "":
		return // the trial finds out whether it accepts writes
	case "master":
		r.about.Role = "primary"
		if active && r.number("connected_slaves") > 0 {
			r.report("multi-master", levelError, "takes writes, and so may its replica (active-replica yes)")
			return
		}
		r.report("replica", levelOK, "is a primary")
	case "active-replica":
		r.about.Role = "active replica"
		r.report("multi-master", levelError, "takes writes beside another server that does (active-replica)")
	case "slave", "replica":
		r.about.Role = "replica"
		of, link := "", ""
		if host := r.info["master_host"]; host != "" {
			of = " of " + host + ":" + r.info["master_port"]
		}
		if r.info["master_link_status"] == "down" {
			link = ", and its link to that is down"
		}
		r.report("replica", levelError, "is a replica%s%s", of, link)
	}
}

func (r *nodeReport) checkEviction() {
	policy, known := r.info["maxmemory_policy"]
	switch {
	case !known:
		return
	case policy == "noeviction":
		r.report("eviction", levelOK, "evicts nothing (maxmemory-policy noeviction)")
	case r.number("maxmemory") == 0:
		r.report("eviction", levelWarning, "will evict keys once maxmemory is set (maxmemory-policy %s)", policy)
	default:
		evicted := ""
		if n := r.number("evicted_keys"); n > 0 {
			evicted = fmt.Sprintf("; it has evicted %d keys since it was started", n)
		}
		r.report("eviction", levelWarning, "evicts keys when its memory is full, and locks are among them (maxmemory-policy %s)%s", policy, evicted)
	}
}

func (r *nodeReport) checkMemory() {
	limit, used := r.number("maxmemory"), r.number("used_memory")
	if limit <= 0 || r.info["maxmemory_policy"] != "noeviction" {
		return
	}
	r.report("memory", warning(used > limit/10*9), "uses %d%% of its maxmemory", used*100/limit)
}

func (r *nodeReport) checkDisk() {
	if r.info["rdb_last_bgsave_status"] == "err" {
		r.report("disk", levelWarning, "could not save its last snapshot")
	}
	if r.info["aof_last_write_status"] == "err" {
		r.report("disk", levelWarning, "could not write to its append-only file")
	}
}

// checkPersistence compares what survives a restart with what the program needs.
func (r *nodeReport) checkPersistence() {
	enabled, known := r.info["aof_enabled"]
	if !known {
		return
	}
	aof, fsync, snapshots := enabled == "1", r.config["appendfsync"], r.config["save"] != ""
	guard, doubt := r.needs["guard"], ""
	if _, told := r.config["save"]; !told { // for example if this user may not ask
		snapshots, doubt = true, ", if it keeps any, which CONFIG GET does not tell"
	}
	switch {
	case guard && aof && fsync != "always":
		r.report("persistence", levelWarning, "may come back from a crash with data that is a little old, which the restart guard does not notice: it needs appendfsync always, or no persistence at all")
	case guard && !aof && snapshots:
		r.report("persistence", levelWarning, "may come back from a crash with an old snapshot%s, which the restart guard does not notice: it needs save \"\", or appendonly yes with appendfsync always", doubt)
	case guard:
		r.report("persistence", levelOK, "does not come back with old data, and the guard sees to it that it does not vote without any")
	case aof && fsync == "always":
		r.report("persistence", levelOK, "keeps everything (appendfsync always)")
	case aof:
		r.report("persistence", levelOK, "keeps an append-only file; a power failure may lose a second or more (appendfsync %s)", cmp.Or(fsync, "unknown"))
	case snapshots:
		r.report("persistence", levelWarning, "keeps snapshots alone%s: after a crash it comes back without the locks since the last one", doubt)
	default:
		r.report("persistence", levelWarning, "keeps nothing on disk (appendonly no)")
	}
}

func (r *nodeReport) checkCluster() {
	if r.info["cluster_enabled"] != "1" {
		return
	}
	if r.several {
		r.report("cluster", levelError, "is a node of a cluster, which is no server for a Redlock")
		return
	}
	r.report("cluster", levelWarning, "is a node of a cluster")
}

// goodLag is the highest normal lag of a replica, which reports once a second.
const goodLag = 5

// replicasInStep counts the replicas of a primary that follow it closely, and reports the others.
func (r *nodeReport) replicasInStep() (good int) {
	for i := range r.number("connected_slaves") {
		about := make(map[string]string)
		for pair := range strings.SplitSeq(r.info[fmt.Sprintf("slave%d", i)], ",") {
			name, value, _ := strings.Cut(pair, "=")
			about[name] = value
		}
		lag, err := strconv.Atoi(about["lag"])
		switch address := about["ip"] + ":" + about["port"]; {
		case about["state"] != "online":
			r.report("replica-lag", levelWarning, "has the replica %s, which is not in step yet (state %s)", address, about["state"])
		case err == nil && lag > goodLag:
			r.report("replica-lag", levelWarning, "has not heard from its replica %s for %d s", address, lag)
		default:
			good++
		}
	}
	return good
}

// checkReplicas compares the replicas of a primary with what the program and the server want.
func (r *nodeReport) checkReplicas() {
	good := r.replicasInStep()
	switch {
	case good < r.replicas:
		r.report("replicas", levelError, "has %d replicas in step, and WithReplicas(%d) wants more", good, r.replicas)
	case r.replicas > 0:
		r.report("replicas", levelOK, "has %d replicas in step", good)
	}
	least, err := strconv.Atoi(r.config["min-replicas-to-write"])
	switch {
	case err != nil || least == 0:
	case r.keyDB() || r.older(6, 0):
		what := "has min-replicas-to-write %d, and does not enforce it for scripts, so locks do not heed it"
		if good < least {
			what += "; it refuses single commands now, so that Lock takes a second round trip"
		}
		r.report("min-replicas", levelWarning, what, least)
	case good < least:
		r.report("min-replicas", levelError, "has %d good replicas, and writes with %d alone (min-replicas-to-write)", good, least)
	case r.replicas > 0 && least > r.replicas:
		r.report("min-replicas", levelWarning, "writes with %d replicas alone (min-replicas-to-write), which is more than WithReplicas(%d) asks for", least, r.replicas)
	default:
		r.report("min-replicas", levelOK, "has the %d replicas that it wants", least)
	}
}

// checkSlowCommands looks for commands of the last hour during which a lock would have timed out. It shows no arguments,
// because they may be secret.
func (r *nodeReport) checkSlowCommands() {
	entries, err := redis.Values(r.do("SLOWLOG", "GET", 128))
	if err != nil {
		return
	}
	since := time.Now().Add(r.offset - time.Hour).Unix()
	slow, worst, name := 0, time.Duration(0), ""
	for _, e := range entries {
		entry, _ := redis.Values(e, nil)
		if len(entry) < 4 {
			continue
		}
		at, _ := redis.Int64(entry[1], nil)
		us, _ := redis.Int64(entry[2], nil)
		words, _ := redis.Strings(entry[3], nil)
		took := time.Duration(us) * time.Microsecond
		if at < since || took < r.nodeTimeout || len(words) == 0 {
			continue
		}
		slow++
		if took > worst {
			worst, name = took, strings.ToUpper(words[0])
		}
	}
	if slow > 0 {
		r.report("slow-commands", levelWarning, "was blocked %s in the last hour for longer than the node timeout, %v: %s took %v",
			cli.Count(slow, "time"), r.nodeTimeout, name, rough(worst))
		return
	}
	if us, err := strconv.ParseInt(r.config["slowlog-log-slower-than"], 10, 64); err == nil && (us < 0 || us > r.nodeTimeout.Microseconds()) {
		r.report("unchecked", levelOK, "does not log commands that outlast the node timeout (slowlog-log-slower-than %d)", us)
		return
	}
	r.report("slow-commands", levelOK, "was not blocked in the last hour for longer than the node timeout")
}

// rough rounds a duration to three digits, or to microseconds.
func rough(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d.Round(time.Microsecond)
}
