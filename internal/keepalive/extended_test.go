package keepalive_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/keepalive"
)

// A confirmation may arrive behind that of an extension that was sent later, for longer.
func TestALateConfirmationNeverBringsTheEndNearer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepalive.New(succeed)
		l, _ := start(t, k, nil)
		sent := time.Now()
		time.Sleep(ttl / 9)
		extend(l, 9*ttl)
		until := l.Until()
		l.Extended(sent.Add(ttl), ttl)
		assert.Equal(t, until, l.Until())
		k.Close()
	})
}

// The lease is good for an hour, and its renewals ask for a second. They can wait until they bring something.
func TestARenewalThatBringsNothingIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		k := keepalive.New(func(due []*keepalive.Lease) {
			if renewals.Add(1) > 1000 {
				panic("a busy loop")
			}
			succeed(due)
		})
		l, _ := start(t, k, lasting(time.Second))
		extend(l, time.Hour)
		l.Ask(time.Second)
		time.Sleep(time.Hour - 2*time.Second)
		synctest.Wait()
		assert.Zero(t, renewals.Load())
		time.Sleep(time.Minute)
		assert.Equal(t, keepalive.Alive, l.Reason())
		assert.InDelta(t, 3*time.Minute/time.Second, renewals.Load(), 10)
		k.Close()
	})
}
