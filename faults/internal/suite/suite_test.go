package suite

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestTestsOfTheLibraryAreRunAndCounted(t *testing.T) {
	redistest.Differs(t, "can't be named to the tests that the row runs")
	r, err := play(t.Context(), evidence.Setup{}, redistest.Builds()[:1], "TestATargetDoesNotShowItsPassword", "./internal/redisurl")
	require.NoError(t, err)
	assert.True(t, r.OK(), r.Figures)
	assert.Positive(t, r.Figures[0].Tried)
	none, err := play(t.Context(), evidence.Setup{}, redistest.Builds()[:1], "TestThatIsNotThere", "./internal/redisurl")
	require.NoError(t, err)
	assert.False(t, none.OK(), "nothing was shown")
}

func TestATestThatFailsIsFound(t *testing.T) {
	lines := []string{
		`{"Action":"run","Package":"p","Test":"TestA"}`, `{"Action":"run","Package":"p","Test":"TestA/one"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/one"}`, `{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: needs TLS\n"}`, `{"Action":"skip","Package":"p","Test":"TestB"}`,
	}
	c := read(strings.NewReader(strings.Join(lines, "\n")))
	assert.Equal(t, 1, c.passed)
	assert.Equal(t, []string{"TestB was left out: b_test.go:1: needs TLS"}, c.skipped)
	assert.True(t, c.figure("x", nil).OK())
	assert.False(t, c.figure("x", errors.New("exit status 2")).OK(), "it was not compiled")
	c = read(strings.NewReader(strings.Join(append(lines, `{"Action":"fail","Package":"p","Test":"TestC"}`), "\n")))
	assert.False(t, c.figure("x", errors.New("exit status 1")).OK())
}
