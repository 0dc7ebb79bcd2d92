package conn_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
)

// A panicky network connection panics when an undo is written.
type panicky struct{ net.Conn }

func (c *panicky) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("UNDO")) {
		panic("no idea what that is")
	}
	return c.Conn.Write(p)
}

// An undo may be written on a goroutine of this package, where a panic would end the process.
func TestAnUndoThatPanicsHarmsNobody(t *testing.T) {
	for _, punctual := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{silentAt: "SET"}
			d := p.dialer(redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go p.serve(theirs)
				return &panicky{Conn: ours}, nil
			}))
			c, err := d.DialContext(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), conn.Undo, []any{"UNDO"}), time.Second)
			defer cancel()
			_, err = (&conn.Source{Punctual: punctual}).Do(ctx, c, "SET", "k", "v")
			assert.ErrorIs(t, conn.Plain(err), conn.ErrTimeout)
			conn.Close(c, false)
			synctest.Wait()
		})
	}
}
