package election

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/redimutex/redimutex/internal/redistest"
)

// A process is one with candidates.
type process struct {
	name    string
	cmd     *exec.Cmd
	orders  io.WriteCloser
	proxies []*redistest.Proxy
	dead    bool
	heard   chan struct{} // closed when it has ended, and all that it said was heard
}

func (x *scene) hire() *process {
	x.t.Helper()
	x.hired++
	p := &process{name: "process " + strconv.Itoa(x.hired) + " candidate ", heard: make(chan struct{})}
	j := job{Name: p.name}
	for _, s := range x.servers {
		proxy := s.Proxy()
		p.proxies = append(p.proxies, proxy)
		j.Addrs = append(j.Addrs, proxy.Addr())
	}
	text, err := json.Marshal(j)
	if err != nil {
		x.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	p.cmd = exec.Command(self, argument, string(text))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // one that is stopped can't end itself
	in, inErr := p.cmd.StdinPipe()
	out, outErr := p.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, p.cmd.Start()); err != nil {
		x.t.Fatal(err)
	}
	p.orders = in
	go func() {
		defer close(p.heard)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var m message
			if json.Unmarshal(lines.Bytes(), &m) == nil { // else it was killed in the middle of a word
				x.judge.hear(m)
			}
		}
		p.cmd.Wait() //nolint:errcheck // it was killed
	}()
	x.t.Cleanup(p.kill)
	return p
}

// process returns the one that is alive whose candidate that is, or nil.
func (x *scene) process(who string) *process {
	for _, p := range x.all {
		if !p.dead && strings.HasPrefix(who, p.name) {
			return p
		}
	}
	return nil
}

func (x *scene) others(but *process) (others []*process) {
	for _, p := range x.all {
		if p != but {
			others = append(others, p)
		}
	}
	return others
}

// replace starts a process in the place of each that is dead.
func (x *scene) replace() {
	for i, p := range x.all {
		if p.dead {
			x.all[i] = x.hire()
		}
	}
}

// kill is kill -9, and returns when all that the process has said was heard.
func (p *process) kill() {
	if !p.dead {
		p.dead = true
		p.signal(syscall.SIGKILL)
		<-p.heard
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) cut(off bool) {
	for _, proxy := range p.proxies {
		if off {
			proxy.Cut()
		} else {
			proxy.Mend()
		}
	}
}
