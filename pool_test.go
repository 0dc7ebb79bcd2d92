package redimutex_test

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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/redistest"
)

// openPool returns the pool for a URL, and closes it at the end of the test.
func openPool(t testing.TB, rawURL string, opts ...redis.DialOption) *redis.Pool {
	t.Helper()
	p, err := redimutex.NewPool(rawURL, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// ask makes the pool connect and run a command.
func ask(p *redis.Pool, command string, args ...any) (any, error) {
	c := p.Get()
	defer c.Close()
	return c.Do(command, args...)
}

func TestAPoolConnectsToWhereTheURLSays(t *testing.T) {
	for rawURL, want := range map[string]string{
		"redis://host":                     "tcp host:6379",
		"redis://host/":                    "tcp host:6379",
		"redis://host:1234":                "tcp host:1234",
		"redis://host:1234/0":              "tcp host:1234",
		"redis://:pw@host:1234":            "tcp host:1234",
		"redis://user:pw@host":             "tcp host:6379",
		"redis://[::1]:1234":               "tcp [::1]:1234",
		"redis://[::1]":                    "tcp [::1]:6379",
		"REDIS://host":                     "tcp host:6379",
		"redis://:p%40%3A%2F%23%3F@host":   "tcp host:6379",
		"unix:///run/redis.sock":           "unix /run/redis.sock",
		"unix://:pw@/run/redis.sock":       "unix /run/redis.sock",
		"unix:///run/redis.sock?db=3":      "unix /run/redis.sock",
		"unix:///run/with%20space/r.sock":  "unix /run/with space/r.sock",
		"rediss://user:pw@host:1234/7":     "tcp host:1234",
		"rediss://host.example.com":        "tcp host.example.com:6379",
		"redis://10.0.0.1:65535/15":        "tcp 10.0.0.1:65535",
		"redis://user:@host-with-dash:100": "",
	} {
		var got string
		p, err := redimutex.NewPool(rawURL, redis.DialContextFunc(func(_ context.Context, network, address string) (net.Conn, error) {
			got = network + " " + address
			return nil, os.ErrClosed
		}))
		if want == "" {
			require.Error(t, err, rawURL)
			continue
		}
		require.NoError(t, err, rawURL)
		_, err = ask(p, "PING")
		require.ErrorIs(t, err, os.ErrClosed, rawURL)
		assert.Equal(t, want, got, rawURL)
	}
}

const secret = "s3cr3t-Pa55w0rd"

// malformed are malformed URLs as people write them. PW stands for the password.
var malformed = []string{
	"", "PW", "host", ":PW@host", "user:PW@host:6379", "//:PW@host", "://:PW@host",
	"http://:PW@host", "rediss:/:PW@host", "redis:PW@host", "redis:///:PW@host",
	"redis://:PW@", "redis://:PW@:6379", "redis://:PW@host:port", "redis://:PW@host:0",
	"redis://:PW@host:65536", "redis://:PW@host:-1", "redis://:PW@host:6379:6379", "redis://:PW@host/db",
	"redis://:PW@host/-1", "redis://:PW@host/0/1", "redis://:PW@host/1e3", "redis://:PW@host?db=1",
	"redis://:a/PW@host", "redis://:a#PW@host", "redis://:a?PW@host", "redis://:PW/b@host", "redis://:PW#b@host",
	"redis://:PW?b@host", "redis://:PW%@host", "redis://:PW%zz@host", "redis://:PW b@host",
	"redis://PW@host", "redis://:PW@[::1", "redis://:PW@ho st", "redis://:PW@host\n", "redis://:PW@host#x", "\x00redis://:PW@host",
	"redis://:PW@host/PW", "redis://:PW@host:PW", "unix://:PW@relative/path", "unix://:PW@", "unix://:PW@/s?db=x",
	"unix://:PW@/s?name=PW", "unix://:PW@/s?db=%zz", "unix://:PW@/s?db=-1", "unix:/PW@s", "unix:///s#PW",
}

func TestNoPasswordInTheErrorOfAMalformedURL(t *testing.T) {
	assert.GreaterOrEqual(t, len(malformed), 30)
	for _, form := range malformed {
		rawURL := strings.ReplaceAll(form, "PW", secret)
		p, err := redimutex.NewPool(rawURL)
		require.Error(t, err, rawURL)
		assert.Nil(t, p)
		assert.NotContains(t, err.Error(), secret, rawURL)
		assert.True(t, strings.HasPrefix(err.Error(), "redimutex: the Redis URL is not valid: "), err.Error())
	}
}

func TestADatabaseThatTheServerDoesNotHaveIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, "--databases", "2")
	pool, err := redimutex.NewPool("redis://" + s.Addr() + "/2")
	require.NoError(t, err)
	t.Cleanup(func() { pool.Close() })
	err = newMutex(t, pool, "k").LockContext(t.Context(), 0)
	require.ErrorContains(t, err, "the server does not have that database; "+
		"choose a lower number in the URL, from 0, or raise databases in its configuration: ERR DB index is out of range")
	assert.NotErrorIs(t, err, redimutex.ErrUnavailable)
}

func FuzzNewPool(f *testing.F) {
	for _, form := range malformed {
		before, after, _ := strings.Cut(form, "PW")
		f.Add(before, after)
	}
	f.Add("redis://user:", "@host:6379/1")
	f.Add("unix://:", "@/run/redis.sock?db=2")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before, secret) || strings.Contains(after, secret) {
			t.Skip()
		}
		p, err := redimutex.NewPool(before + secret + after)
		if err == nil {
			if p == nil {
				t.Fatal("neither a pool nor an error")
			}
			return
		}
		for _, part := range []string{secret, secret[:8], secret[7:]} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("the password shows in %q", err)
			}
		}
	})
}

// The password is right, wrong or missing, and full of characters that a URL must encode. Whatever happens, no error shows it.
func TestAPoolLogsInAndKeepsThePasswordToItself(t *testing.T) {
	redistest.Needs(t, redistest.ACL, redistest.ClientInfo)
	const password = "p@ss:w/o#r?d %41"
	r := redistest.Real(t, "--requirepass", password)
	at := func(user *url.Userinfo, rest string) string {
		return (&url.URL{Scheme: "redis", User: user, Host: r.Addr(), Path: rest}).String()
	}
	p := openPool(t, at(url.UserPassword("", password), "/3"))
	_, err := ask(p, "ACL", "SETUSER", "lock", "on", ">"+password, "~*", "+@all")
	require.NoError(t, err)

	for _, user := range []string{"", "default", "lock"} {
		p := openPool(t, at(url.UserPassword(user, password), "/3"))
		info, err := redis.String(ask(p, "CLIENT", "INFO"))
		require.NoError(t, err, user)
		assert.Contains(t, info, " db=3 ")
		if user == "" {
			user = "default"
		}
		assert.Contains(t, info, " user="+user+" ")
	}
	for _, bad := range []*url.Userinfo{nil, url.UserPassword("", password+"x"), url.UserPassword("unknown", password)} {
		m := newMutex(t, openPool(t, at(bad, "")), "k")
		err := m.LockContext(t.Context(), 0)
		require.Error(t, err)
		require.NotErrorIs(t, err, redimutex.ErrUnavailable, "waiting can't fix a wrong password")
		assert.NotContains(t, err.Error(), password)
		assert.NotContains(t, err.Error(), "p@ss")
		assert.Regexp(t, "NOAUTH|WRONGPASS", err.Error())
	}
}

func TestAPoolSpeaksOverAUnixSocket(t *testing.T) {
	socket := redistest.Socket(t)
	r := redistest.Real(t, "--unixsocket", socket, "--requirepass", secret)
	p := openPool(t, "unix://:"+secret+"@"+socket+"?db=5")
	info, err := redis.String(ask(p, "CLIENT", "LIST")) // there is no other client
	require.NoError(t, err)
	assert.Contains(t, info, " db=5 ")
	assert.Contains(t, info, socket)
	m := newMutex(t, p, "k")
	m.Lock()
	m.Unlock() //nolint:staticcheck // the pair is what the test needs
	assert.NotEmpty(t, r.Addr())
}

func TestAPoolTestsConnectionsThatWereIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		p := openPool(t, "redis://host", redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) { return m.Dial() }))
		defer p.Close()
		_, err := ask(p, "PING")
		require.NoError(t, err)
		commands := func() int {
			before := m.CommandCount()
			_, err := ask(p, "ECHO", "x")
			require.NoError(t, err)
			return m.CommandCount() - before
		}
		assert.Equal(t, 1, commands(), "a connection that was just used")
		time.Sleep(time.Minute)
		assert.Equal(t, 2, commands(), "a connection that was idle for a minute")
		assert.Equal(t, 1, m.TotalConnectionCount())
		time.Sleep(5 * time.Minute)
		commands()
		assert.Equal(t, 2, m.TotalConnectionCount(), "a connection that was idle for longer is dropped")
	})
}

// An authority signs certificates for tests.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{t: t, key: key, pool: x509.NewCertPool()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.cert)
	return a
}

// issue writes a certificate for the loopback address, and its key, to files.
func (a *authority) issue(dir string) (certFile, keyFile string) {
	t := a.t
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", keyDER)
}

func TestAPoolSpeaksTLSAndTrustsNobodyElse(t *testing.T) {
	redistest.Needs(t, redistest.TLS)
	ca := newAuthority(t)
	certFile, keyFile := ca.issue(t.TempDir())
	address := redistest.FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	redistest.Real(t, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no", "--requirepass", secret)

	at := "rediss://:" + secret + "@" + address
	trusting := func(change func(*tls.Config)) redis.DialOption {
		c := &tls.Config{RootCAs: ca.pool, MinVersion: tls.VersionTLS12}
		if change != nil {
			change(c)
		}
		return redis.DialTLSConfig(c)
	}
	m := newMutex(t, openPool(t, at, trusting(nil)), "k")
	require.NoError(t, m.LockContext(t.Context(), 30*time.Second))
	m.Unlock()

	for name, c := range map[string]struct {
		url   string
		opts  []redis.DialOption
		words string
	}{
		"unknown authority": {at, nil, "unknown authority"},
		"wrong name":        {at, []redis.DialOption{trusting(func(c *tls.Config) { c.ServerName = "other.example" })}, "other.example"},
		"no TLS":            {"redis" + strings.TrimPrefix(at, "rediss"), nil, ""},
	} {
		_, err := ask(openPool(t, c.url, c.opts...), "PING")
		require.ErrorContains(t, err, c.words, name)
		assert.NotContains(t, err.Error(), secret, name)
		failing := newMutex(t, openPool(t, c.url, c.opts...), "k")
		err = failing.TryLockContext(t.Context())
		require.ErrorIs(t, err, redimutex.ErrUnavailable, name)
		assert.NotContains(t, err.Error(), secret, name)
	}
}

// A server without AUTH quotes the password in its refusal, or the beginning of a long password.
func TestAServerThatQuotesThePasswordIsNotQuoted(t *testing.T) {
	s := redistest.Real(t, "--rename-command", "AUTH", "")
	for _, password := range []string{secret, `"quo'ted"` + "\n", "short", strings.Repeat(secret, 20)} {
		u := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: s.Addr()}
		err := newMutex(t, openPool(t, u.String()), "k").LockContext(t.Context(), 0)
		require.ErrorContains(t, err, "unknown command")
		require.NotErrorIs(t, err, redimutex.ErrUnavailable, "waiting can't fix it")
		for _, part := range []string{password, strings.TrimSpace(password), secret, "quo", "args"} {
			assert.NotContains(t, err.Error(), part)
		}
	}
}

func TestThePoolsThatWeDialKeepEveryDeadline(t *testing.T) {
	assert.True(t, conn.Of(openPool(t, "redis://host")).Punctual)
	assert.True(t, conn.Of(openPool(t, "rediss://user:pw@host", redis.DialConnectTimeout(time.Second))).Punctual)
	dial := redimutex.Dialer("tcp", "host:6379")
	assert.True(t, conn.Of(&redis.Pool{DialContext: dial}).Punctual)
	assert.False(t, conn.Of(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) { return dial(ctx) }}).Punctual)
}

func TestAPoolAtAnAddressIsThatOfItsURL(t *testing.T) {
	s := redistest.Start(t)
	p := redimutex.NewPoolAt("tcp", s.Addr(), redis.DialDatabase(3))
	defer p.Close()
	assert.True(t, conn.Of(p).Punctual)
	require.NoError(t, redimutex.New(p, "k", redimutex.WithMinHold(time.Minute)).TryDo(t.Context(), func(context.Context) error { return nil }))
	left, err := redis.Int(ask(openPool(t, s.URL()+"/3"), "PTTL", "k"))
	require.NoError(t, err)
	assert.Positive(t, left)
	other := openPool(t, s.URL())
	assert.Equal(t, []any{other.MaxIdle, other.IdleTimeout, true}, []any{p.MaxIdle, p.IdleTimeout, p.TestOnBorrowContext != nil})
}
