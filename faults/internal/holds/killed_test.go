package holds

import (
	"testing"
	"time"
)

func TestTheLocksOfAKilledProcessAreRecovered(t *testing.T) {
	holds(t, killed(), 3*time.Second)
}
