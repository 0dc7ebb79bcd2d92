package run

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// inheritable are the signals that a parent may have us ignore, and that then say nothing to the command either.
var inheritable = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
}

// ignored returns the signals that we were started to ignore. The Go runtime leaves HUP and INT ignored,
// and those that stop a process; it has put handlers of its own in the place of all others before we run.
// What it has found there, it keeps in a variable, and says to nobody.
func ignored() map[syscall.Signal]bool {
	all := make(map[syscall.Signal]bool)
	mask := ignoredNow()
	found := foundAtStart()
	for _, s := range inheritable {
		if signal.Ignored(s) || mask>>(s-1)&1 == 1 || int(s) < len(found) && found[s] == sigIgn {
			all[s] = true
		}
	}
	return all
}

const sigIgn = 1

// ignoredNow returns what /proc says about us: a bit for each signal, from 1.
func ignoredNow() (mask uint64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if hex, ok := strings.CutPrefix(lines.Text(), "SigIgn:"); ok {
			mask, _ = strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return mask
}

// foundAtStart returns runtime.fwdSig, the handlers that the runtime has found; or nil, where the
// program has no table of symbols. It reads the memory as a file, so that a mistake is an error
// and not a crash.
func foundAtStart() []uintptr {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return nil
	}
	defer program.Close()
	symbols, err := program.Symbols()
	if err != nil {
		return nil
	}
	counter, _, _, _ := runtime.Caller(0)
	us := runtime.FuncForPC(counter)
	var variable, function elf.Symbol
	for _, s := range symbols {
		switch s.Name {
		case "runtime.fwdSig":
			variable = s
		case us.Name():
			function = s
		}
	}
	const word = unsafe.Sizeof(uintptr(0))
	if variable.Size == 0 || variable.Size > 4096 || function.Value == 0 {
		return nil
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil
	}
	defer memory.Close()
	found := make([]byte, variable.Size)
	at := variable.Value + uint64(us.Entry()) - function.Value // the program may not lie where it was linked for
	if _, err := memory.ReadAt(found, int64(at)); err != nil { //nolint:gosec // an address
		return nil
	}
	handlers := make([]uintptr, len(found)/int(word))
	for i := range handlers {
		if word == 8 {
			handlers[i] = uintptr(binary.NativeEndian.Uint64(found[i*8:]))
		} else {
			handlers[i] = uintptr(binary.NativeEndian.Uint32(found[i*4:]))
		}
	}
	return handlers
}

// livingMembers reports whether a process of the group is there that is no zombie. known is false if
// that can't be found out.
func livingMembers(group int) (living, known bool) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return false, false
	}
	for _, name := range stats {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		// The name of the program, in parentheses, may have spaces and parentheses in it.
		_, rest, _ := strings.Cut(string(content[max(strings.LastIndex(string(content), ")"), 0):]), " ")
		fields := strings.Fields(rest) // state, parent, group
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true, true
		}
	}
	return false, true
}
