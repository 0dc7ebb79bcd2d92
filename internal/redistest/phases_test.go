package redistest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// What is done to a lock, as MONITOR tells it.
func shows(set, mark string) []string {
	return []string{fmt.Sprintf(`1.0 [0 lua] "ZADD" "redimutex:%s:{k}" "12" "%s"`, set, mark)}
}

func reads(mark, token string) []string {
	return []string{
		`1.0 [0 127.0.0.1:1] "EVALSHA"`,
		fmt.Sprintf(`1.0 [0 lua] "ZREM" "redimutex:waiting:{k}" "%s"`, mark), fmt.Sprintf(`1.0 [0 lua] "ZREM" "redimutex:entitled:{k}" "%s"`, mark),
		fmt.Sprintf(`1.0 [0 lua] "ZADD" "redimutex:readers:{k}" "12" "%s"`, token), `1.0 [0 lua] "SET" "k" "*" "PX" "9"`,
	}
}

func writes(mark, token string) []string {
	return []string{fmt.Sprintf(`1.0 [0 lua] "SET" "k" "%s" "PX" "9"`, token), fmt.Sprintf(`1.0 [0 lua] "ZREM" "redimutex:writers:{k}" "%s"`, mark)}
}

func TestWhoIsOvertakenByReadersAndWritersIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		steps                      [][]string
		readers, writers           int
		passedReaders, passedWrite int
	}{
		"a reader waits for one writer":  {[][]string{shows("entitled", "r"), writes("w", "1"), reads("r", "2")}, 1, 0, 0, 0},
		"and not for two":                {[][]string{shows("waiting", "r"), writes("w", "1"), writes("x", "2"), reads("r", "3")}, 1, 0, 1, 0},
		"a writer waits for each reader": {[][]string{shows("writers", "w"), reads("r", "1"), reads("s", "2"), writes("w", "3")}, 0, 1, 0, 0},
		"and for none twice":             {[][]string{shows("writers", "w"), reads("r", "1"), reads("r", "2"), writes("w", "3")}, 0, 1, 0, 1},
		"but behind another writer":      {[][]string{shows("writers", "w"), reads("r", "1"), writes("x", "2"), reads("r", "3"), writes("w", "4")}, 0, 1, 0, 0},
		"a renewal is no turn":           {[][]string{shows("writers", "w"), reads("r", "1"), reads("r", "1"), writes("w", "3")}, 0, 1, 0, 0},
	} {
		var lines []string
		for _, step := range c.steps {
			lines = append(lines, step...)
		}
		p := redistest.ReadPhases(lines)
		assert.Equal(t, []int{c.readers, c.writers, c.passedReaders, c.passedWrite}, []int{p.Readers.N, p.Writers.N, p.Readers.Passed, p.Writers.Passed}, name)
	}
}
