package help

import (
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

//go:embed completion
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

func completion() *cli.Command {
	return &cli.Command{
		Name: "completion", Summary: "print what completes the words of redimutex in a shell",
		Args: strings.Join(shells, "|"), Words: shells,
		About: []cli.Block{cli.Para(`Prints a script that has the shell complete commands, flags, their values, the KEYs of
			locks and, after "run KEY --", the command. Keys are asked from the servers that -redis on the line or the
			environment name, for half a second at most.`)},
		Notes: []cli.Section{
			{Title: "EXAMPLES", Blocks: []cli.Block{
				cli.Example("In ~/.bashrc:", "source <(redimutex completion bash)"),
				cli.Example("In ~/.zshrc, after compinit:", "source <(redimutex completion zsh)"),
				cli.Example("In fish, once:", "redimutex completion fish >~/.config/fish/completions/redimutex.fish"),
			}},
			cli.Ends(cli.Item("0", "printed"), cli.Item("2", "wrong usage"), cli.WriteFails),
		},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			script, err := completionScript(in.Words)
			if err == nil {
				t.Out.Write(script) //nolint:errcheck // the Output remembers it
			}
			return cli.OK, err
		},
	}
}

func completionScript(words []string) ([]byte, error) {
	if len(words) != 1 {
		return nil, errors.New("name one shell: " + strings.Join(shells, ", "))
	}
	if cli.IsURL(words[0]) {
		return nil, errors.New("there is a URL in the place of the shell: " + strings.Join(shells, ", "))
	}
	script, err := completionScripts.ReadFile("completion/redimutex." + words[0])
	if err != nil {
		return nil, fmt.Errorf("there is no completion for %q; there is one for %s", words[0], strings.Join(shells, ", "))
	}
	return script, nil
}

// complete is called by the completion scripts. It gets the line up to the cursor. It prints what kind of word could follow,
// and the words that it knows, each with its meaning behind a tab. It never prints an error, which would end up in the middle
// of the line.
func complete(all func() []*cli.Command) *cli.Command {
	return &cli.Command{Name: "complete", Args: "LINE", Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
		if len(in.Words) != 1 {
			return cli.UsageError, nil
		}
		kind, list := completions(all(), splitLine(in.Words[0]))
		fmt.Fprintln(t.Out, kind)
		for _, c := range list {
			if cli.Printable(c.word) != c.word {
				continue // a key that the shell would not leave unchanged
			}
			fmt.Fprintf(t.Out, "%s\t%s\n", c.word, cli.Printable(c.text))
		}
		return cli.OK, nil
	}}
}

// splitLine splits a command line as a shell would, but runs nothing in it. The last word is the one that is being typed. It
// is empty behind a space.
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
