// Redimutex is the command line of the lock: flock(1) across machines, and a look at who holds what.
package main

import (
	"fmt"
	"io"
	"os"
)

// A terminal is where a command reads and writes.
type terminal struct {
	in       *os.File
	out, err io.Writer
}

// A command is one of the verbs of redimutex. run gets what follows the verb, and returns the exit
// status. One without a summary is for our own scripts, and in no list.
type command struct {
	name, summary string
	run           func(args []string, t terminal) int
}

func commands() []command {
	return []command{
		{"run", "run a command while holding a lock", runCommand},
		{"list", "list the locks on the servers", listCommand},
		{"show", "show who holds a lock", showCommand},
		{"watch", "watch what happens to locks", watchCommand},
		{"break", "break a lock that is stuck", breakCommand},
		{"doctor", "check whether the servers are fit for locks", doctorCommand},
		{"demo", "see processes race, without a lock and with it", demoCommand},
		{"completion", "print what completes the words of redimutex in a shell", completionCommand},
		{"man", "print the manual page", manCommand},
		{"version", "print the version", versionCommand},
		{"complete", "", completeCommand},
	}
}

// Exit statuses that are not a child's, after sysexits(3) and the shell.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69  // no server could be reached
	exitCannotRun   = 126 // the command exists and can't be run
	exitNotFound    = 127 // there is no such command
)

func main() {
	os.Exit(dispatch(os.Args[1:], terminal{os.Stdin, os.Stdout, os.Stderr}))
}

func dispatch(args []string, t terminal) int {
	if len(args) == 0 {
		usage(t.err)
		return exitUsage
	}
	if args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help" {
		usage(t.out)
		return exitOK
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], t)
		}
	}
	fmt.Fprintf(t.err, "redimutex: there is no command %q; see redimutex -h\n", args[0])
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: redimutex COMMAND [ARGUMENTS]\n\n")
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
		}
	}
	fmt.Fprint(w, "\nredimutex COMMAND -h tells more.\n")
}
