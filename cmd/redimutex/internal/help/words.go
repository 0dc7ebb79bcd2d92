package help

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// The kinds of completions for the shell.
const (
	kindWords   = "words"   // the words that are listed
	kindCommand = "command" // another command line, behind --
)

// A candidate is a word that could stand on the line, and its meaning.
type candidate struct{ word, text string }

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// completions returns what the last word of a line could become.
func completions(all []*cli.Command, words []string) (kind string, list []candidate) {
	for len(words) > 1 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) < 2 {
		return kindWords, nil
	}
	words = words[1:] // redimutex
	last := words[len(words)-1]
	if len(words) == 1 || words[0] == "help" && len(words) == 2 && !strings.HasPrefix(last, "-") {
		for _, c := range all {
			list = append(list, candidate{c.Name, c.Summary})
		}
		if len(words) == 1 {
			list = append(list, candidate{"-h", "list the commands"})
		}
		return kindWords, only(list, last)
	}
	if c := cli.Find(all, words[0]); c != nil {
		return newPosition(c, words[1:]).completions()
	}
	return kindWords, nil
}

// only returns the candidates that begin with word. Flags are offered only to a user who has begun one.
func only(list []candidate, word string) (fit []candidate) {
	for _, c := range list {
		if strings.HasPrefix(c.word, word) && (word != "" || !strings.HasPrefix(c.word, "-") || c.word == "--") {
			fit = append(fit, c)
		}
	}
	return fit
}

// A position is a place in the arguments of a command.
type position struct {
	*cli.Command
	word     string       // the word that is being typed
	before   string       // -flag= in front of it
	takes    *cli.Flag    // the flag whose value the word is; nil: it is no value
	operands []string     // the operands before the word
	urls     servers.URLs // values of -redis so far
	dashes   bool         // the word is behind --
}

func newPosition(c *cli.Command, words []string) *position {
	p := &position{Command: c, word: words[len(words)-1]}
	for _, word := range words[:len(words)-1] {
		f := c.Flag(word)
		name, value, assigned := strings.Cut(word, "=")
		switch {
		case p.dashes:
		case p.takes != nil:
			p.note(p.takes, word)
			p.takes = nil
		case f != nil && assigned:
			p.note(f, value)
		case f != nil && f.Arg != "":
			p.takes = f
		case word == "--":
			p.dashes = true
		case f == nil && !strings.HasPrefix(name, "-"):
			p.operands = append(p.operands, word)
		}
	}
	if f := c.Flag(p.word); f != nil && f.Arg != "" && p.takes == nil && !p.dashes {
		if name, value, assigned := strings.Cut(p.word, "="); assigned {
			p.takes, p.before, p.word = f, name+"=", value
		}
	}
	return p
}

// note keeps a value that is the URL of a server.
func (p *position) note(f *cli.Flag, value string) {
	if f.Arg == "URL" {
		p.urls = append(p.urls, value)
	}
}

func (p *position) completions() (kind string, list []candidate) {
	switch {
	case p.dashes && p.Runs:
		return kindCommand, nil
	case p.takes != nil:
		return kindWords, p.values()
	case p.dashes:
		return kindWords, nil
	case strings.HasPrefix(p.word, "-"):
		return kindWords, only(p.flagNames(), p.word)
	case len(p.operands) == 0 || p.Keys < 0:
		return kindWords, p.operandWords()
	}
	return kindWords, nil
}

// values returns possible values of a flag.
func (p *position) values() (list []candidate) {
	if complete := p.takes.Value.Complete; complete != nil {
		for _, value := range complete(p.word) {
			list = append(list, candidate{p.before + value, ""})
		}
	}
	return list
}

// flagNames returns the flags, with as many dashes as the word has.
func (p *position) flagNames() (list []candidate) {
	dash := "-"
	if strings.HasPrefix(p.word, "--") {
		dash = "--"
	}
	for _, f := range p.Flags {
		for _, name := range f.Names {
			list = append(list, candidate{dash + name, sentence(f.Text)})
		}
	}
	list = append(list, candidate{dash + "h", "tell more"})
	if p.Runs {
		list = append(list, candidate{"--", "the command follows"})
	}
	return list
}

// operandWords returns possible operands.
func (p *position) operandWords() (list []candidate) {
	if p.Keys != 0 {
		for _, key := range lockKeys(p.urls, p.word) {
			if !slices.Contains(p.operands, key) {
				list = append(list, candidate{key, ""})
			}
		}
	}
	if p.Runs && len(p.operands) > 0 {
		list = append(list, candidate{"--", "the command follows"})
	}
	for _, word := range p.Words {
		list = append(list, candidate{word, ""})
	}
	return only(list, p.word)
}

// sentence returns the first sentence of a text, without its full stop.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, end := range []string{". ", ": ", "; "} {
		text, _, _ = strings.Cut(text, end)
	}
	return strings.TrimSuffix(text, ".")
}

const (
	keysPatience = 500 * time.Millisecond // how long a user who has pressed TAB may have to wait
	keysMost     = 200                    // a shell can't usefully show more
)

// lockKeys returns the locks whose keys begin with start. It reports no errors. When its time is over it returns what it has
// found: a server may have millions of keys, or not answer.
func lockKeys(given servers.URLs, start string) []string {
	nodes, err := servers.Find(given, keysPatience)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keysPatience)
	defer cancel()
	var mu sync.Mutex // of keys
	var keys []string
	var each sync.WaitGroup
	for _, n := range nodes {
		each.Go(func() {
			search := inspect.Find(n.Server, literal(start)+"*", false)
			for !search.Done {
				some, err := search.Next(ctx, keysPatience)
				if err != nil {
					return
				}
				mu.Lock()
				if keys = append(keys, some...); len(keys) >= keysMost {
					cancel() // the others need not go on
				}
				mu.Unlock()
			}
		})
	}
	each.Wait()
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), keysMost)]
}

// literal returns a pattern of SCAN that matches only the text itself.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
