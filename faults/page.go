package main

import (
	"fmt"
	"os"
	"strings"
)

// A table stands between these in a page.
const (
	tableBegins = "<!-- The table begins; faults writes it. -->"
	tableEnds   = "<!-- The table ends. -->"
)

// checkPage finds out that a page can't be filled before half an hour is spent on its content.
func checkPage(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err = between(string(text), ""); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// fill puts a table into the page, if there is one.
func fill(path, table string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := between(string(text), table)
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
