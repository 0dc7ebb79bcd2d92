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

	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
)

// What the command gets to know of its lock.
const (
	envKey   = "REDIMUTEX_KEY"
	envFence = "REDIMUTEX_FENCE"
	envHolds = "REDIMUTEX_HOLDS" // pid:hash of each redimutex run around the command, and of the token that it has, outermost first
)

// environment returns the environment of the command: ours, with what the command may want to know of
// the lock, and with the servers that we use, without their passwords.
func environment(env []string, j *job, fence int64, token string) []string {
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
	return append(out, servers.EnvURL+"="+j.servers.Child(), envKey+"="+j.key,
		fmt.Sprintf("%s=%d", envFence, fence), fmt.Sprintf("%s=%s%d:%s", envHolds, holds, os.Getpid(), hash(token)))
}

// hash stands for a token where others may read it. No two holds have the same token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}

// heldByAncestor reports whether the holder of the lock is a redimutex run that runs us: then it waits for
// us, as we would for it. One that has ended may have left the lock to expire, as -min-hold does.
func (j *job) heldByAncestor(ctx context.Context) bool {
	tokens := make(map[string]bool)
	for hold := range strings.FieldsSeq(os.Getenv(envHolds)) {
		number, token, _ := strings.Cut(hold, ":")
		pid, err := strconv.Atoi(number)
		if err == nil && pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH { //nolint:errorlint // the bare number
			tokens[token] = true
		}
	}
	if len(tokens) == 0 {
		return false
	}
	r, err := sight.Look(ctx, j.servers, j.key)
	if err != nil || !r.Held {
		return false
	}
	holder, _ := sight.Prevailing(r.Views)
	return tokens[hash(holder.Holder)]
}
