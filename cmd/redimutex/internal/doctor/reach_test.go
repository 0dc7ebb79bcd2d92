//go:build unix

package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/redistest"
)

func TestDoctorSaysWhyAServerCannotBeReached(t *testing.T) {
	t.Parallel()
	for id, url := range map[string]string{
		"refused": "redis://" + redistest.FreeAddr(t),
		"dns":     "redis://there-is-no-such-host.invalid",
	} {
		d := finds(t, exitUnusable, someFindings, []string{url})
		assert.Equal(t, statusUnusable, d.Status)
		if id == "dns" && d.ids()[0] == "silent" {
			continue // where no name server answers at all
		}
		assert.Equal(t, []string{id}, d.ids())
		assert.Equal(t, levelError, d.Findings[0].Level)

		d = finds(t, exitUnusable, "", []string{url}, "-ignore", id)
		require.Len(t, d.Ignored, 1)
		assert.Equal(t, id, d.Ignored[0].ID)
		out, _ := clitest.Ends(t, exitUnusable, "doctor", "-ignore", id, "-redis", url)
		assert.Regexp(t, `not checked any further\n  ignored `+id+`\nUnusable for locks: 0 errors, 0 warnings, and 1 error that -ignore hides\.\n$`, out)
	}
}

func TestDoctorComesBackFromAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, durable...)
	a, b := redistest.Real(t, durable...), redistest.Real(t, durable...)
	s.Pause()
	finds(t, exitUnusable, "silent", []string{s.URL()})

	d := finds(t, exitWarnings, "silent", []string{a.URL(), s.URL(), b.URL()}) // two of three are a majority
	assert.Equal(t, s.Addr(), d.the(t, "silent").Server)
	assert.Equal(t, levelError, d.the(t, "silent").Level)
	finds(t, cli.OK, "", []string{a.URL(), s.URL(), b.URL()}, "-ignore", "silent") // it is known, and two are left
	b.Pause()
	finds(t, exitUnusable, "", []string{a.URL(), s.URL(), b.URL()}, "-ignore", "silent")
	b.Resume()
	s.Resume()
}

func TestDoctorTellsWhatWorkedBeforeAServerHung(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, durable...)
	front := s.Network(0)
	front.Catch("redimutex:queue:")
	d := finds(t, exitUnusable, "silent", []string{front.URL()})
	assert.Equal(t, []string{"lock", "fencing"}, d.Servers[0].Tried)
}

// Seventy round trips take long.
func TestDoctorHasTimeForAServerThatIsFarAway(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, durable...)
	d := finds(t, cli.OK, "", []string{s.Network(90 * time.Millisecond).URL()})
	assert.Contains(t, d.Servers[0].Tried, "readers")
}

func TestDoctorNeverShowsThePasswordThatIsWrong(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, append([]string{"--requirepass", "right"}, durable...)...)
	for _, url := range []string{s.URL(), "redis://:hunter2@" + s.Addr(), "redis://someone:hunter2@" + s.Addr()} {
		finds(t, exitUnusable, "auth", []string{url}, "-v")
		_, out, stderr := clitest.Call("doctor", "-redis", url)
		assert.Contains(t, out, "auth: "+s.Addr()+"/0 refuses user or password")
		assert.NotContains(t, out, "hunter2")
		assert.Empty(t, stderr)
	}
	finds(t, cli.OK, "", []string{"redis://:right@" + s.Addr()})

	open := redistest.Real(t, durable...)
	finds(t, exitUnusable, "auth", []string{"redis://:hunter2@" + open.Addr()}) // a password where none is wanted
	finds(t, exitUnusable, "refused-by-server", []string{open.URL() + "/999"})  // no such database
}

// The trials need a second connection. If it is refused, the reason is no missing permission.
func TestDoctorSeesAServerThatIsFullOfClients(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, durable...)
	s.Do("CONFIG", "SET", "maxclients", "2") // ours, and the first one
	d := finds(t, exitUnusable, "refused-by-server", []string{s.URL()})
	assert.Contains(t, d.the(t, "refused-by-server").What, "max number of clients")
	assert.Equal(t, "primary", d.Servers[0].Role, "it was let in")
}

func TestDoctorTellsTroubleWithTLSApart(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, durable...)
	secure := redistest.NewTLSFront(t, s)

	d := finds(t, exitUnusable, "tls", []string{"rediss://" + secure.Addr()})
	assert.Contains(t, d.the(t, "tls").What, "unknown authority")

	finds(t, exitUnusable, "tls", []string{"rediss://" + s.Addr()})                 // TLS with a server that has none
	d = finds(t, exitUnusable, "unreachable", []string{"redis://" + secure.Addr()}) // no TLS with a server that wants it
	assert.Contains(t, d.the(t, "unreachable").What, "rediss://")
}

func TestDoctorWarnsOfAConnectionThatOthersCanHear(t *testing.T) {
	t.Parallel()
	for url, private := range map[string]bool{
		"redis://127.0.0.1": true, "redis://localhost": true, "redis://[::1]": true, "unix:///socket": true,
		"rediss://example.com": true, "redis://example.com": false, "redis://10.0.0.1": false,
	} {
		nodes, err := servers.Find(servers.URLs{url}, time.Second)
		require.NoError(t, err)
		assert.Equal(t, private, nodes[0].Private, url)
	}
	s := redistest.Real(t, durable...)
	nodes, err := servers.Find(servers.URLs{s.URL()}, time.Minute)
	require.NoError(t, err)
	nodes[0].Private = false
	d := (&checkup{ttl: time.Minute, nodeTimeout: time.Minute, prefix: "doctor:"}).examine(nodes)
	assert.Equal(t, []string{"plaintext"}, d.ids())
	assert.Equal(t, statusWarnings, d.Status)
}
