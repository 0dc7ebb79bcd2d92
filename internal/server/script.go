package server

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var lua embed.FS

// A script is a Lua script and the hash by which a server that has seen it knows it. Both are
// kept as arguments, ready to be sent.
type script struct{ hash, source any }

// newScript joins files of lua/. What is comment there is not sent.
func newScript(files ...string) script {
	var source strings.Builder
	for _, name := range files {
		source.WriteString(read(name))
	}
	text := source.String()
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return script{hash: hex.EncodeToString(sum[:]), source: text}
}

// read returns a file of lua/ without its comments.
func read(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	var code strings.Builder
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "--") {
			code.WriteString(line)
		}
	}
	return code.String()
}
