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

// What is lost without WithReplicas shows that it would be seen if something were lost with it.
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

// A lock that was lost, or a fence that fell, in one of many scenes is enough.
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

// A library that acknowledges before a replica has the lock is found, though it claims to wait.
func TestLockerThatDoesNotWaitForReplicasIsFound(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis has no replicas")
	}
	var s *scene
	err := evidence.Stage(context.Background(), func(t testing.TB) {
		g := startSentinel(t, delay{time: 100 * time.Millisecond})
		g.aim(0, 1)
		s = play(context.Background(), t, g, killed, 1)
	})
	require.NoError(t, err)
	for _, l := range s.ledgers {
		if l.name == async {
			l.judged, l.name = true, withReplicas // it poses as the other
		} else if l.name == withReplicas {
			l.acks, l.lost = nil, 0
		}
	}
	seen := all{scenes: []*scene{s}}
	assert.False(t, evidence.Result{Figures: seen.figures()}.OK())
}
