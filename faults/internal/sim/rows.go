// Package sim runs the real code of the library in virtual time, over connections, servers and
// clocks that are simulated.
package sim

import "github.com/redimutex/redimutex/faults/internal/evidence"

// Rows are the faults that are simulated.
func Rows() []evidence.Row { return nil }

// Main runs a simulation if this process was started for one, and then does not return.
func Main() {}
