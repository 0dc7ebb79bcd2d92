package redistest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLatenessIsTheWorstThatTouchesTheTime(t *testing.T) {
	zero := time.Now()
	at := func(ms time.Duration) time.Time { return zero.Add(ms * time.Millisecond) }
	l := &Lateness{moment: time.Millisecond, naps: []nap{{at(0), at(30)}, {at(1000), at(1005)}, {at(2000), at(2007)}, {at(3000), at(3009)}}, due: at(6000)}
	assert.Equal(t, 7*time.Millisecond, l.Worst(at(1005), at(2000)))
	assert.Equal(t, time.Millisecond/2, l.Worst(at(4000), at(5000)), "it was not late then")
	assert.Equal(t, 50*time.Millisecond, l.Worst(at(5000), at(6050)), "it has not woken yet")
}
