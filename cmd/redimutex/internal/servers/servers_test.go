package servers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/redistest"
)

// found returns the servers that Find finds.
func found(t *testing.T, given ...string) Set {
	t.Helper()
	nodes, err := Find(given, QuickTimeout)
	require.NoError(t, err)
	t.Cleanup(nodes.Close)
	return nodes
}

func FuzzNoPasswordInTheErrorOfAURL(f *testing.F) {
	for _, raw := range clitest.MalformedURLs {
		before, after, _ := strings.Cut(raw, "hunter2")
		f.Add(before, after)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if raw := before + "hunter2" + after; !strings.HasPrefix(raw, "@") {
			if _, err := Find(URLs{raw}, QuickTimeout); err != nil && strings.Contains(err.Error(), "hunter2") &&
				!strings.Contains(err.Error(), "is named twice") {
				t.Errorf("%q: %v", raw, err)
			}
		}
		if nodes, err := Find(URLs{"redis://:hunter2@host", before + "hunter2@" + after}, QuickTimeout); err == nil && strings.Contains(nodes.Child(), "hunter2@") {
			t.Errorf("%q and %q leave %q", before, after, nodes.Child())
		}
	})
}

func TestServersComeFromTheFlagThenOurVariableThenTheApplications(t *testing.T) {
	file := filepath.Join(clitest.ListedDir(t), "urls")
	require.NoError(t, os.WriteFile(file, []byte("\ufeff# three\nredis://f1\n\n redis://f2, redis://f3:7000\n"), 0o600))
	for name, c := range map[string]struct {
		flags        URLs
		ours, theirs string
		want         string
	}{
		"nothing":        {nil, "", "", "127.0.0.1:6379/0"},
		"theirs":         {nil, "", "redis://app", "app:6379/0"},
		"ours":           {nil, "redis://a", "redis://app", "a:6379/0"},
		"ours is a list": {nil, "redis://a,rediss://b:1 redis://[::1]", "", "a:6379/0, b:1/0, [::1]:6379/0"},
		"ours is a file": {nil, "@" + file, "", "f1:6379/0, f2:6379/0, f3:7000/0"},
		"flags":          {URLs{"redis://x/1", "unix:///y?db=2"}, "redis://a", "redis://app", "x:6379/1, /y?db=2"},
		"flag is a file": {URLs{"@" + file}, "redis://a", "", "f1:6379/0, f2:6379/0, f3:7000/0"},
	} {
		t.Setenv(EnvURL, c.ours)
		t.Setenv(EnvAppURL, c.theirs)
		assert.Equal(t, c.want, found(t, c.flags...).Names(), name)
	}
}

func TestAConnectionIsPrivateByTLSOrWithinThisMachine(t *testing.T) {
	t.Parallel()
	for url, private := range map[string]bool{
		"redis://127.0.0.1": true, "redis://localhost": true, "redis://[::1]": true, "unix:///socket": true,
		"rediss://example.com": true, "redis://example.com": false, "redis://10.0.0.1": false,
	} {
		assert.Equal(t, private, found(t, url)[0].Private, url)
	}
}

// Two unset variables in a list leave such a value.
func TestAVariableWithoutAURLIsAnErrorAndNotAnotherServer(t *testing.T) {
	t.Setenv(EnvURL, " , ")
	t.Setenv(EnvAppURL, "redis://app")
	_, err := Find(nil, QuickTimeout)
	assert.ErrorContains(t, err, EnvURL)
}

// Flags are no lists, so a comma in a flag is an ordinary character of a password.
func TestACommaThatCutsAPasswordInTwoIsNamed(t *testing.T) {
	const raw, hint = "redis://:hunter,2@host", "a password has %2C and %20 for them"
	file := filepath.Join(t.TempDir(), "urls")
	require.NoError(t, os.WriteFile(file, []byte(raw), 0o600))
	t.Setenv(EnvURL, raw)
	for _, given := range []URLs{nil, {"@" + file}} {
		_, err := Find(given, QuickTimeout)
		require.ErrorContains(t, err, hint)
		assert.NotContains(t, err.Error(), "hunter")
	}
	found(t, raw)
	_, err := Find(URLs{"redis://host", "redis://host:port"}, QuickTimeout)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), hint)
}

func TestServersThatMakeNoQuorumAreAUsageError(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("# nothing\n"), 0o600))
	var many URLs
	for i := range 65 {
		many = append(many, fmt.Sprint("redis://host", i))
	}
	redimutex.NewClient(found(t, many[:64]...).Pools()).Close() // it takes as many
	for want, given := range map[string]URLs{
		"127.0.0.1:7000 is named twice": {"redis://127.0.0.1:7000", "redis://127.0.0.1:7000/1"},
		"no URL in the file":            {"@" + empty},
		"no such file":                  {"@" + empty + "-missing"},
		"the name of a file, and there": {"@"},
		"65 servers are named, and a":   many[:65],
	} {
		_, err := Find(given, QuickTimeout)
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "-redis")
	}
	t.Setenv(EnvURL, "nonsense")
	_, err := Find(nil, QuickTimeout)
	assert.ErrorContains(t, err, EnvURL)
}

func TestWordsOfAServerSayNothingOfOurScripts(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"ERR invalid expire time in 'set' command script: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12, on @user_script:20.":                   "ERR invalid expire time in 'set' command",
		"OOM command not allowed when used memory > 'maxmemory'. script: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12, on @user_script:1.":     "OOM command not allowed when used memory > 'maxmemory'.",
		"ERR Error running script (call to f_2fd4e1c67a2d28fced849ee1bb76e7391b93eb12): @user_script:9: @user_script: 9: -OOM not allowed": "OOM not allowed",
		"@user_script: 83: -READONLY You can't write against a read only replica.":                                                         "READONLY You can't write against a read only replica.",
		"NOAUTH Authentication required.": "NOAUTH Authentication required.",
	} {
		assert.Equal(t, want, Words(fmt.Errorf("script: %w", redis.Error(said))))
	}
}

// explained returns what is said about the error of a server.
func explained(err error) string {
	return Set{{Name: "host:1"}}.Explain(&redimutex.NodeError{Err: err})
}

func TestEachWayInWhichTLSFailsHasAdviceOfItsOwn(t *testing.T) {
	for advice, err := range map[string]error{
		"a new certificate":                &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
		"name its authority":               &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"tls-auth-clients to no":           &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")},
		"redis:// is for servers without":  ErrHandshake,
		"Its URL then begins with rediss:": &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
	} {
		assert.Regexp(t, `^host:1: .* \(.*`+advice+`.*\)$`, explained(err))
	}
}

func TestEachErrorOfAServerHasAdvice(t *testing.T) {
	t.Parallel()
	for said, advice := range map[redis.Error]string{
		"READONLY You can't write against a read only replica.":               "redimutex doctor looks for the reason",
		"OOM command not allowed when used memory > 'maxmemory'.":             "redimutex doctor looks for the reason",
		"CLUSTERDOWN Hash slot not served":                                    "redimutex doctor looks for the reason",
		"ERR max number of clients reached":                                   "redimutex doctor looks for the reason",
		"ERR unknown command 'evalsha', with args beginning with:":            "redimutex doctor looks for the reason",
		"NOPERM User u has no permissions to run the 'evalsha' command":       "redimutex doctor says what this user lacks",
		"NOPERM No permissions to access a key":                               "redimutex doctor says what this user lacks",
		"NOPERM User u has no permissions to run the 'scan' command":          "redimutex list -h says what",
		"NOPERM this user has no permissions to run the 'getrange' command":   "redimutex list -h says what",
		"CROSSSLOT Keys in request don't hash to the same slot":               "several KEYs need the same {tag}",
		"WRONGTYPE Operation against a key holding the wrong kind of value":   "something that is no lock",
		"LOADING Redis is loading the dataset in memory":                      "redimutex doctor looks for the reason",
		"@user_script: 83: -READONLY You can't write against a read only one": "redimutex doctor looks for the reason",
		// Up to Redis 7.0 a server does not say which command a script may not call.
		"ERR The user executing the script can't run this command or subcommand":        "redimutex doctor says what this user lacks",
		"ERR ACL failure in script: User u has no permissions to run the 'set' command": "redimutex doctor says what this user lacks",
	} {
		assert.Contains(t, explained(said), advice)
	}
}

func TestAdviceStandsBehindTheServersThatNeedIt(t *testing.T) {
	t.Parallel()
	refused, locked := error(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), error(redis.Error("NOAUTH Authentication required."))
	none := quorum.ErrNoAnswer
	set := Set{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"the same":       {[]error{locked, locked, locked}, `^a: NOAUTH [^(]*; b: NOAUTH [^(]*; c: NOAUTH [^(]* \(give user [^(]*\)$`},
		"each its own":   {[]error{refused, locked, refused}, `^a: [^(]*; b: NOAUTH [^(]* \(give user [^(]*\); c: [^(]*refused \(does it run[^(]*\)$`},
		"not waited for": {[]error{locked, locked, none}, `^a: [^(]*; b: [^(]* \(give user [^(]*\); c: no answer yet$`},
		"nothing else":   {[]error{none, none, none}, `^a: no answer yet; b: no answer yet; c: no answer yet \(does it run[^(]*\)$`},
	} {
		var errs []error
		for i, err := range c.errs {
			errs = append(errs, &redimutex.NodeError{Node: i, Err: err})
		}
		assert.Regexp(t, c.want, set.Explain(errors.Join(errs...)), name)
	}
}

// Two of three servers refuse, so the library does not wait for the third. It exports no error for that.
func TestWhoWasNotWaitedForGetsNoAdvice(t *testing.T) {
	t.Parallel()
	hung := redistest.Start(t)
	hung.Pause()
	defer hung.Resume()
	nodes := found(t, "redis://"+redistest.FreeAddr(t), "redis://"+redistest.FreeAddr(t), hung.URL())
	client := redimutex.NewClient(nodes.Pools())
	defer client.Close()
	_, err := client.Mutex("job").TryAcquire(t.Context())
	assert.Regexp(t, `^[^(]*; [^(]* \(does it run[^(]*\); \S+: no answer yet$`, nodes.Explain(err))
}

func TestACommandFindsASocketWhateverItsPath(t *testing.T) {
	path := "/tmp/a,b c%/d\te"
	t.Setenv(EnvURL, found(t, "unix:///tmp/a,b%20c%25/d%09e", "redis://host").Child())
	inside := found(t)
	assert.Len(t, inside, 2)
	assert.Equal(t, path, inside[0].Address)
}
