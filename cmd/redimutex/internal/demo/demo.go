// Package demo is the verb that shows, with real processes, what the lock is for.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

const (
	workerCount    = 4
	goroutineCount = 4
	updateCount    = 6 // of each goroutine in a round
	lockTTL        = time.Second

	// The parts of the demo are bounded, so that it ends within 20 s on any machine.
	timeLimit = 18 * time.Second
)

// A demo is what the command line asked for.
type demo struct {
	urls servers.URLs
	t    *cli.Terminal
}

// Command declares the verb.
func Command() *cli.Command {
	d := &demo{}
	return &cli.Command{
		Name: "demo", Summary: "see processes race, without a lock and with it",
		About: []cli.Block{
			cli.Para(fmt.Sprintf(`Shows what the lock is for, on real processes: %d workers with %d goroutines each raise one
				counter in a file. They read it, think for a moment, and write it back.`, workerCount, goroutineCount)),
			cli.Sub("Round 1", "without a lock: updates get lost."),
			cli.Sub("Round 2", "with the lock: none is."),
			cli.Sub("Round 3", fmt.Sprintf(`with the lock, and a process that holds it is killed halfway through an update: the
				lock comes free by itself when its TTL of %s is over, and nothing is lost.`, inSeconds(lockTTL))),
			cli.Para("It takes about ten seconds, and needs nothing installed."),
		},
		Flags: []*cli.Flag{
			{Names: []string{"redis"}, Arg: "URL", Value: d.urls.Value(), Text: `Use this server instead of one inside the demo; repeat
				it for Redlock. -redis @FILE reads URLs from FILE. The demo has a key of its own, and deletes it.`},
		},
		Notes: []cli.Section{cli.Ends(cli.Item("0", "no update was lost under the lock"),
			cli.Item("1", "one was, or a round could not be completed"), cli.Item("2", "wrong usage"),
			cli.Item("69", "the server can't be used"), cli.WriteFails, cli.Item("128+N", "signal N ended it"))},
		Run: func(t *cli.Terminal, in *cli.Input) (int, error) {
			d.t = t
			s, err := openServer(d.urls)
			if err != nil {
				return 0, err
			}
			defer s.close()
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // head may end first, and the folder must go all the same
			ctx, stop := cli.UntilSignal(context.Background())
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, timeLimit, errors.New("it took too long"))
			defer cancel()
			return d.report(ctx, d.run(ctx, s))
		},
	}
}

// run plays the rounds. report deals with its errors.
func (d *demo) run(ctx context.Context, s *lockServer) error {
	if err := s.probe(ctx); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "redimutex-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c, err := openCounter(filepath.Join(folder, "counter"))
	if err != nil {
		return err
	}
	defer c.close()
	width, _ := cli.Size(d.t.Out)
	cli.Wrap(d.t.Out, "", "", fmt.Sprintf(`%d processes with %d goroutines each raise one counter in a file: they read it, think for a
		moment, and write it back.`, workerCount, goroutineCount), width)
	fmt.Fprintln(d.t.Out)
	cli.Wrap(d.t.Out, "", "", fmt.Sprintf("The lock is the key %s on %s.", s.key, s.name), width)
	var results []*result
	for i, r := range rounds {
		fmt.Fprintf(d.t.Out, "\n%d. %s\n\n", i+1, r.title)
		res, err := d.play(ctx, s, c, r)
		if err != nil {
			return err
		}
		results = append(results, res)
		if res.failed() {
			return verdict(results)
		}
		fmt.Fprint(d.t.Out, res.words(width), "\n", res.timeline.text(cli.StyleOf(d.t.Out), width))
		if err := d.t.Out.Failed(); err != nil {
			return err
		}
	}
	return verdict(results)
}

// play plays a round with new worker processes.
func (d *demo) play(ctx context.Context, s *lockServer, c *counter, r round) (*result, error) {
	if err := c.write(0); err != nil {
		return nil, err
	}
	team, err := startCrew(r.job(s, c), d.t.Err)
	if err != nil {
		return nil, err
	}
	defer team.close()
	return team.play(ctx, r, c, cli.NewProgress(d.t.Out))
}

// errLostUpdates is the failure that the lock must prevent.
var errLostUpdates = errors.New("updates were lost under the lock")

// verdict returns the result of all rounds together.
func verdict(results []*result) error {
	for _, r := range results {
		if r.lock && r.lost() > 0 {
			return errLostUpdates
		}
	}
	for _, r := range results {
		if err := r.incomplete(); err != nil {
			return err
		}
	}
	return nil
}

// report turns the outcome into words and the exit status.
func (d *demo) report(ctx context.Context, err error) (int, error) {
	if err == nil || d.t.Out.Failed() != nil {
		return cli.OK, nil // a write error is reported at the end of the program
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, errLostUpdates) {
		err = cause
	}
	fmt.Fprintf(d.t.Err, "redimutex demo: %v\n", err)
	var sig cli.Signalled
	var server *serverError
	switch {
	case errors.As(err, &sig):
		return 0, sig
	case errors.As(err, &server):
		return cli.Unavailable, nil
	}
	return cli.Failure, nil
}

// A lockServer has the lock of the demo: an embedded server, or the servers of the command line.
type lockServer struct {
	urls     servers.URLs // may contain passwords
	name     string
	key      string
	nodes    servers.Set
	embedded *miniredis.Miniredis
}

// A serverError says that the server can't be used.
type serverError struct{ words string }

func (e *serverError) Error() string { return e.words }

// openServer finds the given servers, or starts an embedded one if none are given.
func openServer(given servers.URLs) (*lockServer, error) {
	s := &lockServer{urls: given, key: "demo:" + strings.ToLower(rand.Text()[:8])}
	if len(given) == 0 {
		if strconv.IntSize == 32 {
			return nil, errors.New("on a system of 32 bits the demo needs a real server, because the embedded one cuts times to 32 bits: give -redis URL")
		}
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // otherwise nothing expires
		if err := s.embedded.StartAddr("127.0.0.1:0"); err != nil {
			return nil, err
		}
		s.urls = servers.URLs{"redis://" + s.embedded.Addr()}
	}
	nodes, err := servers.Find(s.urls, lockTTL/4)
	s.nodes, s.name = nodes, nodes.Names()
	if s.embedded != nil {
		s.name = "a server inside the demo"
	}
	return s, err
}

// probe locks and unlocks once. So a server that is unreachable, refuses this user or is read-only is reported before the demo
// begins.
func (s *lockServer) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, servers.DialTimeout)
	defer cancel()
	c := newClient(s.nodes, "demo")
	defer c.Close()
	m := c.Mutex(s.key)
	err := s.nodes.Connect(ctx)
	if err == nil {
		err = m.LockContext(ctx, 0)
	}
	if err == nil {
		err = m.UnlockContext(ctx)
		if errors.Is(err, redimutex.ErrUnavailable) {
			err = nil // a busy machine: the lock expires
		}
	}
	if err != nil {
		return &serverError{s.nodes.Explain(err)}
	}
	return nil
}

// close deletes the key, which a killed holder may have left behind, and ends the embedded server.
func (s *lockServer) close() {
	for _, n := range s.nodes {
		n.Server.Session(context.Background(), servers.QuickTimeout, s.key).Do("DEL", s.key) //nolint:errcheck // it expires
	}
	s.nodes.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// newClient returns a Client with the options of the demo. Waiters poll, so that any server will do. They poll often, because
// turns take only a few milliseconds here.
func newClient(nodes servers.Set, owner string) *redimutex.Client {
	return redimutex.NewClient(nodes.Pools(),
		redimutex.WithTTL(lockTTL),
		redimutex.WithPollInterval(10*time.Millisecond),
		redimutex.WithNodeTimeout(lockTTL/4), // a busy machine is not a broken server
		redimutex.WithOwner(owner),
		redimutex.WithLogger(slog.New(slog.DiscardHandler)), // it would write into the picture
	)
}
