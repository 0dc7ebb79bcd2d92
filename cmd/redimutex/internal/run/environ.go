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

// What the command gets to know of its lock.
const (
	envKey   = "REDIMUTEX_KEY"
	envKeys  = "REDIMUTEX_KEYS" // of several, one a line
	envFence = "REDIMUTEX_FENCE"
	envHolds = "REDIMUTEX_HOLDS" // pid:hash of each redimutex run around the command, and of the token that it has, outermost first
)

// environment returns the environment of the command: ours, with what the command may want to know of
// the lock, and with the servers that we use, without their passwords.
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

// hash stands for a token where others may read it. No two holds have the same token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}

// heldByAncestor reports whether a holder of the lock is a redimutex run that runs us: then it waits for
// us, as we would for it. One that has ended may have left the lock to expire, as -min-hold does. Of a semaphore, they
// have to hold all the permits that there are for us: others may give theirs back.
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
	locks, err := sight.LookAll(ctx, j.servers, j.keys, 0)
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
