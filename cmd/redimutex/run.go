package main

import (
	"errors"
	"flag"
	"io"
	"os/exec"
	"strings"
	"time"
)

// A job is what one redimutex run is asked to do.
type job struct {
	key      string
	command  []string
	path     string // where the command is
	servers  servers
	ttl      time.Duration
	minHold  time.Duration
	grace    time.Duration
	wait     time.Duration // 0: without limit
	once     bool          // try once, do not wait
	queue    bool
	conflict int // exit status when somebody else holds the lock
	owner    string
	quiet    bool
}

const (
	defaultTTL   = 10 * time.Second
	minTTL       = 100 * time.Millisecond
	defaultGrace = 5 * time.Second // a quarter of the TTL, if that is less
)

func runCommand(args []string, t terminal) int {
	j, err := parseRun(args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, runHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	if err != nil {
		return usageError(t, "run", err)
	}
	if j.path, err = exec.LookPath(j.command[0]); err != nil {
		return cannotRun(t, j.command[0], err)
	}
	return j.run(t)
}

// parseRun reads the arguments of run. Its errors are about usage.
func parseRun(args []string) (*job, error) {
	left, command, dashes := cut(args)
	j := &job{command: command, conflict: exitFailure}
	var given urls
	ttl, wait, grace := seconds(defaultTTL), seconds(0), seconds(0)
	var minHold seconds
	fs := newFlags("run")
	fs.Var(&given, "redis", "")
	fs.Var(&ttl, "ttl", "")
	fs.Var(&minHold, "min-hold", "")
	fs.Var(&grace, "grace", "")
	fs.StringVar(&j.owner, "owner", "", "")
	alias(fs.BoolVar, &j.once, "n", "nonblock")
	alias(fs.BoolVar, &j.quiet, "q", "quiet")
	alias(fs.BoolVar, &j.queue, "queue")
	for _, name := range []string{"w", "wait"} {
		fs.Var(&wait, name, "")
	}
	for _, name := range []string{"E", "conflict-exit-code"} {
		fs.Var((*exitStatus)(&j.conflict), name, "")
	}
	words, err := parse(fs, left)
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if !dashes {
		return nil, errors.New("there is no --; write redimutex run KEY -- COMMAND")
	}
	if j.key, err = oneKey(words); err != nil {
		return nil, err
	}
	switch {
	case len(command) == 0 || command[0] == "":
		return nil, errors.New("there is no command after --; write redimutex run KEY -- COMMAND")
	case j.once && (set["w"] || set["wait"]):
		return nil, errors.New("-n and -w exclude each other: -n does not wait at all")
	}
	j.ttl, j.minHold, j.wait = time.Duration(ttl), time.Duration(minHold), time.Duration(wait)
	if j.wait == 0 && (set["w"] || set["wait"]) {
		j.once = true // as flock does
	}
	if err := j.setGrace(time.Duration(grace), set["grace"]); err != nil {
		return nil, err
	}
	j.owner = j.label()
	j.servers, err = findServers(given)
	return j, err
}

// setGrace checks the times against each other.
func (j *job) setGrace(grace time.Duration, given bool) error {
	if j.ttl < minTTL {
		return usagef("-ttl %v: a lock has to live for %v at least", j.ttl, minTTL)
	}
	if !given {
		grace = min(defaultGrace, j.ttl/4)
	}
	if grace > j.ttl/2 {
		return usagef("-grace %v: may be half of -ttl at most, which is %v, so that a renewal that fails once can be repeated before the command is stopped",
			grace, j.ttl/2)
	}
	j.grace = grace
	return nil
}

// cut splits the arguments at the first --, and reports whether there is one.
func cut(args []string) (left, right []string, found bool) {
	for i, a := range args {
		if a == "--" {
			return args[:i], args[i+1:], true
		}
	}
	return args, nil, false
}

// oneKey returns the key among the words that are not flags. It does not repeat them: somebody who
// forgets the -redis in front of a URL should not find the password in a log.
func oneKey(words []string) (string, error) {
	switch {
	case len(words) == 0 || words[0] == "":
		return "", errors.New("there is no KEY; write a name for the lock, such as nightly-backup")
	case len(words) > 1:
		return "", usagef("there has to be one KEY, and there are %d words that are not flags", len(words))
	}
	for _, scheme := range []string{"redis://", "rediss://", "unix://"} {
		if strings.HasPrefix(words[0], scheme) {
			return "", errors.New("there is a URL in the place of KEY; write -redis in front of it")
		}
	}
	return words[0], nil
}
