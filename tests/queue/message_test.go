package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A process is stopped when the lock is handed to it, and the message is still on its way. When it goes on,
// the lock is another's, the server's clock has been set back, and only then the message arrives.
func TestLateMessageOfAnEarlierHandOverMakesNoLeaseWhateverTheClockOfTheServerShows(t *testing.T) {
	t.Parallel()
	s, clock := redistest.Clocked(t)
	network := s.Network(0)
	holder, other := newMutex(t, s.Pool()), newMutex(t, s.Pool(), redimutex.WithNodeTimeout(slow))
	for round := range 3 { // a machine that is late misses the moment
		require.NoError(t, holder.LockContext(t.Context(), time.Minute))
		late := startWorker(t, network.Addr(), 500*time.Millisecond, 1)
		waitTickets(t, s, 1)
		got := startWaiting(t, s, other, 2)
		network.Hold(redistest.Messages)
		late.stops()
		unlock(t, holder)
		require.NoError(t, <-got, "the grant of the one that was stopped has lapsed")
		clock.Set(time.Duration(-1-round) * time.Minute)

		looked := network.Replied()
		late.goesOn()
		redistest.Wait(t, "it has looked at the new time", func() bool { return network.Replied() > looked })
		network.Release()
		redistest.Wait(t, "it has had time for the message, too", func() bool { return network.Replied() > looked+3 || len(late.says) > 0 })
		select {
		case said := <-late.says:
			require.NoError(t, other.Lease().Err(), "the machine was too late to tell")
			require.Fail(t, "two valid leases", "the late one said %q", said)
		default:
		}
		unlock(t, other)
		require.Equal(t, "held", late.hears(), "in its turn it gets the lock")
		late.unlocks()
	}
}
