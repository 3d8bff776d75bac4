package tenure

/*
#include <tenure/tenure.h>
*/
import "C"

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// The kinds of events, as enum tenure_event_kind.
const (
	eventWon = iota + 1
	eventJeopardy
	eventSafe
	eventStop
	eventLost
	eventRefused
	eventLeader
	eventVacant
)

type event struct {
	kind   int
	reason Reason
	token  uint64
	leader string
	detail string
	proven time.Duration // LOST: an instant of CLOCK_BOOTTIME.
}

// elections maps the argument of the C callback to its election, so that C holds no Go pointer. A
// callback that comes after the election has left finds nothing.
var (
	elections sync.Map // Of uintptr, *election.
	lastKey   atomic.Uintptr
)

//export tenureGoEvent
func tenureGoEvent(address *C.struct_tenure_election, record *C.struct_tenure_event,
	key unsafe.Pointer) {
	found, ok := elections.Load(uintptr(key))
	if !ok {
		return
	}
	e := event{
		kind:   int(record.kind),
		token:  uint64(record.token),
		leader: C.GoString(record.leader),
		detail: C.GoString(record.detail),
		proven: time.Duration(record.proven),
	}
	if record.reason != C.TENURE_REASON_NONE {
		e.reason = Reason(C.GoString(C.tenure_reason_text(record.reason)))
	}
	found.(*election).receive(uintptr(unsafe.Pointer(address)), e)
}
