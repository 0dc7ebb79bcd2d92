package machine_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/machine"
)

func TestMachineSaysWhatItIs(t *testing.T) {
	assert.Contains(t, machine.Go(), runtime.Version())
	assert.Contains(t, machine.Describe(), "load average "+machine.Load())
}
