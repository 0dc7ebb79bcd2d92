// Package redimutexgocron has the jobs of gocron v2 run on one machine of several. It takes the Redis and the locks of
// [redimutex], so that no second client comes with it.
//
//	import redimutexgocron "github.com/redimutex/redimutex/schedulers/gocron"
//
// # Jobs by the clock: the Locker
//
// A cron, daily or weekly job is due at the same time on all machines. Each machine tries once to lock the name of
// the job, and the process that gets it runs:
//
//	locker := redimutexgocron.NewLocker(client, "billing:", 30*time.Second)
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// gocron names a job after its function. So give jobs of the same function names of their own, by gocron.WithName, or
// one of them runs and the others find its lock.
//
// A lock that is given back when the job is done is not enough. Clocks differ, so a machine that comes a bit later
// finds the lock free again, and runs the same tick once more. So a lock has a minimum hold, which you have to choose:
// longer than your clocks differ, and shorter than the time between two ticks less that difference. For a job each
// minute on machines that differ by a second, 30 s are right; with several servers choose a tenth more (see
// [Locker.Lock]). A job that takes longer than that is locked as long as it runs, because the lock is renewed; a
// machine that crashes meanwhile keeps it for one minimum hold more.
//
// gocron says nothing of a job that could not be locked. The Locker logs why, unless another machine has the lock; to do
// more, listen:
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
// A job that runs each 10 minutes from the start of its process is due at other times on each machine, and no
// minimum hold is right for all: they would run one after the other. Such jobs need one machine
// that runs them all:
//
//	e := election.New(client, "billing", hostname)
//	go e.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(redimutexgocron.NewElector(e)))
//
// We decided against a key for each time slot, "name:" + now/interval. It needs equal clocks, and does not keep the
// distance between runs. If a machine that runs late in its slot is followed by one that runs early, two runs are next
// to each other. In the other order the gap is nearly two intervals. The Elector keeps the interval as long as a
// machine leads.
//
// Its failure is at the change. While no candidate leads, for up to a TTL after a crash, runs are left out; the interval
// begins anew with the new leader. And it does not look at ticks: a machine that becomes the leader just then, with
// a clock that is behind, runs a tick by the clock that the old leader has run already. So use the Locker for
// those. gocron takes one of the two for a scheduler; with both, it asks the Elector alone.
//
// # What neither does
//
// gocron passes no context of the lock to a job, so a job does not learn that its lock was lost or that its machine
// does not lead any more; for a job that must not overlap, lock inside it with [redimutex.Mutex.Do]. A machine that
// crashes in the middle of a job has run it, as far as the others know.
//
// A machine that was paused over a tick is late, as one with a slow clock is: it asks for the lock when it wakes. If the
// minimum hold is over by then, the tick runs twice. A longer minimum hold covers a longer pause.
package redimutexgocron
