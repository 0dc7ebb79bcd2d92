package versions

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestEveryFeatureWorksOnEveryServerAtHand(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH")
	}
	r, err := run(t.Context(), evidence.Setup{})
	require.NoError(t, err)
	for _, f := range r.Figures {
		t.Log(f)
		assert.True(t, f.OK(), f.String())
	}
	for _, n := range r.Notes {
		t.Log(n)
	}
	assert.Len(t, r.Figures, len(redistest.Builds()))
}

// A feature that fails is told from one that the server lacks.
func TestAFeatureThatFailsIsNotOneThatIsLacking(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH")
	}
	b := redistest.Builds()[0]
	broken := &feature{name: "broken", use: func(testing.TB, redistest.Build) error { return errors.New("it does not work") }}
	err := broken.try(t.Context(), b)
	assert.ErrorContains(t, err, "it does not work")
	assert.False(t, errors.As(err, new(lacking)))
	fatal := &feature{name: "fatal", use: func(t testing.TB, _ redistest.Build) error { t.Fatal("it can't be tried"); return nil }}
	assert.ErrorContains(t, fatal.try(t.Context(), b), "it can't be tried")
}
