package server_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/conn"
	"github.com/redimutex/redimutex/internal/mux"
	"github.com/redimutex/redimutex/internal/punctual"
	"github.com/redimutex/redimutex/internal/redistest"
	"github.com/redimutex/redimutex/internal/server"
)

// punctualPools are those whose operations run on the goroutine of the caller.
func punctualPools(t *testing.T, r *redistest.Server) map[string]server.Pool {
	d := punctual.NewDialer("tcp", r.Addr())
	ours := &redis.Pool{MaxIdle: 10, DialContext: d.DialContext, TestOnBorrowContext: d.TestIdle}
	waits := &redis.Pool{MaxIdle: 10, MaxActive: 2, Wait: true, DialContext: d.DialContext}
	shared := mux.New(conn.Of(r.Pool()), 2, time.Second)
	t.Cleanup(func() {
		ours.Close()
		waits.Close()
		shared.Close(time.Second)
	})
	return map[string]server.Pool{"ours": ours, "ours that waits": waits, "shared": shared}
}

func TestPunctualPoolsDoAllThatOthersDo(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	for name, pool := range punctualPools(t, r) {
		t.Run(name, func(t *testing.T) {
			r.Do("FLUSHALL")
			everything(t, open(t, pool))
		})
	}
}

// An undoLog is a pool and its only connection, which grants everything and keeps how each SET is to be undone.
type undoLog struct {
	redis.Conn
	undos [][]any
}

func (l *undoLog) Get() redis.Conn { return l }
func (*undoLog) Punctual()         {}
func (*undoLog) Err() error        { return nil }
func (*undoLog) Close() error      { return nil }

func (l *undoLog) ReceiveContext(context.Context) (any, error) { panic("nothing was sent") }

func (l *undoLog) DoContext(ctx context.Context, name string, _ ...any) (any, error) {
	switch undo, _ := ctx.Value(punctual.Undo).([]any); name {
	case "TIME":
		return []any{[]byte("1700000000"), []byte("0")}, nil
	case "SET":
		l.undos = append(l.undos, slices.Clone(undo))
		return "OK", nil
	}
	return []any{int64(1_700_000_000_000_000), int64(0)}, nil
}

func TestTheUndoOfATryIsForItsOwnLock(t *testing.T) {
	t.Parallel()
	log := new(undoLog)
	s := open(t, log)
	done(t, acquire(s, request("warm"))) // by a script
	for i := range 5 {
		q := request(strconv.Itoa(i))
		q.Plain = true
		done(t, acquire(s, q))
		require.Len(t, log.undos, i+1)
		assert.Equal(t, []any{"EVAL", 1, q.Key, q.Token}, slices.Delete(log.undos[i], 1, 2))
	}
}
