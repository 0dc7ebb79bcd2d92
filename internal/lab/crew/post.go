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

	mu sync.Mutex // guards the output
}

// Main is the main function of the worker processes of a role. A program that hires workers, also a test, must call it first.
// It returns only in processes that are no workers of the role.
func Main(role string, work func(*Post) error) {
	if os.Getenv(variable) != role {
		return
	}
	os.Unsetenv(variable) //nolint:errcheck // a process that a worker starts is no worker
	p := &Post{orders: bufio.NewScanner(os.Stdin)}
	p.orders.Buffer(nil, 1<<20)
	if err := work(p); err != nil {
		os.Stderr.WriteString(err.Error()) //nolint:errcheck // there is no other way to report it
		os.Exit(1)
	}
	os.Exit(0)
}

// Say sends a message at once, so it arrives even if the process is killed right after.
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
