// Package cron has a job of robfig/cron run on one of several machines.
package cron

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/redimutex/redimutex"
)

// Once is a wrapper for jobs that are due at the same time on several machines: who locks m first runs the job, and
// the others leave it out. m needs a minimum hold, longer than the clocks of the machines differ and shorter than the
// time between two ticks: else a machine that comes later finds the lock free again, and runs the same tick once
// more. So does a machine that was paused over the tick, and wakes after the minimum hold. With a TTL as long, a machine
// that crashes keeps it no longer.
//
// A tick that is left out because no server answers is logged, to the logger of m, and so is a lock that was lost while
// the job ran. A job of cron gets no ctx, so it does not stop then.
//
// It is for one server. With several, three machines that try at the same moment may split the votes, and the tick is
// left out; schedulers/gocron tries again then.
//
//	hold := 30 * time.Second
//	m := client.Mutex("cron:report", redimutex.WithMinHold(hold), redimutex.WithTTL(hold))
//	c.AddJob("* * * * *", cron.NewChain(Once(m)).Then(report))
func Once(m *redimutex.Mutex) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := m.TryDo(context.Background(), func(context.Context) error {
				j.Run()
				return nil
			})
			if err != nil && !errors.Is(err, redimutex.ErrLocked) { // else another machine runs it
				m.Logger().Error("cron: a job did not run, or ran without its lock", "key", m.Key(), "err", err)
			}
		})
	}
}
