package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

const manHelp = `Usage: redimutex man

Prints the manual page redimutex(1), which has the help of all commands, for
man(1) and for those who make packages.

EXAMPLES
  redimutex man | man -l -
  redimutex man >/usr/local/share/man/man1/redimutex.1

EXIT STATUS
  0  printed
  2  wrong usage
`

func manCommand(args []string, t terminal) int {
	words, err := parse(newFlags("man"), args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, manHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	if err == nil && len(words) > 0 {
		err = errors.New("it takes no arguments")
	}
	if err != nil {
		return usageError(t, "man", err)
	}
	info, _ := debug.ReadBuildInfo()
	io.WriteString(t.out, manual(commands(), moduleVersion(info))) //nolint:errcheck // nowhere to say so
	return exitOK
}

// manual writes the page in the man macros of roff, which are described in groff_man(7).
func manual(all []command, version string) string {
	var p roff
	p.macro("TH", "REDIMUTEX", "1", "", "redimutex "+version, "User Commands")
	p.macro("nh")
	p.macro("nr", "HY", "0") // no hyphens in words, and no wider spaces between them: both end up in what is copied
	p.macro("ad", "l")
	p.macro("SH", "NAME")
	p.line("redimutex \\- " + escape("a lock that all machines share which use the same Redis"))
	p.macro("SH", "SYNOPSIS")
	for i, c := range all {
		if c.summary == "" {
			continue
		}
		if i > 0 {
			p.macro("br")
		}
		usage, _ := blocks(c.help())
		p.synopsis(usage)
	}
	p.macro("SH", "COMMANDS")
	for _, c := range all {
		if c.summary != "" {
			p.item(0, c.name, c.summary)
		}
	}
	for _, c := range all {
		if c.summary != "" {
			p.command(c)
		}
	}
	return p.String()
}

// A roff is a page while it is written.
type roff struct{ strings.Builder }

// command writes the help of a command as a section of its own.
func (p *roff) command(c command) {
	p.macro("SH", "redimutex "+c.name)
	usage, list := blocks(c.help())
	p.synopsis(usage)
	for _, b := range list {
		switch b.kind {
		case heading:
			p.macro("SS", b.text)
		case item:
			p.item(b.depth/2-1, b.term, b.text)
		case example:
			p.macro("PP")
			p.macro("EX")
			p.text(b.text)
			p.macro("EE")
		case paragraph:
			p.macro("PP")
			p.text(b.text)
		}
	}
}

// synopsis writes lines of usage: the command bold, and below each other what follows it.
func (p *roff) synopsis(usage []string) {
	for i, line := range usage {
		if i > 0 {
			p.macro("br")
		}
		words := strings.SplitN(line, " ", 3)
		if words[0] != "redimutex" || len(words) < 2 {
			p.text(line)
			continue
		}
		p.line(bold(strings.Join(words[:2], " ")) + escape(strings.TrimPrefix(line, strings.Join(words[:2], " "))))
	}
}

// item writes a term and, below it or beside it, its meaning; deep inside other items.
func (p *roff) item(deep int, term, text string) {
	for range deep {
		p.macro("RS")
	}
	p.macro("TP")
	var words []string
	for _, word := range strings.Split(term, " ") {
		if strings.HasPrefix(word, "-") {
			words = append(words, bold(word))
		} else {
			words = append(words, escape(word))
		}
	}
	p.line(strings.Join(words, " "))
	p.text(text)
	for range deep {
		p.macro("RE")
	}
}

// macro writes a request, with arguments that may have spaces.
func (p *roff) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, a := range args {
		a = strings.ReplaceAll(escape(a), `"`, `\(dq`)
		if a == "" || strings.Contains(a, " ") {
			a = `"` + a + `"`
		}
		p.WriteString(" " + a)
	}
	p.WriteByte('\n')
}

// text writes lines that are no requests, whatever they begin with.
func (p *roff) text(lines string) {
	for line := range strings.Lines(lines) {
		p.line(escape(strings.TrimSuffix(line, "\n")))
	}
}

// line writes what is escaped already.
func (p *roff) line(s string) {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		p.WriteString(`\&`)
	}
	p.WriteString(s + "\n")
}

func bold(s string) string { return `\fB` + escape(s) + `\fR` }

// escape keeps characters as they are, where roff would take them for its own or make typography of
// them: a flag has to survive being copied into a shell.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if short, ok := roffEscapes[r]; ok {
			b.WriteString(short)
		} else if r < 128 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

var roffEscapes = map[rune]string{
	'\\': `\e`, '-': `\-`, '~': `\(ti`, '^': `\(ha`, '\'': `\(aq`, '`': `\(ga`,
}
