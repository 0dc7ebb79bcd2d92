package debughttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/redimutex/redimutex"
)

// A Page is an [http.Handler] that shows the locks of one Client.
type Page struct {
	client  *redimutex.Client
	process process
	log     journal
	stop    func()
}

var _ http.Handler = (*Page)(nil)

// A process describes the process whose locks the page shows.
type process struct {
	Program string `json:"program"` // without its arguments, which may be secret
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Since   moment `json:"since"` // when the observation began
}

// Handler returns a handler that shows the locks of client, for use at any path. It observes them from now on, so make one
// Handler for each Client and keep it. The Client owns the observation: there is nothing to stop or clean up, and a closed
// Client has nothing left to observe. To stop earlier, use [New]. Handler panics if client is nil.
func Handler(client *redimutex.Client) http.Handler { return New(client) }

// New returns what [Handler] does, as a Page that can be closed.
func New(client *redimutex.Client) *Page {
	if client == nil {
		panic("debughttp: New needs a Client, and got nil")
	}
	p := &Page{client: client, process: process{Program: filepath.Base(os.Args[0]), PID: os.Getpid(), Since: moment{time.Now()}}}
	p.process.Host, _ = os.Hostname()
	p.stop = sync.OnceFunc(client.Observe(p.log.trace()))
	return p
}

// Close stops observing events. The page still shows the locks and the figures. Close does not close the Client.
func (p *Page) Close() { p.stop() }

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be looked at: use GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Vary", "Accept")
	q, err := newQuery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	look := p.look(q, time.Now())
	if q.asJSON {
		h.Set("Content-Type", "application/json")
		err = json.NewEncoder(&body).Encode(look)
	} else {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		err = document.Execute(&body, look)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	if r.Method == http.MethodGet {
		w.Write(body.Bytes()) //nolint:errcheck // who asked is gone
	}
}
