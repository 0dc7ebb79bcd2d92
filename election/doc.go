// Package election elects one of several processes as the leader: to run the scheduler, own the shard, write the file. It is a
// [redimutex.Mutex] that is held for long, with what a leader needs around it.
//
//	e := election.New(client, "billing", hostname) // client is your *redimutex.Client
//	err := e.Run(ctx, func(ctx context.Context) error {
//		return bill(ctx) // we lead until ctx ends
//	})
//
// To know who leads, call [Election.Leader], or range over [Election.Observe].
//
// # What it guarantees
//
//   - While a leader's lease is valid, no other candidate has a valid one. The conditions are those of the Mutex: the
//     servers keep their data, and clocks run at about the same speed.
//   - Each lead has a [Term], higher than all terms before. An observer never sees two leaders of one term.
//   - The lead is not given away before f has returned.
//   - f is called only while this process leads. Nothing is called when the lead ends.
//   - A process that has lost the lead is a candidate again as soon as f has returned.
//   - With one server, candidates lead in the order in which they came (see [redimutex.WithQueue] for its limits),
//     and a leader that resigns goes to the end of the queue. With several servers they poll, and no order is
//     promised.
//   - A leader whose process crashes, is stopped or is cut off is replaced within a TTL (and a poll interval). A leader
//     whose f hangs stays the leader. Observers know of a change within a TTL.
//   - A queued candidate that hangs delays a change once (see [redimutex.WithQueue]). So let the candidates of one
//     process share a Client, which has one place in the queue.
//
// # What it does not
//
// It can't stop a leader. A process that was paused for longer than its lease finds its ctx ended when it wakes and looks, and
// [Election.IsLeader] reports false. But a write that it was just about to make still happens. So do the writes of an f that
// ignores its ctx. Only the resource can refuse them, by the term: see [Term], and docs/fencing.md.
//
// # How it works
//
// The lead is the lock under the key of the election, with fencing and a queue, so the command line shows it: redimutex show
// KEY. The leader also writes its term to a key next to it, which observers compare with the lock. docs/security.md lists the
// permissions. Observers read a majority of the servers each eighth of a TTL, and at least once a second.
package election
