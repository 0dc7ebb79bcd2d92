package holds

import (
	"testing"
	"time"
)

func TestTheLocksOfAKilledProcessAreRecovered(t *testing.T) {
	killed().Hold(t, 3*time.Second)
}
