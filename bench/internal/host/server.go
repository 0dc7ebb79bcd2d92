// Package host is the machine that the benchmark runs on, and the Redis server that it starts there.
package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Server is a Redis server on a free loopback port, with defaults but for persistence, which is
// off. It ends with this process, also when that is killed.
type Server struct {
	Addr  string
	dir   string
	guard *exec.Cmd      // a shell that kills the server, and tidies up, when our end of its standard input closes
	leash io.WriteCloser // our end
}

// StartServer starts one.
func StartServer() (*Server, error) {
	var binary string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			binary = path
			break
		}
	}
	if binary == "" {
		return nil, errors.New("there is no redis-server and no valkey-server on the PATH")
	}
	var failures []error
	for range 10 { // the port may be somebody else's
		s := new(Server)
		err := s.start(binary)
		if err == nil {
			return s, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func (s *Server) start(binary string) (err error) {
	if s.dir, err = os.MkdirTemp("", "redimutex-bench"); err != nil {
		return err
	}
	// Below the ports that the system gives to outgoing connections.
	port := strconv.Itoa(10000 + rand.N(12000))
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	s.guard = exec.Command("sh", "-c", `"$@" >redis.log 2>&1 & echo $!; cat >/dev/null; kill -9 $!; rm -rf "$0"`, s.dir,
		binary, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
	s.guard.Dir = s.dir
	out, err := s.guard.StdoutPipe()
	if err != nil {
		return err
	}
	if s.leash, err = s.guard.StdinPipe(); err != nil {
		return err
	}
	if err := s.guard.Start(); err != nil {
		return err
	}
	if err := s.up(out); err != nil {
		log, _ := os.ReadFile(s.dir + "/redis.log")
		s.Close()
		return fmt.Errorf("%w: %s", err, log)
	}
	return nil
}

// up waits until the server answers, and makes sure that it is ours.
func (s *Server) up(out io.Reader) error {
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	pid := strings.TrimSpace(line)
	err = errors.New("no answer")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var info map[string]string
		if info, err = s.Info(); err == nil {
			if info["process_id"] != pid {
				return errors.New("another server has the port")
			}
			return nil
		}
	}
	return err
}

// Close ends the server.
func (s *Server) Close() {
	s.leash.Close()
	s.guard.Wait() //nolint:errcheck // it reports the kill
}

// Do runs a command on a connection of its own.
func (s *Server) Do(command string, args ...any) (any, error) {
	limit := 10 * time.Second
	c, err := redis.Dial("tcp", s.Addr, redis.DialConnectTimeout(limit), redis.DialReadTimeout(limit))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(command, args...)
}

// Info returns what the server says of itself.
func (s *Server) Info() (map[string]string, error) {
	text, err := redis.String(s.Do("INFO"))
	if err != nil {
		return nil, err
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}
