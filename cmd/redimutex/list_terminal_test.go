//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/redistest"
)

func TestListShowsAtATerminalHowFarItIs(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "page", "cached")
	url, stalled := stall(t, s, "SCAN", 1)
	y := operator(t, s, "list -redis "+url)
	<-stalled
	y.says("0 keys, 0 locks; Ctrl-C prints what is found")
	y.types(ctrlC)
	assert.Equal(t, 130, y.status())
	assert.Contains(t, y.out(), "the list is incomplete")
}
