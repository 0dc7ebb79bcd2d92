package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestNoMoneyIsLostOrMadeUnderTheLocks(t *testing.T) {
	s := redistest.Start(t)
	sum, err := bank(t.Context(), s.Pool(), true)
	require.NoError(t, err)
	assert.Equal(t, opening*len(accounts), sum)

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, s.Pool()))
	assert.Contains(t, out.String(), "with MutexAll")
}

func TestAMachineThatIsPausedBetweenReadingAndWritingMakesNoMoney(t *testing.T) {
	pool := redistest.Start(t).Pool()
	for _, a := range accounts {
		require.NoError(t, open(t.Context(), pool, a))
	}
	c := pool.Get()
	defer c.Close()
	a, b := accounts[0], accounts[1]
	_, err := enter.Do(c, a, b, 1)
	require.NoError(t, err)
	// Its lease ends, and the next holder of one of the accounts reads before the pause is over.
	_, err = enter.Do(c, b, accounts[2], 2)
	require.NoError(t, err)
	_, err = settle.Do(c, a, b, 1, opening-10, opening+10)
	require.ErrorContains(t, err, "STALE")
	_, err = settle.Do(c, b, accounts[2], 2, opening-10, opening+10)
	require.NoError(t, err)
	sum := 0
	for _, a := range accounts {
		balance, err := read(t.Context(), pool, a)
		require.NoError(t, err)
		sum += balance
	}
	assert.Equal(t, opening*len(accounts), sum)
}
