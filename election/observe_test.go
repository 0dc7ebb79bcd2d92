package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/election"
	"github.com/redimutex/redimutex/internal/redistest"
)

// several starts n servers.
func several(t testing.TB, n int) (servers []*redistest.Server, pools func() []redimutex.Pool) {
	for range n {
		servers = append(servers, redistest.Start(t))
	}
	return servers, func() (all []redimutex.Pool) {
		for _, s := range servers {
			all = append(all, s.Pool())
		}
		return all
	}
}

// everywhere waits until every server has the lock and the leader's record. A leader does not wait for more than a majority.
func everywhere(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		redistest.Wait(t, "the record of the leader", func() bool {
			token := s.Get(key)
			return token != "" && strings.HasSuffix(s.Get("redimutex:term:{"+key+"}"), token)
		})
	}
}

func TestAnObserverReadsAMajority(t *testing.T) {
	t.Parallel()
	servers, pools := several(t, 3)
	observer := election.New(newClient(t, pools()), key, "")
	assert.Equal(t, election.Leader{}, leader(t, observer))

	a := join(t, pools(), "a")
	lead := a.leads(t, 1)
	want := election.Leader{Owner: "a", Term: lead.number}
	assert.Equal(t, want, leader(t, observer), "it is known as soon as it leads")
	everywhere(t, servers)

	// One server disagrees with the two others.
	servers[0].Do("SET", "redimutex:term:{"+key+"}", "7 10000 f47ac10b-58cc-4372-a567-0e02b2c3d479 liar", "PX", 60000)
	servers[0].Do("SET", key, "f47ac10b-58cc-4372-a567-0e02b2c3d479 liar", "PX", 60000)
	assert.Equal(t, want, leader(t, observer))
	servers[0].Pause()
	assert.Equal(t, want, leader(t, observer), "one that hangs is not waited for")
	servers[0].Resume()
	servers[0].Kill()
	assert.Equal(t, want, leader(t, observer))
	servers[1].Kill()
	_, err := observer.Leader(t.Context())
	require.ErrorIs(t, err, redimutex.ErrUnavailable, "one of three is no majority")
	var node *redimutex.NodeError
	require.ErrorAs(t, err, &node)
}

// Without the hanging server the two others disagree, so either may be right.
func TestAnObserverDoesNotSayNobodyWhileAMajorityIsPossible(t *testing.T) {
	t.Parallel()
	servers, pools := several(t, 3)
	a := join(t, pools(), "a", redimutex.WithTTL(time.Minute))
	a.leads(t, 1)
	everywhere(t, servers)
	servers[0].Do("DEL", key)
	servers[1].Pause()
	defer servers[1].Resume()
	_, err := election.New(newClient(t, pools()), key, "").Leader(t.Context())
	require.ErrorIs(t, err, redimutex.ErrUnavailable)
}

// The connection has the deadline of the ctx too, and may notice it first.
func TestTheErrorOfLeaderIsTheCauseOfItsCtx(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := election.New(newClient(t, one(s)), key, "")
	leader(t, e)
	s.Pause()
	defer s.Resume()
	bye := errors.New("bye")
	for range 20 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, bye)
		_, err := e.Leader(ctx)
		cancel()
		require.ErrorIs(t, err, bye)
	}
}

func TestAnObserverIsToldEachLeaderWithItsTerm(t *testing.T) {
	t.Parallel()
	_, pools := several(t, 3)
	w := observe(t, pools())
	redistest.Wait(t, "no one leads", func() bool { return w.last() == election.Leader{} })
	for _, name := range []string{"a", "b", "a"} {
		c := join(t, pools(), name, redimutex.WithTTL(time.Second))
		lead := c.leads(t, 1)
		redistest.Wait(t, name+" is told", func() bool {
			return w.last() == election.Leader{Owner: name, Term: lead.number}
		})
		c.stop(nil)
		redistest.Wait(t, "no one leads", func() bool { return w.last() == election.Leader{} })
	}
}

// A leader with a short TTL can't be seen by an observer that is far away.
func TestAnObserverThatIsFarAwayIsToldTheNextLeader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a", redimutex.WithTTL(300*time.Millisecond))
	a.leads(t, 1)
	w := observe(t, []redimutex.Pool{s.Far(60 * time.Millisecond).Pool()})
	told := func(name string) {
		redistest.Wait(t, fmt.Sprintf("%q is told", name), func() bool {
			l := w.last()
			return l.Owner == name && l.Term >= 0
		})
	}
	told("a")
	told("")
	a.stop(nil)
	b := join(t, one(s), "b", redimutex.WithTTL(time.Minute))
	b.leads(t, 1)
	told("b")
}

// However a leader ends, its observer knows of the end within a TTL.
func TestAnObserverLeavesAnOldLeaderWithinATTL(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for _, how := range []string{"resigned", "deleted", "taken by a foreign client", "unreachable"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			w := observe(t, one(s))
			a := join(t, one(s), "a", redimutex.WithTTL(ttl))
			old := a.leads(t, 1).number
			redistest.Wait(t, "a is told", func() bool { return w.last().Term == old })
			over, late := redistest.Overrun(ttl, func() {
				switch how {
				case "resigned":
					a.Resign()
				case "deleted":
					s.Do("DEL", key)
				case "taken by a foreign client":
					s.Do("SET", key, "f47ac10b-58cc-4372-a567-0e02b2c3d479 foreign", "PX", 60000)
				case "unreachable":
					s.Pause()
					defer s.Resume()
				}
				redistest.Wait(t, "another leader, or none, is told", func() bool { return w.last().Term != old })
			})
			assert.LessOrEqual(t, over, 2*late, "the machine was late by %v", late)
			if how == "taken by a foreign client" || how == "unreachable" {
				assert.Zero(t, w.last(), "a foreign holder has no term")
			}
		})
	}
}

// Candidates come and go. The lock is lost, and taken by clients that know nothing of terms. Observers look on.
func TestATermHasOneLeader(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			t.Parallel()
			servers, pools := several(t, n)
			var mu sync.Mutex
			owners := make(map[int64]string)
			note := func(l election.Leader) {
				mu.Lock()
				defer mu.Unlock()
				if l.Term == 0 {
					return
				}
				if was, ok := owners[l.Term]; ok && was != l.Owner {
					t.Errorf("term %d has two leaders: %q and %q", l.Term, was, l.Owner)
				}
				owners[l.Term] = l.Owner
			}
			ctx, stop := context.WithCancel(t.Context())
			var looking sync.WaitGroup
			defer looking.Wait()
			defer stop()
			for range 3 {
				e := election.New(newClient(t, pools()), key, "")
				looking.Go(func() {
					for ctx.Err() == nil {
						if l, err := e.Leader(ctx); err == nil {
							note(l)
						}
					}
				})
			}
			unfenced := newClient(t, pools(), redimutex.WithOwner("unfenced")).Mutex(key)
			var all []*candidate
			for _, name := range []string{"a", "b", "c"} {
				all = append(all, join(t, pools(), name, redimutex.WithTTL(300*time.Millisecond)))
			}
			terms := func() (sum int) {
				for _, c := range all {
					for _, lead := range c.led() {
						sum++
						note(election.Leader{Owner: c.name, Term: lead.number})
					}
				}
				return sum
			}
			for round := range 30 {
				before := terms()
				switch round % 3 {
				case 0:
					for _, s := range servers {
						s.Do("DEL", key)
					}
				case 1:
					for _, c := range all {
						c.Resign()
					}
				case 2:
					for _, s := range servers {
						s.Do("DEL", key)
					}
					if unfenced.TryLock() {
						unfenced.Unlock()
					}
				}
				redistest.Wait(t, "there is a new leader", func() bool { return terms() > before })
			}
			stop()
			looking.Wait()
			assert.GreaterOrEqual(t, len(owners), 30)
		})
	}
}

func TestObserveEndsWithItsLoopAndItsCtx(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := election.New(newClient(t, one(s)), key, "")
	for l := range e.Observe(t.Context()) {
		assert.Zero(t, l)
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	turns := 0
	for range e.Observe(ctx) {
		turns++
		cancel()
	}
	assert.Equal(t, 1, turns)
	for range e.Observe(ctx) {
		t.Error("its ctx has ended before")
	}
}

func TestALeaderTellsItsTermAgainToServersThatHaveLostIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := join(t, one(s), "a", redimutex.WithTTL(time.Second))
	a.leads(t, 1)
	s.Do("DEL", "redimutex:term:{"+key+"}")
	redistest.Wait(t, "the leader is known again", func() bool { return leader(t, a.Election).Owner == "a" })
	assert.Len(t, a.led(), 1)
	assert.Less(t, s.Do("PTTL", "redimutex:term:{"+key+"}"), int64(3001), "it expires")
}

func TestAnObserverOnlyReads(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, redistest.ACL)
	s := redistest.Start(t)
	a := join(t, one(s), key+"er")
	want := a.leads(t, 1).number
	s.SetUser("observer", "reset", "on", "nopass", "%R~"+key, "%R~redimutex:term:{"+key+"}", "+get")
	pool := s.Pool(redis.DialUsername("observer"), redis.DialPassword("any"))
	got := leader(t, election.New(newClient(t, []redimutex.Pool{pool}), key, ""))
	assert.Equal(t, want, got.Term)
}
