//go:build unix

package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// Whatever the arguments, dispatch returns a status, prints something unless it succeeds, and never prints the password. No
// server answers at the only address that it gets.
func FuzzArguments(f *testing.F) {
	for _, args := range []string{
		"", "run", "run\njob", "run\n-n\njob\n--\ntrue", "run\n-w\n1e400\njob\n--\ntrue", "run\n-ttl=0\njob\n--", "run\n-E\n\xff\n\x00\n--\n--",
		"show\n-json\njob", "show\n-redis", "list\n-limit\n-1", "list\n-sort\nage\n[", "break\n-yes\njob", "doctor\n-ttl\n9999999999h", "version\nx",
		"completion\nbash", "man\n--", "complete\nbash\n9\nredimutex run ", "-h", "help", "run\n-owner\n\x1b[0m\njob\n--\ntrue", "demo\n-h", "watch\n-h",
	} {
		f.Add(args)
	}
	f.Setenv(servers.EnvURL, "redis://me:hunter2@127.0.0.1:1")
	f.Setenv(servers.EnvAppURL, "redis://me:hunter2@127.0.0.1:1")
	nothing, err := os.Open(os.DevNull)
	require.NoError(f, err)
	f.Cleanup(func() { nothing.Close() })
	f.Fuzz(func(t *testing.T, line string) {
		args := harmless(strings.Split(line, "\n"))
		if args == nil {
			t.Skip()
		}
		var out, stderr bytes.Buffer
		status := cli.Dispatch(commands(), args, &cli.Terminal{In: nothing, Out: cli.NewOutput(&out), Err: &stderr})
		if status < 0 || status > 255 {
			t.Errorf("%q: status %d", args, status)
		}
		if status != 0 && status != cli.Failure && out.Len()+stderr.Len() == 0 && args[0] != "complete" {
			t.Errorf("%q: status %d without a word", args, status)
		}
		if said := out.String() + stderr.String(); strings.Contains(said, "hunter2") {
			t.Errorf("%q: it says %q", args, said)
		}
	})
}

// harmless removes arguments that would cause traffic to other addresses, read files or wait for ever. It returns nil if
// nothing is left.
func harmless(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if verb := args[0]; (verb == "demo" || verb == "watch") && !slices.Equal(args[1:], []string{"-h"}) {
		return nil // they run until they are ended
	}
	for i, a := range args {
		switch {
		case strings.Contains(a, "hunter2"):
			return nil
		case strings.Contains(a, "redis") && i > 0:
			args[i] = "-redis=redis://me:hunter2@127.0.0.1:1"
		case strings.Contains(a, "/"), strings.HasPrefix(a, "@"), strings.Contains(a, "=@"):
			return nil
		}
	}
	if dashes := slices.Index(args, "--"); args[0] == "run" && dashes >= 0 {
		return append(args[:dashes:dashes], "--", "true") // no other command ever runs
	}
	return args
}
