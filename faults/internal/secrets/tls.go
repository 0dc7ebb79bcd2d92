package secrets

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/internal/redistest"
)

// encrypted uses locks over TLS, with an authority that is known and with one that is not.
func encrypted(ctx context.Context, t testing.TB, y *tally) {
	redistest.Needs(t, redistest.TLS)
	authority, certFile, keyFile := certificates(t)
	addr := redistest.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Real(t, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no", "--requirepass", password)
	at := "rediss://:" + password + "@" + addr
	known := x509.NewCertPool()
	known.AddCert(authority)
	trust := func(name string) []redis.DialOption {
		return []redis.DialOption{redis.DialTLSConfig(&tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12, ServerName: name})}
	}
	said, err := useWith(ctx, t, at, "k", trust(""))
	y.check("TLS with an authority that is known", err == nil, said)
	said, err = useWith(ctx, t, at, "k", nil)
	y.check("TLS with an authority that is unknown is refused", err != nil, said)
	said, err = useWith(ctx, t, at, "k", trust("other.example"))
	y.check("TLS with the name of another is refused", err != nil, said)
	said, err = useWith(ctx, t, "redis"+at[len("rediss"):], "k", nil)
	y.check("no TLS where the server wants it is refused", err != nil, said)
}

// certificates makes an authority, and has it sign a certificate for the loopback address, which lies
// in files.
func certificates(t testing.TB) (authority *x509.Certificate, certFile, keyFile string) {
	fatal := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	make := func(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		fatal(err)
		c, err := x509.ParseCertificate(der)
		fatal(err)
		return c, der
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority, _ = make(template, template, authorityKey, authorityKey)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(err)
	_, der := make(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, authority, key, authorityKey)
	secret, err := x509.MarshalECPrivateKey(key)
	fatal(err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		fatal(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return authority, write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", secret)
}
