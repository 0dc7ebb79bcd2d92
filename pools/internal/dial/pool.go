package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
)

// maxAge is how old a connection to a primary chosen by Sentinel may become. An old primary accepts writes until Sentinel
// reaches it: for seconds, or for as long as it is cut off from Sentinel but not from this process. A process that leaves it
// within a second renews its locks at the new primary before they expire there.
const maxAge = time.Second

// KeepYoung is for the pool of a primary chosen by Sentinel: its connections live for at most a second.
func KeepYoung(pool *redis.Pool) {
	if pool.MaxConnLifetime == 0 || pool.MaxConnLifetime > maxAge {
		pool.MaxConnLifetime = maxAge
	}
}

// Refusals collects options that can't be carried over.
type Refusals struct {
	Package string // named in the errors
	errs    []error
}

// Refuse notes an option that can't be carried over, if it is set.
func (r *Refusals) Refuse(option string, set bool, advice string) {
	if set {
		r.errs = append(r.errs, fmt.Errorf("%s: connections of redigo can't do what %s asks for; %s", r.Package, option, advice))
	}
}

// Err returns an error that names all options that were refused.
func (r *Refusals) Err() error { return errors.Join(r.errs...) }

// Options are the common fields of the ClientOption of valkey-go and of rueidis, which are two types with the same fields.
type Options struct {
	Refusals
	InitAddress []string
	MasterSet   string // the name of the primary for the Sentinels at InitAddress; "": InitAddress lists servers
	Single      bool   // the first address is no node of a cluster

	Server, Sentinel       Account
	Commands               [][]any // to send to a server after the login
	AuthCredentials        func(net.Addr) (user, password string, err error)
	DialFn                 func(string, *net.Dialer, *tls.Config) (net.Conn, error)
	DialCtxFn              func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)
	WriteTimeout, Lifetime time.Duration
	KeepAlive, DialTimeout time.Duration // the client's defaults

	// Cluster returns a *redisc.Cluster. It is a function because the root does not depend on redisc.
	Cluster func([]string, []redis.DialOption, func(string, ...redis.DialOption) (*redis.Pool, error)) PoolCloser
}

// An Account says how to dial and log in to one kind of server.
type Account struct {
	Username, Password, ClientName string
	Dialer                         net.Dialer
	TLSConfig                      *tls.Config
}

// A PoolCloser is a pool that its owner closes.
type PoolCloser interface {
	redimutex.Pool
	io.Closer
}

// Pool returns a pool for the servers that NewClient would connect to. It connects only if it must ask whether a single
// address belongs to a cluster.
func (o *Options) Pool() (PoolCloser, error) {
	if len(o.InitAddress) == 0 {
		err := fmt.Errorf("%s: InitAddress is empty; it needs a server, some nodes of a cluster, or Sentinels", o.Package)
		o.errs = append(o.errs, err)
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	o.InitAddress = slices.Clone(o.InitAddress)
	first := o.InitAddress[0]
	login := o.login(&o.Server, o.Commands)
	switch {
	case o.MasterSet != "":
		s := o.sentinels(login.Dial)
		login.Dial, login.Primary = s.dial, true
		pool := o.newPool(o.MasterSet, o.dialOptions(login)...)
		KeepYoung(pool)
		return pool, nil
	case len(o.InitAddress) > 1 && !o.Single:
		return o.cluster(login), nil
	}
	pool := o.newPool(first, o.dialOptions(login)...)
	if o.Single {
		return pool, nil
	}
	clustered, err := isCluster(pool, 3*o.patience(&o.Server))
	if err == nil && !clustered {
		return pool, nil
	}
	pool.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: asking whether %s is a cluster (ForceSingleClient says that it is not): %w", o.Package, first, err)
	}
	return o.cluster(login), nil
}

func (o *Options) newPool(address string, opts ...redis.DialOption) *redis.Pool {
	pool := redimutex.NewPoolAt("tcp", address, opts...)
	pool.MaxConnLifetime = max(o.Lifetime, 0)
	return pool
}

func (o *Options) cluster(l *Login) PoolCloser {
	return o.Cluster(o.InitAddress, o.dialOptions(l), func(address string, opts ...redis.DialOption) (*redis.Pool, error) {
		return o.newPool(address, opts...), nil
	})
}

// dialOptions returns the options for redigo, with the timeouts of the client.
func (o *Options) dialOptions(l *Login) []redis.DialOption {
	timeout := o.WriteTimeout
	if timeout == 0 { // the default of the clients
		timeout = 10 * max(o.KeepAlive, o.Server.Dialer.KeepAlive)
	}
	return []redis.DialOption{
		redis.DialContextFunc(l.Connect),
		redis.DialReadTimeout(max(timeout, 0)),
		redis.DialWriteTimeout(max(timeout, 0)),
	}
}

// login returns the Login for one kind of server.
func (o *Options) login(a *Account, commands [][]any) *Login {
	return &Login{
		Dial: o.dialler(a),
		Credentials: func(_ context.Context, c net.Conn) (user, password string, err error) {
			if o.AuthCredentials == nil {
				return a.Username, a.Password, nil
			}
			return o.AuthCredentials(c.RemoteAddr())
		},
		Name:     a.ClientName,
		Commands: commands,
		Timeout:  o.timeout(a),
	}
}

func (o *Options) timeout(a *Account) time.Duration {
	if a.Dialer.Timeout == 0 {
		return o.DialTimeout
	}
	return a.Dialer.Timeout
}

// patience returns timeout, or the default if there is none.
func (o *Options) patience(a *Account) time.Duration {
	if t := o.timeout(a); t > 0 {
		return t
	}
	return o.DialTimeout
}

// dialler returns a function that dials as the clients do.
func (o *Options) dialler(a *Account) Func {
	dialer := a.Dialer
	dialer.Timeout = o.timeout(a)
	if dialer.KeepAlive == 0 {
		dialer.KeepAlive = o.KeepAlive
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		switch {
		case o.DialCtxFn != nil:
			return o.DialCtxFn(ctx, address, &dialer, a.TLSConfig)
		case o.DialFn != nil:
			return o.DialFn(address, &dialer, a.TLSConfig)
		case a.TLSConfig != nil:
			return (&tls.Dialer{NetDialer: &dialer, Config: a.TLSConfig}).DialContext(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// isCluster asks the server as NewClient does.
func isCluster(pool *redis.Pool, bound time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	c, err := pool.GetContext(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	_, err = redis.DoContext(c, ctx, "CLUSTER", "SLOTS")
	var said redis.Error
	if errors.As(err, &said) && (strings.Contains(strings.ToUpper(string(said)), "CLUSTER") || string(said) == "command is not allowed") {
		return false, nil
	}
	return err == nil, err
}
