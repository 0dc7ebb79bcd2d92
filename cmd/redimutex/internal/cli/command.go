// Package cli is the common part of all verbs of redimutex: how a verb declares its flags, operands and help, how these are
// parsed and printed, and how it ends.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Exit statuses that are not those of a child process, after sysexits(3) and the shell.
const (
	OK          = 0
	Failure     = 1
	UsageError  = 2
	Unavailable = 69  // no server could be reached
	WriteError  = 74  // the output could not be written
	CannotRun   = 126 // the command exists and can't be run
	NotFound    = 127 // there is no such command
)

// A Command is one of the verbs of redimutex. Its flags, operands and help are declared only here. Parsing, help, manual page
// and completion are made from it.
type Command struct {
	Name    string
	Summary string   // one line; "": internal, and in no list
	Args    string   // what follows the flags in the usage; "": nothing may follow
	Keys    int      // how many of the operands are keys of locks; -1: all
	Words   []string // the words that an operand may be
	Runs    bool     // a command line follows --

	About []Block
	Flags []*Flag
	Notes []Section

	Misused int // exit status of wrong usage; 0: UsageError

	// Run returns the exit status, or an error about usage.
	Run func(t *Terminal, in *Input) (int, error)
}

// Input is the operands behind the verb, without the flags.
type Input struct {
	Words  []string // in front of --; if the verb runs no command, those behind -- too
	Behind []string // behind --
}

// A Flag is a flag of a command.
type Flag struct {
	Names []string // without their dashes
	Arg   string   // the name of its value; "": it is a switch
	Text  string
	Value Value
}

// Flag returns the flag that word names, or nil. The word may have one dash or two, and a value behind =.
func (c *Command) Flag(word string) *Flag {
	name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	if name == word {
		return nil
	}
	name, _, _ = strings.Cut(name, "=")
	for _, f := range c.Flags {
		if slices.Contains(f.Names, name) {
			return f
		}
	}
	return nil
}

// Find returns the command of that name, or nil.
func Find(all []*Command, name string) *Command {
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Listed returns the commands that are meant for people.
func Listed(all []*Command) []*Command {
	return slices.DeleteFunc(slices.Clone(all), func(c *Command) bool { return c.Summary == "" })
}

// Dispatch runs the command named by the first of args. It returns the exit status.
func Dispatch(all []*Command, args []string, t *Terminal) int {
	status := dispatch(all, args, t)
	if err := t.Out.Failed(); err != nil {
		t.Warn("can't write the output: %s", reason(err))
		return WriteError
	}
	return status
}

func dispatch(all []*Command, args []string, t *Terminal) int {
	if len(args) == 0 {
		Overview(t.Err, all)
		return UsageError
	}
	name := args[0]
	switch name {
	case "-h", "--h", "-help", "--help":
		name = "help"
	case "-v", "--v", "-V", "--V", "-version", "--version":
		name = "version"
	}
	c := Find(all, name)
	if c == nil {
		t.Warn("%s", Unknown(all, name))
		return UsageError
	}
	return c.dispatch(args[1:], t)
}

// Unknown returns an error that says that there is no such command, and which one may have been meant.
func Unknown(all []*Command, name string) error {
	if strings.Contains(name, "://") {
		return errors.New("there is a URL in the place of the command; write redimutex COMMAND -redis URL")
	}
	var names []string
	for _, c := range Listed(all) {
		names = append(names, c.Name)
	}
	if near := nearest(name, names); near != "" {
		return fmt.Errorf("there is no command %q; did you mean %s?", name, near)
	}
	return fmt.Errorf("there is no command %q; see redimutex -h", name)
}

func (c *Command) dispatch(args []string, t *Terminal) int {
	in, err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		c.Help(t.Out)
		return OK
	}
	status := 0
	if err == nil {
		status, err = c.Run(t, in)
	}
	if err == nil {
		return status
	}
	if errors.As(err, &t.ended) {
		return t.ended.Status()
	}
	fmt.Fprintf(t.Err, "redimutex %s: %s (redimutex %s -h tells more)\n", c.Name, Printable(urlSecret.ReplaceAllString(err.Error(), "://***@")), c.Name)
	if c.Misused != 0 {
		return c.Misused
	}
	return UsageError
}

// reason returns an error without the name of the file, which this program chose.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
