// Package help has the verbs about other verbs: help, man, completion and version.
package help

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// Commands declares these verbs. all returns all verbs of the program, including these.
func Commands(all func() []*cli.Command) []*cli.Command {
	listed := func() []*cli.Command { return cli.Listed(all()) }
	return []*cli.Command{completion(), man(listed), version(), help(listed), complete(listed)}
}

func help(all func() []*cli.Command) *cli.Command {
	return &cli.Command{
		Name: "help", Summary: "tell about a command",
		Args:  "[COMMAND]",
		About: []cli.Block{cli.Para("Prints what redimutex COMMAND -h prints. Without COMMAND, it lists the commands.")},
		Notes: []cli.Section{cli.Ends(cli.Item("0", "printed"), cli.Item("2", "there is no such command"), cli.WriteFails)},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			switch len(in.Words) {
			case 0:
				cli.Overview(t.Out, all())
				return cli.OK, nil
			case 1:
				c := cli.Find(all(), in.Words[0])
				if c == nil {
					return 0, cli.Unknown(all(), in.Words[0])
				}
				c.Help(t.Out)
				return cli.OK, nil
			}
			return 0, fmt.Errorf("name one command; there are %d words", len(in.Words))
		},
	}
}

func version() *cli.Command {
	return &cli.Command{
		Name: "version", Summary: "print the version",
		About: []cli.Block{cli.Para("Prints the version of redimutex, of Go, and the system it was built for. redimutex -v does the same.")},
		Notes: []cli.Section{cli.Ends(cli.Item("0", "printed"), cli.Item("2", "wrong usage"), cli.WriteFails)},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			fmt.Fprintf(t.Out, "redimutex %s, %s, %s/%s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return cli.OK, nil
		},
	}
}

// moduleVersion returns the version of the module, or the commit of a build from a working tree.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
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
