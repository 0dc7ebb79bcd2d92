package demo

import (
	"fmt"
	"os"
	"strconv"
)

// A counter is a number in a file. It is always eight digits at the beginning of the file, written
// by one call: so a process that is killed leaves the old number or the new one, and never a mixture.
type counter struct{ file *os.File }

const counterSize = 8

func openCounter(path string) (*counter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &counter{f}, nil
}

func (c *counter) read() (int, error) {
	var b [counterSize]byte
	if _, err := c.file.ReadAt(b[:], 0); err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b[:]))
}

func (c *counter) write(n int) error {
	_, err := c.file.WriteAt(fmt.Appendf(nil, "%0*d", counterSize, n), 0)
	return err
}

func (c *counter) close() { c.file.Close() }
