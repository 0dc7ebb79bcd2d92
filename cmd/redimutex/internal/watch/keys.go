package watch

import (
	"os"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
)

// Keys are those that a user types at the terminal while the picture is shown. The terminal hands
// them over one by one, without showing them; Ctrl-C and Ctrl-Z still are signals.
type keys struct {
	quit chan struct{} // q was typed
	in   *os.File      // nil: no user types
	back func()        // makes the terminal again what it was; nil: it is
}

// listen begins to listen for q, where a picture is shown and stdin is the terminal.
func (o *options) listen(t *cli.Terminal, s show) *keys {
	k := &keys{quit: make(chan struct{})}
	if _, picture := s.(*page); !picture || !cli.IsTerminal(t.In) {
		return k
	}
	k.in = t.In
	if k.take(); k.back == nil {
		k.in = nil // in the background, where reading would stop us
		return k
	}
	go func() {
		b := make([]byte, 1)
		for {
			n, err := k.in.Read(b)
			if n == 1 && (b[0] == 'q' || b[0] == 'Q') {
				close(k.quit)
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

// take has the terminal hand over each key at once.
func (k *keys) take() {
	if k.in != nil && k.back == nil {
		k.back = eachKey(k.in)
	}
}

// release makes the terminal again what it was.
func (k *keys) release() {
	if k.back != nil {
		k.back()
		k.back = nil
	}
}

func (k *keys) close() { k.release() }
