package tenure

import "fmt"

// sentinel is an error to compare with by errors.Is.
type sentinel struct {
	code int
	text string
}

func (s *sentinel) Error() string { return "tenure: " + s.text }

// The errors of the library, for errors.Is. The codes are those of tenure/error.h.
var (
	ErrInvalid     error = &sentinel{-1, "an argument or an input is not valid"}
	ErrConflict    error = &sentinel{-2, "the lease record changed underneath us"}
	ErrStale       error = &sentinel{-3, "a higher token was seen: a later holder exists"}
	ErrTimeout     error = &sentinel{-4, "no reply: the write may have happened"}
	ErrUnavailable error = &sentinel{-5, "the store cannot be reached"}
	ErrExpired     error = &sentinel{-6, "the session or the term has expired"}
	ErrNotHeld     error = &sentinel{-7, "the lease is not held"}
	ErrDenied      error = &sentinel{-8, "not permitted"}
	ErrFull        error = &sentinel{-9, "a limit is reached"}
	ErrDamaged     error = &sentinel{-10, "stored data is damaged"}
	ErrNoMemory    error = &sentinel{-11, "out of memory"}
	ErrClosed      error = &sentinel{-12, "already closed"}
	ErrUnsupported error = &sentinel{-13, "not supported here"}

	// ErrNotAcquired is what Campaign returns when the wait ended without a term.
	ErrNotAcquired error = &sentinel{0, "the lease was not acquired in time"}
	// ErrLost matches every error of Term.Err.
	ErrLost error = &sentinel{0, "the term is over"}
	// ErrOutcomeUnknown matches an error after which the operation may have happened all the same.
	ErrOutcomeUnknown error = &sentinel{0, "the operation may have happened"}
)

// codes of the sentinels that the package itself returns.
const (
	codeInvalid     = -1
	codeStale       = -3
	codeTimeout     = -4
	codeUnavailable = -5
	codeExpired     = -6
	codeNotHeld     = -7
	codeDenied      = -8
	codeDamaged     = -10
	codeClosed      = -12
	codeUnsupported = -13
)

// Error is a failed call. errors.Is compares it with the sentinels above, and with its cause.
type Error struct {
	Code int    // As in tenure/error.h.
	Text string // What happened, to what.

	also  error // A further sentinel that it matches.
	cause error
}

// Error returns one line, without a full stop.
func (e *Error) Error() string { return "tenure: " + e.Text }

// Unwrap returns the cause: an error of the system, of a database driver, or of a context.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether the target is the sentinel of this error.
func (e *Error) Is(target error) bool {
	s, ok := target.(*sentinel)
	if !ok {
		return false
	}
	if target == ErrOutcomeUnknown {
		return outcomeUnknown(e.Code)
	}
	return target == e.also || s.code != 0 && s.code == e.Code
}

func newError(code int, format string, arguments ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, arguments...)}
}

// errorOf turns the library's code into an error; nil for 0. what names the thing it happened to.
func errorOf(code int, what string) error {
	if code >= 0 {
		return nil
	}
	return newError(code, "%s: %s", what, errorText(code))
}

// Reason says in one word why a term ended.
type Reason string

// The reasons, as the command tenure prints them.
const (
	ReasonNone           Reason = ""                // The term is valid.
	ReasonExpired        Reason = "expired"         // No renewal came through in time.
	ReasonRevoked        Reason = "revoked"         // An operator took the lease away.
	ReasonReleased       Reason = "released"        // It was given back.
	ReasonStalled        Reason = "stalled"         // No CheckIn, or no Close, in time.
	ReasonTokenRegressed Reason = "token-regressed" // The store went back in time.
	ReasonClosed         Reason = "closed"          // The session was closed.
	ReasonAsked          Reason = "asked"           // An operator or a higher priority asks for it.
)

// LostError says why a term is over. It matches ErrLost, and ErrExpired or ErrClosed by its reason.
type LostError struct {
	Name   string
	Token  uint64
	Reason Reason
	Detail string // What the store said last, for people.

	cause error
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("tenure: %s: the term of token %d is over: %s", e.Name, e.Token, e.Reason)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns the error of the context that ended the term, if one did.
func (e *LostError) Unwrap() error { return e.cause }

// Is reports whether the target is ErrLost or the sentinel of the reason.
func (e *LostError) Is(target error) bool {
	switch target {
	case ErrLost:
		return true
	case ErrExpired:
		return e.Reason == ReasonExpired
	case ErrClosed:
		return e.Reason == ReasonClosed
	}
	return false
}
