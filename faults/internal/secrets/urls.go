package secrets

// malformed are URLs that people write, PW being where the password is.
var malformed = []string{
	"PW", "user:PW@host:6379", ":PW@host", "//:PW@host", "://:PW@host", "http://:PW@host", "rediss:/:PW@host", "redis:PW@host",
	"redis:///:PW@host", "redis://:PW@", "redis://:PW@:6379", "redis://:PW@host:port", "redis://:PW@host:0", "redis://:PW@host:65536",
	"redis://:PW@host:-1", "redis://:PW@host:6379:6379", "redis://:PW@host/db", "redis://:PW@host/-1", "redis://:PW@host/0/1",
	"redis://:PW@host?db=x", "redis://:a/PW@host", "redis://:a#PW@host", "redis://:a?PW@host", "redis://:PW/b@host", "redis://:PW#b@host",
	"redis://:PW?b@host", "redis://:PW%@host", "redis://:PW%zz@host", "redis://:PW b@host", "redis://PW@host", "redis://:PW@[::1",
	"redis://:PW@ho st", "redis://:PW@host\n", "redis://:PW@host#x", "redis://:PW@host/PW", "redis://:PW@host:PW",
	"unix://:PW@relative/path", "unix://:PW@", "unix://:PW@/s?db=x", "unix://:PW@/s?name=PW",
}
