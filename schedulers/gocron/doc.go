// Package redimutexgocron makes jobs of gocron v2 run on one of several machines. It uses the Redis and the locks of
// [redimutex], so it needs no second client.
//
//	import redimutexgocron "github.com/redimutex/redimutex/schedulers/gocron"
//
// # Jobs by the clock: the Locker
//
// A cron, daily or weekly job is due at the same time on all machines. Each machine tries once to lock the name of the job,
// and the one that gets the lock runs the job:
//
//	locker := redimutexgocron.NewLocker(client, "billing:", 30*time.Second)
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// gocron names a job after its function. So give jobs of the same function different names, by gocron.WithName. Otherwise only
// one of them runs, and the others find its lock.
//
// It is not enough to release the lock when the job is done. Clocks differ, so a machine that comes a bit later would find the
// lock free again, and run the same tick once more. So a lock has a minimum hold, which you must choose: longer than your
// clocks differ, and shorter than the time between two ticks minus that difference. For a job each minute on machines that
// differ by a second, 30 s are right; with several servers choose a tenth more (see [Locker.Lock]). A job that takes longer
// stays locked as long as it runs, because the lock is renewed. A machine that crashes meanwhile keeps it for one minimum hold
// more.
//
// gocron does not report a job that could not be locked. The Locker logs the reason, unless another machine has the lock. To
// do more, listen:
//
//	_, err = s.NewJob(gocron.CronJob("0 * * * *", false), gocron.NewTask(bill),
//		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, job string, err error) {
//			if !errors.Is(err, redimutex.ErrLocked) { // else another machine runs it
//				alert(job, err) // Redis did not answer, so no machine may have run this tick
//			}
//		})))
//
// # Jobs by interval: the Elector
//
// A job that runs each 10 minutes from the start of its process is due at a different time on each machine, and no minimum
// hold is right for all: the machines would run it one after the other. Such jobs need one machine that runs them all:
//
//	e := election.New(client, "billing", hostname)
//	go e.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(redimutexgocron.NewElector(e)))
//
// An alternative would be a key for each time slot, "name:" + now/interval. But it needs equal clocks, and does not keep the
// distance between runs. If a machine that runs late in its slot is followed by one that runs early, two runs come close
// together. In the other order the gap is nearly two intervals. The Elector keeps the interval as long as one machine leads.
//
// The weak point of the Elector is a change of leader. While no candidate leads, for up to a TTL after a crash, runs are left
// out. The interval begins anew with the new leader. And the Elector knows nothing of ticks: if the new leader's clock is
// behind, it may run a tick by the clock that the old leader has run already. So use the Locker for those jobs. A gocron
// scheduler uses one of the two; with both, it asks only the Elector.
//
// # What neither can do
//
// gocron passes no context of the lock to a job. So a job does not learn that its lock was lost, or that its machine no longer
// leads. For a job that must not overlap, lock inside it with [redimutex.Mutex.Do]. If a machine crashes in the middle of a
// job, the others assume that it has run the job.
//
// A machine that was paused over a tick is late, like one with a slow clock: it asks for the lock when it wakes. If the
// minimum hold is over by then, the tick runs twice. A longer minimum hold covers a longer pause.
package redimutexgocron
