package host

import "github.com/redimutex/redimutex/internal/machine"

// Describe says in a few lines on what the figures were taken.
func Describe(s *Server) []string {
	return []string{
		"Machine: " + machine.Describe(),
		"Versions: " + machine.Go() + "; " + version(s) + " on the same machine, loopback, no persistence",
		"Libraries: " + machine.Libraries("github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
			"github.com/redis/go-redis/v9", "github.com/redis/rueidis"),
	}
}

func version(s *Server) string {
	info, err := s.Info()
	if err != nil {
		return "an unknown server"
	}
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["redis_version"]
}
