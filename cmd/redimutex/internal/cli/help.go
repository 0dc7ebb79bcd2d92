package cli

import (
	"fmt"
	"io"
	"strings"
)

// A Block is a piece of a help text.
type Block struct {
	Term string // the term that is explained; "": the block is a paragraph
	Text string
	Code string // lines that stay unchanged, below the text
	Deep bool   // the item belongs to the paragraph before it
}

// Para returns a paragraph.
func Para(text string) Block { return Block{Text: text} }

// Item returns a term and its meaning.
func Item(term, text string) Block { return Block{Term: term, Text: text} }

// Sub returns an Item that belongs to the paragraph before it.
func Sub(term, text string) Block { return Block{Term: term, Text: text, Deep: true} }

// Example returns a command line below the text that explains it.
func Example(text, code string) Block { return Block{Text: text, Code: code} }

// A Section has a title.
type Section struct {
	Title  string
	Blocks []Block
}

// Ends returns the section about the exit statuses.
func Ends(items ...Block) Section { return Section{"EXIT STATUS", items} }

// WriteFails is the exit status that all verbs share that write to standard output.
var WriteFails = Item("74", "the output could not be written")

const timeHelp = "TIME is a number of seconds (5, 0.5) or has units (500ms, 1m30s)."

// Usage returns how the command is called.
func (c *Command) Usage() string {
	words := []string{"redimutex", c.Name}
	if len(c.Flags) > 0 {
		words = append(words, "[FLAGS]")
	}
	if c.Args != "" {
		words = append(words, c.Args)
	}
	return strings.Join(words, " ")
}

// Term returns the flag as its help names it.
func (f *Flag) Term() string {
	term := "-" + strings.Join(f.Names, ", -")
	if f.Arg != "" {
		term += " " + f.Arg
	}
	return term
}

// Sections returns the whole help of the command in order. A section without a title comes first.
func (c *Command) Sections() []Section {
	flags := Section{}
	timed := false
	for _, f := range c.Flags {
		flags.Blocks = append(flags.Blocks, Item(f.Term(), f.Text))
		timed = timed || f.Arg == "TIME"
	}
	all := []Section{{Blocks: c.About}}
	if len(flags.Blocks) > 0 {
		all = append(all, flags)
	}
	if timed {
		all = append(all, Section{Blocks: []Block{Para(timeHelp)}})
	}
	return append(all, c.Notes...)
}

const helpWidth = 80

// Help prints the help of the command.
func (c *Command) Help(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s\n", c.Usage())
	for _, s := range c.Sections() {
		fmt.Fprintln(w)
		indent := 0
		if s.Title != "" {
			fmt.Fprintln(w, s.Title)
			indent = 2
		}
		s.print(w, indent)
	}
}

func (s *Section) print(w io.Writer, indent int) {
	column := 0
	for _, b := range s.Blocks {
		if n := len(b.Term); n <= 16 || b.Deep {
			column = max(column, n)
		}
	}
	for i, b := range s.Blocks {
		switch {
		case b.Term != "":
			at := 2
			if b.Deep {
				at = 4
			}
			item(w, at, at+column+2, b)
		default:
			if i > 0 && (b.Code == "" || s.Blocks[i-1].Code == "") {
				fmt.Fprintln(w)
			}
			if b.Text != "" {
				Wrap(w, strings.Repeat(" ", indent), strings.Repeat(" ", indent), b.Text, helpWidth)
			}
			for line := range strings.Lines(b.Code) {
				fmt.Fprintln(w, strings.Repeat(" ", indent+2)+strings.TrimRight(line, "\n"))
			}
			if b.Text != "" && b.Code == "" && i+1 < len(s.Blocks) && s.Blocks[i+1].Term != "" && !s.Blocks[i+1].Deep {
				fmt.Fprintln(w)
			}
		}
	}
}

// item prints a term, and its text beside it or below it.
func item(w io.Writer, at, column int, b Block) {
	head, indent := strings.Repeat(" ", at)+b.Term, strings.Repeat(" ", column)
	if len(head)+2 > column {
		fmt.Fprintln(w, head)
		head = ""
	}
	Wrap(w, fmt.Sprintf("%-*s", column, head), indent, b.Text, helpWidth)
}

// Wrap prints a text in lines of at most width columns. The first line begins with head, the others with indent.
func Wrap(w io.Writer, head, indent, text string, width int) {
	line, begun := head, false
	for word := range strings.FieldsSeq(text) {
		if begun && len([]rune(line))+1+len([]rune(word)) > width {
			fmt.Fprintln(w, line)
			line, begun = indent, false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	fmt.Fprintln(w, line)
}

// Overview lists the commands.
func Overview(w io.Writer, all []*Command) {
	fmt.Fprint(w, "Usage: redimutex COMMAND [ARGUMENTS]\n\n")
	for _, c := range Listed(all) {
		fmt.Fprintf(w, "  %-10s %s\n", c.Name, c.Summary)
	}
	fmt.Fprint(w, "\nredimutex COMMAND -h tells more.\n")
}
