// Package bounds_test holds every verb to its bound: whatever a server does, and whatever pool stands
// between, a call returns in time.
package bounds_test

import (
	"io"
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // retries log, and that is no news here
	os.Exit(m.Run())
}
