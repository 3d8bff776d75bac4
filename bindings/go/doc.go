// Package tenure lets a Go process lead: one process at a time, by a lease that ends on the
// leader's own clock before the store can give it to another process.
//
//	t, err := tenure.Open("sqlite:tenure.db", nil)
//	...
//	defer t.Close()
//	term, err := t.Campaign(ctx, "report", nil)
//	...
//	defer term.Close()
//	for term.Context().Err() == nil {
//		save(next(), term.Token())
//	}
//
// The C library libtenure does the work, through cgo. Its own thread renews the session and never
// enters Go, so neither a garbage collection nor a busy scheduler delays a renewal.
//
// A term ends in two steps. Its context is cancelled first, the grace before the deadline, so that
// the work has that long to stop. Its token becomes 0 at the deadline, at the latest. Err and Done
// of the context, and Token, compare the clock in the call itself: after a pause of any length the
// first call gives the right answer, whether or not a goroutine has run since.
//
// A check alone cannot stop a write that is already under way. Send the token with each write and
// let the receiver refuse an older one: see [Fence], [FileFence] and [SQLiteFence].
//
// All methods may be called from any goroutine.
package tenure
