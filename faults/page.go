package main

import (
	"fmt"
	"os"
	"strings"
)

// The table stands between these in a page.
const (
	tableBegins = "<!-- The table begins; faults -doc writes it. -->"
	tableEnds   = "<!-- The table ends. -->"
)

// checkDoc finds out that a page can't be filled before half an hour is spent on its content.
func checkDoc(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("-doc: %w", err)
	}
	_, err = between(string(text), "")
	if err != nil {
		return fmt.Errorf("-doc %s: %w", path, err)
	}
	return nil
}

// fill puts the table into the page.
func (r *report) fill(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := between(string(text), r.table())
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(filled), 0o644)
}

// between replaces what stands between the markers of text.
func between(text, table string) (string, error) {
	before, rest, begins := strings.Cut(text, tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return "", fmt.Errorf("it needs a line %s and a line %s behind it", tableBegins, tableEnds)
	}
	return before + tableBegins + "\n\n" + table + "\n" + tableEnds + after, nil
}
