// Package doctor is the verb that checks whether servers are fit for locks.
package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// Exit statuses of doctor, as Nagios and similar systems expect them from a check.
const (
	exitWarnings = 1
	exitUnusable = 2
	exitUsage    = 3
)

// A checkup is what the command line asked doctor to check.
type checkup struct {
	ttl, nodeTimeout time.Duration
	prefix           string
	needs            map[string]bool // nil: try everything, and warn
	replicas         int             // WithReplicas of the program; 0: not given
	ignore           map[string]bool
	several          bool // more than one server, for Redlock
	verbose, json    bool
}

const minTTL = 100 * time.Millisecond

// Command declares the verb.
func Command() *cli.Command {
	c := &checkup{ttl: 10 * time.Second, nodeTimeout: -1, prefix: "redimutex:doctor:"}
	var given servers.URLs
	var known, names []string
	for _, d := range checks {
		known = append(known, d.id)
	}
	for _, f := range features {
		names = append(names, f.name)
	}
	return &cli.Command{
		Name: "doctor", Summary: "check whether the servers are fit for locks",
		Misused: exitUsage,
		About: []cli.Block{
			cli.Para(`Checks whether the server, or each of several, is fit for locks: whether it can be reached, how fast it
				answers, whether it may forget locks (eviction, restarts, failover), its clock, and whether this user may
				do what each option of the library needs. For each thing that is wrong it says why it matters and what
				to do. docs/operations.md explains each finding.`),
			cli.Para(`It tries locks on keys with random names, which it removes again. What is left if it is interrupted
				expires by itself, a fence counter after an hour. It takes a few seconds, and some 70 round trips to each
				server.`),
		},
		Flags: []*cli.Flag{
			servers.Flag(&given, ""),
			{Names: []string{"ttl"}, Arg: "TIME", Value: cli.Time(&c.ttl), Text: "The TTL of your locks. Default: 10s"},
			{Names: []string{"node-timeout"}, Arg: "TIME", Value: cli.Time(&c.nodeTimeout), Text: `WithNodeTimeout of your
				program. Default: a twentieth of -ttl, 50ms at least and 3s at most`},
			{
				Names: []string{"need"}, Arg: "LIST", Value: cli.List(&c.needs, names...),
				Text: `What your program uses, of fencing, queue, semaphore, readers (an RWMutex), replicas and
					guard, with commas: that is tried, and an error if it does not work. For replicas it tries only that
					WAIT is allowed; -replicas counts them. "-need lock" tries nothing more than a lock. Default: all is
					tried, and what does not work is a warning`,
			},
			{
				Names: []string{"replicas"}, Arg: "N", Value: cli.Number(&c.replicas, 0, math.MaxInt32, "a number of replicas, 0 at least and 2147483647 at most"),
				Text: `WithReplicas(N) of your program: N replicas have to be connected, and a lock is tried with them.
					Includes -need replicas`,
			},
			{Names: []string{"key"}, Arg: "PREFIX", Value: cli.Text(&c.prefix), Text: `Keys for trying begin with this; the user
				has to be allowed to use them. Default: redimutex:doctor:`},
			{
				Names: []string{"ignore"}, Arg: "LIST", Value: cli.List(&c.ignore, known...),
				Text: `Findings that you know of and live with, by name, with commas. An error still counts against its
					server: if that is the only one, or no majority is left without an error, the exit status is 2`,
			},
			{Names: []string{"v"}, Value: cli.Switch(&c.verbose), Text: "Show what is fine as well."},
			{Names: []string{"json"}, Value: cli.Switch(&c.json), Text: `One JSON object: status (fine, warnings, unusable),
				servers (a list with address, name, software, role, ping_ms, worst_ping_ms, dial_ms, clock_offset_ms (null:
				unknown) and tried of each), findings (a list with id, level: ok, warning or error, server, what, why and do of
				each) and ignored, a list of the errors that -ignore leaves out of that. What is ok is listed with -v alone.`},
		},
		Notes: notes,
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			if err := c.check(); err != nil {
				return 0, err
			}
			return given.Use(c.nodeTimeout, func(nodes servers.Set) (int, error) {
				if len(nodes) > 1 && (c.needs["queue"] || c.needs["semaphore"] || c.needs["readers"]) {
					return 0, fmt.Errorf("-need: WithQueue, a Semaphore and an RWMutex are for one server, and %d are given", len(nodes))
				}
				return c.run(t, nodes), nil
			})
		},
	}
}

// notes are the rest of the help.
var notes = []cli.Section{
	{Title: "EXAMPLES", Blocks: []cli.Block{
		cli.Example("", "redimutex doctor -redis redis://redis.example.com"),
		cli.Example("A service that uses WithTTL(30s), WithFencing and WithQueue, as its own user:",
			"redimutex doctor -redis @/etc/redis.url -ttl 30s -need fencing,queue \\\n  -key orders:"),
		cli.Example("Three servers without persistence, and WithRestartGuard:",
			"redimutex doctor -redis redis://a -redis redis://b -redis redis://c \\\n  -need guard"),
	}},
	cli.Ends(cli.Item("0", "fine"), cli.Item("1", "there are warnings, or errors on a minority of the servers"),
		cli.Item("2", "unusable for locks"), cli.Item("3", "wrong usage; a monitoring system may take these four as they are"),
		cli.WriteFails),
}

func (c *checkup) run(t *cli.Terminal, nodes servers.Set) int {
	c.several = len(nodes) > 1
	d := c.examine(nodes)
	cli.Tell(t.Out, c.json, d, d.print)
	switch d.Status {
	case statusUnusable:
		return exitUnusable
	case statusWarnings:
		return exitWarnings
	}
	return cli.OK
}

// check completes the values of the flags, and returns what is wrong with them.
func (c *checkup) check() error {
	if c.nodeTimeout < 0 {
		c.nodeTimeout = servers.NodeTimeout(c.ttl)
	}
	switch {
	case c.ttl < minTTL:
		return fmt.Errorf("-ttl %v: a lock has to live for %v at least", c.ttl, minTTL)
	case c.nodeTimeout >= c.ttl:
		return fmt.Errorf("-node-timeout %v: has to be less than -ttl, which is %v", c.nodeTimeout, c.ttl)
	case c.nodeTimeout < time.Millisecond:
		return fmt.Errorf("-node-timeout %v: has to be 1ms at least; leave the flag out for a twentieth of -ttl", c.nodeTimeout)
	}
	return nil
}

// The states of all servers together.
const (
	statusFine     = "fine"
	statusWarnings = "warnings"
	statusUnusable = "unusable"
)

// A diagnosis is the result of doctor.
type diagnosis struct {
	Status   string     `json:"status"`
	Servers  []nodeInfo `json:"servers"`
	Findings []finding  `json:"findings"`
	Ignored  []finding  `json:"ignored"` // errors that are not shown, but still count
}

// examine checks all servers at once. Each step on a server has its own limit.
func (c *checkup) examine(nodes servers.Set) *diagnosis {
	reports := make([]*nodeReport, len(nodes))
	var each sync.WaitGroup
	for i, n := range nodes {
		each.Go(func() { reports[i] = c.checkServer(n) })
	}
	each.Wait()
	return c.conclude(reports)
}

// conclude compares the servers with each other and sums up the findings.
func (c *checkup) conclude(reports []*nodeReport) *diagnosis {
	d := &diagnosis{Status: statusFine, Findings: []finding{}, Ignored: []finding{}}
	together := c.compare(reports)
	well := 0
	for _, r := range reports {
		d.Servers = append(d.Servers, r.about)
		if !slices.ContainsFunc(r.findings, func(f finding) bool { return f.Level == levelError }) {
			well++
		}
		together = append(together, r.findings...)
	}
	for _, f := range together {
		isError, ignored := f.Level == levelError, c.ignore[f.ID]
		if isError && f.Server == "" {
			d.Status = statusUnusable
		}
		switch {
		case ignored && isError:
			d.Ignored = append(d.Ignored, f)
		case ignored || f.Level == levelOK && !c.verbose:
		default:
			d.Findings = append(d.Findings, f)
			if f.Level != levelOK && d.Status == statusFine {
				d.Status = statusWarnings
			}
		}
	}
	if well <= len(reports)/2 {
		d.Status = statusUnusable
	}
	return d
}

// compare finds problems of the servers together. Its findings belong to no single server.
func (c *checkup) compare(reports []*nodeReport) []finding {
	if len(reports) < 2 {
		return nil
	}
	findings := sameServer(reports)
	number := fmt.Sprintf("there are %d servers, of which %d have to be up", len(reports), len(reports)/2+1)
	return append(append(findings, find("even", warning(len(reports)%2 == 0), "", number)), spread(reports)...)
}

// sameServer finds names that lead to the same process.
func sameServer(reports []*nodeReport) (findings []finding) {
	names := make(map[string][]string)
	for _, r := range reports {
		if id := r.info["run_id"]; id != "" {
			names[id] = append(names[id], r.node.Name)
		}
	}
	for _, r := range reports { // in the order in which they were named
		if same := names[r.info["run_id"]]; len(same) > 1 && same[0] == r.node.Name {
			findings = append(findings, find("same-server", levelError, "", strings.Join(same, " and ")+" are one server (run_id "+r.info["run_id"]+")"))
		}
	}
	if len(findings) == 0 && len(names) == len(reports) {
		findings = append(findings, find("same-server", levelOK, "", "no two of them are one server"))
	}
	return findings
}

// spread compares the clocks of the servers with each other. Each clock may be within the limit, on different sides of this
// machine's clock.
func spread(reports []*nodeReport) []finding {
	var timed []*nodeReport
	for _, r := range reports {
		if r.timed && !r.has("clock-skew") {
			timed = append(timed, r)
		}
	}
	if len(timed) < 2 {
		return nil
	}
	byClock := func(a, b *nodeReport) int { return cmp.Compare(a.offset, b.offset) }
	last, front := slices.MinFunc(timed, byClock), slices.MaxFunc(timed, byClock)
	apart := front.offset - last.offset
	return []finding{find("clock-skew", warning(apart-front.fuzz-last.fuzz > maxSkew), "", fmt.Sprintf("the clocks of %s and %s are %v apart",
		front.node.Name, last.node.Name, max(rough(apart), time.Microsecond)))}
}

func (c *checkup) newReport(n servers.Node) *nodeReport {
	return &nodeReport{checkup: c, node: n, about: nodeInfo{Address: n.Address, Name: n.Name, Tried: []string{}}}
}
