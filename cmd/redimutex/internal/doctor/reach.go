package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// unreached reports why there is no working connection.
func (r *nodeReport) unreached(err error) {
	id, what := diagnose(err)
	r.report(id, levelError, "%s", what)
}

// diagnose sorts the errors of connecting, logging in and the first commands.
func diagnose(err error) (id, what string) {
	var said redis.Error
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &said):
		return refusal(string(said))
	case errors.As(err, &dns) && !dns.IsTimeout:
		return "dns", "has a name that can't be looked up: " + dns.Err
	case isTLS(err):
		return "tls", "TLS fails: " + strings.TrimPrefix(servers.Shortened(err).Error(), "tls: ")
	case errors.Is(err, servers.ErrHandshake):
		return "tls", "does not answer the TLS handshake: it has no TLS, or hangs"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused", "refuses connections"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "silent", "does not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "unreachable", "closes the connection; does it want TLS (rediss://)?"
	}
	return "unreachable", "can't be reached: " + servers.Shortened(err).Error()
}

// refusal sorts what a server says instead of letting us in.
func refusal(words string) (id, what string) {
	words = string(cleaned(redis.Error(words)))
	code, _, _ := strings.Cut(words, " ")
	switch {
	case code == "NOAUTH" || code == "WRONGPASS" || strings.Contains(strings.ToUpper(words), "AUTH") || strings.Contains(words, "invalid password"):
		return "auth", "refuses user or password: " + words
	case code == "LOADING" || code == "BUSY":
		return "not-ready", "is not ready: " + words
	}
	return "refused-by-server", "does not let us work: " + words
}

// isTLS reports whether err comes from the handshake.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) ||
		strings.Contains(err.Error(), "tls: ")
}

// cleaned is what a server says, without where in our script.
func cleaned(said redis.Error) redis.Error {
	var short redis.Error
	errors.As(servers.Shortened(said), &short)
	return short
}
