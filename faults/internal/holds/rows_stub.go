package holds

import "github.com/redimutex/redimutex/faults/internal/evidence"

func cutOff() evidence.Row   { return evidence.Row{} }
func killed() evidence.Row   { return evidence.Row{} }
func flapping() evidence.Row { return evidence.Row{} }
