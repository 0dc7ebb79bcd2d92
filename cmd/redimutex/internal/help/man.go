package help

import (
	"fmt"
	"io"
	"strings"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

func man(all func() []*cli.Command) *cli.Command {
	return &cli.Command{
		Name: "man", Summary: "print the manual page",
		About: []cli.Block{cli.Para(`Prints the manual page redimutex(1), which has the help of all commands, for man(1) and for
			those that make packages.`)},
		Notes: []cli.Section{
			{Title: "EXAMPLES", Blocks: []cli.Block{
				cli.Example("", "redimutex man | man -l -"),
				cli.Example("", "redimutex man >/usr/local/share/man/man1/redimutex.1"),
			}},
			cli.Ends(cli.Item("0", "printed"), cli.Item("2", "wrong usage"), cli.WriteFails),
		},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			io.WriteString(t.Out, manual(all(), moduleVersion())) //nolint:errcheck // the Output remembers it
			return cli.OK, nil
		},
	}
}

// manual writes the page in the man macros of roff, which are described in groff_man(7).
func manual(all []*cli.Command, version string) string {
	var p roff
	p.macro("TH", "REDIMUTEX", "1", "", "redimutex "+version, "User Commands")
	p.macro("nh")
	p.macro("nr", "HY", "0") // no hyphens in words, and no wide spaces: users copy this text
	p.macro("ad", "l")
	p.macro("SH", "NAME")
	p.line("redimutex \\- " + escape("a lock that all machines share that use the same Redis"))
	p.macro("SH", "SYNOPSIS")
	for i, c := range all {
		if i > 0 {
			p.macro("br")
		}
		p.synopsis(c)
	}
	p.macro("SH", "COMMANDS")
	for _, c := range all {
		p.item(cli.Item(c.Name, c.Summary))
	}
	for _, c := range all {
		p.command(c)
	}
	return p.String()
}

// A roff is a manual page under construction.
type roff struct{ strings.Builder }

// command writes the help of a command as a section.
func (p *roff) command(c *cli.Command) {
	p.macro("SH", "redimutex "+c.Name)
	p.synopsis(c)
	for _, s := range c.Sections() {
		if s.Title != "" {
			p.macro("SS", s.Title)
		}
		for _, b := range s.Blocks {
			p.block(b)
		}
	}
}

func (p *roff) block(b cli.Block) {
	if b.Term != "" {
		p.item(b)
		return
	}
	if b.Text != "" {
		p.macro("PP")
		p.paragraph(b.Text)
	}
	if b.Code != "" {
		p.macro("PP")
		p.macro("EX")
		p.text(b.Code)
		p.macro("EE")
	}
}

// synopsis writes the usage: the command in bold, and what follows it.
func (p *roff) synopsis(c *cli.Command) {
	name := "redimutex " + c.Name
	p.line(bold(name) + escape(strings.TrimPrefix(c.Usage(), name)))
}

// item writes a term and, below it or beside it, its meaning.
func (p *roff) item(b cli.Block) {
	if b.Deep {
		p.macro("RS")
	}
	p.macro("TP")
	var words []string
	for _, word := range strings.Split(b.Term, " ") {
		if strings.HasPrefix(word, "-") {
			words = append(words, bold(word))
		} else {
			words = append(words, escape(word))
		}
	}
	p.line(strings.Join(words, " "))
	p.paragraph(b.Text)
	if b.Deep {
		p.macro("RE")
	}
}

// macro writes a request, whose arguments may contain spaces.
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

// paragraph writes a text in one line, which roff breaks.
func (p *roff) paragraph(text string) { p.text(strings.Join(strings.Fields(text), " ")) }

// text writes lines that roff does not read as requests, whatever they begin with.
func (p *roff) text(lines string) {
	for line := range strings.Lines(lines) {
		p.line(escape(strings.TrimSuffix(line, "\n")))
	}
}

// line writes a line that is already escaped.
func (p *roff) line(s string) {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		p.WriteString(`\&`)
	}
	p.WriteString(s + "\n")
}

func bold(s string) string { return `\fB` + escape(s) + `\fR` }

// escape protects characters that roff would interpret or replace by typographic ones: a flag must stay correct when it is
// copied into a shell.
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
