package redimutexgocron

import (
	"context"
	"errors"

	"github.com/go-co-op/gocron/v2"

	"github.com/redimutex/redimutex/election"
)

// ErrNotLeader is what an [Elector] tells gocron on all machines but one.
var ErrNotLeader = errors.New("redimutexgocron: this machine does not lead")

// An Elector has the leader of an election run all jobs. It is for jobs by interval.
type Elector struct{ election *election.Election }

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that asks e, whose Run is the caller's to call.
func NewElector(e *election.Election) *Elector { return &Elector{e} }

// IsLeader returns nil on the machine that leads, and else [ErrNotLeader]. It asks no server: the lease says it, by
// the clock.
func (e *Elector) IsLeader(context.Context) error {
	if e.election.IsLeader() {
		return nil
	}
	return ErrNotLeader
}
