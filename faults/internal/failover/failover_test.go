package failover

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Locks are lost without WithReplicas. So the row would also see a loss with WithReplicas.
func TestFailoverLosesNoLockThatAReplicaConfirmed(t *testing.T) {
	lost := map[string]int{}
	for _, f := range Rows()[0].Hold(t, 0).Figures {
		assert.Greater(t, f.Tried, 100, f.Library)
		lost[f.Library] = f.Tried - f.Held
	}
	for _, library := range []string{async, "redsync", "redislock"} {
		assert.Positive(t, lost[library], library)
	}
	assert.Zero(t, lost[withReplicas])
}

// One lost lock, or one fallen fence, in one of many scenes makes the row fail.
func TestOneLostLockOrFallenFenceIsFound(t *testing.T) {
	seen := func(lost, falls int) evidence.Result {
		var a all
		for i := range 3 {
			s := &scene{group: &group{kind: "Sentinel"}, fault: killed}
			for _, kind := range lockers() {
				l := &ledger{locker: kind, acks: make([]ack, 1000)}
				if i == 1 && kind.name == withReplicas {
					l.lost, l.falls = lost, falls
				}
				if kind.ours {
					l.rises = 100
				}
				s.ledgers = append(s.ledgers, l)
			}
			a.scenes = append(a.scenes, s)
		}
		return evidence.Result{Figures: a.figures()}
	}
	assert.True(t, seen(0, 0).OK())
	assert.False(t, seen(1, 0).OK())
	assert.False(t, seen(0, 1).OK())
}

// The row finds a library that claims to wait for a replica, but acknowledges before the replica has the lock.
func TestLockerThatDoesNotWaitForReplicasIsFound(t *testing.T) {
	redistest.Differs(t, "has no replicas")
	var s *scene
	err := evidence.Stage(context.Background(), func(t testing.TB) {
		g := startSentinel(t, delay{time: 100 * time.Millisecond})
		g.aim(0, 1)
		s = play(context.Background(), t, g, killed, 1)
	})
	require.NoError(t, err)
	for _, l := range s.ledgers {
		if l.name == async {
			l.judged, l.name = true, withReplicas // it poses as the one that waits
		} else if l.name == withReplicas {
			l.acks, l.lost = nil, 0
		}
	}
	seen := all{scenes: []*scene{s}}
	assert.False(t, evidence.Result{Figures: seen.figures()}.OK())
}
