package failover

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/redistest"
)

// wires carry all traffic of a group of servers. They can make replication slow, and cut off one server with the clients on
// its side. The loopback address from which a connection comes says which machine it stands for.
type wires struct {
	t testing.TB

	mu      sync.Mutex
	lag     delay             // from a primary to its replicas
	alone   int               // the machine that is cut off; noMachine if there is none
	changed chan struct{}     // closed when alone changes
	targets map[string]string // by listening address: the address that it leads to
}

// A delay says by how much replicas lag.
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

// noMachine is the place of everything that is on no server's machine.
const noMachine = -1

func newWires(t testing.TB, lag delay) *wires {
	return &wires{
		t: t, lag: lag, alone: noMachine, changed: make(chan struct{}), targets: make(map[string]string),
	}
}

// serverIP returns the address from which the server on a machine connects, and clientIP that of the clients on this machine.
// All others connect from 127.0.0.1.
func serverIP(machine int) string { return fmt.Sprintf("127.0.1.%d", machine+1) }
func clientIP(machine int) string { return fmt.Sprintf("127.0.2.%d", machine+1) }

// sender returns the machine behind an address, and whether the address is that of its server.
func sender(a net.Addr) (machine int, isServer bool) {
	ip := a.(*net.TCPAddr).IP.To4() //nolint:forcetypeassert // all listeners are of TCP
	if ip[2] == 0 {
		return noMachine, false
	}
	return int(ip[3]) - 1, ip[2] == 1
}

// listen opens an address that leads to a server on machine, once connect has said where the server is. With commands, the
// address is that for commands, and a replica that dials it gets its data with the lag.
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

// cut separates machine from all others. With noMachine, it heals the network. What was sent over a wire that is cut arrives
// when the network is healed, as it does over TCP.
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
		open := w.alone == noMachine || (from == w.alone) == (to == w.alone)
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

// A parcel is data to deliver, not before due.
type parcel struct {
	due  time.Time
	data []byte
}

// carry brings what src sends to dst until one of them closes. Data that is still held back by the lag when src dies is lost:
// in reality it would be in buffers of the machine of src.
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
			src.Close() // ends the reading; the remaining parcels are thrown away
		}
	}
}

// hostPort splits a valid address.
func hostPort(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err)
	}
	return host, port
}
