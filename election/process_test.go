package election_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
)

// If this variable is set, to the address of the server, the test binary is a candidate.
const processVariable = "ELECTION_TEST_CANDIDATE"

const processTTL = 2 * time.Second

// stand is the main function of a candidate process. It ends when its standard input does.
func stand(addr string) int {
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		os.Exit(3)
	}()
	pool, err := redimutex.NewPool("redis://" + addr)
	if err != nil {
		panic(err)
	}
	e := election.New(redimutex.NewClient([]redimutex.Pool{pool}), key, "process", redimutex.WithTTL(processTTL))
	err = e.Run(context.Background(), func(ctx context.Context) error {
		fmt.Println("leads")
		for last := time.Now(); ; time.Sleep(time.Millisecond) {
			now := time.Now()
			if now.Sub(last) > processTTL {
				fmt.Printf("woke up; ctx: %v; leader: %t\n", ctx.Err(), e.IsLeader())
				return nil
			}
			last = now
		}
	})
	fmt.Println(err)
	return 1
}

func TestAStoppedLeaderIsReplacedWithinATTLAndFindsItsCtxEnded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := redistest.StartWorker(t, processVariable, s.Addr())
	require.Equal(t, "leads", w.Hear())
	b := join(t, one(s), "b", redimutex.WithTTL(processTTL))
	waiting(t, s, 1)

	// A waiter looks again when the lease is over, and one poll interval later. A busy machine takes longer, but no second TTL.
	var stopped time.Time
	over, late := redistest.Overrun(processTTL*3/2, func() {
		w.Stop()
		stopped = time.Now()
		b.leads(t, 1)
	})
	assert.LessOrEqual(t, over, 2*late, "the machine was late by %v", late)
	redistest.Wait(t, "the pause is longer than the lease", func() bool { return time.Since(stopped) > processTTL*5/4 })
	w.Continue()
	require.Equal(t, "woke up; ctx: context canceled; leader: false", w.Hear())
	waiting(t, s, 1) // it stands again
	b.stop(nil)
	assert.Equal(t, "leads", w.Hear())
}
