//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// No command says the password, however its server fails: refused, wrong password, no server, not Redis,
// or a server that quotes what it was sent.
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

// The command line trusts what SSL_CERT_FILE names, checks the name, and says no password when that fails.
func TestCommandLineSpeaksTLSAndTrustsNobodyElse(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.TLS)
	dir := t.TempDir()
	authority := certify(t, dir, "authority", nil)
	server := certify(t, dir, "server", authority)
	stranger := certify(t, dir, "stranger", nil)
	addr := redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redistest.Real(t, "--tls-port", port, "--tls-cert-file", server.file, "--tls-key-file", server.keyFile,
		"--tls-ca-cert-file", authority.file, "--tls-auth-clients", "no", "--requirepass", "hunter2")
	for name, c := range map[string]struct {
		url, trust string
		status     int
		words      string
	}{
		"our authority":     {"rediss://:hunter2@" + addr, authority.file, 0, ""},
		"unknown authority": {"rediss://:hunter2@" + addr, stranger.file, cli.Unavailable, "unknown authority"},
		"wrong name":        {"rediss://:hunter2@localhost:" + port, authority.file, cli.Unavailable, "localhost"},
		"no TLS":            {"redis://:hunter2@" + addr, authority.file, cli.Unavailable, ""},
	} {
		p := clitest.Prepare(t, nil, "run", "job", "--", "echo", "ran")
		p.Cmd.Env = append(p.Cmd.Env, "REDIMUTEX_URL="+c.url, "SSL_CERT_FILE="+c.trust, "SSL_CERT_DIR="+dir+"/none")
		p.Start()
		assert.Equal(t, c.status, p.Status(), name)
		assert.Equal(t, c.status == 0, strings.Contains(p.Out(), "ran"), name)
		assert.Contains(t, p.Err(), c.words, name)
		assert.NotContains(t, p.Out()+p.Err(), "hunter2", name)
	}
}

// A certificate lies in files.
type certificate struct {
	*x509.Certificate
	key           *ecdsa.PrivateKey
	file, keyFile string
}

// certify makes a certificate for the loopback address, which signer signs; without one it is an authority.
func certify(t *testing.T, dir, name string, signer *certificate) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &certificate{key: key, file: filepath.Join(dir, name+".pem"), keyFile: filepath.Join(dir, name+"-key.pem")}
	c.Certificate = &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if signer == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		signer = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c.Certificate, signer.Certificate, &key.PublicKey, signer.key)
	require.NoError(t, err)
	c.Certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(c.keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return c
}
