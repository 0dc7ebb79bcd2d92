// Package redlock_test holds the promise over several servers of which some are slow, silent or dead.
package redlock_test

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
