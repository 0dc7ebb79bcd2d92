package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/internal/keepalive"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A renewal may be answered after the release of all keys. Then each of them is missing.
func TestTheKeyThatWasLostIsThatOfTheLoss(t *testing.T) {
	k := keepalive.New(func([]*keepalive.Lease) {})
	defer k.Close()
	g := new(Grant)
	k.Start(&g.lease, keepalive.Terms{Began: time.Now(), Until: time.Now().Add(time.Minute), TTL: time.Minute, Holder: holder{}})
	g.lose(&quorum.Failure{Kind: quorum.Missing, Reply: server.Reply{Which: 1}})
	g.lose(&quorum.Failure{Kind: quorum.Missing, Reply: server.Reply{Which: 0}})
	assert.EqualValues(t, 1, g.lostKey.Load())
}

type holder struct{}

func (holder) Lost(keepalive.Reason) {}
