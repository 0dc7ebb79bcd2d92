// Package cron runs a job of robfig/cron on one of several machines.
package cron

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/redimutex/redimutex"
)

// Once is a wrapper for jobs that are due at the same time on several machines: the machine that locks m first runs the job,
// and the others leave it out. m needs a minimum hold, longer than the clocks of the machines differ and shorter than the time
// between two ticks. Otherwise a machine that comes later finds the lock free again, and runs the same tick once more. The
// same happens if a machine was paused over the tick, and wakes after the minimum hold. If the TTL equals the minimum hold, a
// machine that crashes keeps the lock no longer than that.
//
// A tick that is left out because no server answers is logged to the logger of m, and so is a lock that was lost while the job
// ran. A job of cron gets no ctx, so the loss does not stop it.
//
// Once is for one server. With several servers, three machines that try at the same moment may split the votes, and the tick
// is left out; schedulers/gocron tries again in that case.
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
			if err != nil && !errors.Is(err, redimutex.ErrLocked) { // otherwise another machine runs it
				m.Logger().Error("cron: a job did not run, or ran without its lock", "key", m.Key(), "err", err)
			}
		})
	}
}
