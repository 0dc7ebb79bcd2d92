//go:build unix

package run

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Scripts that are the commands of the tests, or parts of these. They print ready once they can be signalled.
const (
	lingering = `echo ready; sleep 1000`
	// sleeper begins a script: it starts a process in the background and prints its number.
	sleeper = `sleep 1000 & echo "[$!]"; `
	// endless runs until a signal or its trap ends it.
	endless = `echo ready; while :; do sleep 0.02; done`
	// deaf does not end by TERM, and starts a process that does not either.
	deaf = `trap 'echo "TERM $(date +%s%N)"' TERM
sh -c 'trap "" TERM; echo "[$$]"; sleep 1000' &
echo "[$$]"
` + endless
)

// begun starts redimutex run with these flags and keys, and waits until the script, which is its command, has printed ready.
func begun(t *testing.T, s *redistest.Server, script string, flagsAndKeys ...string) *clitest.Process {
	t.Helper()
	p := clitest.Launch(t, s, slices.Concat([]string{"run"}, flagsAndKeys, []string{"--", "sh", "-c", script})...)
	p.Says("ready")
	return p
}

// terminate ends a run by TERM, and waits for its end.
func terminate(t *testing.T, p *clitest.Process) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	assert.Equal(t, 143, p.Status(), p.Err())
}

// allGone waits until these processes have ended.
func allGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		redistest.Wait(t, fmt.Sprint("the end of process ", pid), func() bool { return gone(pid) })
	}
}

// gone reports whether a process has ended. A zombie, for which no process has waited, counts as ended.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return os.IsNotExist(err) && hasProc()
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// hasProc reports whether the system has files about its processes.
func hasProc() bool {
	_, err := os.Stat("/proc/self/environ")
	return err == nil
}
