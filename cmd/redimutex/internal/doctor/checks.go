package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// checkFacts judges what the server has told of itself.
func (p *patient) checkFacts() {
	p.checkClock()
	if p.info == nil {
		p.report("unchecked", levelWarning, "does not let this user call INFO, so eviction, persistence, version and replicas could not be looked at")
	} else {
		p.checkSoftware()
		p.checkEviction()
		p.checkMemory()
		p.checkDisk()
		p.checkPersistence()
		p.checkCluster()
		if p.config == nil {
			p.report("unchecked", levelOK, "CONFIG GET is not allowed: appendfsync, save and min-replicas-to-write are unknown")
		}
	}
	p.checkRole()
	if p.info != nil && p.role == "master" {
		p.checkReplicas()
	}
	p.checkSlowCommands()
}

func (p *patient) checkLatency(median, worst time.Duration) {
	l, comment := levelOK, ""
	switch {
	case median > p.nodeTimeout:
		l, comment = levelError, ": most operations fail"
	case median > p.nodeTimeout/4 || worst > p.nodeTimeout/2:
		l, comment = levelWarning, ": little room is left"
	}
	p.report("latency", l, "answers PING in %v, in %v at worst, with a node timeout of %v for a TTL of %v%s",
		rough(median), rough(worst), p.nodeTimeout, p.ttl, comment)
}

const maxSkew = 300 * time.Millisecond

func (p *patient) checkClock() {
	if !p.timed {
		return // without TIME there is no lock either, which the trial tells
	}
	off, l := p.offset.Abs(), levelOK
	if off-p.fuzz > maxSkew {
		l = levelWarning
	}
	direction := "ahead of"
	if p.offset < 0 {
		direction = "behind"
	}
	p.report("clock-skew", l, "has a clock that is %v %s this machine's, give or take %v", rough(off), direction, rough(p.fuzz))
}

// checkSoftware tells the kinds of servers apart, which all say that they are a version of Redis.
func (p *patient) checkSoftware() {
	name, version := "Redis", p.info["redis_version"]
	switch {
	case p.info["valkey_version"] != "":
		name, version = "Valkey", p.info["valkey_version"]
	case p.info["dragonfly_version"] != "":
		name, version = "Dragonfly", p.info["dragonfly_version"]
	case p.keyDB():
		name = "KeyDB"
	}
	p.vitals.Software = cli.Printable(strings.TrimSpace(name + " " + version))
	if p.info["redis_mode"] == "sentinel" {
		p.report("sentinel", levelError, "is a Sentinel")
		return
	}
	switch {
	case p.older(5, 0):
		p.report("version", levelError, "is %s, which is older than 5", p.vitals.Software)
	case p.config["lua-replicate-commands"] == "no":
		p.report("version", levelError, "is %s, and does not let a script write that has read the clock (lua-replicate-commands no)", p.vitals.Software)
	default:
		p.report("version", levelOK, "is %s", p.vitals.Software)
	}
}

func (p *patient) checkRole() {
	// The half of a pair that was started first may have no primary, and calls itself one.
	active := p.config["active-replica"] == "yes"
	switch p.role {
	case "":
		return // the trial finds out whether it takes writes
	case "master":
		p.vitals.Role = "primary"
		if active && p.number("connected_slaves") > 0 {
			p.report("multi-master", levelError, "takes writes, and so may its replica (active-replica yes)")
			return
		}
		p.report("replica", levelOK, "is a primary")
	case "active-replica":
		p.vitals.Role = "active replica"
		p.report("multi-master", levelError, "takes writes beside another server that does (active-replica)")
	case "slave", "replica":
		p.vitals.Role = "replica"
		of, link := "", ""
		if host := p.info["master_host"]; host != "" {
			of = " of " + host + ":" + p.info["master_port"]
		}
		if p.info["master_link_status"] == "down" {
			link = ", and its link to that is down"
		}
		p.report("replica", levelError, "is a replica%s%s", of, link)
	}
}

func (p *patient) checkEviction() {
	policy, known := p.info["maxmemory_policy"]
	switch {
	case !known:
		return
	case policy == "noeviction":
		p.report("eviction", levelOK, "evicts nothing (maxmemory-policy noeviction)")
	case p.number("maxmemory") == 0:
		p.report("eviction", levelWarning, "evicts keys as soon as somebody sets maxmemory (maxmemory-policy %s)", policy)
	default:
		evicted := ""
		if n := p.number("evicted_keys"); n > 0 {
			evicted = fmt.Sprintf("; it has evicted %d keys since it was started", n)
		}
		p.report("eviction", levelWarning, "evicts keys when its memory is full, and locks are among them (maxmemory-policy %s)%s", policy, evicted)
	}
}

func (p *patient) checkMemory() {
	limit, used := p.number("maxmemory"), p.number("used_memory")
	if limit <= 0 || p.info["maxmemory_policy"] != "noeviction" {
		return
	}
	l := levelOK
	if used > limit/10*9 {
		l = levelWarning
	}
	p.report("memory", l, "uses %d%% of its maxmemory", used*100/limit)
}

func (p *patient) checkDisk() {
	if p.info["rdb_last_bgsave_status"] == "err" {
		p.report("disk", levelWarning, "could not save its last snapshot")
	}
	if p.info["aof_last_write_status"] == "err" {
		p.report("disk", levelWarning, "could not write to its append-only file")
	}
}

// checkPersistence compares what survives a restart with what the program makes of it.
func (p *patient) checkPersistence() {
	enabled, known := p.info["aof_enabled"]
	if !known {
		return
	}
	aof, fsync, snapshots := enabled == "1", p.config["appendfsync"], p.config["save"] != ""
	guard := p.needs["guard"]
	switch {
	case guard && aof && fsync != "always":
		p.report("persistence", levelWarning, "may come back from a crash with data that is a little old, which the restart guard does not notice: it needs appendfsync always, or no persistence at all")
	case guard && !aof && snapshots:
		p.report("persistence", levelWarning, "may come back from a crash with an old snapshot, which the restart guard does not notice: it needs save \"\", or appendonly yes with appendfsync always")
	case guard:
		p.report("persistence", levelOK, "does not come back with old data, and the guard sees to it that it does not vote without any")
	case aof && fsync == "always":
		p.report("persistence", levelOK, "keeps everything (appendfsync always)")
	case aof:
		p.report("persistence", levelOK, "keeps an append-only file; a power failure may lose a second or more (appendfsync %s)", or(fsync, "unknown"))
	case snapshots:
		p.report("persistence", levelWarning, "keeps snapshots alone: after a crash it comes back without the locks since the last one")
	default:
		p.report("persistence", levelWarning, "keeps nothing on disk (appendonly no)")
	}
}

func (p *patient) checkCluster() {
	if p.info["cluster_enabled"] != "1" {
		return
	}
	if p.several {
		p.report("cluster", levelError, "is a node of a cluster, which is no server for a Redlock")
		return
	}
	p.report("cluster", levelWarning, "is a node of a cluster")
}

// goodLag is the highest lag of a replica that reports once a second, and was not disturbed.
const goodLag = 5

// checkReplicas looks at the replicas of a primary.
func (p *patient) checkReplicas() {
	good := 0
	for i := range p.number("connected_slaves") {
		line := p.info[fmt.Sprintf("slave%d", i)]
		about := make(map[string]string)
		for pair := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(pair, "=")
			about[name] = value
		}
		lag, err := strconv.Atoi(about["lag"])
		switch address := about["ip"] + ":" + about["port"]; {
		case about["state"] != "online":
			p.report("replica-lag", levelWarning, "has the replica %s, which is not in step yet (state %s)", address, about["state"])
		case err == nil && lag > goodLag:
			p.report("replica-lag", levelWarning, "has not heard from its replica %s for %d s", address, lag)
		default:
			good++
		}
	}
	switch {
	case good < p.replicas:
		p.report("replicas", levelError, "has %d replicas in step, and WithReplicas(%d) wants more", good, p.replicas)
	case p.replicas > 0:
		p.report("replicas", levelOK, "has %d replicas in step", good)
	}
	least, err := strconv.Atoi(p.config["min-replicas-to-write"])
	switch {
	case err != nil || least == 0:
	case p.keyDB() || p.older(6, 0):
		what := "has min-replicas-to-write %d, and does not enforce it for scripts, so locks do not heed it"
		if good < least {
			what += "; it refuses single commands now, so that Lock takes a second round trip"
		}
		p.report("min-replicas", levelWarning, what, least)
	case good < least:
		p.report("min-replicas", levelError, "has %d good replicas, and writes with %d alone (min-replicas-to-write)", good, least)
	case p.replicas > 0 && least > p.replicas:
		p.report("min-replicas", levelWarning, "writes with %d replicas alone (min-replicas-to-write), which is more than WithReplicas(%d) asks for", least, p.replicas)
	default:
		p.report("min-replicas", levelOK, "has the %d replicas that it wants", least)
	}
}

// checkSlowCommands looks for commands of the last hour during which a lock would have timed out. Of
// their arguments nothing is shown, because they may be secret.
func (p *patient) checkSlowCommands() {
	entries, err := redis.Values(p.do("SLOWLOG", "GET", 128))
	if err != nil {
		return
	}
	since := time.Now().Add(p.offset - time.Hour).Unix()
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
		if at < since || took < p.nodeTimeout || len(words) == 0 {
			continue
		}
		slow++
		if took > worst {
			worst, name = took, strings.ToUpper(words[0])
		}
	}
	if slow > 0 {
		p.report("slow-commands", levelWarning, "was blocked %s in the last hour for longer than the node timeout, %v: %s took %v",
			times(slow), p.nodeTimeout, name, rough(worst))
		return
	}
	p.report("slow-commands", levelOK, "was not blocked in the last hour for longer than the node timeout")
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// rough leaves three digits of a duration, or microseconds.
func rough(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d.Round(time.Microsecond)
}
