package doctor

import (
	"github.com/redimutex/redimutex/cmd/redimutex/internal/cli"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
)

// A level says how serious a finding is.
type level string

const (
	levelOK      level = "ok"
	levelWarning level = "warning" // locks work, but not as well as they could
	levelError   level = "error"   // locks do not work on this server, or do not exclude other clients
)

// warning returns the level of a check that warns if something is wrong.
func warning(wrong bool) level {
	if wrong {
		return levelWarning
	}
	return levelOK
}

// A finding is one result about a server, or about all of them together.
type finding struct {
	ID     string `json:"id"`
	Level  level  `json:"level"`
	Server string `json:"server"` // "": all of them together
	What   string `json:"what"`
	Why    string `json:"why,omitempty"`
	Do     string `json:"do,omitempty"`
}

// A check is something that can be wrong: why it matters for locks, and what to do about it.
type check struct{ id, why, do string }

// checks are all checks of doctor. docs/operations.md explains each of them.
var checks = []check{
	{
		"dns", "No lock can be taken through a name that leads nowhere.",
		"Correct the host in the URL, or the DNS of this machine: getent hosts NAME has to print an address.",
	},
	{
		"refused", "Nothing listens at that address: Lock waits, TryLock fails, and leases that are held there end.",
		"Start the server, or correct host and port; look at bind and port in redis.conf, and at the firewall.",
	},
	{
		"silent", "Every operation on this server ends at the node timeout, and leases that only it keeps are lost.",
		"See whether the process is stopped, swaps or runs a long command (redis-cli --latency, SLOWLOG GET), and whether a firewall drops packets.",
	},
	{
		"unreachable", "No lock can be taken on a server that can't be reached.",
		"Correct the URL, or the network between here and there; redis:// is for servers without TLS and rediss:// for those with it.",
	},
	{
		"tls", "Without a connection there is no lock, and one that is not verified may end at another server.",
		"Use the name that the certificate is for, and put its CA into the store of this machine, or name it in SSL_CERT_FILE; rediss:// is for servers with TLS alone.",
	},
	{
		"auth", "The server does not let us in: Lock panics, and the other calls return its words.",
		"Give user and password as in redis://user:password@host, percent-encoded, by " + servers.EnvURL + " or -redis @FILE. A server before Redis 6 knows no users: redis://:password@host.",
	},
	{
		"refused-by-server", "The server answers, and does not let this client work: no lock can be taken on it.",
		"Its own words say what it wants: protected-mode, the number of the database and maxclients are in its redis.conf.",
	},
	{
		"not-ready", "Until it is ready again, locks on this server can be neither taken nor renewed.",
		"LOADING ends by itself. BUSY is a script that runs too long: SCRIPT KILL ends it. CLUSTERDOWN: redis-cli --cluster check tells which slots no node serves.",
	},
	{
		"latency", "An operation that takes longer than the node timeout fails, and renewals that fail again and again lose the lock.",
		"Move closer to the server, find what slows it down (slow commands, swap, fork, a full network), or raise WithNodeTimeout, or the TTL and with it the default of that.",
	},
	{
		"slow-commands", "The server does one thing at a time: while a long command runs, no client can lock or renew.",
		"Find who sends it (SLOWLOG GET, CLIENT LIST). SCAN replaces KEYS, UNLINK replaces DEL of big keys; or give locks a server of their own.",
	},
	{
		"version", "The scripts read the clock and then write, and send no message to replicas. Redis can do both since version 5, unless lua-replicate-commands is no.",
		"Upgrade to Redis 6.2 or newer, or to Valkey; CONFIG SET lua-replicate-commands yes, also in redis.conf.",
	},
	{
		"sentinel", "A Sentinel watches servers and keeps no locks.",
		"Ask it for the primary (SENTINEL GET-MASTER-ADDR-BY-NAME) and check that; docs/topologies.md has the pool for programs.",
	},
	{
		"replica", "A replica refuses writes, so nothing can be locked on it; one that takes writes shares them with no other server.",
		"Point the URL at the primary, or at an address that follows it.",
	},
	{
		"multi-master", "Two servers that both take writes can give the same lock to two holders.",
		"Switch active-replica off for the servers that keep locks.",
	},
	{
		"cluster", "A node keeps the locks of its own slots alone, and sends clients elsewhere for the others. The command line does not follow, so it reaches a part of the keys.",
		"In a program use a cluster pool (docs/topologies.md). For the command line use a server outside the cluster. Nodes of one cluster are no Redlock.",
	},
	{
		"eviction", "When memory is full the server may throw away a lock that is held: another client gets it, and the holder finds out within a third of the TTL.",
		"CONFIG SET maxmemory-policy noeviction, also in redis.conf; or give locks a server of their own.",
	},
	{
		"memory", "When memory is full, a server that evicts nothing refuses new locks (OOM); releasing goes on.",
		"Raise maxmemory, or find what fills it: redis-cli --bigkeys.",
	},
	{
		"disk", "A server that can't save refuses writes (MISCONF): locks can be neither taken nor released.",
		"Look at its log and at the space and the permissions of its dir; then BGSAVE.",
	},
	{
		"persistence", "After a restart, locks that were held are forgotten, and the next client gets them at once.",
		"appendonly yes; with appendfsync always a power failure loses nothing either. Several servers without persistence: WithRestartGuard and -need guard.",
	},
	{
		"clock-skew", "Deadlines do not mind, because each server's clock is learnt. But after a failover to a clock that is ahead locks expire early. " +
			"After one to a clock that is behind fences can stand still. And a clock that is set right in one step lets locks expire early.",
		"Run NTP on all machines, and let it slew the clock, not step it.",
	},
	{
		"replicas", "WithReplicas gives a lock back that too few replicas confirm: nothing can be locked.",
		"Start or connect the replicas (INFO replication shows their state), or ask for fewer.",
	},
	{
		"replica-lag", "A failover to a replica that lags forgets the newest locks, and WithReplicas has to wait for it.",
		"Look at the replica's link, disk and load; INFO replication on the primary shows its offset.",
	},
	{
		"min-replicas", "With fewer good replicas than min-replicas-to-write the server refuses all writes, locks and releases too (NOREPLICAS).",
		"Connect the replicas, or lower min-replicas-to-write. WithReplicas is the finer tool: it asks for each lock, also where the server does not ask for scripts (KeyDB, Redis 5).",
	},
	{
		"cannot-lock", "Without this no lock can be taken, renewed or released.",
		"Undo a rename-command of the command that it names, unless the server or a proxy lacks that command: then it can't keep locks. Or grant the user what a lock needs, and give -key PREFIX if it may use certain keys only.",
	},
	{
		"cannot-fence", "WithFencing, and redimutex run, fail on this server.",
		"Grant the user the keys of the fences.",
	},
	{
		"cannot-queue", "WithQueue does not keep the order on this server, or fails.",
		"If its scripts lack redis.set_repl, leave WithQueue out. Otherwise grant the user the commands, keys and channels of the queue.",
	},
	{
		"pubsub", "The next in the queue is woken by a message. Without messages waiters poll, and come after those who hear them.",
		"A proxy or a managed service that does not pass pub/sub on can't be used with WithQueue; connect to the server itself, or poll.",
	},
	{
		"cannot-count", "A Semaphore, and redimutex run -permits, fail on this server.",
		"Grant the user the commands of sorted sets.",
	},
	{
		"cannot-read", "An RWMutex, and redimutex run -s, fail on this server.",
		"Grant the user the keys and commands of readers and writers.",
	},
	{
		"cannot-wait", "WithReplicas fails on this server.",
		"Grant the user the command WAIT; a service that does not have it can't be used with WithReplicas.",
	},
	{
		"cannot-guard", "WithRestartGuard fails on this server.",
		"Grant the user the key redimutex:guard.",
	},
	{
		"plaintext", "A listener on the way sees the password, and tokens, which are enough to release a lock.",
		"Use rediss://, or a tunnel. In a network that you trust: -ignore plaintext.",
	},
	{
		"unchecked", "What we may not look at may be wrong.",
		"Run this once as a user who may call INFO, CONFIG GET and SLOWLOG GET, if the server has them.",
	},
	{
		"same-server", "A majority of names for one server is one server: if it fails or forgets, all votes do.",
		"Name independent servers, on different machines.",
	},
	{
		"even", "With an even number one server more has to be up than with one less: 4 survive the loss of one, as 3 do.",
		"Add a server, or leave one out.",
	},
}

// find makes a finding. Why and Do come from its check.
func find(id string, l level, server, what string) finding {
	f := finding{ID: id, Level: l, Server: server, What: cli.Printable(what)}
	for _, d := range checks {
		if d.id == id {
			if l != levelOK {
				f.Why, f.Do = d.why, d.do
			}
			return f
		}
	}
	panic("redimutex: doctor does not know " + id)
}
