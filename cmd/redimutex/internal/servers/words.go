package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/internal/quorum"
)

// Explain says in one sentence which servers failed and why, and what to do about it. Advice that several servers need is
// given once, behind the last of them.
func (s Set) Explain(err error) string { return cli.Printable(s.failures(err, hints(NodeErrors(err)))) }

// hints returns the advice for each error, once. Servers that were not waited for get none, unless no other failed.
func hints(errs []*redimutex.NodeError) []string {
	all, none := make([]string, len(errs)), !slices.ContainsFunc(errs, awaited)
	for i, n := range errs {
		if none || awaited(n) {
			all[i] = " (" + advice(n.Err) + ")"
		}
	}
	for i, hint := range all {
		if slices.Contains(all[i+1:], hint) {
			all[i] = ""
		}
	}
	return all
}

// awaited reports whether the library has waited for the server.
func awaited(n *redimutex.NodeError) bool { return !errors.Is(n, quorum.ErrNoAnswer) }

// Failures says which servers failed and why.
func (s Set) Failures(err error) string { return s.failures(err, make([]string, len(NodeErrors(err)))) }

func (s Set) failures(err error, hints []string) string {
	var words []string
	for i, n := range NodeErrors(err) {
		words = append(words, s[n.Node].Name+": "+Words(n.Err)+hints[i])
	}
	if len(words) == 0 {
		words = append(words, s.Names()+": "+strings.TrimPrefix(Words(err), "redimutex: "))
	}
	return strings.Join(words, "; ")
}

// Words returns the error of a server in words for people.
func Words(err error) string { return cli.Printable(Shortened(err).Error()) }

// wantsCertificate matches the errors of package tls if a server wants a client certificate. They have no type of their own.
var wantsCertificate = regexp.MustCompile(`tls: (certificate required|bad certificate|handshake failure)`)

// advice returns what to do about the error of a server.
func advice(err error) string {
	var said redis.Error
	if errors.As(Shortened(err), &said) {
		return adviceOnWords(string(said))
	}
	var untrusted *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server needs a new certificate, or this machine the right time"
	case wantsCertificate.MatchString(err.Error()):
		return "does it want a certificate of its clients? redimutex shows none: set tls-auth-clients to no there"
	case errors.As(err, &untrusted):
		return "use the name that the certificate is for, and name its authority in SSL_CERT_FILE"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "does it want TLS? Its URL then begins with rediss://. Or a certificate of its clients? redimutex shows none"
	case errors.Is(err, ErrHandshake), strings.Contains(err.Error(), "does not look like a TLS handshake"):
		return "redis:// is for servers without TLS"
	}
	return "does it run, and can it be reached from here? -redis URL or " + EnvURL + " names another"
}

// adviceOnCode is the advice for errors of a server that begin with a code.
var adviceOnCode = map[string]string{
	"NOAUTH":    needsLogin,
	"WRONGPASS": needsLogin,
	"WRONGTYPE": "this KEY has a lock of another kind, such as a semaphore, or something that is no lock, such as a hash of Redisson; " +
		"a lock needs another KEY",
	"MOVED":     "this is a node of a cluster, and another one serves KEY; name that one by -redis",
	"REPLICA":   "name the primary by -redis or " + EnvURL, // see package inspect
	"CROSSSLOT": "in a cluster several KEYs need the same {tag}, as in account:{eu}:1 account:{eu}:2",
	"NOPERM":    lacksPermission,
}

const (
	needsLogin      = "give user and password as in redis://user:password@host, by " + EnvURL + " or -redis @FILE"
	lacksPermission = "redimutex doctor says what this user lacks; give it -key PREFIX, with what KEY begins with, " +
		"and -need fencing; or, as run has -s or -permits, readers or semaphore"
)

// adviceOnWords returns what to do about an error that a server has sent.
func adviceOnWords(said string) string {
	code, _, _ := strings.Cut(said, " ")
	hint, known := adviceOnCode[code]
	switch {
	case code == "NOPERM" && looks.MatchString(said):
		return "redimutex list -h says what a user needs that looks at locks"
	case known:
		return hint
	case strings.Contains(said, "user executing the script can't"), strings.Contains(said, "ACL failure in script"):
		return lacksPermission
	case strings.Contains(said, "number of arguments for 'auth'"):
		return "a server before Redis 6 knows no users: write redis://:password@host"
	case strings.Contains(said, "DB index"):
		return "the URL names a database that this server does not have: write another number behind the last / of the URL, or none"
	}
	return "redimutex doctor looks for the reason, and says what to do"
}

// looks matches the commands that a user needs for looking and not for locking: doctor does not miss them.
var looks = regexp.MustCompile(`'(scan|type|getrange)'`)

// What servers add to the error of a failed script: the position in the script, which helps no reader. Before Redis 7 it is in
// front; it is shorter if the script returns the error.
var (
	scriptBehind = regexp.MustCompile(`,? ?script: [0-9a-f]{40}, on @\S+`)
	scriptBefore = regexp.MustCompile(`^(?:ERR Error running script \(call to f_[0-9a-f]+\): (?:@?\w+: ?\d+: )*|@user_script: \d+: )-?`)
)

// Said returns the error of the server in err, without the position in the library's script. ok is false if there is none: the
// server did not answer.
func Said(err error) (said redis.Error, ok bool) {
	if !errors.As(err, &said) {
		return "", false
	}
	if strings.Contains(string(said), "Protocol error: unauthenticated ") { // it limits what it reads before the login
		return "NOAUTH Authentication required.", true
	}
	words := scriptBefore.ReplaceAllString(string(said), "")
	return redis.Error(strings.TrimSpace(scriptBehind.ReplaceAllString(words, ""))), true
}

// Shortened removes from an error what is shown elsewhere, or what no user needs to know.
func Shortened(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return ErrSilent
	}
	if said, ok := Said(err); ok {
		return said
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// NodeErrors returns all NodeErrors in the tree of err.
func NodeErrors(err error) []*redimutex.NodeError {
	switch e := err.(type) { //nolint:errorlint // we walk the tree ourselves
	case *redimutex.NodeError:
		return []*redimutex.NodeError{e}
	case interface{ Unwrap() []error }:
		var all []*redimutex.NodeError
		for _, err := range e.Unwrap() {
			all = append(all, NodeErrors(err)...)
		}
		return all
	case interface{ Unwrap() error }:
		return NodeErrors(e.Unwrap())
	}
	return nil
}

// TooMany reports whether so many of n servers failed that the others are no majority.
func TooMany(failed, n int) bool { return failed > (n-1)/2 }
