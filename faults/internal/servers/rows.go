// Package servers has the rows of the table of faults in which real servers, or the way to them, fail: paused servers, dropped
// paths, late replies, refusals, broken connections.
package servers

import (
	"time"

	"github.com/redimutex/redimutex/faults/internal/evidence"
)

// Rows returns rows 8 to 14, 18 and 19.
func Rows() []evidence.Row {
	return []evidence.Row{
		evidence.Played(evidence.Row{
			ID: 8, Name: "minority", Fault: "1 or 2 of 5 servers paused", Must: "a quorum is enough: Lock and Unlock p99 <= 5 ms",
			Short: 8 * time.Second, Long: 90 * time.Second,
		}, minority),
		evidence.Played(evidence.Row{
			ID: 9, Name: "majority", Fault: "3 of 5 servers paused", Must: "returns <= ctx + 50 ms, with an error for each server",
			Short: 8 * time.Second, Long: 90 * time.Second,
		}, majority),
		evidence.Played(evidence.Row{
			ID: 10, Name: "only", Fault: "the only server paused: Extend, Unlock", Must: "they return <= ctx + 50 ms",
			Short: 8 * time.Second, Long: 2 * time.Minute,
		}, onlyServer),
		evidence.Played(evidence.Row{
			ID: 11, Name: "dropped-path", Fault: "path dropped, then healed", Must: "no orphan",
			Short: 8 * time.Second, Long: 2 * time.Minute,
		}, droppedPath),
		evidence.Played(evidence.Row{
			ID: 12, Name: "resumed", Fault: "server paused, resumed", Must: "no orphan",
			Short: 8 * time.Second, Long: 2 * time.Minute,
		}, resumed),
		evidence.Played(evidence.Row{
			ID: 13, Name: "cancelled", Fault: "ctx cancelled, then Unlock, cold pool", Must: "key gone: 0 keys after 1 s",
			Short: 3 * time.Second, Long: time.Minute,
		}, cancelledUnlock),
		evidence.Played(evidence.Row{
			ID: 14, Name: "late-reply", Fault: "reply later than the lease", Must: "never a success",
			Short: 10 * time.Second, Long: time.Minute,
		}, lateReplies),
		evidence.Played(evidence.Row{
			ID: 18, Name: "refusals",
			Fault: "OOM, READONLY, MISCONF, LOADING, BUSY, NOPERM, NOAUTH, NOSCRIPT, MASTERDOWN, NOREPLICAS, max clients and more",
			Must:  "a typed error or a retry, never a false hold",
			Short: 8 * time.Second, Long: 3 * time.Minute,
		}, refusalMatrix),
		evidence.Played(evidence.Row{
			ID: 19, Name: "leaks", Fault: "10,000 faults through a proxy", Must: "no leak: goroutines, descriptors, pool connections +0",
			Short: 8 * time.Second, Long: 90 * time.Second,
		}, leaks),
	}
}

const (
	// promptly is what the table asks of Lock and Unlock.
	promptly = 5 * time.Millisecond
	// minorityTTL makes the node timeout 3 s, so that a call that waited for a paused server stands out on any machine.
	minorityTTL = time.Minute
	// overshoot is how much later than its ctx a call may return, by the table.
	overshoot = 50 * time.Millisecond
	// forever is longer than any call may take in the short version, in which a slow machine must not fail.
	forever = 20 * time.Second
	// hour is a TTL that is never over while a row runs, so that no key and no lease ends by itself.
	hour = time.Hour
)
