package failover

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// Wires carry all traffic of a group of servers, so that replication can be made slow, and one
// server with the clients on its side can be cut off. They tell by the loopback address that a
// connection comes from which machine it stands for.
type wires struct {
	t testing.TB

	mu      sync.Mutex
	lag     delay             // from a primary to its replicas
	alone   int               // the machine that is cut off; nobody if there is none
	changed chan struct{}     // closed when alone changes
	targets map[string]string // where a listening address leads
}

// A delay is by how much replicas lag.
type delay struct {
	time   time.Duration
	uneven bool // only replicas on machines with odd numbers lag
}

func (d delay) String() string {
	if d.uneven {
		return d.time.String() + " for one of the two replicas"
	}
	return d.time.String()
}

// nobody is the machine of everything that is on no server's machine.
const nobody = -1

func newWires(t testing.TB, lag delay) *wires {
	return &wires{
		t: t, lag: lag, alone: nobody, changed: make(chan struct{}), targets: make(map[string]string),
	}
}

// serverIP is where the connections of the server on a machine come from, and clientIP those of the
// clients there. The rest of the world has 127.0.0.1.
func serverIP(machine int) string { return fmt.Sprintf("127.0.1.%d", machine+1) }
func clientIP(machine int) string { return fmt.Sprintf("127.0.2.%d", machine+1) }

// sender returns the machine behind an address, and whether it is the server there.
func sender(a net.Addr) (machine int, isServer bool) {
	ip := a.(*net.TCPAddr).IP.To4() //nolint:forcetypeassert // we listen for nothing else
	if ip[2] == 0 {
		return nobody, false
	}
	return int(ip[3]) - 1, ip[2] == 1
}

// listen opens an address that leads to a server on machine, once connect has said where that is.
// A replica that dials it is served with the lag, if it is where commands go.
func (w *wires) listen(machine int, commands bool) (addr string) {
	return redistest.NewRelay(w.t, "", func(r *redistest.Relay, caller net.Conn) {
		w.join(r, caller, machine, commands)
	}).Addr()
}

func (w *wires) connect(addr, target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets[addr] = target
}

// cut separates machine from all others; nobody heals the network. What was sent over a wire that is
// cut arrives when it is healed, as it does over TCP.
func (w *wires) cut(machine int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alone = machine
	close(w.changed)
	w.changed = make(chan struct{})
}

// join connects a caller to the server on machine to.
func (w *wires) join(r *redistest.Relay, caller net.Conn, to int, commands bool) {
	from, isServer := sender(caller.RemoteAddr())
	w.pass(r, from, to)
	w.mu.Lock()
	target, lag := w.targets[r.Addr()], w.lag.time
	w.mu.Unlock()
	server, err := r.Dial(target)
	if err != nil {
		return
	}
	defer r.Drop(server)
	if !isServer || !commands || w.lag.uneven && from%2 == 0 {
		lag = 0
	}
	var both sync.WaitGroup
	both.Go(func() { w.carry(r, server, caller, from, to, 0) })
	both.Go(func() { w.carry(r, caller, server, to, from, lag) })
	both.Wait()
}

// pass waits until the way between two machines is open.
func (w *wires) pass(r *redistest.Relay, from, to int) {
	for {
		w.mu.Lock()
		open := w.alone == nobody || (from == w.alone) == (to == w.alone)
		changed := w.changed
		w.mu.Unlock()
		if open {
			return
		}
		select {
		case <-changed:
		case <-r.Ending():
			return
		}
	}
}

// A parcel is something to deliver, not before due.
type parcel struct {
	due  time.Time
	data []byte
}

// carry brings what src sends to dst until one of them closes. What is still on its way, because of
// the lag, when src dies is lost with it: a server that lags has it in buffers of its machine.
func (w *wires) carry(r *redistest.Relay, dst, src net.Conn, from, to int, lag time.Duration) {
	defer dst.Close()
	defer src.Close()
	if lag == 0 {
		buffer := make([]byte, 32<<10)
		for {
			n, err := src.Read(buffer)
			w.pass(r, from, to)
			if _, failed := dst.Write(buffer[:n]); failed != nil || err != nil {
				return
			}
		}
	}
	parcels, gone := make(chan parcel, 4096), make(chan struct{})
	r.Go(func() {
		defer close(parcels)
		defer close(gone)
		for {
			data := make([]byte, 4<<10)
			n, err := src.Read(data)
			if err != nil {
				return
			}
			parcels <- parcel{time.Now().Add(lag), data[:n]}
		}
	})
	for p := range parcels {
		timer := time.NewTimer(time.Until(p.due))
		select {
		case <-timer.C:
		case <-gone:
			timer.Stop()
		}
		w.pass(r, from, to)
		select {
		case <-gone:
			continue
		default:
		}
		if _, err := dst.Write(p.data); err != nil {
			src.Close() // ends the reading; the rest is read and thrown away
		}
	}
}

// hostPort splits an address of ours.
func hostPort(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err)
	}
	return host, port
}
