//go:build race

package sim

// The race detector has the scheduler draw lots, which no seed decides, and takes five times as long.
func init() { skipped = "the race detector makes the order of goroutines random: run it without" }
