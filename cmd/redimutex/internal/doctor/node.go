package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// A nodeReport is one server, and what is known about it so far.
type nodeReport struct {
	*checkup
	node     servers.Node
	about    nodeInfo
	findings []finding

	conn   redis.Conn
	info   map[string]string // of INFO; nil: refused
	config map[string]string // of CONFIG GET; nil: refused
	role   string            // "" if unknown
	offset time.Duration     // by how much its clock is ahead of this machine's
	fuzz   time.Duration     // the offset may be wrong by this much in either direction
	timed  bool              // offset is known
}

// A nodeInfo is the line about a server.
type nodeInfo struct {
	Address     string   `json:"address"`
	Name        string   `json:"name"`     // with the database
	Software    string   `json:"software"` // "" if unknown
	Role        string   `json:"role"`     // "" if unknown
	Ping        float64  `json:"ping_ms"`  // the median; 0 if there was no answer
	WorstPing   float64  `json:"worst_ping_ms"`
	Dial        float64  `json:"dial_ms"`         // for a new connection
	ClockOffset *float64 `json:"clock_offset_ms"` // nil: unknown
	Tried       []string `json:"tried"`           // what was tried and works
}

const (
	connectLimit = 4 * time.Second // for connecting and logging in
	commandLimit = 2 * time.Second // for every command
)

func (r *nodeReport) report(id string, l level, what string, args ...any) {
	r.findings = append(r.findings, find(id, l, r.node.Address, r.node.Name+" "+fmt.Sprintf(what, args...)))
}

// has reports whether the problem was found already.
func (r *nodeReport) has(id string) bool {
	return slices.ContainsFunc(r.findings, func(f finding) bool { return f.ID == id && f.Level != levelOK })
}

// checkServer checks one server. It returns early if more checks make no sense.
func (c *checkup) checkServer(n servers.Node) *nodeReport {
	r := c.newReport(n)
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	conn, err := n.Get(ctx)
	cancel()
	if err != nil {
		r.unreached(err)
		return r
	}
	defer conn.Close()
	r.conn = conn
	if !r.measure() {
		return r
	}
	if n.Private {
		r.report("plaintext", levelOK, "is reached by TLS, or within this machine")
	} else {
		r.report("plaintext", levelWarning, "is reached without TLS, over a network")
	}
	r.ask()
	if err := conn.Err(); err != nil { // it has ended
		r.unreached(err)
		return r
	}
	r.checkFacts()
	r.tryFeatures()
	return r
}

// do runs a command, within its limit.
func (r *nodeReport) do(command string, args ...any) (any, error) {
	return redis.DoWithTimeout(r.conn, commandLimit, command, args...)
}

const (
	pings     = 15
	pingsTime = time.Second // after that time, three PINGs are enough
)

// measure sends PINGs. It reports false if the server does not answer.
func (r *nodeReport) measure() bool {
	var took []time.Duration
	for begin := time.Now(); len(took) < pings && (len(took) < 3 || time.Since(begin) < pingsTime); {
		sent := time.Now()
		_, err := r.do("PING")
		if err != nil && !answered(err) {
			r.unreached(err)
			return false
		}
		took = append(took, time.Since(sent))
	}
	dial, err := r.dial()
	if err != nil {
		r.unreached(err)
		return false
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	r.about.Ping, r.about.WorstPing, r.about.Dial = milliseconds(median), milliseconds(worst), milliseconds(dial)
	r.checkLatency(median, worst, dial)
	return true
}

// dial returns how long a new connection takes: up to six round trips with TLS, AUTH and SELECT.
func (r *nodeReport) dial() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	began := time.Now()
	err := r.node.Redial(ctx)
	return time.Since(began), err
}

// ask collects what the server says about itself. This user may be forbidden to ask.
func (r *nodeReport) ask() {
	text, err := redis.String(r.do("INFO"))
	info := fields(text)
	if err == nil && info["redis_version"] != "" { // some servers and proxies answer with lines of their own
		r.info, r.role = info, info["role"]
	} else if reply, err := redis.Values(r.do("ROLE")); err == nil && len(reply) > 0 {
		if first, err := redis.Values(reply[0], nil); err == nil { // KeyDB: one answer for each primary of it
			reply = first
		}
		if len(reply) > 0 {
			r.role, _ = redis.String(reply[0], nil)
		}
	}
	for _, name := range []string{"appendfsync", "save", "min-replicas-to-write", "lua-replicate-commands", "active-replica", "slowlog-log-slower-than"} {
		pair, err := redis.Strings(r.do("CONFIG", "GET", name))
		if err != nil {
			break
		}
		if r.config == nil {
			r.config = make(map[string]string)
		}
		if len(pair) == 2 {
			r.config[name] = pair[1]
		}
	}
	r.askTime()
}

// askTime learns by how much the server's clock is ahead of this machine's. The clock was read at some time between sending
// and receiving, so the quickest of some replies is the most exact.
func (r *nodeReport) askTime() {
	for range 3 {
		sent := time.Now()
		reply, err := redis.Int64s(r.do("TIME"))
		received := time.Now()
		if err != nil || len(reply) != 2 {
			return
		}
		half := received.Sub(sent) / 2
		if !r.timed || half < r.fuzz {
			r.timed, r.fuzz = true, half
			r.offset = time.Unix(reply[0], reply[1]*1000).Sub(sent.Add(half))
		}
	}
	offset := milliseconds(r.offset)
	r.about.ClockOffset = &offset
}

// fields parses the reply to INFO.
func fields(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			info[line] = "" // the name of a section
		} else if name, value, ok := strings.Cut(line, ":"); ok {
			info[name] = value
		}
	}
	return info
}

// keyDB reports whether the server is a KeyDB. It calls itself a Redis, but has a section of its own in INFO.
func (r *nodeReport) keyDB() bool {
	_, section := r.info["# KeyDB"]
	return section
}

// older reports whether the server says that it is a Redis older than that version.
func (r *nodeReport) older(major, minor int) bool {
	var a, b int
	n, _ := fmt.Sscanf(r.info["redis_version"], "%d.%d", &a, &b)
	return n == 2 && (a < major || a == major && b < minor)
}

// number returns a field of INFO, or 0.
func (r *nodeReport) number(field string) int64 {
	n, _ := strconv.ParseInt(r.info[field], 10, 64)
	return n
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}
