package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

const versionHelp = `Usage: redimutex version

Prints the version of redimutex, of Go, and the system it was built for.

EXIT STATUS
  0  always; 2 with arguments
`

func versionCommand(args []string, t terminal) int {
	words, err := parse(newFlags("version"), args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, versionHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	if err == nil && len(words) > 0 {
		err = errors.New("it takes no arguments")
	}
	if err != nil {
		return usageError(t, "version", err)
	}
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintf(t.out, "redimutex %s, %s, %s/%s\n", moduleVersion(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

// moduleVersion is the version of the module, or the commit of a build from a working tree.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil {
		return "of unknown version"
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "(devel)"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value
			}
		}
	}
	return version
}
