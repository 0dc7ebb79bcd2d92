package sim

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestZZOrph(t *testing.T) {
	runtime.GOMAXPROCS(1)
	c := orphanages()[3]
	c.Trace = true
	c.Seed = 205368657000102
	if s := os.Getenv("SEED"); s != "" {
		fmt.Sscan(s, &c.Seed)
	}
	end := time.Now().Add(1 * time.Millisecond)
	n, bad := 0, 0
	walk := os.Getenv("WALK") != ""
	for time.Now().Before(end) {
		var r *Report
		seed := c.Seed
		if walk {
			seed += uint64(n)
		}
		synctest.Test(t, func(*testing.T) { r = episode(c, seed) })
		n++
		if r.Orphans > 0 {
			bad++
			if bad == 1 {
				os.WriteFile("/tmp/orph.trace", []byte(strings.Join(r.Trace, "\n")), 0o644)
				fmt.Println(seed, fmt.Sprintf("%+v", r)[:300])
			}
		}
	}
	fmt.Println("episodes", n, "bad", bad)
}
