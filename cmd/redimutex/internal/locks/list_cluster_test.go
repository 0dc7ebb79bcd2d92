package locks

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestInAClusterEachNodeKnowsItsOwnLocks(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	owner := c.Owner("job")
	mine, other := c.Nodes[owner], c.Nodes[(owner+1)%len(c.Nodes)]
	mine.Do("SET", "job", uuid.NewString()+" web-1", "PX", 600000)
	clitest.Enqueue(t, mine, "job", "m next", "web-2", false)

	clitest.Enqueue(t, mine, "job", "m next", "web-3", true)
	_, out, _ := clitest.Call("show", "-redis", mine.URL(), "job")
	assert.Regexp(t, `\n  2\. web-3, for [0-9.]+m?s\n$`, out, "it may listen at another node")

	lines, _ := listed(t, "-redis", mine.URL())
	assert.Equal(t, []string{"job"}, keysOf(lines))
	lines, stderr := listed(t, "-redis", other.URL())
	assert.Empty(t, lines)
	assert.Contains(t, stderr, "there is no lock among 0 keys")

	for _, verb := range []string{"show", "break"} {
		args := []string{verb, "-redis", other.URL(), "job"}
		if verb == "break" {
			args = append(args, "-yes")
		}
		_, stderr := clitest.Ends(t, cli.Unavailable, args...)
		assert.Contains(t, stderr, mine.Addr(), "where it is")
		assert.Contains(t, stderr, "another one serves KEY; name that one")
	}
	_, stderr = clitest.Ends(t, cli.OK, "break", "-yes", "-redis", mine.URL(), "job")
	assert.Contains(t, mine.Get("job"), " web-2", "handed over")
}
