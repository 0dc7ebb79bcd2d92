//go:build unix

package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// No command prints the password, however its server fails: refused, wrong password, no server, not Redis, or a server that
// quotes what it was sent.
func TestNoCommandSaysThePasswordOfAServerThatFails(t *testing.T) {
	t.Parallel()
	locked := redistest.Real(t, "--requirepass", "correct")
	parrot := parrot(t)
	for name, url := range map[string]string{
		"wrong password":   "redis://:hunter2@" + locked.Addr(),
		"unknown user":     "redis://me:hunter2@" + locked.Addr(),
		"no server":        "redis://:hunter2@127.0.0.1:1",
		"TLS where none":   "rediss://:hunter2@" + locked.Addr(),
		"no socket":        "unix://:hunter2@/nonexistent/socket",
		"not Redis":        "redis://:hunter2@" + parrot,
		"unknown host":     "redis://:hunter2@host.invalid",
		"unknown database": "redis://:hunter2@" + locked.Addr() + "/99",
	} {
		for _, verb := range []string{"run", "list", "show", "watch", "break", "doctor"} {
			t.Run(name+", "+verb, func(t *testing.T) {
				t.Parallel()
				args := []string{verb, "job"}
				switch verb {
				case "run":
					args = append(args, "-n", "--", "true")
				case "doctor":
					args = args[:1]
				case "break":
					args = append(args, "-yes")
				case "watch":
					args = append(args, "-for", "0.05")
				}
				p := clitest.Prepare(t, nil, args...)
				p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_URL="+url)
				p.Start()
				assert.NotZero(t, p.Status())
				assert.NotContains(t, p.Out()+p.Err(), "hunter2")
				assert.NotEmpty(t, p.Out()+p.Err())
			})
		}
	}
}

// parrot listens, and answers everything with an error that quotes what it was sent.
func parrot(t *testing.T) (addr string) {
	return redistest.NewRelay(t, "", func(_ *redistest.Relay, c net.Conn) {
		heard := make([]byte, 1024)
		for {
			n, err := c.Read(heard)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "-ERR what is %q?\r\n", heard[:n])
		}
	}).Addr()
}

// The command line trusts the authority in SSL_CERT_FILE, checks the name, and prints no password if that fails.
func TestCommandLineSpeaksTLSAndTrustsNobodyElse(t *testing.T) {
	t.Parallel()
	addr := redistest.NewTLSFront(t, redistest.Real(t, "--requirepass", "hunter2")).Addr()
	_, port, _ := net.SplitHostPort(addr)
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer c.Close()
	trusted := filepath.Join(t.TempDir(), "server.pem")
	certificate := &pem.Block{Type: "CERTIFICATE", Bytes: c.ConnectionState().PeerCertificates[0].Raw}
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(certificate), 0o600))
	for name, c := range map[string]struct {
		url, trust string
		status     int
		words      string
	}{
		"our authority":     {"rediss://:hunter2@" + addr, trusted, 0, ""},
		"unknown authority": {"rediss://:hunter2@" + addr, os.DevNull, cli.Unavailable, "unknown authority (use the name"},
		"wrong name":        {"rediss://:hunter2@localhost:" + port, trusted, cli.Unavailable, "localhost (use the name"},
		"no TLS":            {"redis://:hunter2@" + addr, trusted, cli.Unavailable, ""},
	} {
		p := clitest.Prepare(t, nil, "run", "job", "--", "echo", "ran")
		p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_URL="+c.url, "SSL_CERT_FILE="+c.trust, "SSL_CERT_DIR="+filepath.Dir(trusted)+"/none")
		p.Start()
		assert.Equal(t, c.status, p.Status(), name)
		assert.Equal(t, c.status == 0, strings.Contains(p.Out(), "ran"), name)
		assert.Contains(t, p.Err(), c.words, name)
		assert.NotContains(t, p.Out()+p.Err(), "hunter2", name)
	}
}
