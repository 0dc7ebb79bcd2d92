package server

import (
	"strconv"
	"strings"
	"sync"
)

// reserved begins the names of our own keys and channels. No lock may have such a name: it could be a sibling of another lock.
const reserved = "redimutex:"

// Reserved reports whether key is a name that no lock may have.
func Reserved(key string) bool { return strings.HasPrefix(key, reserved) }

// The names of the fence counter of key, of its queue, and of the key with the term of the leader of an election over key.
func FenceKey(key string) string { return sibling("fence", key) }
func QueueKey(key string) string { return sibling("queue", key) }
func TermKey(key string) string  { return sibling("term", key) }

// PhaseKeys returns the names of the keys that belong to an RWMutex at key: the readers, the marks of waiting writers, the
// marks of waiting readers, and the marks of entitled readers (see rwmutex.lua).
func PhaseKeys(key string) (readers, writers, waiting, entitled string) {
	return sibling(phases[0], key), sibling(phases[1], key), sibling(phases[2], key), sibling(phases[3], key)
}

// Reading is the value of a lock while readers have it.
const Reading = "*"

// sibling returns the name of a key that belongs to key and lies in the same cluster slot, so that one script may touch both.
// Different keys have different siblings: each of the three forms has a different character behind the second colon.
func sibling(kind, key string) string {
	switch {
	case tag(key) != key:
		return reserved + kind + "::" + key // the key brings its own {tag}
	case !strings.ContainsRune(key, '}'):
		return reserved + kind + ":{" + key + "}"
	}
	// The key has a closing brace, so it can't be wrapped in braces. Any short tag of the same slot will do.
	return reserved + kind + ":.{" + strconv.Itoa(int(tags()[Slot(key)])) + "}" + key
}

const slots = 16384

// Slot returns the cluster slot of key: CRC16 (XMODEM) of its hash tag, or of the whole key if it has none.
// See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
func Slot(key string) uint16 { return crc16(tag(key)) % slots }

// tags holds, for each slot, the smallest number whose digits hash to it. It is built at its first use, because most programs
// never need it. Even a search for one slot would take milliseconds.
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

// tag returns the text between the first { and the first } after it, or the whole key if there is no such text.
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
