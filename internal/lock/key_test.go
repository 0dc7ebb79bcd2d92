package lock

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/server"
)

// Each allocation copies the name so far. One allocation for each key would take quadratic time, which nothing can cancel.
func TestTheNameOfALineOfManyKeysTakesFewAllocations(t *testing.T) {
	const n = 5000
	for _, form := range []string{"{a}%08d", "\x00\xff%08d", "{a}\n\"%0100d"} {
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf(form, i))
		}
		var name line
		assert.Less(t, testing.AllocsPerRun(1, func() { name = lineOf(server.Mutex, keys[0], keys[1:]...) }), n/20.0, form)
		assert.NotEqual(t, name, lineOf(server.Mutex, keys[0], keys[2:]...))
	}
}

func TestOtherKeysHaveAnotherLine(t *testing.T) {
	seen := make(map[line][]string)
	for _, keys := range [][]string{
		{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "bc"}, {"a", "b1:c"}, {"a", "1:b"}, {"a", "", "b"}, {"a", "b", ""}, {"ab"}, {"1:a"},
	} {
		of := lineOf(server.Mutex, keys[0], keys[1:]...)
		assert.Nil(t, seen[of], "%q", keys)
		seen[of] = keys
	}
	assert.NotEqual(t, lineOf(server.Mutex, "a"), lineOf(server.Reader, "a"))
	assert.NotEqual(t, lineOf(server.Semaphore, "a"), lineOf(server.Reader, "a"))
	assert.Equal(t, lineOf(server.Mutex, "a"), lineOf(server.Writer, "a"))
}

// A process may hold very many locks, and the benchmark limits the bytes of each. One more field may cost 32 bytes.
func TestAHeldLockTakesLittleMemory(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(Key{}), uintptr(96))
	assert.LessOrEqual(t, unsafe.Sizeof(Grant{}), uintptr(320))
	assert.LessOrEqual(t, unsafe.Sizeof(Hold{}), uintptr(56))
}
