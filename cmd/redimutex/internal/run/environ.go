//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/server"
)

// Variables that tell the command about its lock.
const (
	envKey   = "REDIMUTEX_KEY"
	envKeys  = "REDIMUTEX_KEYS" // of several keys: one a line
	envFence = "REDIMUTEX_FENCE"
	envHolds = "REDIMUTEX_HOLDS" // pid:hash(token) of each redimutex run around the command, outermost first
)

// environment returns the environment of the command: that of this process, plus facts about the lock, plus the servers in
// use, without their passwords.
func environment(env []string, j *job, fence int64, token string) []string {
	out, holds := make([]string, 0, len(env)+5), ""
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case envKey, envKeys, envFence, servers.EnvURL:
		case envHolds:
			holds = value + " "
		default:
			out = append(out, e)
		}
	}
	out = append(out, servers.EnvURL+"="+j.servers.Child(), envKey+"="+j.keys[0])
	if len(j.keys) > 1 {
		out = append(out, envKeys+"="+strings.Join(j.keys, "\n"))
	}
	if j.permits == 0 {
		out = append(out, fmt.Sprintf("%s=%d", envFence, fence))
	}
	return append(out, fmt.Sprintf("%s=%s%d:%s", envHolds, holds, os.Getpid(), hash(token)))
}

// hash replaces a token where other users may read it. No two holds have the same token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}

// heldByAncestor reports whether a holder of the lock is a redimutex run that runs this process: each would wait for the
// other. An ancestor that has ended does not count: it may have left the lock to expire, as -min-hold does. For a semaphore,
// the ancestors must hold all permits that this process could get, because other holders may release theirs.
func (j *job) heldByAncestor(ctx context.Context) bool {
	around := make(map[string]bool)
	for hold := range strings.FieldsSeq(os.Getenv(envHolds)) {
		number, token, _ := strings.Cut(hold, ":")
		pid, err := strconv.Atoi(number)
		if err == nil && pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH { //nolint:errorlint // the bare number
			around[token] = true
		}
	}
	if len(around) == 0 {
		return false
	}
	locks, err := sight.LookAll(ctx, j.servers, j.keys, 0, servers.LookTimeout)
	if err != nil {
		return false
	}
	for _, r := range locks {
		ours := 0
		for _, h := range append(r.Most.Holders, inspect.Holder{Token: r.Most.Holder}) {
			if around[hash(h.Token)] {
				ours++
			}
		}
		if r.Held && ours > 0 && (r.Most.Kind != server.Semaphore || ours >= j.permits) {
			return true
		}
	}
	return false
}
