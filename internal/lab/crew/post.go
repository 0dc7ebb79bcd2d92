package crew

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
)

// A Post is where a worker process gets its orders, and where its messages go.
type Post struct {
	orders *bufio.Scanner

	mu sync.Mutex // of the output
}

// Main is main of the worker processes of a role: a program that hires some calls it first of all, also a test.
// It returns only in other processes.
func Main(role string, work func(*Post) error) {
	if os.Getenv(variable) != role {
		return
	}
	os.Unsetenv(variable) //nolint:errcheck // what a worker starts is no worker
	p := &Post{orders: bufio.NewScanner(os.Stdin)}
	p.orders.Buffer(nil, 1<<20)
	if err := work(p); err != nil {
		os.Stderr.WriteString(err.Error()) //nolint:errcheck // no other caller could be told
		os.Exit(1)
	}
	os.Exit(0)
}

// Say sends a message at once, so that what was said is heard even when the process is killed right after.
func (p *Post) Say(message any) {
	b, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Stdout.Write(append(b, '\n')); err != nil {
		os.Exit(2) // no reader is left
	}
}

// Hear waits for the next order, and returns false when there are no more.
func (p *Post) Hear(order any) bool {
	return p.orders.Scan() && json.Unmarshal(p.orders.Bytes(), order) == nil
}
