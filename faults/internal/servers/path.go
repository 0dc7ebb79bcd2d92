package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/redimutex/redimutex/internal/lab/peers"
	"github.com/redimutex/redimutex/internal/redistest"
)

// A path is a way to some servers that can be broken: packets vanish in both directions, and no caller
// is told. When it is fixed, what was under way arrives late, because TCP repeats it.
type path struct {
	kind    string
	servers []*redistest.Server
	dialers []peers.Dialer
	broken  func(bool)
	inside  func(f func()) // runs f where the servers can be reached also while the path is broken
}

// newPath builds a path to n servers: real networks where we may make some, else proxies that
// hold back what passes.
func newPath(t testing.TB, n int) *path {
	if made, err := newNetworks(t); err == nil {
		return made.path(t, n)
	}
	return newProxyPath(t, n)
}

// newProxyPath is the way without any rights.
func newProxyPath(t testing.TB, n int) *path {
	servers, _ := start(t, n)
	proxies, through := proxied(t, servers)
	p := &path{kind: "proxies that hold back what passes", servers: servers, dialers: through, inside: func(f func()) { f() }}
	p.broken = func(yes bool) {
		for _, x := range proxies {
			if yes {
				x.Hold()
			} else {
				x.Release()
			}
		}
	}
	return p
}

// Networks are three network namespaces in a row: the clients', a router's, and the servers'.
type networks struct{ client, router, server string }

const (
	clientAddr, clientGate = "198.18.1.2", "198.18.1.1" // a range for tests of networks, RFC 2544
	serverAddr, serverGate = "198.18.2.2", "198.18.2.1"
)

// newNetworks makes them, which takes root and the ip command.
func newNetworks(t testing.TB) (*networks, error) {
	name := func(role string) string { return fmt.Sprintf("faults-%d-%s", os.Getpid(), role) }
	n := &networks{name("c"), name("r"), name("s")}
	t.Cleanup(func() {
		for _, ns := range []string{n.client, n.router, n.server} {
			_ = exec.Command("ip", "netns", "del", ns).Run() //nolint:gosec // our own names
		}
	})
	for _, line := range []string{
		"netns add " + n.client, "netns add " + n.router, "netns add " + n.server,
		"-n " + n.router + " link add c type veth peer name way netns " + n.client,
		"-n " + n.router + " link add s type veth peer name way netns " + n.server,
		"-n " + n.client + " addr add " + clientAddr + "/24 dev way", "-n " + n.router + " addr add " + clientGate + "/24 dev c",
		"-n " + n.server + " addr add " + serverAddr + "/24 dev way", "-n " + n.router + " addr add " + serverGate + "/24 dev s",
		"-n " + n.client + " link set way up", "-n " + n.router + " link set c up",
		"-n " + n.server + " link set way up", "-n " + n.router + " link set s up", "-n " + n.server + " link set lo up",
		"-n " + n.client + " route add default via " + clientGate, "-n " + n.server + " route add default via " + serverGate,
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil { //nolint:gosec // our own words
			return nil, fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return n, n.forward(true)
}

// forward switches the router on or off. While it is off it drops what others send each other.
func (n *networks) forward(on bool) error {
	return within(n.router, func() error {
		value := "0"
		if on {
			value = "1"
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte(value), 0)
	})
}

func (n *networks) path(t testing.TB, servers int) *path {
	p := &path{kind: "a router between network namespaces, which stops forwarding"}
	p.inside = func(f func()) {
		if err := within(n.server, func() error { f(); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	p.inside(func() {
		for range servers {
			p.servers = append(p.servers, redistest.Real(t, "--bind", "127.0.0.1", serverAddr, "--protected-mode", "no"))
		}
	})
	for _, s := range p.servers {
		_, port, _ := net.SplitHostPort(s.Addr())
		dial := peers.To(net.JoinHostPort(serverAddr, port))
		p.dialers = append(p.dialers, func(ctx context.Context) (c net.Conn, err error) {
			gone := within(n.client, func() error {
				c, err = dial(ctx)
				return err
			})
			return c, gone
		})
	}
	p.broken = func(yes bool) {
		if err := n.forward(!yes); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// within runs f in a network namespace. What f opens or starts stays there.
func within(namespace string, f func() error) error {
	runtime.LockOSThread() // a namespace belongs to a thread
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // the thread is of no use to anybody else
		}
	}()
	return f()
}
