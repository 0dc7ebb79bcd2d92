package run

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// What the command gets to know of its lock.
const (
	envKey   = "REDIMUTEX_KEY"
	envFence = "REDIMUTEX_FENCE"
	envHolds = "REDIMUTEX_HOLDS" // fence:key of each lock that is held around the command, outermost first
)

// maxLabel is what the library allows for an owner's label.
const maxLabel = 256

// label says who we are, for those that find the lock held: host, pid and the command, or what -owner
// says. Arguments may be secret, and everybody sees the label that may read the server.
func (j *job) label() string {
	if j.owner != "" {
		return shorten(cli.Printable(j.owner))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	command := filepath.Base(j.command[0])
	if j.arguments {
		words := make([]string, len(j.command))
		for i, w := range j.command {
			words[i] = cli.Mask(w)
		}
		command = strings.Join(words, " ")
	}
	return shorten(cli.Printable(fmt.Sprintf("%s pid %d: %s", host, os.Getpid(), command)))
}

// environment returns the environment of the command: ours, with what the command may want to know of
// the lock, and with the servers that we use, without their passwords.
func environment(env []string, j *job, fence int64) []string {
	out, holds := make([]string, 0, len(env)+4), ""
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case envKey, envFence, servers.EnvURL:
		case envHolds:
			holds = value + " "
		default:
			out = append(out, e)
		}
	}
	hold := strconv.FormatInt(fence, 10) + ":" + url.QueryEscape(j.key)
	return append(out, servers.EnvURL+"="+j.servers.Child(), envKey+"="+j.key,
		fmt.Sprintf("%s=%d", envFence, fence), envHolds+"="+holds+hold)
}

// heldByAncestor reports whether the holder of the lock is a redimutex run that runs us: then it waits for
// us, as we would for it. No two holds have the same fence.
func (j *job) heldByAncestor(ctx context.Context) bool {
	fences := make(map[int64]bool)
	for hold := range strings.FieldsSeq(os.Getenv(envHolds)) {
		number, name, _ := strings.Cut(hold, ":")
		key, err := url.QueryUnescape(name)
		if fence, failed := strconv.ParseInt(number, 10, 64); err == nil && failed == nil && key == j.key {
			fences[fence] = true
		}
	}
	if len(fences) == 0 {
		return false
	}
	r, err := sight.Look(ctx, j.servers, j.key)
	return err == nil && r.Held && fences[r.Fence]
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
