package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// print shows the diagnosis to people.
func (d *diagnosis) print(w io.Writer) {
	for _, v := range d.Servers {
		fmt.Fprintln(w, v)
		d.printFindings(w, v.Address)
	}
	if len(d.Servers) > 1 {
		fmt.Fprintln(w, "all together:")
		d.printFindings(w, "")
	}
	switch d.Status {
	case statusFine:
		fmt.Fprintln(w, "Fine.")
	case statusWarnings:
		fmt.Fprintf(w, "Usable: %s, %s.\n", d.count(levelError), d.count(levelWarning))
	default:
		ignored := ""
		if n := len(d.Ignored); n > 0 {
			ignored = ", and " + cli.Count(n, "error") + " that -ignore hides"
		}
		fmt.Fprintf(w, "Unusable for locks: %s, %s%s.\n", d.count(levelError), d.count(levelWarning), ignored)
	}
}

// String returns the line about a server.
func (n nodeInfo) String() string {
	var words []string
	for _, s := range []string{n.Software, n.Role} {
		if s != "" {
			words = append(words, s)
		}
	}
	if n.Ping > 0 {
		words = append(words, fmt.Sprintf("PING %g ms (worst %g)", n.Ping, n.WorstPing))
	}
	if n.ClockOffset != nil {
		words = append(words, fmt.Sprintf("clock %+g ms", *n.ClockOffset))
	}
	if len(n.Tried) > 0 {
		words = append(words, "works: "+strings.Join(n.Tried, ", "))
	}
	if len(words) == 0 {
		words = append(words, "not checked any further")
	}
	return n.Name + ": " + strings.Join(words, ", ")
}

// printFindings prints the findings about a server.
func (d *diagnosis) printFindings(w io.Writer, server string) {
	nothing := true
	for _, f := range d.Findings {
		if f.Server != server {
			continue
		}
		nothing = false
		fmt.Fprintf(w, "  %-7s %s: %s\n", f.Level, f.ID, f.What)
		printWrapped(w, "Why", f.Why)
		printWrapped(w, "Do", f.Do)
	}
	for _, f := range d.Ignored {
		if f.Server == server {
			nothing = false
			fmt.Fprintf(w, "  ignored %s\n", f.ID)
		}
	}
	if nothing {
		fmt.Fprintln(w, "  OK")
	}
}

// printWrapped prints a text in lines that fit a terminal.
func printWrapped(w io.Writer, label, text string) {
	const indent = "          "
	if text != "" {
		cli.Wrap(w, fmt.Sprintf("%s%-5s", indent, label+":"), indent+"     ", text, 80)
	}
}

// count returns the number of findings of a level, in words.
func (d *diagnosis) count(l level) string {
	n := 0
	for _, f := range d.Findings {
		if f.Level == l {
			n++
		}
	}
	return cli.Count(n, string(l))
}
