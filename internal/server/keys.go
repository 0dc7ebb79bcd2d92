package server

import (
	"strconv"
	"strings"
	"sync"
)

// reserved begins the names of our own keys and channels. No lock may be called so: siblings would stand in its way.
const reserved = "redimutex:"

// Reserved reports whether key is a name that no lock may have.
func Reserved(key string) bool { return strings.HasPrefix(key, reserved) }

// The names of the fence counter of key, of its queue, and of where the leader of an election over key tells its term.
func FenceKey(key string) string { return sibling("fence", key) }
func QueueKey(key string) string { return sibling("queue", key) }
func TermKey(key string) string  { return sibling("term", key) }

// PhaseKeys are the names of what belongs to the readers and writers of key: the readers, the marks of writers and readers
// that wait, and those of entitled readers.
func PhaseKeys(key string) (readers, writers, waiting, entitled string) {
	return sibling(phases[0], key), sibling(phases[1], key), sibling(phases[2], key), sibling(phases[3], key)
}

// Reading is what a lock holds while readers have it.
const Reading = "*"

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

const slots = 16384

// Slot returns the cluster slot of key: CRC16 (XMODEM) of the hash tag, if the key has one, or of
// the whole key. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
func Slot(key string) uint16 { return crc16(tag(key)) % slots }

// tags holds, for each slot, the least number whose digits lie in it. Most programs never need it,
// and a search for one slot takes milliseconds.
var tags = sync.OnceValue(func() *[slots]uint32 {
	var least [slots]uint32
	var seen [slots]bool
	for n, left := uint32(0), slots; left > 0; n++ {
		if slot := Slot(strconv.Itoa(int(n))); !seen[slot] {
			seen[slot], least[slot] = true, n
			left--
		}
	}
	return &least
})

// tag returns what lies between the first { and the first } after it, if that is not empty, and else the whole key.
func tag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}

func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
