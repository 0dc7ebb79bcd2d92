package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Exit statuses of doctor, which are those of a check for Nagios and its kin.
const (
	exitWarnings    = 1
	exitUnusable    = 2
	exitDoctorUsage = 3
)

// A checkup is what doctor was asked to look at.
type checkup struct {
	ttl, nodeTimeout time.Duration
	prefix           string
	needs            map[string]bool // nil: try everything, and warn
	replicas         int             // WithReplicas of the program; 0: not told
	ignore           map[string]bool
	several          bool // servers, for Redlock
	verbose, json    bool
}

// wants reports whether a feature has to be tried, and how bad it is if it does not work.
func (c *checkup) wants(feature string) (level, bool) {
	if c.needs == nil {
		return levelWarning, true
	}
	return levelError, c.needs[feature]
}

func doctorCommand(args []string, t terminal) int {
	c, nodes, err := parseDoctor(args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, doctorHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	if err != nil {
		usageError(t, "doctor", err)
		return exitDoctorUsage
	}
	defer nodes.close()
	d := c.examine(nodes)
	if c.json {
		d.printJSON(t.out)
	} else {
		d.print(t.out)
	}
	switch d.Status {
	case statusUnusable:
		return exitUnusable
	case statusWarnings:
		return exitWarnings
	}
	return exitOK
}

func parseDoctor(args []string) (*checkup, servers, error) {
	var given urls
	var needs, ignore string
	ttl := seconds(10 * time.Second)
	var nodeTimeout seconds
	c := &checkup{}
	fs := newFlags("doctor")
	fs.Var(&given, "redis", "")
	fs.Var(&ttl, "ttl", "")
	fs.Var(&nodeTimeout, "node-timeout", "")
	fs.StringVar(&needs, "need", "", "")
	fs.IntVar(&c.replicas, "replicas", 0, "")
	fs.StringVar(&c.prefix, "key", "redimutex:doctor:", "")
	fs.StringVar(&ignore, "ignore", "", "")
	fs.BoolVar(&c.verbose, "v", false, "")
	fs.BoolVar(&c.json, "json", false, "")
	words, err := parse(fs, args)
	if err != nil {
		return nil, nil, err
	}
	if len(words) > 0 {
		return nil, nil, usagef("it takes no words, only flags; a server is given by -redis URL")
	}
	c.ttl, c.nodeTimeout = time.Duration(ttl), time.Duration(nodeTimeout)
	if c.nodeTimeout == 0 {
		c.nodeTimeout = max(c.ttl/20, 50*time.Millisecond)
	}
	switch {
	case c.ttl < minTTL:
		return nil, nil, usagef("-ttl %v: a lock has to live for %v at least", c.ttl, minTTL)
	case c.nodeTimeout >= c.ttl:
		return nil, nil, usagef("-node-timeout %v: has to be less than -ttl, which is %v", c.nodeTimeout, c.ttl)
	case c.replicas < 0:
		return nil, nil, usagef("-replicas %d: can't be negative", c.replicas)
	case c.prefix == "":
		return nil, nil, usagef("-key: the prefix is empty; leave the flag out for redimutex:doctor:")
	}
	if c.needs, err = choose("-need", needs, []string{"lock", "fencing", "queue", "replicas", "guard"}); err != nil {
		return nil, nil, err
	}
	if c.replicas > 0 && c.needs != nil {
		c.needs["replicas"] = true
	}
	var known []string
	for _, d := range disorders {
		known = append(known, d.id)
	}
	if c.ignore, err = choose("-ignore", ignore, known); err != nil {
		return nil, nil, err
	}
	nodes, err := findServers(given)
	c.several = len(nodes) > 1
	return c, nodes, err
}

// choose reads a list of words, each of which has to be one of those that are allowed. It returns nil
// for an empty list.
func choose(flag, list string, allowed []string) (map[string]bool, error) {
	var chosen map[string]bool
	for _, word := range split(list) {
		if !slices.Contains(allowed, word) {
			return nil, usagef("%s %q: there is no such thing; these are known: %s", flag, word, strings.Join(allowed, ", "))
		}
		if chosen == nil {
			chosen = make(map[string]bool)
		}
		chosen[word] = true
	}
	return chosen, nil
}

// The states of all servers together.
const (
	statusFine     = "fine"
	statusWarnings = "warnings"
	statusUnusable = "unusable"
)

// A diagnosis is what doctor has found.
type diagnosis struct {
	Status   string    `json:"status"`
	Servers  []vitals  `json:"servers"`
	Findings []finding `json:"findings"`
}

// hardLimit bounds the examination of a server whatever it does. Each command on it has a shorter
// limit of its own, but looking a name up may not end with its context on every system.
const hardLimit = 10 * time.Second

// examine looks at all servers at once.
func (c *checkup) examine(nodes servers) *diagnosis {
	patients := make([]*patient, len(nodes))
	type result struct {
		i int
		p *patient
	}
	results := make(chan result, len(nodes))
	for i, n := range nodes {
		go func() { results <- result{i, c.see(n)} }()
	}
	limit := time.NewTimer(hardLimit)
	defer limit.Stop()
	for waiting := len(nodes); waiting > 0; waiting-- {
		select {
		case r := <-results:
			patients[r.i] = r.p
		case <-limit.C:
			waiting = 0
		}
	}
	for i, n := range nodes {
		if patients[i] == nil {
			p := c.newPatient(n)
			p.report("silent", levelError, "gave no answer within %v", hardLimit)
			patients[i] = p
		}
	}
	return c.conclude(patients)
}

// conclude compares the servers with each other and sums up.
func (c *checkup) conclude(patients []*patient) *diagnosis {
	d := &diagnosis{Status: statusFine, Findings: []finding{}}
	together := c.compare(patients)
	well := 0
	for _, p := range patients {
		d.Servers = append(d.Servers, p.vitals)
		if !slices.ContainsFunc(p.findings, func(f finding) bool { return f.Level == levelError && !c.ignore[f.ID] }) {
			well++
		}
		together = append(together, p.findings...)
	}
	for _, f := range together {
		if c.ignore[f.ID] || f.Level == levelOK && !c.verbose {
			continue
		}
		d.Findings = append(d.Findings, f)
		if f.Level == levelOK {
			continue
		}
		if d.Status == statusFine {
			d.Status = statusWarnings
		}
		if f.Level == levelError && f.Server == "" {
			d.Status = statusUnusable
		}
	}
	if well <= len(patients)/2 {
		d.Status = statusUnusable
	}
	return d
}

// count says how many findings there are of a level.
func (d *diagnosis) count(l level) string {
	n := 0
	for _, f := range d.Findings {
		if f.Level == l {
			n++
		}
	}
	if n == 1 {
		return fmt.Sprintf("1 %s", l)
	}
	return fmt.Sprintf("%d %ss", n, l)
}
