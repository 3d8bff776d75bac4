package tenure

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Options of a session; the zero value means the defaults.
type Options struct {
	ID     string        // A label, to tell who leads; "": host-pid. It proves nothing.
	TTL    time.Duration // How long a lease outlives its last renewal, 1 s to 24 h; 0: 15 s.
	Grace  time.Duration // How long work takes to stop; 0: TTL/5, at most 5 s.
	RhoPPM uint32        // How wrong the rate of a clock may be, in millionths; 0: 100000.
	// HoldOff is for receivers without a fence: for so long behind the deadline of a term that was
	// lost, nobody leads. A term that is given back passes on at once.
	HoldOff time.Duration
}

func (o *Options) ttl() time.Duration {
	if o.TTL == 0 {
		return 15 * time.Second
	}
	return o.TTL
}

func (o *Options) grace() time.Duration {
	if o.Grace != 0 {
		return o.Grace
	}
	if grace := o.ttl() / 5; grace < 5*time.Second {
		return grace
	}
	return 5 * time.Second
}

// CampaignOptions of one campaign; the zero value means the defaults.
type CampaignOptions struct {
	// Fences are raised to the new token before Campaign returns, so that nothing older is admitted
	// from then on. A fence that is not there is not made.
	Fences []Fence
	// Wait is how long Campaign waits for the lease; 0: as long as its context allows.
	Wait time.Duration
	// Grace is how long this work takes to stop; 0: that of the session.
	Grace time.Duration
	// StallAfter ends the term if Term.CheckIn is not called for so long; 0: it need not be.
	StallAfter time.Duration
	// Slots makes it a semaphore: up to so many candidates lead at the same time, each with a token
	// of its own; 0 and 1: one. At most 64, the same number in all candidates, and without Fences.
	Slots uint32
	// Priority is 1 to 9: among candidates that have one and wait, the higher leads first. 0: the
	// campaign takes no part. Only in stores that keep a line of those who wait, and without Slots.
	Priority uint32
	// Yield cancels the term's context when a candidate with a higher Priority waits.
	Yield bool
	// SoftLimit: when the store has not heard of the leader for so long, a candidate with a
	// SoftLimit and the same Fences leads before the TTL is over. 0: none. Only with Fences, and
	// for work that does harm only through them.
	SoftLimit time.Duration
}

// Leader is who leads a name.
type Leader struct {
	ID     string // The label of the leader.
	Token  uint64 // Its token, or the last one if nobody leads.
	Vacant bool   // Nobody leads.
}

// Session is one session in a store, for any number of names.
type Session struct {
	options Options

	mu        sync.RWMutex // Held for reading during a call into C, for writing to close.
	handle    uintptr      // 0 once closed.
	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error

	openMu sync.Mutex
	open   map[*election]struct{}
	empty  chan struct{} // Made by Close; closed when the last election has left.
}

// Open opens the store at url and a session in it: "sqlite:PATH", "unix:PATH", "etcd://HOST/PREFIX"
// and so on; "" means the environment's TENURE_STORE, else a file in the user's state directory. A
// store that is there but does not answer is no error: the session opens when it does. options may
// be nil. Close the session when all work has stopped.
func Open(url string, options *Options) (*Session, error) {
	s := &Session{closing: make(chan struct{}), open: map[*election]struct{}{}}
	if options != nil {
		s.options = *options
	}
	handle, err := openSession(url, &s.options)
	if err != nil {
		return nil, err
	}
	rememberLibraryUse(url)
	s.handle = handle
	return s, nil
}

// Close gives back every lease and ends the session. It cancels the context of each open term,
// waits for their Close, at most the grace, and then ends the session all the same. nil: the leases
// are free. Otherwise they are free when the TTL is over.
func (s *Session) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.drain()
		for _, e := range s.elections() {
			if term := e.currentTerm(); term != nil {
				term.stop(&LostError{Reason: ReasonClosed}, false)
			}
			e.leave()
		}
		s.mu.Lock()
		handle := s.handle
		s.handle = 0
		s.mu.Unlock()
		s.closeErr = errorOf(closeSession(handle), "close")
	})
	return s.closeErr
}

// drain asks every open term to stop, and waits until the elections have left.
func (s *Session) drain() {
	s.openMu.Lock()
	s.empty = make(chan struct{})
	if len(s.open) == 0 {
		close(s.empty)
	}
	s.openMu.Unlock()
	wait := s.options.grace()
	for _, e := range s.elections() {
		if term := e.currentTerm(); term != nil {
			term.stop(&LostError{Reason: ReasonClosed}, true)
		}
		if e.grace > wait {
			wait = e.grace
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.empty:
	case <-timer.C:
	}
}

func (s *Session) elections() []*election {
	s.openMu.Lock()
	defer s.openMu.Unlock()
	all := make([]*election, 0, len(s.open))
	for e := range s.open {
		all = append(all, e)
	}
	return all
}

func (s *Session) forget(e *election) {
	s.openMu.Lock()
	defer s.openMu.Unlock()
	delete(s.open, e)
	if len(s.open) == 0 && s.empty != nil {
		select {
		case <-s.empty:
		default:
			close(s.empty)
		}
	}
}

// Health reports whether the store answers: nil, or the error of the last operation; it matches
// ErrTimeout before the first answer. It never blocks.
func (s *Session) Health() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle == 0 {
		return newError(codeClosed, "the session is closed")
	}
	return sessionHealth(s.handle)
}

// Warning returns what people should know of the store, such as a server version with known faults;
// "" if there is nothing so far.
func (s *Session) Warning() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.handle == 0 {
		return ""
	}
	return sessionWarning(s.handle)
}

// begin starts an election by the call; the library may report its first event before that returns.
func (s *Session) begin(e *election, call func(handle uintptr) (uintptr, error)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.openMu.Lock()
	closed := s.handle == 0 || s.empty != nil
	if !closed {
		s.open[e] = struct{}{}
	}
	s.openMu.Unlock()
	if closed {
		elections.Delete(e.key)
		return newError(codeClosed, "%s: the session is closed", e.name)
	}
	address, err := call(s.handle)
	if err != nil {
		elections.Delete(e.key)
		s.forget(e)
		return err
	}
	e.address.CompareAndSwap(0, address)
	return nil
}

// Campaign waits until this process leads name, raises the fences and returns the term. The term's
// context is derived from ctx: when ctx ends, the wait ends, and so does a term that was won. Set
// Wait to limit the wait alone. options may be nil. Close the term when its work has stopped.
//
// An error that matches ErrNotAcquired says who leads, or what the store or a fence said. It also
// matches the error of ctx, or context.DeadlineExceeded after Wait.
func (s *Session) Campaign(
	ctx context.Context, name string, options *CampaignOptions,
) (*Term, error) {
	var wanted CampaignOptions
	if options != nil {
		wanted = *options
	}
	if err := ctx.Err(); err != nil {
		failure := newError(codeNotHeld, "%s: not acquired: %v", name, err)
		failure.also, failure.cause = ErrNotAcquired, err
		return nil, failure
	}
	e := newElection(s, ctx, name)
	e.grace = wanted.Grace
	if e.grace == 0 {
		e.grace = s.options.grace()
	}
	var urls []string
	for _, fence := range wanted.Fences {
		if url := fence.fenceURL(); url != "" {
			urls = append(urls, url)
			rememberLibraryUse(url)
		}
	}
	err := s.begin(e, func(handle uintptr) (uintptr, error) {
		return beginCampaign(handle, name, e.key, urls, &wanted)
	})
	if err != nil {
		return nil, err
	}
	term, err := e.awaitTerm(ctx, wanted.Wait)
	if err != nil {
		e.leave()
		return nil, err
	}
	for _, fence := range wanted.Fences {
		if err := fence.raise(term.Context(), term.number); err != nil {
			_ = term.Close()
			return nil, err
		}
	}
	return term, nil
}

// awaitTerm waits for the event that the lease is won.
func (e *election) awaitTerm(ctx context.Context, wait time.Duration) (*Term, error) {
	var late <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, e.notAcquired(err)
		}
		if term := e.takeTerm(); term != nil {
			return term, nil
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
		case <-late:
			return nil, e.notAcquired(context.DeadlineExceeded)
		case <-e.session.closing:
			return nil, newError(codeClosed, "%s: the session is closed", e.name)
		}
	}
}

// Observe tells who leads name, without a campaign, until ctx ends or the session is closed; then
// the channel is closed. Of several changes that the receiver missed, the last one is told.
func (s *Session) Observe(ctx context.Context, name string) (<-chan Leader, error) {
	e := newElection(s, ctx, name)
	e.observe = make(chan Leader, 1)
	err := s.begin(e, func(handle uintptr) (uintptr, error) {
		return beginObserve(handle, name, e.key)
	})
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-s.closing:
		}
		e.leave()
		close(e.observe) // No event comes after leave.
	}()
	return e.observe, nil
}

// storePath is the file of a URL such as sqlite:PATH or sqlite:PATH#RESOURCE; "" for others.
func storePath(url string) string {
	if !strings.HasPrefix(url, "sqlite:") {
		return ""
	}
	path := strings.TrimPrefix(url, "sqlite:")
	if cut := strings.LastIndexByte(path, '#'); cut > 0 {
		path = path[:cut]
	}
	return path
}
