package work

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheLastProcessGoesTheFarWayUnlessItIsIdle(t *testing.T) {
	j := Job{Kind: Load, Addrs: []string{"near"}, Far: "far"}
	assert.Equal(t, []string{"near"}, j.of(2, 4).Addrs)
	last := j.of(3, 4)
	assert.Equal(t, []string{"far"}, last.Addrs)
	assert.Equal(t, Load, last.Kind)
	assert.Equal(t, 3, last.Worker)

	j.Active = 3
	assert.Equal(t, Load, j.of(2, 4).Kind)
	assert.Equal(t, Idle, j.of(3, 4).Kind)
}
