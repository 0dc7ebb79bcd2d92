package doctor

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// unreached reports why there is no working connection.
func (r *nodeReport) unreached(err error) {
	id, what := diagnose(err)
	if hungUp(err) && r.about.Ping > 0 {
		what = "answers PING, and hangs up at another command; is it a proxy that does not pass all commands on?"
	}
	r.report(id, levelError, "%s", what)
}

// diagnose classifies the errors of connecting, logging in and the first commands.
func diagnose(err error) (id, what string) {
	if said, ok := servers.Said(err); ok {
		return refusal(string(said))
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && !dns.IsTimeout:
		return "dns", "has a name that can't be looked up: " + dns.Err
	case strings.Contains(err.Error(), "tls: "): // all errors of package tls begin with this
		return "tls", "TLS fails: " + strings.TrimPrefix(servers.Shortened(err).Error(), "tls: ")
	case errors.Is(err, servers.ErrHandshake):
		return "tls", "does not answer the TLS handshake: it has no TLS, or hangs"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused", "refuses connections"
	case errors.Is(servers.Shortened(err), servers.ErrSilent):
		return "silent", "does not answer in time"
	case hungUp(err):
		return "unreachable", "closes the connection; does it want TLS (rediss://), or a certificate of its clients?"
	}
	return "unreachable", "can't be reached: " + servers.Shortened(err).Error()
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// refusal classifies the words of a server that does not let this user in.
func refusal(words string) (id, what string) {
	code, _, _ := strings.Cut(words, " ")
	switch {
	case code == "NOAUTH" || code == "WRONGPASS" || strings.Contains(strings.ToUpper(words), "AUTH") || strings.Contains(words, "invalid password"):
		return "auth", "refuses user or password: " + words
	case code == "LOADING" || code == "BUSY":
		return "not-ready", "is not ready: " + words
	}
	return "refused-by-server", "does not let us work: " + words
}

// answered reports whether an error is a reply of a server that works and lets this user in.
func answered(err error) bool {
	said, _ := servers.Said(err)
	switch code, _, _ := strings.Cut(string(said), " "); code {
	case "NOPERM", "MASTERDOWN", "MISCONF":
		return true // the user may not call PING, or the server has lost its primary or can't save; but it works
	}
	return false
}
