package lease_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/lease"
)

func TestExclusivelyWaitsForARenewalAndKeepsOthersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := 0
		enter := func() {
			if busy++; busy != 1 {
				t.Error("two extensions at once")
			}
			time.Sleep(ttl / 4)
			busy--
		}
		renewals := 0
		k := lease.NewKeeper(func(batch []*lease.Lease) {
			renewals++
			enter()
			extendAll(batch)
		})
		l := start(t, k, nil)
		for range 100 {
			time.Sleep(rand.N(ttl))
			ran := l.Exclusively(nil, func() {
				enter()
				assert.True(t, l.Extended(time.Now().Add(ttl), ttl))
			})
			require.True(t, ran)
		}
		require.NoError(t, l.Err())
		assert.Greater(t, renewals, 10, "Exclusively put an end to the renewals")
		k.Close(errOver)
	})
}

func TestExclusivelyGivesUpWhenToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		k := lease.NewKeeper(func([]*lease.Lease) { <-hang })
		l := start(t, k, nil)
		time.Sleep(ttl / 2)
		giveUp := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(giveUp) })
		began := time.Now()
		assert.False(t, l.Exclusively(giveUp, func() { t.Error("ran beside a renewal") }))
		assert.Equal(t, time.Second, time.Since(began))
		close(hang)
		k.Close(errOver)
	})
}

func TestExclusivelyDoesNotRunAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		k := lease.NewKeeper(func([]*lease.Lease) { <-hang })
		l := start(t, k, nil)
		time.Sleep(ttl / 2)
		result := make(chan bool)
		go func() { result <- l.Exclusively(nil, func() { t.Error("ran after the end") }) }()
		synctest.Wait()
		_, renewing := l.End(errOver)
		require.NotNil(t, renewing)
		synctest.Wait()
		assert.False(t, closed(renewing))
		close(hang)
		assert.False(t, <-result)
		assert.True(t, closed(renewing))
		assert.False(t, l.Exclusively(nil, func() { t.Error("ran after the end") }))
		k.Close(errOver)
	})
}

func TestEndTellsOfAnExclusiveExtensionUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := lease.NewKeeper(func([]*lease.Lease) { t.Error("renewed beside Exclusively") })
		l := start(t, k, nil)
		hang, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			l.Exclusively(nil, func() { <-hang })
		}()
		time.Sleep(ttl / 2)
		was, renewing := l.End(errOver)
		require.NoError(t, was)
		require.NotNil(t, renewing)
		assert.False(t, closed(renewing))
		close(hang)
		<-renewing
		<-done
		k.Close(errOver)
	})
}
