package redimutex

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redimutex/redimutex/internal/lock"
	"github.com/redimutex/redimutex/internal/quorum"
	"github.com/redimutex/redimutex/internal/server"
)

// A Handover is the right to continue the hold of a Mutex, mostly in another process. [Lease.HandOver] returns it, and
// [Mutex.TakeOver], on a Mutex of the same key, uses it, once.
//
// It is carried as text: in JSON, in the message of a queue, in an environment variable. A process that has the text can take
// the lock: treat it as a secret. MarshalText and encoding/json write it. String, fmt and log/slog hide it. The JSONHandler of
// log/slog hides a Handover that is the logged value, but not one inside a struct, a slice or a map.
type Handover struct {
	secret **handover // behind two pointers: fmt follows one, if the Handover is a field of another struct
}

type handover struct{ key, token string }

const (
	handoverMark   = "redimutex-handover-1."
	handoverHidden = "redimutex.Handover(hidden)"
)

// MarshalText returns h as text. For the zero Handover it returns an error.
func (h Handover) MarshalText() ([]byte, error) {
	if h.secret == nil {
		return nil, errors.New("redimutex: this Handover is empty: Lease.HandOver returns one")
	}
	b := []byte((*h.secret).token + "\x00" + (*h.secret).key)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.AppendEncode([]byte(handoverMark), b), nil
}

// UnmarshalText reads the text of MarshalText. It ignores line breaks, which a shell may add, at the end of the text and after
// its dot. For any other text, or one that was cut or changed, it returns an error and leaves h as it is.
func (h *Handover) UnmarshalText(text []byte) error {
	coded, ok := strings.CutPrefix(string(text), handoverMark)
	b, err := base64.RawURLEncoding.Strict().DecodeString(coded)
	if n := len(b) - 4; ok && err == nil && n >= 0 && crc32.ChecksumIEEE(b[:n]) == binary.BigEndian.Uint32(b[n:]) {
		if token, key, ok := strings.Cut(string(b[:n]), "\x00"); ok && token != "" && key != "" {
			secret := &handover{key, token}
			*h = Handover{&secret}
			return nil
		}
	}
	return errors.New("redimutex: this is no Handover, or not all of it: pass on the text of Handover.MarshalText as it is")
}

// String hides the Handover.
func (h Handover) String() string { return handoverHidden }

// Format hides the Handover from every verb of package fmt.
func (h Handover) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(handoverHidden)) }

// LogValue hides the Handover from log/slog, if it is the value that is logged.
func (h Handover) LogValue() slog.Value { return slog.StringValue(handoverHidden) }

// HandOver ends this hold, and returns a [Handover]. Until within is over, [Mutex.TakeOver] can continue the hold in any
// process, and no other caller gets the lock. If it is not taken over, the lock is then free. With [WithMinHold] it is not
// free before that time has passed too, and can be taken over until then. The Mutex that takes over has its own options.
//
// Whatever the server answers, the hold is over in this process: Err is [ErrUnlocked], the Mutex is unlocked, and a Do returns
// the error of its f. Write nothing more that the lock protects. One Unlock or Release that follows is accepted, so a deferred
// one does no harm. But if another goroutine has locked the same Mutex since, Unlock ends that hold: in this case defer
// Release. The ctx of a Do ends too: use another ctx to send the Handover or, if that fails, to take it over.
//
// The error matches
//   - [ErrLost] when the lease had ended before: there is nothing to hand over, and the Handover is empty;
//   - [ErrUnlocked] when the hold was released or handed over before;
//   - [ErrUnavailable] when too few servers answered, or while another HandOver of this Lease is under way;
//   - the cause of ctx when ctx ended during the call; a ctx that had ended before does not matter;
//   - [NodeError] alone at a permanent error (see [Mutex.Lock]);
//   - [ErrClosed] when the Client was closed just before: the lock is released, and the Handover is empty.
//
// With ErrUnavailable, the cause of ctx or a NodeError alone, HandOver still returns the Handover, which may work. Repeat the
// call on the same Lease: it returns the same Handover and finds what the first call did, or returns ErrLost if another
// process has taken over. Without a repeat, servers that did nothing keep the key until the lease ends, and the others until
// within is over. HandOver takes at most one node timeout, plus the timeout of [WithReplicas].
//
// If within is 0 or less, or above 100 years, or if the hold is not that of a Mutex of one key, HandOver returns another
// error, and the hold goes on unchanged. A within below 10 ms counts as 10 ms.
func (l *Lease) HandOver(ctx context.Context, within time.Duration) (Handover, error) {
	o := l.of
	switch {
	case o.config.terms.Kind != server.Mutex || len(o.more) > 0:
		return Handover{}, fmt.Errorf("redimutex: %q: HandOver: only the hold of a Mutex of one key can be handed over", o.key)
	case within <= 0 || within > maxTTL:
		return Handover{}, fmt.Errorf("redimutex: %q: HandOver(%v): the time has to be more than 0, and %v at most", o.key, within, maxTTL)
	}
	ctx = l.lasting(ctx)
	secret := &handover{o.key, o.config.terms.Token()}
	g := &handed{to: Handover{&secret}}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.end.CompareAndSwap(nil, g) {
		if before := l.end.Load(); before != byRelease {
			return before.repeat(ctx, l)
		}
		return Handover{}, unlockedError(o.key, "HandOver")
	}
	now := time.Now()
	again, r, f := l.hold.HandOver(ctx, secret.token, max(within, minTTL))
	err := l.ended(ctx, now, r, f)
	if again == nil {
		return Handover{}, err
	}
	if f != nil {
		g.again = again
	}
	return g.to, err
}

// handed is the hand-over that ended a hold.
type handed struct {
	to       Handover
	released atomic.Bool // whether the one release that is accepted afterwards was called

	mu    sync.Mutex // held during each HandOver
	again lock.Again // repeats it; nil: it is known what the servers have done; guarded by mu
}

func (g *handed) repeat(ctx context.Context, l *Lease) (Handover, error) {
	if !g.mu.TryLock() {
		return g.to, fmt.Errorf("redimutex: %q: HandOver: another one of this Lease is under way: %w", l.of.key, ErrUnavailable)
	}
	defer g.mu.Unlock()
	if g.again == nil {
		return Handover{}, unlockedError(l.of.key, "HandOver")
	}
	f := g.again(ctx)
	if f == nil {
		g.again = nil
		return g.to, nil
	}
	err := l.of.unsettled(ctx, f)
	if errors.Is(err, ErrLost) {
		g.again = nil
		return Handover{}, err
	}
	return g.to, err
}

type takings struct {
	mu    sync.Mutex   // held during a TakeOver
	begun *lock.Taking // the last TakeOver, if it has not succeeded; guarded by mu
}

// TakeOver tries once to continue a hold that [Lease.HandOver] has handed over. m is then locked, with a lease by the options
// of m: see [Mutex.Lease]. With [WithFencing] its fence is above the giver's, so a resource refuses the giver's late writes.
//
// The error matches
//   - [ErrLost] when it is too late: the time is over, or the Handover was used already; or too early: a HandOver that
//     returned [ErrUnavailable] has to be repeated first. Over several servers, takers that try at the same moment may split
//     the votes: then all get this error, and the Handover stays valid;
//   - [ErrUnavailable] when too few servers answered, and the cause of ctx when that ended. The lock may have been taken over.
//     Repeat the call with the same Mutex: it finds what the first call did, or takes the lock over now. Without a repeat the
//     key expires: with the Handover, or with the lease of m;
//   - [ErrLocked] when m is locked, or another TakeOver of m is under way: the Handover stays valid;
//   - [ErrClosed] when the Client is closed. What this call took over is given back to the Handover, if the servers answer:
//     over several servers for the time that the Handover had left, on one server for the TTL of m.
//
// For a Handover of another key, the error says so. At a permanent error it is a [NodeError] alone. In both cases the Handover
// stays valid. An empty one is an error too. TakeOver takes at most one node timeout, plus that of [WithReplicas].
//
// If goroutines of this process already wait for the lock, end the hold by [Lease.Release], not by Unlock. After a loss one of
// them may have the lock, and Unlock would end its hold.
func (m *Mutex) TakeOver(ctx context.Context, h Handover) error {
	must(m.client != nil, zeroValue)
	var why error
	switch {
	case h.secret == nil:
		why = errors.New("the Handover is empty: read it by UnmarshalText, or get it from Lease.HandOver")
	case len(m.more) > 0:
		why = errors.New("a Handover is of one key, and this is a MutexAll")
	case (*h.secret).key != m.key:
		why = fmt.Errorf("the Handover is of another key, %q", (*h.secret).key)
	case !m.taking.mu.TryLock():
		why = fmt.Errorf("another one of this Mutex is under way: %w", ErrLocked)
	default:
		defer m.taking.mu.Unlock()
		if m.Lease() != nil {
			why = fmt.Errorf("this Mutex is locked, unlock it first: %w", ErrLocked)
		}
	}
	if why != nil {
		return m.failed(Event{Context: ctx, Err: fmt.Errorf("redimutex: %q: TakeOver: %w", m.key, why)})
	}
	began, l := time.Now(), newLease(&m.object)
	var f *quorum.Failure
	call := lock.Call{Key: m.key, Terms: &m.config.terms, Once: true}
	m.taking.begun, f = m.client.engine.TakeOver(ctx, &call, (*h.secret).token, m.taking.begun, &l.hold)
	if f == nil {
		m.acquired(ctx, l, lock.Result{Tries: 1, Wait: time.Since(began)})
		return nil
	}
	err := m.toError(ctx, f)
	if errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w; the Handover can't be used: its time is over, it was used before, or it is of other servers; or another TakeOver is under way, or the HandOver has to be repeated first", err)
	}
	return m.failed(Event{Context: ctx, Attempt: 1, Wait: time.Since(began), Err: err})
}
