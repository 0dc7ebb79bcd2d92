package demo

import (
	"fmt"
	"os"
	"strconv"
)

// A counter is a number in a file. It is always eight digits at the beginning of the file, written by one call. So a process
// that is killed leaves the old number or the new one, never a mixture.
type counter struct{ file *os.File }

const counterSize = 8

func openCounter(path string) (*counter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &counter{f}, nil
}

// read returns the number. A read during a write may see half of it, so read repeats until it has seen the same bytes twice.
func (c *counter) read() (int, error) {
	var last, b [counterSize]byte
	for {
		if _, err := c.file.ReadAt(b[:], 0); err != nil {
			return 0, err
		}
		if b == last {
			return strconv.Atoi(string(b[:]))
		}
		last = b
	}
}

func (c *counter) write(n int) error {
	_, err := c.file.WriteAt(fmt.Appendf(nil, "%0*d", counterSize, n), 0)
	return err
}

func (c *counter) close() { c.file.Close() }
