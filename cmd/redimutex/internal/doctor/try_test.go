//go:build unix

package doctor

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/redistest"
)

// everything is what -need may name.
const everything = "lock,fencing,queue,semaphore,readers,replicas,guard"

// The rules of the features, which the documentation repeats, are enough, and each of them is needed.
func TestDoctorNamesEveryPermissionThatIsMissing(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := durable(t)
	all := func(without string) []string {
		rules := []string{"resetchannels"}
		for _, f := range features {
			for rule := range strings.FieldsSeq(strings.ReplaceAll(f.rules, "KEY", "lock:")) {
				if rule != without {
					rules = append(rules, rule)
				}
			}
		}
		return rules
	}
	args := []string{"-key", "lock:", "-need", everything, "-ignore", "persistence"}

	urls := []string{login(s, "lock", all("")...)}
	d := finds(t, exitWarnings, "unchecked", urls, args...) // it may not call INFO
	assert.Equal(t, everything, strings.Join(d.Servers[0].Tried, ","))

	for _, f := range features {
		for rule := range strings.FieldsSeq(strings.ReplaceAll(f.rules, "KEY", "lock:")) {
			if rule == "+getrange" || rule == "+role" || len(redistest.Rules(rule)) == 0 {
				continue // everything works without it, but not as well
			}
			login(s, "lock", all(rule)...)
			status, d := doctor(t, urls, args...)
			assert.Equal(t, exitUnusable, status, rule)
			assert.Contains(t, ids(d.Findings), f.check, rule)
			assert.Contains(t, the(t, d.Findings, f.check).Do, "ACL SETUSER NAME "+strings.ReplaceAll(f.rules, "KEY", "lock:"))
		}
	}

	login(s, "lock", append(all(""), "+info", "+config|get", "+slowlog|get")...)
	finds(t, cli.OK, "", urls, args...)
}

// advised returns the permissions that a finding says to grant.
func advised(f finding) []string {
	_, advice, _ := strings.Cut(f.Do, "ACL SETUSER NAME ")
	advice, _, _ = strings.Cut(advice, " (")
	return strings.Fields(advice)
}

// A user who follows doctor's advice until there is none has all permissions.
func TestDoctorsAdviceIsWhatTheServerTakes(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	s := durable(t)
	for name, c := range map[string]struct {
		has  []string
		omit string // what the advice says to leave out
	}{
		"nothing":                 {[]string{"resetchannels"}, ""},
		"nothing but INFO":        {[]string{"resetchannels", "+info"}, ""},
		"all keys, no commands":   {[]string{"resetchannels", "+info", "~*"}, "~"},
		"all commands but a few":  {[]string{"~*", "&*", "allcommands", "-zadd", "-set"}, "~&"},
		"all commands, some keys": {[]string{"resetchannels", "allcommands", "~lock:*"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			urls := []string{login(s, "lock", c.has...)}
			for range len(features) + 1 {
				_, d := doctor(t, urls, "-key", "lock:", "-need", everything, "-ignore", "persistence,unchecked")
				if len(d.Findings) == 0 {
					return
				}
				for _, f := range d.Findings {
					rules := slices.DeleteFunc(advised(f), func(rule string) bool { return strings.ContainsAny(rule[:1], c.omit) })
					require.NotEmpty(t, rules, f)
					s.SetUser("lock", rules...)
				}
			}
			t.Error("doctor is never content")
		})
	}
}

// The keys beside a lock have other names if the prefix has a hash tag, or a closing brace and no tag.
func TestDoctorsAdviceFitsTheNamesOfThePrefix(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL, redistest.ChannelRules)
	s := durable(t)
	for _, prefix := range []string{"lock:", "lock:{user:17}:", "lock:}", "lock:{}:"} {
		urls := []string{login(s, "lock", "resetchannels", "~"+prefix+"*", "&redimutex:*", "+@all", "-info")}
		args := []string{"-key", prefix, "-need", "fencing,queue,readers", "-ignore", "unchecked"}
		d := finds(t, exitUnusable, "cannot-fence cannot-queue cannot-read", urls, args...)
		for _, f := range d.Findings {
			s.SetUser("lock", advised(f)...)
		}
		finds(t, cli.OK, "", urls, args...)
	}
}

func TestDoctorWarnsOfWhatWasNotAskedForAndRefusesWhatIsNeeded(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := durable(t)
	urls := []string{login(s, "lock", "~lock:*", "+@all")}
	finds(t, exitWarnings, "cannot-fence cannot-queue cannot-read", urls, "-key", "lock:")
	finds(t, exitUnusable, "cannot-fence", urls, "-key", "lock:", "-need", "fencing")
	finds(t, cli.OK, someFindings, urls, "-key", "lock:", "-need", "lock")
	d := finds(t, exitUnusable, someFindings, urls, "-need", "lock")
	assert.Contains(t, the(t, d.Findings, "cannot-lock").Do, "-key PREFIX", "it may be the key that is not allowed")
}

func TestDoctorTellsNoClockThatItMayNotRead(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := durable(t)
	url := login(s, "lock", "~*", "+@all", "-time")
	_, d := doctor(t, []string{url})
	assert.Nil(t, d.Servers[0].ClockOffset)
	assert.NotZero(t, d.Servers[0].Ping)
	_, out, _ := clitest.Call("doctor", "-redis", url)
	assert.NotContains(t, out, "clock +0 ms")

	_, d = doctor(t, []string{s.URL()})
	assert.NotNil(t, d.Servers[0].ClockOffset)
}

// The trial of readers fails while a reader waits for a writer.
func TestDoctorLeavesNothingOfATrialThatFailsHalfway(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := durable(t)
	finds(t, exitWarnings, "cannot-read", []string{login(s, "lock", "~*", "&*", "+@all", "-zunionstore")})
	assert.Empty(t, s.Keys())
}

func TestDoctorSeesACommandThatWasSwitchedOff(t *testing.T) {
	t.Parallel()
	s := durable(t, "--rename-command", "EVALSHA", "")
	d := finds(t, exitUnusable, "cannot-lock", []string{s.URL()})
	assert.Contains(t, strings.ToLower(the(t, d.Findings, "cannot-lock").What), "evalsha")
}

func TestDoctorSeesThatMessagesDoNotArrive(t *testing.T) {
	t.Parallel()
	s := durable(t)
	mute := redistest.NewRelay(t, "", func(r *redistest.Relay, client net.Conn) {
		server, err := r.Dial(s.Addr())
		if err != nil {
			return
		}
		r.Go(func() {
			io.Copy(server, client)
			r.Drop(server)
		})
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			if !bytes.Contains(buffer[:n], []byte("\r\nmessage\r\n")) {
				client.Write(buffer[:n])
			}
		}
	})
	url := "redis://" + mute.Addr()
	finds(t, exitWarnings, "pubsub", []string{url})
	finds(t, exitUnusable, someFindings, []string{url}, "-need", "queue")
	finds(t, cli.OK, someFindings, []string{url}, "-need", "fencing") // polling works
}

func TestDoctorSeesAReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	replica := replicas[0]
	d := finds(t, exitUnusable, "replica", []string{replica.URL()}, "-ignore", "persistence")
	assert.Contains(t, the(t, d.Findings, "replica").What, "is a replica of "+primary.Addr())

	replica.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
	primary.Kill()
	redistest.Wait(t, "the replica notices", func() bool {
		info, _ := replica.Do("INFO", "replication").([]byte)
		return strings.Contains(string(info), "master_link_status:down")
	})
	d = finds(t, exitUnusable, "replica", []string{replica.URL()}, "-ignore", "persistence")
	assert.Contains(t, the(t, d.Findings, "replica").What, "its link to that is down")
}

func TestDoctorSeesAReplicaThatItMayNotAsk(t *testing.T) {
	redistest.Needs(t, redistest.ACL)
	_, replicas := redistest.Replicas(t, 1)
	url := login(replicas[0], "lock", "~*", "+@all", "-info", "-role")
	finds(t, exitUnusable, "replica", []string{url}, "-ignore", "persistence,unchecked", "-need", "lock") // it shows when a lock is tried
}

func TestDoctorSeesThatReplicasAreMissing(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.Replicas(t, 1)
	primary.Do("CONFIG", "SET", "appendonly", "yes")
	d := finds(t, cli.OK, "", []string{primary.URL()}, "-replicas", "1")
	assert.Contains(t, d.Servers[0].Tried, "replicas")
	finds(t, exitUnusable, "replicas", []string{primary.URL()}, "-replicas", "2", "-need", "lock")

	redistest.Needs(t, redistest.ACL)
	url := login(primary, "mute", "~*", "&*", "+@all", "-wait")
	finds(t, exitUnusable, "cannot-wait", []string{url}, "-replicas", "1", "-ignore", "unchecked") // what is asked for has to work
	finds(t, exitWarnings, someFindings, []string{url}, "-ignore", "unchecked")

	redistest.Needs(t, redistest.MinReplicas)
	primary.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	replicas[0].Kill()
	redistest.Wait(t, "the primary notices", func() bool { return primary.Online() == 0 })
	finds(t, exitUnusable, "min-replicas", []string{primary.URL()})
	url = login(primary, "lock", "~*", "+@all", "-config", "-info")
	finds(t, exitUnusable, "min-replicas", []string{url}, "-ignore", "unchecked") // it shows when a lock is tried
}
