package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// newFlags returns a set of flags that leaves it to us what is printed.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// alias declares a flag under a short and a long name.
func alias(declare func(p *bool, name string, value bool, usage string), p *bool, names ...string) {
	for _, name := range names {
		declare(p, name, false, "")
	}
}

// parse reads flags that stand before, between and after the other words, which it returns.
func parse(f *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if args = f.Args(); len(args) == 0 {
			return words, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// usagef makes an error about usage.
func usagef(format string, args ...any) error { return fmt.Errorf(format, args...) }

// usageError prints what is wrong with the arguments of a verb.
func usageError(t terminal, verb string, err error) int {
	fmt.Fprintf(t.err, "redimutex %s: %s (redimutex %s -h tells more)\n", verb, printable(err.Error()), verb)
	return exitUsage
}

// cannotRun prints why the command can't be started, and returns the status that a shell would.
func cannotRun(t terminal, command string, err error) int {
	status := exitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = exitNotFound
	}
	var number syscall.Errno
	reason := err
	switch {
	case errors.As(err, &number):
		reason = number
	case errors.Is(err, exec.ErrNotFound):
		reason = errors.New("there is no such command in the folders of $PATH")
	}
	fmt.Fprintf(t.err, "redimutex: can't run %q: %s\n", command, printable(reason.Error()))
	return status
}

// seconds is a flag that is a time, as a Go duration or as a number of seconds.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }

var errDuration = errors.New("write seconds, such as 5 or 0.5, or a time with its unit, such as 500ms or 1m30s")

// Set implements flag.Value.
func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) {
			return errDuration
		}
		if math.Abs(n) > float64(math.MaxInt64/time.Second) {
			return errors.New("it is longer than 292 years")
		}
		d = time.Duration(n * float64(time.Second))
	}
	if d < 0 {
		return errors.New("it can't be negative")
	}
	*s = seconds(d)
	return nil
}

// exitStatus is a flag that is an exit status.
type exitStatus int

func (e *exitStatus) String() string { return strconv.Itoa(int(*e)) }

// Set implements flag.Value.
func (e *exitStatus) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 255 {
		return errors.New("write a number from 0 to 255")
	}
	*e = exitStatus(n)
	return nil
}

// printable keeps what others have written, such as the label of a holder or the words of a server,
// on one line and from playing tricks with the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// heldBy describes a holder.
func heldBy(owner string, left time.Duration) string {
	s := "held by an unknown owner"
	if owner != "" {
		s = "held by " + owner
	}
	if left < 0 {
		s += ", with a key that never expires"
	}
	return s
}
