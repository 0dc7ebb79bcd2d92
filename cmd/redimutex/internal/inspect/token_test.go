package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
)

func TestItsFormSaysWhoWroteAToken(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]inspect.Form{
		"f47ac10b-58cc-4372-a567-0e02b2c3d479":             inspect.Ours,
		"f47ac10b-58cc-4372-a567-0e02b2c3d479 web-1 pid 7": inspect.Ours,
		"f47ac10b-58cc-4372-a567-0e02b2c3d479 0123":        inspect.Ours, // the first 41 bytes of a longer one
		"f47ac10b-58cc-1372-a567-0e02b2c3d479":             inspect.Foreign,
		"f47ac10b-58cc-1372-a567-0e02b2c3d479 web-1":       inspect.NoToken,
		"f47ac10b-58cc-4372-a567-0e02b2c3d479:1":           inspect.NoToken,
		"urn:uuid:f47ac10b-58cc-4372-a567-0e02b2c3d479":    inspect.NoToken,
		"{f47ac10b-58cc-4372-a567-0e02b2c3d479}":           inspect.NoToken,
		"9HrBA1BqmdGOBrF8xKmY4g==":                         inspect.Foreign, // 16 bytes in base64
		"9HrBA1BqmdGOBrF8xKmY4gAA":                         inspect.NoToken,
		"9HrBA1BqmdGOBrF8xKmY4g":                           inspect.Foreign, // without padding
		"pending-review-by-boss":                           inspect.NoToken, // 22 bytes that are no 16
		"0cc175b9c0f1b6a831c399e269772661":                 inspect.Foreign,
		"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8":         inspect.Foreign,
		"86f7e437faa5a7fce15d1ddcb9eaeaea377667bx":         inspect.NoToken,
		"": inspect.NoToken, "1": inspect.NoToken, "a cached page": inspect.NoToken, "{\"json\": true, \"of\": \"some\"}": inspect.NoToken,
	} {
		assert.Equal(t, want, inspect.FormOf(token), token)
	}
}
