// Package holds has the faults that hit a hold: its process is paused or killed, its key goes away, its servers can't be
// reached, its messages are lost. It also checks histories of calls under faults. The servers are real, and so are the
// processes in the rows that pause or kill a process.
package holds

import (
	"slices"
	"testing"

	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns the rows of this package.
func Rows() []evidence.Row {
	return []evidence.Row{paused(), deleted(), cutOff(), killed(), flapping(), histories()}
}

// steps is how often a busy machine can delay what is measured: the timer or the reply that it depends on, and the goroutine
// that takes the time.
const steps = 2

// sideBySide plays a part of a row for each kit, all at the same time, and puts their figures in order.
func sideBySide[K any](s *evidence.Scene, kits []K, short, long int, play func(i int, k K, q *evidence.Quota) ([]evidence.Figure, error)) {
	figures := make([][]evidence.Figure, len(kits))
	s.SideBySide(len(kits), func(i int) (err error) {
		figures[i], err = play(i, kits[i], s.Quota(short, long))
		return err
	})
	s.Figure(slices.Concat(figures...)...)
}

// addrs starts n real servers, and returns their addresses.
func addrs(t testing.TB, n int) (all []string) {
	for range n {
		all = append(all, redistest.Real(t).Addr())
	}
	return all
}
