package secrets

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNoSecretInAnyOutput(t *testing.T) {
	if !redistest.Installed() {
		t.Skip("needs a real redis-server or valkey-server on the PATH: miniredis has neither users nor TLS")
	}
	row := Rows()[0]
	r, err := row.Run(context.Background(), evidence.Setup{Seed: 1, Time: row.Short, Dir: t.TempDir()})
	require.NoError(t, err)
	for _, n := range r.Notes {
		t.Log(n)
	}
	for _, f := range r.Figures {
		t.Log(f)
		assert.NotContains(t, f.String(), password)
		assert.Positive(t, f.Tried)
	}
	assert.True(t, r.OK())
}

// A library that repeats the URL is found, one that accepts anything as well, and what is said about
// them does not have the password in it either.
func TestLeakIsFound(t *testing.T) {
	for name, leaky := range map[string]library{
		"all of it":   func(rawURL string) error { return errors.New("can't parse " + rawURL) },
		"half of it":  func(string) error { return errors.New("bad port " + password[7:]) },
		"no refusal":  func(string) error { return nil },
		"a long tale": func(string) error { return errors.New("x" + password + "x") },
	} {
		var y tally
		parse(&y, leaky, true)
		f := y.figure(evidence.Ours, true)
		assert.Zero(t, f.Held, name)
		assert.False(t, f.OK(), name)
		assert.NotContains(t, f.Worst, password, name)
	}
}
