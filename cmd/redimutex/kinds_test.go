//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/sight"
	"github.com/redimutex/redimutex/internal/locktest"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// shown returns what show prints about a lock, for people and for scripts.
func shown(t *testing.T, s *redistest.Server, key string) (words string, lock sight.Lock) {
	t.Helper()
	_, words, stderr := clitest.Run(t, s, "show", key)
	assert.Empty(t, stderr)
	_, out, _ := clitest.Run(t, s, "show", "-json", key)
	return words, clitest.FromJSON[sight.Lock](t, out)
}

func TestVerbsKnowASemaphore(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	semaphore := func(owner string, opts ...redimutex.Option) *redimutex.Semaphore {
		opts = append(opts, redimutex.WithOwner(owner), redimutex.WithTTL(time.Minute), redimutex.WithQueue())
		return redimutex.NewSemaphore(s.Pool(), "job", 2, opts...)
	}
	var held []*redimutex.Lease
	for _, owner := range []string{"web-1", "web-2"} {
		l, err := semaphore(owner).Acquire(t.Context())
		require.NoError(t, err)
		held = append(held, l)
	}
	clitest.Enqueue(t, s, "job", "2 0", "web-3", true)
	words, lock := shown(t, s, "job")
	assert.Regexp(t, `^job: held by 2 permit holders, for another [0-9.m]+s, 1 waiting, on \S+\n  web-[12], for another [0-9.m]+s\n  web-[12], .*\n  1\. web-3, for .*dead`, words)
	assert.Equal(t, server.Semaphore.Name, lock.Kind)
	assert.Equal(t, 2, lock.Holding)
	assert.False(t, lock.Foreign)
	require.Len(t, lock.Holders, 2)
	assert.Positive(t, lock.Holders[0].TTL)
	require.Len(t, lock.Queue, 1)
	assert.Equal(t, server.Semaphore.Name, lock.Queue[0].Kind)
	_, list, _ := clitest.Run(t, s, "list")
	assert.Regexp(t, `\njob +2 permit holders +- +[0-9.m]+s +- +1`, list)

	watch := clitest.Launch(t, s, "watch", "-interval", "0.05", "job")
	watch.Says("held by 2 permit holders")
	require.NoError(t, held[0].Release(t.Context()))
	watch.Says("held by 1 permit holder")
	words, _ = shown(t, s, "job")
	assert.Contains(t, words, "  web-2, ")

	out, _ := clitest.RunEnds(t, cli.OK, s, "break", "-yes", "job")
	assert.Contains(t, out, "The lock is broken.\n  now: free\n")
	watch.Says("released by 1 permit holder")
	for _, l := range held {
		assert.NotContains(t, words+out+list+watch.Out(), l.Token()[:36])
	}
	assert.NotContains(t, s.Keys(), "job")
}

func TestVerbsKnowReadersAndWriters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := func(owner string) *redimutex.RWMutex {
		return redimutex.NewRWMutex(s.Pool(), "job", redimutex.WithOwner(owner), redimutex.WithTTL(time.Minute))
	}
	var held []*redimutex.Lease
	for _, owner := range []string{"web-1", "web-2"} {
		l, err := open(owner).RAcquire(t.Context())
		require.NoError(t, err)
		held = append(held, l)
	}
	words, lock := shown(t, s, "job")
	assert.Regexp(t, `^job: held by 2 readers, for another [0-9.m]+s, on \S+\n  web-[12], for another [0-9.m]+s\n  web-[12], `, words)
	assert.Equal(t, server.Reader.Name, lock.Kind)
	require.Len(t, lock.Holders, 2)

	written := make(chan *redimutex.Lease, 1)
	go func() {
		l, _ := open("web-3").Acquire(t.Context())
		written <- l
	}()
	redistest.Wait(t, "the writer shows that it waits", func() bool {
		_, lock := shown(t, s, "job")
		return lock.Waiting == 1
	})
	_, list, _ := clitest.Run(t, s, "list")
	assert.Regexp(t, `\njob +2 readers +- +[0-9.m]+s +\S+ +1`, list)

	out, _ := clitest.RunEnds(t, cli.OK, s, "break", "-yes", "job")
	assert.Contains(t, out, "The lock is broken.")
	assert.Contains(t, out, "Its holders learn")
	writer := <-written
	require.NotNil(t, writer)
	for _, l := range append(held, writer) {
		assert.NotContains(t, words+out+list, l.Token()[:36])
	}
	words, _ = shown(t, s, "job")
	assert.Contains(t, words, "held by web-3")
}

// A broken lock goes to the first waiter in its queue, with the kind that this waiter wants.
func TestBrokenLockOfAWriterGoesToTheReadersThatWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithTTL(time.Minute), redimutex.WithQueue())
	defer client.Close()
	writer := client.RWMutex("job", redimutex.WithOwner("web-1"))
	writer.Lock()
	other := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithTTL(time.Minute), redimutex.WithQueue())
	defer other.Close()
	read := make(chan error, 1)
	go func() { read <- other.RWMutex("job", redimutex.WithOwner("web-2")).RLockContext(t.Context(), 0) }()
	locktest.WaitQueued(t, s, "job", 1)
	words, lock := shown(t, s, "job")
	assert.Regexp(t, `(?m)^  1\. web-2 \(reader\), for`, words)
	assert.Equal(t, server.Writer.Name, lock.Kind)
	clitest.RunEnds(t, cli.OK, s, "break", "-yes", "job")
	require.NoError(t, <-read)
	_, lock = shown(t, s, "job")
	assert.Equal(t, server.Reader.Name, lock.Kind)
	require.Len(t, lock.Holders, 1)
	assert.Equal(t, "web-2", lock.Holders[0].Owner)
}

// A process with the text of a Handover may take the lock. The value of the key is all that a server knows of that text.
func TestNoVerbShowsAHandover(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := redimutex.New(s.Pool(), "job", redimutex.WithOwner("web-1"), redimutex.WithTTL(time.Minute))
	l, err := m.Acquire(t.Context())
	require.NoError(t, err)
	h, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	text, err := h.MarshalText()
	require.NoError(t, err)
	watch := clitest.Launch(t, s, "watch", "-interval", "0.05", "job")
	watch.Says("held")
	said := ""
	for _, args := range [][]string{{"list", "-json"}, {"show", "job"}, {"show", "-json", "job"}} {
		_, out, stderr := clitest.Run(t, s, args...)
		assert.Contains(t, out, "held", args)
		said += out + stderr
	}
	said += watch.Out()
	for _, secret := range []string{string(text), s.Get("job"), strings.Fields(s.Get("job"))[0]} {
		assert.NotContains(t, said, secret)
	}
}

// After a failover a fixed address may lead to a replica. A lock that is free there may be held at the primary.
func TestNoVerbThatLooksBelievesAReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	for _, args := range [][]string{{"show", "job"}, {"list"}, {"watch", "-until-free", "job"}, {"break", "-yes", "job"}} {
		_, stderr := clitest.Ends(t, cli.Unavailable, append(args, "-redis", replicas[0].URL())...)
		assert.Contains(t, stderr, "it is a replica of "+primary.Addr(), args)
		assert.Contains(t, stderr, "name the primary", args)
	}
}
