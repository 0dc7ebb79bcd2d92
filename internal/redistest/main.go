package redistest

import (
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A Role is what the test binary does in place of the tests if Variable is set in its environment. So a test can start its own
// binary as another process. Run gets the value, and returns the exit status.
type Role struct {
	Variable string
	Run      func(value string) int
}

// afterlife is how long goroutines may outlive the tests. An abandoned Client finishes what it has begun, such as a clean-up.
// That ends with the TTL at the latest.
const afterlife = 30 * time.Second

// testsAtOnce is how many tests run at once for each processor.
var testsAtOnce = 4

// FewAtOnce is for packages whose tests measure times and do much in parallel themselves. Call it before Main.
func FewAtOnce() { testsAtOnce = 2 }

// Main is the TestMain of a package. It runs the tests without the log of the library, and fails if they leave a goroutine
// behind that does not end within half a minute. It does not return.
func Main(m *testing.M, roles ...Role) {
	for _, r := range roles {
		if value := os.Getenv(r.Variable); value != "" {
			os.Exit(r.Run(value))
		}
	}
	together()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // retries log, and that is no news here
	log.SetOutput(os.Stderr)                                        // SetDefault has changed it: an Example that calls log.Fatal would end without a word
	code := m.Run()
	if code == 0 {
		if err := leftover(); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines that outlive the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// together lets more tests run at once than there are processors, unless the command line sets the number. Most tests mostly
// wait.
func together() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(testsAtOnce*runtime.GOMAXPROCS(0))) //nolint:errcheck // it is a number
	}
}

// leftover returns an error if goroutines still run when afterlife is over.
func leftover() error {
	for end := time.Now().Add(afterlife); ; {
		err := goleak.Find() // tries for some seconds, too
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
