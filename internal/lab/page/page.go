// Package page writes the results of a run into a page of the documentation, between two markers.
package page

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The results of a run stand between these markers.
const (
	begins = "<!-- What a run found begins; the next one replaces it. -->"
	ends   = "<!-- What a run found ends. -->"
)

// Check reports pages that can't be filled, before half an hour is spent on their content. An empty path means no page.
func Check(paths ...string) error {
	var all []error
	for _, path := range paths {
		_, err := filled(path, "")
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Fill puts text between the markers of the page. An empty path means no page.
func Fill(path, text string) error {
	whole, err := filled(path, text)
	if err != nil || path == "" {
		return err
	}
	return os.WriteFile(path, []byte(whole), 0o644)
}

func filled(path, text string) (string, error) {
	if path == "" {
		return "", nil
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	before, rest, found := strings.Cut(string(old), begins)
	_, after, foundEnd := strings.Cut(rest, ends)
	if !found || !foundEnd {
		return "", fmt.Errorf("%s: it needs a line %s and a line %s behind it", path, begins, ends)
	}
	return before + begins + "\n\n" + text + "\n" + ends + after, nil
}
