// Package punctual is a stand-in until the real one is merged.
package punctual

import "github.com/gomodule/redigo/redis"

type undoKey struct{}

// Undo is the key of the command that takes back an interrupted one.
var Undo undoKey

// Pool reports whether nothing of p can outlast the ctx given to GetContext.
func Pool(p *redis.Pool) bool { return false }
