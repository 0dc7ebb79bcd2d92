package server

import (
	"strconv"
	"strings"
)

// reserved is how the names of our own keys and channels begin. No lock may be called so: the siblings of another
// would stand in its way.
const reserved = "redimutex:"

// Reserved reports whether key is a name that no lock may have.
func Reserved(key string) bool { return strings.HasPrefix(key, reserved) }

// FenceKey is the name of the fence counter of key.
func FenceKey(key string) string { return sibling("fence", key) }

// QueueKey is the name of the queue of key.
func QueueKey(key string) string { return sibling("queue", key) }

// PhaseKeys are the names of what belongs to the readers and writers of key: the readers, the marks of writers and readers
// that wait, and those of entitled readers.
func PhaseKeys(key string) (readers, writers, waiting, entitled string) {
	return sibling(phases[0], key), sibling(phases[1], key), sibling(phases[2], key), sibling(phases[3], key)
}

// Reading is what a lock holds while readers have it.
const Reading = "*"

// TermKey is the name of the key where the leader of an election over key tells its term.
func TermKey(key string) string { return sibling("term", key) }

// sibling returns the name of a key that belongs to key and lies in the same cluster slot, so
// that one script may touch both. Different keys have different siblings, because what follows
// the second colon is an opening brace, a colon or a dot, depending on how it was made.
func sibling(kind, key string) string {
	switch {
	case tag(key) != key:
		return reserved + kind + "::" + key // the key brings its own {tag}
	case !strings.ContainsRune(key, '}'):
		return reserved + kind + ":{" + key + "}"
	}
	// The key has a closing brace, so it can't be wrapped in braces: any short tag of the same slot does.
	return reserved + kind + ":.{" + strconv.Itoa(int(tags()[Slot(key)])) + "}" + key
}
