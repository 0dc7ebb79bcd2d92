//go:build linux

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, args := range [][]string{
		{"list"},
		{"list", "-json"},
		{"show", "job"},
		{"show", "-json", "job"},
		{"watch", "job"},
		{"watch", "-json", "job"},
		{"break", "-yes", "job"},
		{"break", "-yes", "-json", "job"},
		{"doctor", "-need", "lock"},
		{"doctor", "-json", "-need", "lock"},
		{"demo"},
		{"version"},
		{"man"},
		{"completion", "bash"},
		{"complete", "redimutex "},
		{"help"},
		{"help", "run"},
		{"-h"},
		{"run", "-h"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		defer full.Close()
		s.Do("SET", "job", clitest.Token("web-1"), "PX", 600000)
		p := clitest.Prepare(t, s, args...)
		p.Cmd.Stdout = full
		p.Start()
		assert.Equal(t, cli.WriteError, p.Status(), args)
		assert.Equal(t, "redimutex: can't write the output: no space left on device\n", p.Err(), args)
	}
}
