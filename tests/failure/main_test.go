// Package failure_test holds the promise over servers that refuse, are demoted, forget or quote what they
// were sent.
package failure_test

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
