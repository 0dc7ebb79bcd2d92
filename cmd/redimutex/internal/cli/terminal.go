package cli

import (
	"fmt"
	"io"
	"os"
)

// A Terminal is the input and output of a command.
type Terminal struct {
	In  *os.File
	Out *Output
	Err io.Writer

	ended Signalled // 0, or the signal that ended the verb
}

// Warn writes one line to stderr, whatever others have put into the text.
func (t *Terminal) Warn(format string, args ...any) {
	fmt.Fprintf(t.Err, "redimutex: %s\n", Printable(fmt.Sprintf(format, args...)))
}

// An Output is standard output. It remembers the first write error.
type Output struct {
	w   io.Writer
	err error
}

// NewOutput returns the Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// Failed returns the first write error.
func (o *Output) Failed() error { return o.err }

// Unwrap returns the writer below.
func (o *Output) Unwrap() io.Writer { return o.w }
