package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What a shell is told to complete with.
const (
	kindWords   = "words"   // those that are listed
	kindFiles   = "files"   // names of files
	kindCommand = "command" // another command line, behind --
)

// A completion is a word that could stand on the line, and what it means.
type completion struct{ word, text string }

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// completions returns what the last word of a line could become.
func completions(words []string) (kind string, list []completion) {
	for len(words) > 1 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) < 2 {
		return kindWords, nil
	}
	words = words[1:] // redimutex
	last := words[len(words)-1]
	if len(words) == 1 {
		for _, c := range commands() {
			if c.summary != "" {
				list = append(list, completion{c.name, c.summary})
			}
		}
		return kindWords, only(append(list, completion{"-h", "list the commands"}), last)
	}
	for _, c := range commands() {
		if c.name == words[0] && c.summary != "" {
			return newPosition(c, words[1:]).completions()
		}
	}
	return kindWords, nil
}

// only returns those completions that begin as the word does. Flags are for who has begun one.
func only(list []completion, word string) (fit []completion) {
	for _, c := range list {
		if strings.HasPrefix(c.word, word) && (word != "" || !strings.HasPrefix(c.word, "-") || c.word == "--") {
			fit = append(fit, c)
		}
	}
	return fit
}

// A position is a place in the arguments of a command.
type position struct {
	word     string // which is being written
	flags    []flagHelp
	takes    string   // the argument of the flag before the word, "" if it takes none
	keys     []string // the words before it that belong to no flag
	urls     urls     // of -redis
	dashes   bool     // it is behind --
	commands bool     // there may be a --
	operands []string // what the usage names: KEY, KEY..., or words to choose from
}

func newPosition(c command, words []string) *position {
	help := c.help()
	p := &position{flags: append(flags(help), flagHelp{names: []string{"-h"}, text: "tell more"})}
	usage, _ := blocks(help)
	p.operands = strings.Fields(strings.Join(usage, " "))
	p.commands = slices.Contains(p.operands, "--")
	p.word = words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		f := p.flag(word)
		switch {
		case p.dashes:
		case p.takes != "":
			if p.takes == "URL" {
				p.urls = append(p.urls, word)
			}
			p.takes = ""
		case f != nil:
			p.takes = f.argument
		case word == "--":
			p.dashes = true
		case !strings.HasPrefix(word, "-"):
			p.keys = append(p.keys, word)
		default:
			if url, ok := strings.CutPrefix(strings.TrimLeft(word, "-"), "redis="); ok {
				p.urls = append(p.urls, url)
			}
		}
	}
	return p
}

// flag returns the flag that a word is, which may have a second dash.
func (p *position) flag(word string) *flagHelp {
	if strings.HasPrefix(word, "--") && len(word) > 2 {
		word = word[1:]
	}
	for i, f := range p.flags {
		if slices.Contains(f.names, word) {
			return &p.flags[i]
		}
	}
	return nil
}

func (p *position) completions() (kind string, list []completion) {
	switch {
	case p.dashes && p.commands:
		return kindCommand, nil
	case p.takes == "FILE":
		return kindFiles, nil
	case p.takes == "URL":
		return kindWords, urlFiles(p.word)
	case p.takes != "" || p.dashes:
		return kindWords, nil
	case strings.HasPrefix(p.word, "-"):
		return kindWords, only(p.flagNames(), p.word)
	case len(p.keys) == 0 || slices.Contains(p.operands, "KEY..."):
		return kindWords, p.operandWords()
	case p.commands:
		return kindWords, only([]completion{{"--", "the command follows"}}, p.word)
	}
	return kindWords, nil
}

// flagNames returns the flags, with as many dashes as the word has.
func (p *position) flagNames() (list []completion) {
	dash := ""
	if strings.HasPrefix(p.word, "--") {
		dash = "-"
	}
	for _, f := range p.flags {
		for _, name := range f.names {
			list = append(list, completion{dash + name, sentence(f.text)})
		}
	}
	if p.commands {
		list = append(list, completion{"--", "the command follows"})
	}
	return list
}

// operandWords returns what could stand in the place of an operand.
func (p *position) operandWords() (list []completion) {
	for _, operand := range p.operands {
		switch {
		case strings.HasPrefix(operand, "KEY"):
			for _, key := range lockKeys(p.urls, p.word) {
				if !slices.Contains(p.keys, key) {
					list = append(list, completion{key, ""})
				}
			}
		case strings.Contains(operand, "|"):
			for _, word := range strings.Split(operand, "|") {
				list = append(list, completion{word, ""})
			}
		}
	}
	return only(list, p.word)
}

// urlFiles completes @FILE.
func urlFiles(word string) (list []completion) {
	name, ok := strings.CutPrefix(word, "@")
	if !ok {
		return nil
	}
	folder, start := filepath.Split(name)
	entries, _ := os.ReadDir(cmp.Or(folder, "."))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), start) || start == "" && strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := "@" + folder + e.Name()
		if e.IsDir() {
			path += "/"
		}
		list = append(list, completion{path, ""})
	}
	return list
}

// sentence returns the first sentence of a text, without its full stop.
func sentence(text string) string {
	for _, end := range []string{". ", ": ", "; "} {
		text, _, _ = strings.Cut(text, end)
	}
	return strings.TrimSuffix(text, ".")
}
