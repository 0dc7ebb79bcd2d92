package bounds

import "github.com/redimutex/redimutex/internal/redistest"

// A Way is how a server hangs.
type Way struct {
	Name    string
	stopped bool // by SIGSTOP; otherwise by phase
	phase   redistest.Phase
	only    func(Kind) bool // nil: all
}

// Concerns reports whether this way of hanging concerns a kind of pool.
func (w Way) Concerns(k Kind) bool { return w.only == nil || w.only(k) }

// The ways of hanging.
var (
	Stopped    = Way{Name: "stopped", stopped: true}
	Silent     = Way{Name: "accepts, and is silent", phase: redistest.AtAccept}
	Dial       = Way{Name: "dialling", phase: redistest.AtDial}
	Handshake  = Way{Name: "handshake of TLS", phase: redistest.AtHandshake, only: func(k Kind) bool { return k.tls }}
	Auth       = Way{Name: "authentication", phase: redistest.AtAuth}
	Select     = Way{Name: "choice of a database", phase: redistest.AtSelect}
	Command    = Way{Name: "commands", phase: redistest.AtCommand}
	Reply      = Way{Name: "commands are executed, and not answered", phase: redistest.AtReply}
	OldConns   = Way{Name: "old connections hang, new ones work", phase: redistest.OnOldConns}
	BlackHoled = Way{Name: "the path swallows everything", phase: redistest.Everywhere}
)

// Ways returns all of them.
func Ways() []Way {
	return []Way{Stopped, Silent, Dial, Handshake, Auth, Select, Command, Reply, OldConns, BlackHoled}
}
