// Package secrets looks for the password of the servers in all that the library and the command line
// let out, and shows that locks work for a user with few permissions, and over TLS.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/faults/internal/evidence"
	"github.com/redimutex/redimutex/internal/redistest"
)

// Rows returns what this package has for the table.
func Rows() []evidence.Row {
	return []evidence.Row{{
		ID: 21, Name: "secrets",
		Fault: "restricted ACL user, TLS, malformed URLs",
		Must:  "works; no secret in any output",
		Short: 8 * time.Second, Long: 20 * time.Second,
		Run: run,
	}}
}

// password is what no output may show.
const password = "s3cr3t-Pa55w0rd"

// A tally counts what was tried, and keeps what went wrong in words that don't repeat the password.
type tally struct {
	tried int
	wrong []string
}

// check is held if ok, and if the output does not have the password, or the greater part of it.
func (y *tally) check(what string, ok bool, output string) {
	y.tried++
	switch {
	case strings.Contains(output, password), strings.Contains(output, password[:8]), strings.Contains(output, password[7:]):
		y.wrong = append(y.wrong, "the password shows: "+strings.ReplaceAll(what, password, "PASSWORD"))
	case !ok:
		y.wrong = append(y.wrong, strings.ReplaceAll(what+": "+output, password, "PASSWORD"))
	}
}

func (y *tally) figure(library string, judged bool) evidence.Figure {
	f := evidence.Figure{Library: library, Held: y.tried - len(y.wrong), Tried: y.tried, NotJudged: !judged}
	f.Worst = "0 leaks"
	if len(y.wrong) > 0 {
		f.Worst = fmt.Sprintf("%d wrong, such as %.200q", len(y.wrong), y.wrong[0])
	}
	return f
}

// A library makes something of a URL, or an error.
type library func(rawURL string) error

func ours(rawURL string) error {
	p, err := redimutex.NewPool(rawURL)
	if err == nil {
		p.Close()
	}
	return err
}

func redigo(rawURL string) error {
	c, err := redis.DialURL(rawURL, redis.DialConnectTimeout(time.Nanosecond)) // which reaches no server
	if err == nil {
		c.Close()
	}
	return err
}

func goRedis(rawURL string) error {
	_, err := goredis.ParseURL(rawURL)
	return err
}

// parse gives a library all the malformed URLs. The comparison counts leaks alone: what others refuse is
// their business.
func parse(y *tally, l library, refuses bool) {
	for _, form := range malformed {
		err := l(strings.ReplaceAll(form, "PW", password))
		y.check(form, err != nil || !refuses, fmt.Sprint(err))
	}
}

func run(ctx context.Context, s evidence.Setup) (evidence.Result, error) {
	var mine, redigos, goRedises, commands tally
	parse(&mine, ours, true)
	parse(&redigos, redigo, false)
	parse(&goRedises, goRedis, false)
	report := func(done int) {
		if s.Report != nil {
			s.Report(done, 4)
		}
	}
	report(1)
	var notes []string
	for i, part := range []func(context.Context, testing.TB, *tally){restricted, encrypted} {
		err := evidence.Stage(ctx, func(t testing.TB) { part(ctx, t, &mine) })
		if errors.Is(err, evidence.ErrSkipped) {
			notes = append(notes, err.Error()+".")
		} else if err != nil {
			return evidence.Result{}, err
		}
		report(2 + i)
	}
	err := evidence.Stage(ctx, func(t testing.TB) { commandLine(ctx, t, &commands) })
	if err != nil {
		notes = append(notes, fmt.Sprintf("The command line was left out: %v.", err))
	}
	report(4)
	r := evidence.Result{Notes: append(notes,
		fmt.Sprintf("%d malformed URLs with a password in each, given to every library and every command; whatever is printed or returned "+
			"may not have the password in it, nor half of it. redsync and redislock leave URLs to redigo and go-redis.", len(malformed)))}
	r.Figures = append(r.Figures, mine.figure(evidence.Ours, true))
	if commands.tried > 0 {
		r.Figures = append(r.Figures, commands.figure(evidence.Ours+" command line", true))
	}
	r.Figures = append(r.Figures, redigos.figure("redigo", false), goRedises.figure("go-redis", false))
	return r, nil
}

// Permissions are those of docs/security.md for locks with fences and queues.
const Permissions = "~lock:* +set +getrange +del +pexpire +pttl +time +eval +evalsha +ping ~redimutex:fence:{lock:*} ~redimutex:queue:{lock:*} " +
	"&redimutex:* +get +publish +subscribe +role +zadd +zrem +zrange +zpopmin +zscore"

// restricted uses locks as a user with no more permissions than it needs, and is refused the rest.
func restricted(ctx context.Context, t testing.TB, y *tally) {
	redistest.Needs(t, redistest.ChannelRules)
	s := redistest.Real(t)
	args := []any{"SETUSER", "locks", "reset", "resetchannels", "on", ">" + password}
	for _, w := range strings.Fields(Permissions) {
		args = append(args, w)
	}
	s.Do("ACL", args...)
	at := func(user, pw string) string { return "redis://" + user + ":" + pw + "@" + s.Addr() }
	for _, opts := range [][]redimutex.Option{nil, {redimutex.WithFencing()}, {redimutex.WithQueue(), redimutex.WithFencing()}} {
		said, err := use(ctx, t, at("locks", password), "lock:k", opts...)
		y.check("a restricted user locks", err == nil, said)
	}
	for what, c := range map[string]struct{ url, key string }{
		"another key":    {at("locks", password), "other"},
		"wrong password": {at("locks", password+"x"), "lock:k"},
		"unknown user":   {at("nobody", password), "lock:k"},
	} {
		said, err := use(ctx, t, c.url, c.key)
		y.check(what+" is refused", err != nil, said)
	}
	silent := redistest.Real(t, "--rename-command", "AUTH", "")
	said, err := use(ctx, t, "redis://:"+password+"@"+silent.Addr(), "lock:k")
	y.check("a server that quotes what it was sent", err != nil, said)
}

// use locks and unlocks, and returns all that was said about it.
func use(ctx context.Context, t testing.TB, rawURL, key string, opts ...redimutex.Option) (said string, err error) {
	return useWith(ctx, t, rawURL, key, nil, opts...)
}

func useWith(ctx context.Context, t testing.TB, rawURL, key string, dial []redis.DialOption, opts ...redimutex.Option) (said string, err error) {
	pool, err := redimutex.NewPool(rawURL, dial...)
	if err != nil {
		return err.Error(), err
	}
	defer pool.Close()
	var logged strings.Builder
	logger := slog.New(slog.NewTextHandler(io.Writer(&logged), &slog.HandlerOptions{Level: slog.LevelDebug}))
	client := redimutex.NewClient([]redimutex.Pool{pool}, append(opts, redimutex.WithNodeTimeout(5*time.Second), redimutex.WithLogger(logger))...)
	m := client.Mutex(key)
	err = m.TryLockContext(ctx)
	if err == nil {
		err = m.UnlockContext(ctx)
	}
	if !m.TryLock() { // which logs
		err = fmt.Errorf("TryLock fails after %w", err)
	} else {
		m.Unlock()
	}
	client.Close() // no caller logs any more
	return fmt.Sprintf("%v %+v %#v %v %s", err, err, err, m, logged.String()), err
}
