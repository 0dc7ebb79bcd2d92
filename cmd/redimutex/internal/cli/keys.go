package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redimutex/redimutex/internal/server"
)

// OneKey returns the key among the operands. Its errors do not repeat them: a user who forgets the -redis in front of a URL
// should not find the password in a log.
func OneKey(words []string) (string, error) {
	switch {
	case len(words) == 0 || words[0] == "":
		return "", errors.New("there is no KEY; write a name for the lock, such as nightly-backup")
	case len(words) > 1:
		return "", fmt.Errorf("expected one KEY, got %d arguments", len(words))
	case IsURL(words[0]):
		return "", errors.New("there is a URL in the place of KEY; write -redis in front of it")
	case server.Reserved(words[0]):
		return "", errors.New("a name that begins with redimutex: belongs to what stands beside locks; choose another KEY")
	}
	return words[0], nil
}

// Keys returns the keys among the operands, each once.
func Keys(words []string) (keys []string, err error) {
	if len(words) == 0 {
		_, err := OneKey(words)
		return nil, err
	}
	for _, word := range words {
		key, err := OneKey([]string{word})
		if err != nil {
			return nil, err
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// IsURL reports whether the word is the URL of a server, also if an @ as for a file name is in front of it.
func IsURL(word string) bool {
	scheme, _, ok := strings.Cut(strings.TrimPrefix(word, "@"), "://")
	return ok && slices.Contains([]string{"redis", "rediss", "unix"}, strings.ToLower(scheme))
}
