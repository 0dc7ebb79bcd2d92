package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// An instant is a server that does everything at once: what is measured is the vote alone.
type instant struct{}

func (instant) Acquire(context.Context, server.Try) server.Reply {
	return server.Reply{Verdict: server.Done, Sent: time.Now()}
}

func (instant) Release(context.Context, server.Release) server.Reply {
	return server.Reply{Verdict: server.Done}
}
func (instant) Undo(*server.Release) <-chan struct{} { return nil }
func (instant) Raise(context.Context, server.Lock, int64, time.Duration) server.Reply {
	return server.Reply{Verdict: server.Done}
}

func (instant) Extend(_ context.Context, batch []*server.Extension, report func(int, server.Reply)) {
	for i := range batch {
		report(i, server.Reply{Verdict: server.Done, Sent: time.Now()})
	}
}
func (instant) Close(time.Duration) {}

func instants(n int) *quorum.Quorum {
	voters := make([]quorum.Voter, n)
	for i := range voters {
		voters[i] = instant{}
	}
	return quorum.Of(voters...)
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	for _, n := range []int{1, 5} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			q, k := instants(n), try("k")
			rel := releaseOf(k)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var tail *quorum.Tail
			b.ReportAllocs()
			for b.Loop() {
				g, failure := q.Acquire(ctx, k, tail)
				if failure != nil {
					b.Fatal(failure)
				}
				released, failure := q.Release(ctx, rel, g)
				if failure != nil {
					b.Fatal(failure)
				}
				tail = released
			}
			q.Close(time.Second)
		})
	}
}

func BenchmarkExtend(b *testing.B) {
	for _, n := range []int{1, 5} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			q := instants(n)
			batch := make([]*quorum.Extension, 128)
			for i := range batch {
				batch[i] = &quorum.Extension{Extension: server.Extension{Lock: lock("k"), TTL: ttl}, Done: func(quorum.Extended) {}}
			}
			b.ReportAllocs()
			for b.Loop() {
				q.Extend(b.Context(), batch)
			}
			q.Close(time.Second)
		})
	}
}
