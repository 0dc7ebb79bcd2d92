package servers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// URLs is the flag -redis, which may be repeated. It accepts any text: package flag would repeat a text that it refuses in its
// error, with the password.
type URLs []string

// Value returns the value of the flag.
func (u *URLs) Value() cli.Value {
	return cli.Value{Set: func(s string) error { *u = append(*u, s); return nil }, Complete: files}
}

// files completes @FILE.
func files(word string) (paths []string) {
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
		paths = append(paths, path)
	}
	return paths
}

// Flag declares -redis. text is the verb's own addition to its help.
func Flag(u *URLs, text string) *cli.Flag {
	return &cli.Flag{Names: []string{"redis"}, Arg: "URL", Value: u.Value(), Text: `The server; repeat it for Redlock. ` + text + `
		-redis @FILE reads the URLs from a file. Default: $REDIMUTEX_URL (several with commas or spaces, or
		@FILE), else $REDIS_URL, else redis://127.0.0.1:6379`}
}

// The environment variables that name the servers.
const (
	EnvURL     = "REDIMUTEX_URL"
	EnvAppURL  = "REDIS_URL"
	defaultURL = "redis://127.0.0.1:6379"
)

// environment returns the variable that names the servers, and its words. A variable that is set counts even if it has no
// words: a lock on the server that the next one names would keep no process out. If none is set, the server is the one on
// this machine.
func environment() (variable string, words []string) {
	for _, variable = range []string{EnvURL, EnvAppURL} {
		if list := os.Getenv(variable); list != "" {
			return variable, split(list)
		}
	}
	return variable, []string{defaultURL}
}

// expand returns the URLs that a word stands for: itself, or those in the file behind an @. file is how a command that
// redimutex runs finds them; "": by the URLs.
func expand(word string) (urls []string, file string, err error) {
	name, ok := strings.CutPrefix(word, "@")
	switch {
	case !ok:
		return []string{word}, "", nil
	case name == "":
		return nil, "", errors.New("@ stands before the name of a file, and there is none; write @FILE")
	case strings.Contains(name, "://"):
		return nil, "", errors.New("@ stands before the name of a file; write a URL without it")
	}
	urls, err = readURLs(name)
	if err != nil && strings.Contains(name, "@") { // it may be part of a URL, with the password
		err = errors.New("@ stands before the name of a file, and there is none of that name; " +
			"write a URL without it, and a comma or space in a password as %2C and %20")
	}
	return urls, reference(name), err
}

// streams matches names of files that this process has open: they mean other files in another process.
var streams = regexp.MustCompile(`^/(dev/(stdin|fd/)|proc/)`)

// reference returns a name of the file that is valid in a list and from any folder. It returns "" if the name would break the
// list, or if the file can be read only once, as a pipe.
func reference(name string) string {
	path, err := filepath.Abs(name)
	if err != nil || len(split(path)) != 1 || split(path)[0] != path || streams.MatchString(path) {
		return ""
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return "@" + path
}

// split splits a list of URLs. A comma or space in a password is percent-encoded.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// readURLs returns the URLs in a file, without lines that begin with #.
func readURLs(name string) ([]string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) { // an editor may have put a BOM in front
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			list = append(list, split(line)...)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no URL in the file %s", name)
	}
	return list, nil
}
