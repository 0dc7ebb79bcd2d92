package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

func TestQueuedCommandsRunInOrderOfArrival(t *testing.T) {
	s := redistest.Start(t)
	order := filepath.Join(t.TempDir(), "order")
	holder := launch(t, s, "run", "-queue", "job", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.says("ready")
	var line []*process
	for i := range 4 {
		line = append(line, launch(t, s, "run", "-queue", "job", "--", "sh", "-c", fmt.Sprintf("echo %d >>%s", i, order)))
		redistest.Wait(t, "the waiter is in the queue", func() bool {
			n, err := redis.Int(s.Do("ZCARD", server.QueueKey("job")), nil)
			require.NoError(t, err)
			return n == i+1
		})
	}
	holder.signal(15)
	for _, p := range line {
		assert.Equal(t, 0, p.status(), p.err())
	}
	ran, err := os.ReadFile(order)
	require.NoError(t, err)
	assert.Equal(t, "0\n1\n2\n3\n", string(ran))
	assert.NotContains(t, s.Keys(), "job")
}

func TestQueuedCommandKeepsItsLockForAsLongAsItRuns(t *testing.T) {
	s := redistest.Start(t)
	holder := launch(t, s, "run", "-queue", "job", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.says("ready")
	next := launch(t, s, "run", "-queue", "-ttl", "1", "job", "--", "sh", "-c", "sleep 1.5; echo done")
	next.warns("\n")
	holder.signal(15)
	assert.Equal(t, 0, next.status(), "what the release handed over was extended and renewed: %s", next.err())
	assert.Equal(t, "done\n", next.out())
}
