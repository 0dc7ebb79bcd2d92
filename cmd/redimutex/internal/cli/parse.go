package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// parse reads flags before, between and behind the operands, up to --. As in getopt(3), a -- in front of all operands ends
// only the flags if the next word begins with a dash, which no command does. Another -- then ends the operands.
func (c *Command) parse(args []string) (*Input, error) {
	in := new(Input)
	left, dashes := args, slices.Index(args, "--")
	if dashes >= 0 {
		left, in.Behind = args[:dashes], args[dashes+1:]
	}
	fs := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, f := range c.Flags {
		for _, name := range f.Names {
			if f.Arg == "" {
				fs.BoolFunc(name, "", f.Value.Set)
			} else {
				fs.Func(name, "", f.Value.Set)
			}
		}
	}
	err := in.read(fs, left)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case c.Runs && dashes < 0:
		return nil, c.withoutDashes(left, err)
	case err != nil:
		return nil, c.explain(err)
	}
	switch {
	case !c.Runs:
		in.Words = append(in.Words, in.Behind...)
	case len(in.Words) == 0 && len(in.Behind) > 0 && strings.HasPrefix(in.Behind[0], "-"):
		if end := slices.Index(in.Behind, "--"); end >= 0 {
			in.Words, in.Behind = in.Behind[:end], in.Behind[end+1:]
		}
	}
	switch {
	case c.Args != "" || len(in.Words) == 0:
	case c.Flag("-redis") != nil:
		return nil, errors.New("it takes no arguments but flags; a server is given by -redis URL")
	default:
		return nil, errors.New("it takes no arguments")
	}
	return in, nil
}

func (in *Input) read(fs *flag.FlagSet, args []string) error {
	for {
		if err := fs.Parse(args); err != nil {
			return err
		}
		if args = fs.Args(); len(args) == 0 {
			return nil
		}
		in.Words, args = append(in.Words, args[0]), args[1:]
	}
}

const unknownFlag = "flag provided but not defined: -"

// explain replaces the error of package flag. If a flag is unknown, it says which one may have been meant.
func (c *Command) explain(err error) error {
	name, ok := strings.CutPrefix(err.Error(), unknownFlag)
	switch {
	case ok && strings.Contains(name, "://"):
		return errors.New("there is a URL in the place of a flag; write -redis URL")
	case ok:
	case strings.Contains(err.Error(), "://"): // the URL of a server may have a password in it
		return errors.New("there is a URL in the place of the value of a flag")
	default:
		return err
	}
	var names []string
	for _, f := range c.Flags {
		names = append(names, f.Names...)
	}
	if near := nearest(name, names); near != "" {
		return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, near)
	}
	hint := ""
	if c.Keys != 0 {
		hint = "; a KEY that begins with a dash stands behind a --"
	}
	return fmt.Errorf("there is no flag -%s%s", name, hint)
}

// withoutDashes says that -- is missing, and how the intended line begins: the second operand must be where the command
// begins. The words behind that belong to the command, and may be secret.
func (c *Command) withoutDashes(args []string, wrong error) error {
	words, args := 0, slices.Clone(args)
	for i := 0; i < len(args); i++ {
		if f := c.Flag(args[i]); f != nil {
			name, _, joined := strings.Cut(args[i], "=")
			if f.Arg != "" && !joined {
				i++
			}
			switch {
			case f.Arg != "URL" || i == len(args): // otherwise a password may be in it, whatever it looks like
			case joined:
				args[i] = name + "=URL"
			default:
				args[i] = "URL"
			}
			continue
		}
		if len(args[i]) > 1 && args[i][0] == '-' { // no command begins with a dash
			return c.explain(wrong)
		}
		if words++; words < 2 {
			continue
		}
		line := "redimutex " + c.Name + " " + Quote(args[:i]) + " -- " + Quote(args[i:i+1])
		if i+1 < len(args) {
			line += " ..."
		}
		if Mask(line) != line {
			break // a secret is not repeated
		}
		return fmt.Errorf("there is no -- in front of the command; write: %s", line)
	}
	return fmt.Errorf("there is no --; write redimutex %s %s", c.Name, c.Args)
}

// These match what looks like a password in the arguments of a command: the user part of a URL, and the value after a word
// such as password=.
var (
	urlSecret  = regexp.MustCompile(`(?s)://.*@`)
	wordSecret = regexp.MustCompile(`(?is)((?:pass(?:wd|word|phrase)?|secret|token|api-?_?key|credentials?)["']?[=:]).+`)
)

// Mask hides what looks like a password in one argument. In doubt it hides more.
func Mask(s string) string {
	return wordSecret.ReplaceAllString(urlSecret.ReplaceAllString(s, "://***@"), "${1}***")
}

var plainWord = regexp.MustCompile(`^[-\w@%+=:,./]+$`)

// Quote writes words so that a shell reads them unchanged.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if !plainWord.MatchString(w) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// nearest returns the word that the user may have meant, or "".
func nearest(typed string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		if d := distance(typed, w); d < least && d < len(w) && d < max(len(typed), 2) {
			best, least = w, d
		}
	}
	for _, w := range words {
		if best == "" && len(typed) > 1 && strings.HasPrefix(w, typed) {
			best = w
		}
	}
	return best
}

// distance returns how many characters must be changed, added or removed to turn a into b.
func distance(a, b string) int {
	if len(a) > 32 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(before+1, row[j]+1, change)
		}
	}
	return row[len(b)]
}
