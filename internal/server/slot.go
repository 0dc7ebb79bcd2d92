package server

import (
	"strconv"
	"strings"
	"sync"
)

const slots = 16384

// Slot returns the cluster slot of key: CRC16 (XMODEM) of the hash tag, if the key has one, or of
// the whole key. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/.
func Slot(key string) uint16 {
	return crc16(tag(key)) % slots
}

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

// tag returns what lies between the first { and the first } after it, if that is not empty, and
// else the whole key.
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
