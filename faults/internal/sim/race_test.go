//go:build race

package sim

// The race detector makes the scheduler choose at random, whatever the seed, and takes five times as long.
func init() { skipped = "the race detector makes the order of goroutines random: run it without" }
