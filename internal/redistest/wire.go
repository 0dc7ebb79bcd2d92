package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// A wire reads the protocol of Redis, version 2, as it comes:
// https://redis.io/docs/latest/develop/reference/protocol-spec/.
type wire struct {
	in  *bufio.Reader
	raw bytes.Buffer // of what is being read
}

// A request is a command, and how it was sent.
type request struct {
	words []string
	raw   []byte
}

var errWire = errors.New("not the protocol of Redis")

func newWire(r io.Reader) *wire { return &wire{in: bufio.NewReader(r)} }

// request reads the next command.
func (w *wire) request() (request, error) {
	w.raw.Reset()
	n, err := w.header('*')
	if err != nil {
		return request{}, err
	}
	var r request
	for range n {
		size, err := w.header('$')
		if err != nil {
			return request{}, err
		}
		word, err := w.bytes(size)
		if err != nil {
			return request{}, err
		}
		r.words = append(r.words, string(word))
	}
	if len(r.words) == 0 {
		return request{}, errWire
	}
	r.raw = bytes.Clone(w.raw.Bytes())
	return r, nil
}

// reply reads the next reply, whole.
func (w *wire) reply() ([]byte, error) {
	w.raw.Reset()
	for open := 1; open > 0; open-- {
		line, err := w.line()
		if err != nil {
			return nil, err
		}
		size, _ := strconv.Atoi(line[1:])
		switch line[0] {
		case '$':
			if size >= 0 {
				_, err = w.bytes(size)
			}
		case '*':
			open += max(size, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return bytes.Clone(w.raw.Bytes()), nil
}

func (w *wire) line() (string, error) {
	line, err := w.in.ReadString('\n')
	w.raw.WriteString(line)
	line = strings.TrimRight(line, "\r\n")
	if err == nil && line == "" {
		err = errWire
	}
	return line, err
}

func (w *wire) header(kind byte) (int, error) {
	line, err := w.line()
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, errWire
	}
	return strconv.Atoi(line[1:])
}

// bytes reads n bytes and the end of the line behind them.
func (w *wire) bytes(n int) ([]byte, error) {
	all := make([]byte, n+2)
	_, err := io.ReadFull(w.in, all)
	w.raw.Write(all)
	return all[:n], err
}

// Bulk is a string as a server sends it, for a Fate.
func Bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
