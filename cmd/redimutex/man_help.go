package main

import (
	"bytes"
	"regexp"
	"strings"
)

// help returns what -h prints for the command.
func (c command) help() string {
	var out bytes.Buffer
	c.run([]string{"-h"}, terminal{out: &out, err: &out})
	return out.String()
}

// A block is a piece of a help text. The texts are written for people; that they all have the same
// form makes them the one place from which the manual page and the completion of the shells are made.
type block struct {
	kind  blockKind
	depth int    // how far it is indented
	term  string // of an item: the flag, or the word that is explained
	text  string // on one line, except in an example
}

type blockKind int

const (
	heading   blockKind = iota // a line in capitals
	paragraph                  // lines that belong together
	item                       // a term and, in a column of its own, what it means
	example                    // lines that stay as they are
)

var (
	headingLine = regexp.MustCompile(`^[A-Z][A-Z ]+$`)
	itemLine    = regexp.MustCompile(`^ +(\S.*?)  +(\S.*)$`)
	// The meaning of a flag may begin close behind it, or on the next line.
	flagLine = regexp.MustCompile(`^ +(-[^ ,]+(?:, -[^ ,]+)*(?: [A-Z]+)?)(?: +(\S.*))?$`)
)

// blocks takes a help text apart: the lines of its usage, and what follows.
func blocks(help string) (usage []string, list []block) {
	rest, inUsage, section, open := help, true, "", false
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		words := strings.TrimSpace(line)
		if inUsage {
			if inUsage = words != ""; inUsage {
				usage = append(usage, strings.TrimPrefix(words, "Usage: "))
			}
			continue
		}
		if words == "" {
			open = false
			continue
		}
		b := read(line, section)
		if open && list[len(list)-1].takes(b) {
			list[len(list)-1].extend(b, words)
			continue
		}
		if b.kind == heading {
			section = words
		}
		open = b.kind != heading
		list = append(list, b)
	}
	return usage, list
}

// read tells what a line would begin if it began something.
func read(line, section string) block {
	words := strings.TrimSpace(line)
	b := block{kind: paragraph, depth: len(line) - len(strings.TrimLeft(line, " ")), text: words}
	switch {
	case headingLine.MatchString(line):
		b.kind = heading
	case section == "EXAMPLES" && (b.depth > 2 || strings.HasPrefix(words, "redimutex ")):
		b.kind, b.text = example, strings.TrimPrefix(line, "  ")
	case section == "EXAMPLES":
	default:
		for _, form := range []*regexp.Regexp{flagLine, itemLine} {
			if m := form.FindStringSubmatch(line); m != nil {
				b.kind, b.term, b.text = item, m[1], m[2]
				break
			}
		}
	}
	return b
}

// takes reports whether the line that was read as next goes on with b.
func (b *block) takes(next block) bool {
	switch b.kind {
	case item:
		return next.depth > b.depth
	case paragraph:
		return next.kind == paragraph && next.depth == b.depth
	case example:
		return next.kind == example
	}
	return false
}

// extend adds a line to b, of which words is what is not space around it.
func (b *block) extend(next block, words string) {
	switch {
	case b.kind == example:
		b.text += "\n" + next.text
	case b.text == "":
		b.text = words
	default:
		b.text += " " + words
	}
}

// A flagHelp is what the help says of a flag.
type flagHelp struct {
	names    []string // with their dash
	argument string   // "" if it takes none
	text     string
}

// flags returns the flags in a help text.
func flags(help string) (all []flagHelp) {
	_, list := blocks(help)
	for _, b := range list {
		if b.kind != item || !strings.HasPrefix(b.term, "-") || b.term == "--" {
			continue
		}
		f := flagHelp{text: b.text}
		for _, word := range strings.Fields(strings.ReplaceAll(b.term, ",", " ")) {
			if strings.HasPrefix(word, "-") {
				f.names = append(f.names, word)
			} else {
				f.argument = word
			}
		}
		all = append(all, f)
	}
	return all
}
