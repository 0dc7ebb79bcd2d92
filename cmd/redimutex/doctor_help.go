package main

const doctorHelp = `Usage: redimutex doctor [FLAGS]

Checks whether the server, or each of several, is fit for locks: whether it can
be reached, how fast it answers, whether it may forget locks (eviction,
restarts, failover), its clock, and whether this user may do what each option
of the library needs. What is wrong is named, with why it matters and what to
do. docs/operations.md explains each finding.

It tries locks on keys with random names, which it removes again. What is left
if it is interrupted expires by itself, a fence counter after an hour. It takes
a few seconds, also when a server hangs.

  -redis URL  The server; repeat it for Redlock. -redis @FILE reads the URLs
              from a file. Default: $REDIMUTEX_URL (several with commas or
              spaces, or @FILE), else $REDIS_URL, else redis://127.0.0.1:6379
  -ttl TIME   The TTL of your locks. Default: 10s
  -node-timeout TIME
              WithNodeTimeout of your program. Default: a twentieth of -ttl,
              50ms at least
  -need LIST  What your program uses, of fencing, queue, replicas and guard,
              with commas: that is tried, and an error if it does not work.
              "-need lock" tries nothing more than a lock. Default: all is
              tried, and what does not work is a warning
  -replicas N WithReplicas(N) of your program: N replicas have to be connected,
              and a lock is tried with them. Includes -need replicas
  -key PREFIX Keys for trying begin with this; the user has to be allowed to
              use them. Default: redimutex:doctor:
  -ignore LIST
              Findings that you know of and live with, by name, with commas
  -v          Show what is fine as well.
  -json       One JSON object: status (fine, warnings, unusable), servers (a
              list with address, software, role, ping_ms, worst_ping_ms,
              clock_offset_ms and tried of each) and findings (a list with id,
              level: ok, warning or error, server, what, why and do of each).
              What is ok is listed with -v alone.

TIME is a number of seconds (5, 0.5) or has units (500ms, 1m30s).

EXAMPLES
  redimutex doctor -redis redis://redis.example.com
  A service that uses WithTTL(30s), WithFencing and WithQueue, as its own user:
    redimutex doctor -redis @/etc/redis.url -ttl 30s -need fencing,queue \
      -key orders:
  Three servers without persistence, and WithRestartGuard:
    redimutex doctor -redis redis://a -redis redis://b -redis redis://c \
      -need guard

EXIT STATUS
  0  fine
  1  there are warnings, or errors on a minority of the servers
  2  unusable for locks
  3  wrong usage; a monitoring system may take these four as they are
`
