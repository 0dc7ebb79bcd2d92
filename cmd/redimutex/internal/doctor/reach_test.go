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
		if id == "dns" && ids(d.Findings)[0] == "silent" {
			continue // where no name server answers at all
		}
		assert.Equal(t, []string{id}, ids(d.Findings))
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
	s := durable(t)
	a, b := durable(t), durable(t)
	s.Pause()
	finds(t, exitUnusable, "silent", []string{s.URL()})

	d := finds(t, exitWarnings, "silent", []string{a.URL(), s.URL(), b.URL()}) // two of three are a majority
	assert.Equal(t, s.Addr(), the(t, d.Findings, "silent").Server)
	assert.Equal(t, levelError, the(t, d.Findings, "silent").Level)
	finds(t, cli.OK, "", []string{a.URL(), s.URL(), b.URL()}, "-ignore", "silent") // it is known, and two are left
	b.Pause()
	finds(t, exitUnusable, "", []string{a.URL(), s.URL(), b.URL()}, "-ignore", "silent")
	b.Resume()
	s.Resume()
}

func TestDoctorTellsWhatWorkedBeforeAServerHung(t *testing.T) {
	t.Parallel()
	s := durable(t)
	front := s.Proxy()
	front.Catch("redimutex:queue:")
	d := finds(t, exitUnusable, "silent", []string{front.URL()})
	assert.Equal(t, []string{"lock", "fencing"}, d.Servers[0].Tried)
}

// A proxy may answer what it does not know with nil.
func TestDoctorTellsAnAnswerThatSaysNothingFromNone(t *testing.T) {
	t.Parallel()
	front := redistest.NewFront(t, durable(t))
	for status, c := range map[int]struct {
		fate redistest.Fate
		ids  string
	}{
		cli.OK:       {redistest.Fate{Reply: "*-1\r\n"}, ""},
		exitUnusable: {redistest.Fate{Delay: 2 * commandLimit}, "silent"},
	} {
		front.On(func(command []string) (f redistest.Fate) {
			if command[0] == "CONFIG" {
				return c.fate
			}
			return f
		})
		finds(t, status, c.ids, []string{"redis://" + front.Addr()})
	}
}

func TestDoctorTellsAProxyThatHangsUpFromAServerThatWantsTLS(t *testing.T) {
	t.Parallel()
	proxy := durable(t).Proxy()
	caught := proxy.Catch("INFO")
	go func() {
		<-caught.Arrived()
		proxy.Break()
	}()
	d := finds(t, exitUnusable, "unreachable", []string{proxy.URL()})
	assert.Contains(t, the(t, d.Findings, "unreachable").What, "answers PING, and hangs up")
}

// Not every INFO is that of Redis. KeyDB answers ROLE with a list for each of its primaries.
func TestDoctorAsksForTheRoleWhereInfoSaysNothing(t *testing.T) {
	t.Parallel()
	for role, id := range map[string]string{
		"*1\r\n*1\r\n" + redistest.Bulk("active-replica"): "multi-master",
		"*1\r\n" + redistest.Bulk("slave"):                "replica",
	} {
		front := redistest.NewFront(t, durable(t))
		front.On(func(command []string) (f redistest.Fate) {
			switch command[0] {
			case "INFO":
				f.Reply = redistest.Bulk("# Server\r\nrole:master\r\n")
			case "ROLE":
				f.Reply = role
			}
			return f
		})
		d := finds(t, exitUnusable, someFindings, []string{"redis://" + front.Addr()})
		assert.Equal(t, levelError, the(t, d.Findings, id).Level)
	}
}

// Seventy round trips take long.
func TestDoctorHasTimeForAServerThatIsFarAway(t *testing.T) {
	t.Parallel()
	s := durable(t)
	d := finds(t, cli.OK, "", []string{s.Far(90 * time.Millisecond).URL()})
	assert.Contains(t, d.Servers[0].Tried, "readers")
}

func TestDoctorNeverShowsThePasswordThatIsWrong(t *testing.T) {
	t.Parallel()
	s := durable(t, "--requirepass", "right")
	for _, url := range []string{s.URL(), "redis://:hunter2@" + s.Addr(), "redis://someone:hunter2@" + s.Addr()} {
		finds(t, exitUnusable, "auth", []string{url}, "-v")
		_, out, stderr := clitest.Call("doctor", "-redis", url)
		assert.Contains(t, out, "auth: "+s.Addr()+"/0 refuses user or password")
		assert.NotContains(t, out, "hunter2")
		assert.Empty(t, stderr)
	}
	finds(t, cli.OK, "", []string{"redis://:right@" + s.Addr()})

	open := durable(t)
	finds(t, exitUnusable, "auth", []string{"redis://:hunter2@" + open.Addr()}) // a password where none is wanted
	finds(t, exitUnusable, "refused-by-server", []string{open.URL() + "/999"})  // no such database
}

// The trials need a second connection. If it is refused, the reason is no missing permission.
func TestDoctorSeesAServerThatIsFullOfClients(t *testing.T) {
	t.Parallel()
	s := durable(t)
	s.Do("CONFIG", "SET", "maxclients", "2") // ours, and the first one
	d := finds(t, exitUnusable, "refused-by-server", []string{s.URL()})
	assert.Contains(t, the(t, d.Findings, "refused-by-server").What, "max number of clients")
	assert.Equal(t, "primary", d.Servers[0].Role, "it was let in")
}

func TestDoctorTellsTroubleWithTLSApart(t *testing.T) {
	t.Parallel()
	s := durable(t)
	secure := redistest.NewTLSFront(t, s)

	d := finds(t, exitUnusable, "tls", []string{"rediss://" + secure.Addr()})
	assert.Contains(t, the(t, d.Findings, "tls").What, "unknown authority")

	finds(t, exitUnusable, "tls", []string{"rediss://" + s.Addr()})                 // TLS with a server that has none
	d = finds(t, exitUnusable, "unreachable", []string{"redis://" + secure.Addr()}) // no TLS with a server that wants it
	assert.Contains(t, the(t, d.Findings, "unreachable").What, "rediss://")
}

func TestDoctorWarnsOfAConnectionThatOthersCanHear(t *testing.T) {
	t.Parallel()
	s := durable(t)
	nodes, err := servers.Find(servers.URLs{s.URL()}, time.Minute)
	require.NoError(t, err)
	nodes[0].Private = false
	d := (&checkup{ttl: time.Minute, nodeTimeout: time.Minute, prefix: "doctor:"}).examine(nodes)
	assert.Equal(t, []string{"plaintext"}, ids(d.Findings))
	assert.Equal(t, statusWarnings, d.Status)
}
