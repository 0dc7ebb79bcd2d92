package clitest

// MalformedURLs are URLs that are wrong in every way that we could think of, each with a password in it.
var MalformedURLs = []string{
	"hunter2", ":hunter2@host", "//:hunter2@host", "http://:hunter2@host", "redis:hunter2@host", "redis:/:hunter2@host",
	"redis://:hunter2@", "redis://:hunter2@:6379", "redis://:hunter2@host:port", "redis://:hunter2@host:0",
	"redis://:hunter2@host:65536", "redis://:hunter2@host:6379:6379", "redis://:hunter2@host/db", "redis://:hunter2@host/-1",
	"redis://:hunter2@host/0/1", "redis://:hunter2@host?db=1", "redis://:hunter2@host#1", "redis://:hunter2#x@host",
	"redis://:hunter2/x@host", "redis://:hunter2?x@host", "redis://:hunter2%zz@host", "redis://hunter2@host",
	"redis://:hunter2 x@host", "redis://:hunter2@ho st", "redis://:hunter2@[::1", "redis://:hunter2@host%zz", "rediss://:hunter2@",
	"redis://:12/hunter2@host", "redis://user:hunter2/6379@host", "unix://:hunter2@host/socket", "unix://:hunter2@socket",
	"unix://:hunter2@/socket?x=1", "unix://:hunter2@/socket?db=x", "REDIS ://:hunter2@host", "redis://:hunter2\x00@host",
	"redis://:hunter2@host\n", "redis://:hunter2@host,redis://b",
}
