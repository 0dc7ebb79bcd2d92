package doctor

import (
	"context"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/server"
)

// semaphore takes the one permit of a semaphore, with another that wants it, counts, and gives it back.
func (t *trial) semaphore() error {
	t.fresh()
	permit := func() *server.Claim {
		return t.claim(func(terms *server.Terms) { terms.Kind, terms.Want = server.Semaphore, server.Permits(1) })
	}
	holder, other := permit(), permit()
	return first(
		acquires(holder, server.Try{}, server.Done),
		acquires(other, server.Try{}, server.Held),
		t.extends(holder),
		func() error {
			_, r := t.server.InUse(context.Background(), &holder.Lock)
			return must(server.Done, r)
		},
		releases(holder, 0),
		acquires(other, server.Try{}, server.Done),
		releases(other, 0),
	)
}

// readers has readers and writers wait for each other.
func (t *trial) readers() error {
	t.fresh()
	as := func(kind *server.Kind) *server.Claim {
		c := t.claim(func(terms *server.Terms) { terms.Kind, terms.Want = kind, kind.Want })
		c.Waiter = &server.Waiter{Channel: uuid.NewString(), HandOff: commandLimit}
		return c
	}
	writer, reader := as(server.Writer), as(server.Reader)
	next, late := as(server.Writer), as(server.Reader)
	waits := server.Try{Shows: commandLimit}
	return first(
		acquires(writer, server.Try{}, server.Done),
		acquires(reader, waits, server.Held), // enters when the writer leaves
		releases(writer, 0),
		acquires(reader, waits, server.Done),
		t.extends(reader),
		acquires(next, waits, server.Held),
		acquires(late, waits, server.Held), // waits for the writer that waits
		releases(reader, 0),
		acquires(next, waits, server.Done),
		releases(next, 0),
		acquires(late, waits, server.Done),
		releases(late, 0),
	)
}
