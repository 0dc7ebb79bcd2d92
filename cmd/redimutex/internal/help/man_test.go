package help

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
)

// helpOf returns what -h prints.
func helpOf(c *cli.Command) string {
	var b strings.Builder
	c.Help(&b)
	return b.String()
}

func TestManualHasEveryWordOfEveryHelpInOrder(t *testing.T) {
	page, _ := clitest.Ends(t, cli.OK, "man")
	for _, c := range cli.Listed(allCommands()) {
		_, section, ok := strings.Cut(page, `.SH "redimutex `+c.Name+"\"\n")
		require.True(t, ok, "%s has no section", c.Name)
		section, _, _ = strings.Cut(section, "\n.SH ")
		want := strings.TrimPrefix(helpOf(c), "Usage: ")
		assert.Equal(t, strings.Fields(want), strings.Fields(unroff(section)), c.Name)
	}
}

// unroff returns what a reader of the page sees, without its form.
func unroff(page string) string {
	page = regexp.MustCompile(`(?m)^\.S[SH] "?(.*?)"?$`).ReplaceAllString(page, "$1")
	page = regexp.MustCompile(`(?m)^\..*$`).ReplaceAllString(page, "")
	return strings.NewReplacer(`\fB`, "", `\fR`, "", `\&`, "", `\-`, "-", `\e`, `\`, `\(ti`, "~", `\(ha`, "^", `\(aq`, "'", `\(ga`, "`").Replace(page)
}

func TestManualFormatsWithoutAWarning(t *testing.T) {
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("needs groff(1)")
	}
	_, page, _ := clitest.Call("man")
	cmd := exec.Command("groff", "-man", "-Tutf8", "-ww", "-rLL=80n")
	cmd.Stdin = strings.NewReader(page)
	var out, warnings strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &warnings
	require.NoError(t, cmd.Run(), warnings.String())
	assert.Empty(t, warnings.String())
	assert.False(t, strings.ContainsRune(out.String(), '\u2010'), "no word is broken, because it may be copied")
	style := regexp.MustCompile("\x1b\\[[0-9;]*m|.\x08")
	for line := range strings.Lines(style.ReplaceAllString(out.String(), "")) {
		assert.LessOrEqual(t, len([]rune(line)), 87, line) // an example may be as long as in the help, and is further in
	}
}

func TestWhatRoffWouldTakeForItsOwnStaysAsItIs(t *testing.T) {
	t.Parallel()
	var p roff
	p.text(".so /etc/passwd\n'br\na \\fB b\n-n ~ ^ ' ` é\n")
	assert.Equal(t, "\\&.so /etc/passwd\n\\(aqbr\na \\efB b\n\\-n \\(ti \\(ha \\(aq \\(ga \\[u00E9]\n", p.String())
}
