package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPictureIsWellFormedAndHasAllBarsThatFallIntoIt(t *testing.T) {
	ms := time.Millisecond
	p := Picture{Title: `Locks & "keys" <here>`, Subtitle: "a > b", From: 100 * ms, To: 1100 * ms, Groups: []Group{
		{Title: "Servers", Lanes: []Lane{{Name: "server 0", Bars: []Bar{{0, 200 * ms, Hang, "a <tip>"}, {500 * ms, 600 * ms, Shaded, ""}}}}},
		{Title: "Workers", Lanes: []Lane{{Name: "worker 0", Bars: []Bar{{300 * ms, 300 * ms, Held, ""}, {2000 * ms, 3000 * ms, Lost, ""}}}}},
	}}
	path := filepath.Join(t.TempDir(), "p.svg")
	require.NoError(t, p.Save(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	decoder := xml.NewDecoder(strings.NewReader(string(text)))
	for err == nil {
		_, err = decoder.Token()
	}
	require.True(t, errors.Is(err, io.EOF), "%v", err)
	for class, n := range map[string]int{"hang": 2, "held": 2, "lost": 1, "shaded": 3} { // one of each in the legend
		assert.Equal(t, n, strings.Count(string(text), `<rect class="`+class+`"`), class)
	}
	assert.Contains(t, string(text), ">100ms<", "the scale begins at a round number")
	assert.NotContains(t, string(text), "NaN")
}

func TestEmptyPictureIsDrawnToo(t *testing.T) {
	assert.NotContains(t, string(Picture{}.SVG()), "NaN")
}
