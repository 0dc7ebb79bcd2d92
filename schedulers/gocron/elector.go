package redimutexgocron

import (
	"context"
	"errors"

	"github.com/go-co-op/gocron/v2"

	"github.com/redimutex/redimutex/election"
)

// ErrNotLeader is the error that an [Elector] returns to gocron on all machines but the leader.
var ErrNotLeader = errors.New("redimutexgocron: this machine does not lead")

// An Elector makes the leader of an election run all jobs. It is for jobs by interval.
type Elector struct{ election *election.Election }

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that asks e. The caller must call e.Run. NewElector panics if e is nil.
func NewElector(e *election.Election) *Elector {
	if e == nil {
		panic("redimutexgocron: NewElector needs an Election, and got nil")
	}
	return &Elector{e}
}

// IsLeader returns nil on the machine that leads, and [ErrNotLeader] elsewhere. It asks no server: it compares the lease with
// the clock.
func (e *Elector) IsLeader(context.Context) error {
	if e.election.IsLeader() {
		return nil
	}
	return ErrNotLeader
}
