package redistest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Calls returns how often clients have called the commands since the server started. It skips the
// test with miniredis.
func (s *Server) Calls(commands ...string) int {
	s.t.Helper()
	if !s.IsReal() {
		s.t.Skip("needs INFO commandstats: miniredis doesn't have it")
	}
	stats := fmt.Sprintf("%s", s.Do("INFO", "commandstats"))
	n := 0
	for _, c := range commands {
		found := regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(strings.ToLower(c)) + `:calls=(\d+)`).FindStringSubmatch(stats)
		if found != nil {
			calls, _ := strconv.Atoi(found[1])
			n += calls
		}
	}
	return n
}
