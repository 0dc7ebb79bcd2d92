package crew_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/internal/lab/crew"
)

type line struct{ Word string }

func TestMain(m *testing.M) {
	crew.Main("parrot", func(p *crew.Post) error {
		var l line
		for p.Hear(&l) {
			if l.Word == "fail" {
				return errors.New("it was told to")
			}
			fmt.Println("no message of ours:", os.Getenv("COLOUR"))
			p.Say(l)
		}
		return nil
	})
	os.Exit(m.Run())
}

const patience = 30 * time.Second

func hire(t *testing.T) *crew.Hand[line] {
	h, err := crew.Hire[line]("parrot", "COLOUR=green")
	require.NoError(t, err)
	t.Cleanup(func() { h.Close(patience) })
	return h
}

// ask gives an order and returns the answer.
func ask(t *testing.T, h *crew.Hand[line], word string) (line, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, h.Tell(line{word}))
	return h.Hear(ctx)
}

func TestAWorkerIsToldAndHeardUntilItIsDismissed(t *testing.T) {
	h := hire(t)
	for _, word := range []string{"one", "two"} {
		said, err := ask(t, h, word)
		require.NoError(t, err)
		assert.Equal(t, word, said.Word)
	}
	h.Close(patience)
	assert.NoError(t, h.Err())
}

func TestAWorkerThatFailsSaysWhyAndWhatElseItHadToSay(t *testing.T) {
	h := hire(t)
	_, err := ask(t, h, "one")
	require.NoError(t, err)
	_, err = ask(t, h, "fail")
	require.ErrorContains(t, err, "it was told to")
	assert.ErrorContains(t, err, "green")
	assert.ErrorContains(t, h.Err(), "exit status 1")
}

func TestAWorkerThatIsStoppedSaysNothingUntilItIsResumed(t *testing.T) {
	h := hire(t)
	require.NoError(t, h.Stop(patience))
	require.NoError(t, h.Tell(line{"late"}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := h.Hear(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, h.Resume())
	said, err := h.Hear(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "late", said.Word)
}

func TestAWorkerThatIsKilledIsNotHeardAnyMore(t *testing.T) {
	h := hire(t)
	require.NoError(t, h.Kill())
	_, err := h.Hear(t.Context())
	assert.ErrorContains(t, err, "killed")
}
