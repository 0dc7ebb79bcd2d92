package mux

// A flight is a queue of calls, oldest first.
type flight struct {
	calls []*call
	gone  int // from the front
}

func (f *flight) all() []*call { return f.calls[f.gone:] }

func (f *flight) push(c *call) {
	if f.gone >= 1024 && f.gone > len(f.calls)/2 { // it never gets empty under load
		n := copy(f.calls, f.calls[f.gone:])
		clear(f.calls[n:])
		f.calls, f.gone = f.calls[:n], 0
	}
	f.calls = append(f.calls, c)
}

// pop returns the oldest call, or nil.
func (f *flight) pop() *call {
	if f.gone == len(f.calls) {
		return nil
	}
	c := f.calls[f.gone]
	f.calls[f.gone] = nil
	f.gone++
	if f.gone == len(f.calls) {
		f.calls, f.gone = f.calls[:0], 0
	}
	return c
}
