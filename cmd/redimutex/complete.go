package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

const completionHelp = `Usage: redimutex completion bash|zsh|fish

Prints a script that has the shell complete commands, flags, the KEYs of locks
and, after "run KEY --", the command. Keys are asked from the servers that
-redis on the line or the environment name, for half a second at most.

EXAMPLES
  In ~/.bashrc:
    source <(redimutex completion bash)
  In ~/.zshrc, after compinit:
    source <(redimutex completion zsh)
  In fish, once:
    redimutex completion fish >~/.config/fish/completions/redimutex.fish

EXIT STATUS
  0  printed
  2  wrong usage
`

//go:embed completion
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

func completionCommand(args []string, t terminal) int {
	words, err := parse(newFlags("completion"), args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, completionHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	var script []byte
	if err == nil {
		script, err = completionScript(words)
	}
	if err != nil {
		return usageError(t, "completion", err)
	}
	t.out.Write(script) //nolint:errcheck // nowhere to say so
	return exitOK
}

func completionScript(words []string) ([]byte, error) {
	if len(words) != 1 {
		return nil, errors.New("name one shell: " + strings.Join(shells, ", "))
	}
	script, err := completionScripts.ReadFile("completion/redimutex." + words[0])
	if err != nil {
		return nil, fmt.Errorf("there is no completion for %q; there is one for %s", words[0], strings.Join(shells, ", "))
	}
	return script, nil
}

// completeCommand is what the scripts call. It gets the line up to the cursor, and prints what kind of
// word could follow, and those words that it knows, each with its meaning behind a tab. It never says
// that anything is wrong: that would end up in the middle of the line.
func completeCommand(args []string, t terminal) int {
	if len(args) != 1 {
		return exitUsage
	}
	kind, list := completions(splitLine(args[0]))
	fmt.Fprintln(t.out, kind)
	for _, c := range list {
		if printable(c.word) != c.word {
			continue // a key that would not survive the shell
		}
		fmt.Fprintf(t.out, "%s\t%s\n", c.word, printable(c.text))
	}
	return exitOK
}

// splitLine takes a command line apart as a shell would, and does not run anything in it. The last word
// is the one that is being written. It is empty behind a space.
func splitLine(line string) (words []string) {
	var word strings.Builder
	var quote rune
	started, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' && r != '$' && r != '`' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, started = true, true
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	return append(words, word.String())
}
