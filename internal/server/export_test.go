package server

var (
	Narrowed = narrowed
	Widen    = widen
)
