package tenure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Term is one term of leadership. Session.Campaign returns one.
type Term struct {
	election *election
	number   uint64
	context  termContext
	cancel   context.CancelFunc
	over     chan struct{} // Closed when the library has reported the end.
	drained  bool          // Used by takeTerm alone.

	stopped   atomic.Bool // The context is cancelled.
	mu        sync.Mutex
	lost      *LostError // Why; nil while the term is valid.
	certain   bool       // The reason is the library's, or ours.
	proven    time.Duration
	closeOnce sync.Once
	closeErr  error
}

// termContext asks the clock before it answers, so that its answer is right after a pause, too.
type termContext struct {
	context.Context
	term *Term
}

func (c termContext) Err() error {
	c.term.check()
	return c.Context.Err()
}

func (c termContext) Done() <-chan struct{} {
	c.term.check()
	return c.Context.Done()
}

func newTerm(e *election, token uint64) *Term {
	t := &Term{election: e, number: token, over: make(chan struct{})}
	inner, cancel := context.WithCancel(e.parent)
	t.context, t.cancel = termContext{inner, t}, cancel
	go t.watch(inner)
	return t
}

// Context is cancelled when the work must stop: the grace before the deadline if no renewal has
// come through by then, and at once when the term is lost, after Resign, and when the context of
// Campaign ends. Its Err and Done compare the clock, so they are right also after a pause.
//
// A context that is derived from it hears of the end by a goroutine, as usual: ask Token, or this
// context, right before a write.
func (t *Term) Context() context.Context { return t.context }

// Token returns the token while the term is valid this very instant, otherwise 0. Once 0, it stays
// 0. It takes no lock and compares the clock each time: ask before each write, and send the token
// with it.
func (t *Term) Token() uint64 {
	if token := t.election.token(); token == t.number {
		return token
	}
	return 0
}

// Number returns the token that the term began with, also when it is over; for logs only.
func (t *Term) Number() uint64 { return t.number }

// Name returns the name that this term leads.
func (t *Term) Name() string { return t.election.name }

// Remaining returns the time until the term ends unless it is renewed; 0: it is over.
func (t *Term) Remaining() time.Duration { return t.election.remaining() }

// Err returns nil while the context is not cancelled, and then a *LostError that says why.
func (t *Term) Err() error {
	t.check()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		return nil
	}
	return t.lost
}

// Reason returns the reason of Err in one word; "" while the context is not cancelled.
func (t *Term) Reason() Reason {
	t.check()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		return ReasonNone
	}
	return t.lost.Reason
}

// Slot returns the number of the slot that the term has, from 1 on; 0: it is no semaphore (see
// CampaignOptions.Slots), or the term is over.
func (t *Term) Slot() uint32 {
	if t.Token() == 0 {
		return 0
	}
	return t.election.slot()
}

// Proven returns the instant of CLOCK_BOOTTIME, as a span since the machine's start, up to which a
// term that is over is proven: when the last renewal that the store confirmed was sent. Look at the
// work since then, or undo it. It may lie before the term's begin. 0 until the library has reported
// the end, at most moments after the context is cancelled; Close waits for that.
func (t *Term) Proven() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proven
}

// CheckIn says that the work is alive; see CampaignOptions.StallAfter.
func (t *Term) CheckIn() { t.election.call(checkInElection) }

// Resign asks the work to stop: the context is cancelled. The token stays valid for the write that
// is under way, at most for the grace. Close gives the lease back.
func (t *Term) Resign() { t.stop(&LostError{Reason: ReasonReleased}, true) }

// Close says that the work has stopped, and gives the lease back. It waits for the store's answer,
// at most for a third of the TTL. nil: the lease is free, or the term was over before; Err says
// why. Otherwise the lease is free when the TTL is over.
func (t *Term) Close() error {
	t.closeOnce.Do(func() {
		t.stop(&LostError{Reason: ReasonReleased}, true)
		select {
		case <-t.over:
		default:
			t.closeErr = t.release()
		}
		t.election.leave()
	})
	return t.closeErr
}

func (t *Term) release() error {
	if t.election.call(drainElection) != 0 {
		return nil // The session is closed, and the lease with it.
	}
	timer := time.NewTimer(t.election.session.options.ttl() / 3)
	defer timer.Stop()
	select {
	case <-t.over:
		return nil
	case <-timer.C:
		return newError(codeTimeout, "%s: the store did not confirm the release in time: "+
			"the lease is free when its TTL is over", t.election.name)
	}
}

// watch cancels the context in time, and resigns when the context of Campaign ends.
func (t *Term) watch(inner context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-inner.Done():
			t.check()
			return
		case <-timer.C:
			if left := t.check(); left > 0 {
				timer.Reset(left)
			}
		}
	}
}

// check cancels the context if less than the grace is left, or if the context of Campaign has
// ended. It returns the time until the former.
func (t *Term) check() time.Duration {
	if t.stopped.Load() {
		return 0
	}
	if err := t.election.parent.Err(); err != nil {
		t.stop(&LostError{Reason: ReasonReleased, Detail: err.Error(), cause: err}, true)
		return 0
	}
	left := t.election.remaining()
	if left > t.election.grace {
		return left - t.election.grace
	}
	lost := &LostError{Reason: ReasonExpired}
	if left > 0 {
		lost.Detail = "no renewal came through, and the work needs its time to stop"
		t.stop(lost, true)
	} else {
		t.guess(lost)
	}
	return 0
}

// stop cancels the context. The first reason counts. With resign, the library hears of it.
func (t *Term) stop(lost *LostError, resign bool) {
	t.mu.Lock()
	first := t.lost == nil
	if first {
		t.setLost(lost, true)
	}
	t.mu.Unlock()
	t.stopped.Store(true)
	t.cancel()
	if first && resign {
		t.election.call(resignElection)
	}
}

// guess cancels the context of a term that is over before the library has reported why.
func (t *Term) guess(lost *LostError) {
	t.mu.Lock()
	if t.lost == nil {
		t.setLost(lost, false)
	}
	t.mu.Unlock()
	t.stopped.Store(true)
	t.cancel()
}

// end takes the library's report that the term is over.
func (t *Term) end(what event) {
	t.mu.Lock()
	t.proven = what.proven
	if !t.certain {
		t.setLost(&LostError{Reason: what.reason, Detail: what.detail}, true)
	}
	t.mu.Unlock()
	t.stopped.Store(true)
	t.cancel()
	close(t.over)
}

func (t *Term) setLost(lost *LostError, certain bool) {
	lost.Name, lost.Token = t.election.name, t.number
	t.lost, t.certain = lost, certain
}

func (e *election) currentTerm() *Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}
