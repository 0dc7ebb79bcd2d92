package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// What the command gets to know of its lock.
const (
	envKey   = "REDIMUTEX_KEY"
	envFence = "REDIMUTEX_FENCE"
)

// maxLabel is what the library allows for an owner's label.
const maxLabel = 256

// What looks like a password in the arguments of the command is masked in the label, which everybody
// sees who waits for the lock: the user part of a URL, and the value after a word such as password=.
var (
	urlSecret  = regexp.MustCompile(`://[^\s]*@`)
	wordSecret = regexp.MustCompile(`(?i)((?:pass(?:wd|word|phrase)?|secret|token|api-?_?key|credentials?)[=:])\S+`)
)

// label says who we are, for those who find the lock held: host, pid and command, or what -owner
// says.
func (j *job) label() string {
	if j.owner != "" {
		return shorten(printable(j.owner))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	command := strings.Join(j.command, " ")
	command = urlSecret.ReplaceAllString(command, "://***@")
	command = wordSecret.ReplaceAllString(command, "${1}***")
	return shorten(printable(fmt.Sprintf("%s pid %d: %s", host, os.Getpid(), command)))
}

// environment returns the environment of the command: ours, with what the command may want to know of
// the lock, and without the password of the servers.
func environment(env []string, key string, fence int64) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case envKey, envFence:
		case envURL:
			if value = withoutPassword(value); value != "" {
				out = append(out, envURL+"="+value)
			}
		default:
			out = append(out, e)
		}
	}
	return append(out, envKey+"="+key, fmt.Sprintf("%s=%d", envFence, fence))
}

// shorten cuts s to what fits into a label, between two characters.
func shorten(s string) string {
	const mark = "..."
	if len(s) <= maxLabel {
		return s
	}
	n := maxLabel - len(mark)
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
