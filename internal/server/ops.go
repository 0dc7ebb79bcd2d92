package server

import "time"

// A Lock says which lock an operation is about, and how long it may take.
type Lock struct {
	Key     string
	Token   string
	Timeout time.Duration // bound on the whole operation on this server
}

// Replicas says how many replicas must have an operation before it counts.
type Replicas struct {
	N       int           // 0: none
	Timeout time.Duration // how long to wait for them, on top of the Timeout of the lock
}

// A Ticket is a waiter's place in the queue of a server.
type Ticket struct {
	Name    string        // unique for ever; the value of the lock when it is handed over
	Channel string        // where its process listens
	HandOff time.Duration // how long a hand-off gives the lock to it
	Fencing bool          // a hand-off comes with a fence
	Arrived int64         // the server's clock in µs when it queued; 0: not yet
	Rejoin  bool          // where it is missing, queue again with Arrived; else missing means Lapsed
}

// A Try is one try for a lock.
type Try struct {
	Lock
	TTL      time.Duration
	Start    time.Time // when the bound begins; zero: now
	Fencing  bool      // the lock comes with a fence
	Guard    bool      // a server without data does not vote for one TTL
	Replicas Replicas
	Plain    bool   // SET NX PX will do: the caller goes on trying and needs to know nothing of the holder
	Queue    bool   // the lock has a queue
	Ticket   Ticket // Name "": the caller does not wait in the queue
	Regain   bool   // a majority of servers has the lock, and this one is to join it: nothing of the try is undone
}

// Release describes the release of what the try has won, where the lock may live for ttl from now on.
func (t *Try) Release(now time.Time, ttl time.Duration) Release {
	return Release{
		Lock: t.Lock, Queue: t.Queue,
		Until: now.Add(ttl + t.Timeout + t.Replicas.Timeout),
	}
}

// An Extension sets how long a lock lives from now on.
type Extension struct {
	Lock
	TTL      time.Duration
	Start    time.Time // as Try.Start
	Fencing  bool      // keep the fence counter alive too
	Replicas Replicas
}

// A Release gives a lock back.
type Release struct {
	Lock
	Start  time.Time     // as Try.Start
	Keep   time.Duration // > 0: leave the lock to expire after so long
	Queue  bool          // the lock has a queue
	Ticket Ticket        // Name != "": leave the queue as well; a lock whose value is Ticket.Name is ours too

	// For the background, where a release goes on that could not be delivered.
	Until time.Time // the key may live until then; zero: for a minute
	Open  time.Time // an operation of ours may yet be executed until then: go on until an undo was answered that was sent after it
	Doubt bool      // that operation was a plain SET, which carries no deadline: it may be executed even later
}

// A Verdict is what a server said.
type Verdict int8

const (
	Failed  Verdict = iota // nothing that counts; see Reply.Err. Nothing is left for the caller to clean up
	Done                   // granted, extended, released
	Held                   // acquire: somebody else holds it
	Missing                // extend, release: the lock is gone
	Taken                  // extend, release: somebody else holds it
	Lapsed                 // acquire with a Ticket that is no longer queued: it let its hand-off lapse, or was passed over. Nothing was done
)

// A Reply is one server's answer to one operation.
type Reply struct {
	Verdict Verdict
	Err     error           // with Failed
	Sent    time.Time       // just before the command was sent
	Open    time.Time       // with Failed: the operation may still be executed until then; zero: certainly not
	Undone  bool            // acquire, with Failed: what it may have done is being undone
	Fence   int64           // with Done: that of the hold; 0 without fencing
	Holder  string          // with Held: the value of the lock, 320 bytes at most
	Left    time.Duration   // with Held: what is left of the holder's TTL; negative without a TTL
	Now     int64           // the server's clock in µs, where the script tells it
	Gap     time.Duration   // with Held and a ticket: since anybody looked at the queue before; 0: nobody has
	Undoing <-chan struct{} // release, with Failed: closed after an attempt in the background; nil: there is none
}
