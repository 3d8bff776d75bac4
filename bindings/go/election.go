package tenure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// leaving is added to the number of users of an election that is about to be freed.
const leaving = 1 << 62

// election is one campaign in C. Calls into C are bracketed by enter and exit, which are lock-free;
// leave waits for the calls under way and then frees the C election.
type election struct {
	session *Session
	name    string
	key     uintptr
	grace   time.Duration
	parent  context.Context
	observe chan Leader // Of an observer, otherwise nil.

	address atomic.Uintptr
	users   atomic.Int64
	idle    chan struct{}
	left    sync.Once

	changed chan struct{}
	mu      sync.Mutex
	term    *Term
	refusal string
	leader  string
}

func newElection(s *Session, parent context.Context, name string) *election {
	e := &election{
		session: s,
		name:    name,
		key:     lastKey.Add(1),
		parent:  parent,
		idle:    make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
	}
	elections.Store(e.key, e)
	return e
}

// enter begins a call into C; false: the election has left, or has not begun.
func (e *election) enter() bool {
	if e.users.Add(1) > leaving {
		e.exit()
		return false
	}
	if e.address.Load() == 0 {
		e.exit()
		return false
	}
	return true
}

func (e *election) exit() {
	if e.users.Add(-1) == leaving {
		select {
		case e.idle <- struct{}{}:
		default:
		}
	}
}

// leave frees the C election; no callback of it runs any more once this returns.
func (e *election) leave() {
	e.left.Do(func() {
		if e.users.Add(leaving) != leaving {
			<-e.idle
		}
		elections.Delete(e.key)
		leaveElection(e.address.Load())
		e.session.forget(e)
	})
}

// call runs one function of the library; its code, or that of ErrClosed.
func (e *election) call(function func(uintptr) int) int {
	if !e.enter() {
		return codeClosed
	}
	defer e.exit()
	return function(e.address.Load())
}

func (e *election) token() uint64 {
	if !e.enter() {
		return 0
	}
	token := electionToken(e.address.Load())
	e.exit()
	return token
}

func (e *election) slot() uint32 {
	if !e.enter() {
		return 0
	}
	slot := electionSlot(e.address.Load())
	e.exit()
	return slot
}

func (e *election) remaining() time.Duration {
	if !e.enter() {
		return 0
	}
	left := electionRemaining(e.address.Load())
	e.exit()
	return left
}

// receive takes one event, on the library's callback thread. It never blocks for long: a callback
// that does delays those of the session's other elections.
func (e *election) receive(address uintptr, what event) {
	e.address.CompareAndSwap(0, address) // The first event may come before the call returns.
	e.mu.Lock()
	term := e.term
	switch what.kind {
	case eventWon:
		e.term = newTerm(e, what.token)
	case eventRefused:
		e.refusal = what.detail
		if e.refusal == "" {
			e.refusal = string(what.reason)
		}
	case eventLeader:
		e.leader = what.leader
	case eventVacant:
		e.leader = ""
	}
	e.mu.Unlock()
	if term != nil && what.kind == eventStop {
		term.stop(&LostError{Reason: stopReason(what.reason), Detail: what.detail}, false)
	}
	if term != nil && what.kind == eventLost {
		term.end(what)
	}
	if e.observe != nil && (what.kind == eventLeader || what.kind == eventVacant) {
		e.tellLeader(Leader{ID: what.leader, Token: what.token, Vacant: what.kind == eventVacant})
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// stopReason is why the context is cancelled while the term is still valid.
func stopReason(asked Reason) Reason {
	if asked == ReasonNone {
		return ReasonReleased
	}
	return asked
}

// tellLeader leaves the latest leader in the channel. Only the callback thread sends.
func (e *election) tellLeader(leader Leader) {
	for {
		select {
		case e.observe <- leader:
			return
		default:
		}
		select {
		case <-e.observe:
		default:
		}
	}
}

// takeTerm returns the term that was won. A term that is over before the caller of Campaign heard
// of it has no work to stop: takeTerm gives it back, and the next one can begin.
func (e *election) takeTerm() *Term {
	e.mu.Lock()
	term := e.term
	e.mu.Unlock()
	if term == nil || term.Token() != 0 && term.Context().Err() == nil {
		return term
	}
	if !term.drained {
		term.drained = true
		e.call(drainElection)
	}
	select {
	case <-term.over:
		e.mu.Lock()
		if e.term == term {
			e.term = nil
		}
		e.mu.Unlock()
		e.call(standElection)
	default: // Its end has not been told yet; there is no next term before.
	}
	return nil
}

func (e *election) notAcquired(cause error) error {
	e.mu.Lock()
	why, leader := e.refusal, e.leader
	e.mu.Unlock()
	if why == "" {
		if err := e.session.Health(); err != nil {
			why = err.Error()
		} else if leader != "" {
			why = leader + " leads"
		} else {
			why = "no answer in time"
		}
	}
	failure := newError(codeNotHeld, "%s: not acquired: %s", e.name, why)
	failure.also, failure.cause = ErrNotAcquired, cause
	return failure
}
