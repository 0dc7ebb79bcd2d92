package mux

// SetTurn is for what happens after very many commands.
func (p *Pool) SetTurn(n uint64) { p.turn.Store(n) }
