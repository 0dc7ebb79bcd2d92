package names

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redimutex/redimutex"
)

// A Figure is a metric that is read from the Stats of a Client.
type Figure struct {
	Prometheus, OpenTelemetry string // names, without the prefix that all metrics of this library have
	Unit, Help                string
	Gauge                     bool   // false: a counter
	Label                     string // "": one value without a label
	Read                      func(s redimutex.Stats, servers []string) []Value
}

// A Value is one series of a Figure.
type Value struct {
	Label string
	N     int64
}

// Figures are all metrics that are read from the Stats.
var Figures = []Figure{
	{
		"locks_held", "lock.held", "{lock}", "Leases of this process, also idle ones.", true, "",
		func(s redimutex.Stats, _ []string) []Value { return []Value{{"", int64(s.Held)}} },
	},
	{
		"waiters", "lock.waiters", "{goroutine}", "Goroutines that wait for a lock.", true, "",
		func(s redimutex.Stats, _ []string) []Value { return []Value{{"", int64(s.Waiting)}} },
	},
	{
		"acquired_total", "lock.acquired", "{lock}", "Locks acquired.", false, "",
		func(s redimutex.Stats, _ []string) []Value { return []Value{{"", s.Acquired}} },
	},
	{
		"contended_total", "lock.contended", "{lock}", "Locks acquired not at the first try on the servers.", false, "",
		func(s redimutex.Stats, _ []string) []Value { return []Value{{"", s.Contended}} },
	},
	{
		"released_total", "lock.released", "{lock}", "Locks unlocked.", false, "",
		func(s redimutex.Stats, _ []string) []Value { return []Value{{"", s.Released}} },
	},
	{
		"renewals_total", "lease.renewals", "{renewal}", "Renewals of leases, by outcome.", false, Outcome,
		func(s redimutex.Stats, _ []string) []Value {
			return []Value{{Renewed, s.Renewed}, {Failed, s.NotRenewed}}
		},
	},
	{
		"lost_total", "lease.lost", "{lease}", "Leases lost, by reason.", false, Reason,
		func(s redimutex.Stats, _ []string) []Value {
			return []Value{
				{string(redimutex.Expired), s.LostExpired},
				{string(redimutex.Deleted), s.LostDeleted},
				{string(redimutex.Taken), s.LostTaken},
			}
		},
	},
	{
		"server_errors_total", "server.errors", "{error}", "Failed operations, by server.", false, Server,
		func(s redimutex.Stats, servers []string) (all []Value) {
			for i, n := range s.Errors {
				all = append(all, Value{Clean(servers[i]), n})
			}
			return all
		},
	},
}

// OldestHold is the help text of the age that [Oldest] returns.
const OldestHold = "Age of the oldest hold that is in use, 0 without one."

// Oldest returns the age of the oldest hold in use for each result of name, which gets the key. A lock that is never released
// shows nowhere else: until it ends, it is in no histogram and in no exported span.
func Oldest(client *redimutex.Client, name func(key string) string) map[string]time.Duration {
	oldest := make(map[string]time.Duration)
	for _, l := range client.Locks() {
		if l.Held && !l.Idle {
			key := name(l.Key)
			oldest[key] = max(oldest[key], time.Since(l.Since))
		}
	}
	return oldest
}

// Buckets are the default limits of histograms: waits for locks and holds take from a round trip to minutes.
func Buckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

// Servers returns the names of the servers of a client: given by WithServerNames, or else their numbers.
func Servers(client *redimutex.Client, given []string) ([]string, error) {
	servers := len(client.Stats().Errors)
	if given == nil {
		for i := range servers {
			given = append(given, strconv.Itoa(i))
		}
	}
	if len(given) != servers {
		return nil, fmt.Errorf("WithServerNames: got %d names, and the Client has %d servers", len(given), servers)
	}
	sorted := slices.Sorted(slices.Values(given))
	if slices.Contains(sorted, "") || len(slices.Compact(sorted)) != servers {
		return nil, fmt.Errorf("WithServerNames(%q): the names have to differ, and none may be empty", given)
	}
	return given, nil
}
