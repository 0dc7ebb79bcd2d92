package server_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

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
