package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// maxLabel is what the library allows for an owner's label.
const maxLabel = 256

// label says who we are, for those that find the lock held: host, pid and the command, or what -owner
// says. Arguments may be secret, and everybody sees the label that may read the server.
func (j *job) label() string {
	if j.owner != "" {
		return shorten(cli.Printable(j.owner))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	command := filepath.Base(j.command[0])
	if j.arguments {
		words := make([]string, len(j.command))
		for i, w := range j.command {
			words[i] = cli.Mask(w)
		}
		command = strings.Join(words, " ")
	}
	return shorten(cli.Printable(fmt.Sprintf("%s pid %d: %s", host, os.Getpid(), command)))
}

// shorten cuts s to what fits into a label, between two characters.
func shorten(s string) string {
	const mark = "..."
	if len(s) <= maxLabel {
		return s
	}
	n := maxLabel - len(mark)
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
