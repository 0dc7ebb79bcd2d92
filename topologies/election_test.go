package topologies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/locktest"
)

func TestClusterElectsAndEveryObserverSeesIt(t *testing.T) {
	t.Parallel()
	_, pool := startCluster(t)
	candidate, observer := locktest.Client(t, pool()), locktest.Client(t, pool())
	seen := errors.New("seen")
	for _, key := range oddKeys {
		err := election.New(candidate, key, "a").Run(patience(t), func(ctx context.Context) error {
			l, err := election.New(observer, key, "").Leader(ctx)
			assert.NoError(t, err, "%q", key)
			assert.Equal(t, election.Leader{Owner: "a", Term: election.Term(ctx)}, l, "%q", key)
			return seen
		})
		require.ErrorIs(t, err, seen, "%q", key)
	}
}
