package inspect

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"

	"github.com/redimutex/redimutex/internal/server"
)

// A Form is what a token looks like, which says who wrote it.
type Form int8

const (
	NoToken Form = iota // no known form; it may still be the token of some lock
	Ours                // a UUID v4, with an owner's label or without
	Foreign             // of a form that other libraries use
)

// uuidLen is the length of a UUID as it is commonly written.
const uuidLen = 36

// FormOf judges a token, of which it needs at least the first 41 bytes.
func FormOf(token string) Form {
	if len(token) >= uuidLen {
		if id, err := uuid.Parse(token[:uuidLen]); err == nil {
			switch plain := len(token) == uuidLen; {
			case id.Version() == 4 && (plain || strings.HasPrefix(token[uuidLen:], server.OwnerMark)):
				return Ours
			case plain:
				return Foreign
			}
			return NoToken
		}
	}
	if random(token) {
		return Foreign
	}
	return NoToken
}

// random reports whether the token is 16 random bytes in a form that libraries use: base64 with padding, URL base64 without
// padding, or hexadecimal; or 20 bytes in hexadecimal. Digests look the same.
func random(token string) bool {
	var err error
	switch len(token) {
	case 24:
		_, err = base64.StdEncoding.Strict().DecodeString(token)
		return err == nil && strings.HasSuffix(token, "==")
	case 22:
		_, err = base64.RawURLEncoding.Strict().DecodeString(token)
	case 32, 40:
		_, err = hex.DecodeString(token)
	default:
		return false
	}
	return err == nil
}
