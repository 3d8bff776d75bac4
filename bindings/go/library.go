package tenure

/*
#cgo pkg-config: tenure
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <tenure/fence_file.h>
#include <tenure/tenure.h>

// Exported by events.go; the library calls it on its own callback thread.
void tenureGoEvent(struct tenure_election *, struct tenure_event *, void *);

// Handles are passed as numbers: they are addresses of C, which Go's collector must not follow.

static int go_open(const char *url, const char *id, tenure_ns ttl, tenure_ns grace,
                   uint32_t rho_ppm, tenure_ns hold_off, uintptr_t *ret_tenure,
                   struct tenure_error *reterr)
{
    struct tenure_options options = { .size = sizeof options, .id = id, .ttl = ttl,
                                      .grace = grace, .rho_ppm = rho_ppm,
                                      .hold_off = hold_off };
    struct tenure *tenure = NULL;
    int rc = tenure_open(url, &options, &tenure, reterr);

    *ret_tenure = (uintptr_t)tenure;
    return rc;
}

static int go_campaign(uintptr_t tenure, const char *name, uintptr_t key, char **fences,
                       tenure_ns stall_after, tenure_ns grace, uint32_t slots, uint32_t priority,
                       bool yields, tenure_ns soft_limit,
                       uintptr_t *ret_election, struct tenure_error *reterr)
{
    struct tenure_campaign campaign = {
        .size = sizeof campaign, .callback = (tenure_callback *)tenureGoEvent,
        .arg = (void *)key, .stall_after = stall_after, .grace = grace,
        .fences = (const char *const *)fences, .slots = slots, .priority = priority,
        .flags = yields ? TENURE_YIELD : 0, .soft_limit = soft_limit,
    };
    struct tenure_election *election = NULL;
    int rc = tenure_campaign_start((struct tenure *)tenure, name, &campaign, &election, reterr);

    *ret_election = (uintptr_t)election;
    return rc;
}

static int go_observe(uintptr_t tenure, const char *name, uintptr_t key, uintptr_t *ret_election,
                      struct tenure_error *reterr)
{
    struct tenure_election *election = NULL;
    int rc = tenure_observe_start((struct tenure *)tenure, name, (tenure_callback *)tenureGoEvent,
                                  (void *)key, &election, reterr);

    *ret_election = (uintptr_t)election;
    return rc;
}

static uint64_t go_token(uintptr_t election)
{
    return tenure_token((struct tenure_election *)election);
}

static uint32_t go_slot(uintptr_t election)
{
    return tenure_slot((struct tenure_election *)election);
}

// Nanoseconds until the term ends unless it is renewed; 0: it is over.
static int64_t go_remaining(uintptr_t election)
{
    tenure_ns deadline = tenure_deadline((struct tenure_election *)election);
    struct timespec now;

    if (deadline == 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0;
    int64_t left = deadline - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    return left > 0 && tenure_token((struct tenure_election *)election) != 0 ? left : 0;
}

enum { GO_RESIGN, GO_STAND, GO_DRAINED, GO_CHECK_IN };

static int go_say(uintptr_t address, int what)
{
    struct tenure_election *election = (struct tenure_election *)address;

    return what == GO_RESIGN    ? tenure_resign(election)
           : what == GO_STAND   ? tenure_stand(election)
           : what == GO_DRAINED ? tenure_drained(election)
                                : tenure_check_in(election);
}

static void go_leave(uintptr_t election) { tenure_leave((struct tenure_election *)election); }
static int go_close(uintptr_t tenure) { return tenure_close((struct tenure *)tenure); }

static int go_health(uintptr_t tenure, struct tenure_error *reterr)
{
    return tenure_health((struct tenure *)tenure, reterr);
}

static bool go_warning(uintptr_t tenure, struct tenure_error *ret_warning)
{
    return tenure_warning((struct tenure *)tenure, ret_warning);
}

// One call for both, so that Go reads errno of the right thread.
static int go_file_write(const char *path, uint64_t token, const void *data, size_t len,
                         bool append, tenure_ns timeout)
{
    errno = 0;
    return append ? tenure_fence_file_append(path, token, data, len, timeout)
                  : tenure_fence_file_replace(path, token, data, len, timeout);
}

static int go_file_raise(const char *path, uint64_t token, tenure_ns timeout)
{
    errno = 0;
    return tenure_fence_file_raise(path, token, timeout);
}

static int go_file_highest(const char *path, uint64_t *ret_highest)
{
    errno = 0;
    return tenure_fence_file_highest(path, ret_highest);
}
*/
import "C"

import (
	"strings"
	"time"
	"unsafe"
)

// This file is the only one that calls C, but for the callback in events.go.

// Version returns the version of libtenure, such as "0.1.0".
func Version() string { return C.GoString(C.tenure_version()) }

func errorText(code int) string    { return C.GoString(C.tenure_strerror(C.int(code))) }
func outcomeUnknown(code int) bool { return bool(C.tenure_error_unknown(C.int(code))) }

// cStrings are texts in C's memory until free.
type cStrings []*C.char

// add copies text; what names it in the error about a NUL, which would end the text early.
func (s *cStrings) add(text, what string) (*C.char, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, newError(codeInvalid, "%s: %q has a NUL in it", what, text)
	}
	copied := C.CString(text)
	*s = append(*s, copied)
	return copied, nil
}

func (s *cStrings) free() {
	for _, text := range *s {
		C.free(unsafe.Pointer(text))
	}
}

func nsOf(span time.Duration) C.tenure_ns { return C.tenure_ns(span.Nanoseconds()) }

func openSession(url string, options *Options) (uintptr, error) {
	var texts cStrings
	defer texts.free()
	var cURL, id *C.char
	var err error
	if url != "" {
		if cURL, err = texts.add(url, "url"); err != nil {
			return 0, err
		}
	}
	if options.ID != "" {
		if id, err = texts.add(options.ID, "id"); err != nil {
			return 0, err
		}
	}
	var handle C.uintptr_t
	var failure C.struct_tenure_error
	code := int(C.go_open(cURL, id, nsOf(options.TTL), nsOf(options.Grace),
		C.uint32_t(options.RhoPPM), nsOf(options.HoldOff), &handle, &failure))
	if code < 0 {
		text := C.GoString(&failure.text[0])
		if text == "" {
			text = errorText(code)
		}
		return 0, &Error{Code: code, Text: text}
	}
	return uintptr(handle), nil
}

func closeSession(handle uintptr) int { return int(C.go_close(C.uintptr_t(handle))) }

func sessionHealth(handle uintptr) error {
	var failure C.struct_tenure_error
	code := int(C.go_health(C.uintptr_t(handle), &failure))
	if code == 0 {
		return nil
	}
	return &Error{Code: code, Text: C.GoString(&failure.text[0])}
}

func sessionWarning(handle uintptr) string {
	var warning C.struct_tenure_error
	if !C.go_warning(C.uintptr_t(handle), &warning) {
		return ""
	}
	return C.GoString(&warning.text[0])
}

func beginCampaign(
	handle uintptr, name string, key uintptr, urls []string, options *CampaignOptions,
) (uintptr, error) {
	var texts cStrings
	defer texts.free()
	cName, err := texts.add(name, "name")
	if err != nil {
		return 0, err
	}
	size := C.size_t(len(urls)+1) * C.size_t(unsafe.Sizeof(cName))
	array := (**C.char)(C.calloc(1, size)) // Ends with a NULL.
	if array == nil {
		return 0, newError(-11, "%s: out of memory", name)
	}
	defer C.free(unsafe.Pointer(array))
	for i, url := range urls {
		if unsafe.Slice(array, len(urls))[i], err = texts.add(url, "fence"); err != nil {
			return 0, err
		}
	}
	var election C.uintptr_t
	var failure C.struct_tenure_error
	code := C.go_campaign(C.uintptr_t(handle), cName, C.uintptr_t(key), array,
		nsOf(options.StallAfter), nsOf(options.Grace), C.uint32_t(options.Slots),
		C.uint32_t(options.Priority), C.bool(options.Yield), nsOf(options.SoftLimit),
		&election, &failure)
	return uintptr(election), startError(int(code), &failure)
}

func beginObserve(handle uintptr, name string, key uintptr) (uintptr, error) {
	var texts cStrings
	defer texts.free()
	cName, err := texts.add(name, "name")
	if err != nil {
		return 0, err
	}
	var election C.uintptr_t
	var failure C.struct_tenure_error
	code := C.go_observe(C.uintptr_t(handle), cName, C.uintptr_t(key), &election, &failure)
	return uintptr(election), startError(int(code), &failure)
}

// startError is the library's own text of what is wrong; nil for 0.
func startError(code int, failure *C.struct_tenure_error) error {
	if code >= 0 {
		return nil
	}
	return &Error{Code: code, Text: C.GoString(&failure.text[0])}
}

func electionToken(election uintptr) uint64 { return uint64(C.go_token(C.uintptr_t(election))) }

func electionSlot(election uintptr) uint32 { return uint32(C.go_slot(C.uintptr_t(election))) }

func electionRemaining(election uintptr) time.Duration {
	return time.Duration(C.go_remaining(C.uintptr_t(election)))
}

func resignElection(election uintptr) int  { return say(election, C.GO_RESIGN) }
func standElection(election uintptr) int   { return say(election, C.GO_STAND) }
func drainElection(election uintptr) int   { return say(election, C.GO_DRAINED) }
func checkInElection(election uintptr) int { return say(election, C.GO_CHECK_IN) }
func leaveElection(election uintptr)       { C.go_leave(C.uintptr_t(election)) }

func say(election uintptr, what C.int) int {
	return int(C.go_say(C.uintptr_t(election), what))
}

// fileError adds the system's reason where it gave one.
func fileError(code int, reason error, path string, token uint64) error {
	switch {
	case code == 0:
		return nil
	case code == codeStale:
		return staleError(path, token)
	case reason == nil:
		return errorOf(code, path)
	}
	return &Error{Code: code, Text: path + ": " + reason.Error(), cause: reason}
}

func writeFile(path string, token uint64, data []byte, isAppend bool, wait time.Duration) error {
	var texts cStrings
	defer texts.free()
	cPath, err := texts.add(path, "path")
	if err != nil {
		return err
	}
	var none byte
	start := unsafe.Pointer(&none)
	if len(data) > 0 {
		start = unsafe.Pointer(&data[0])
	}
	code, reason := C.go_file_write(cPath, C.uint64_t(token), start, C.size_t(len(data)),
		C.bool(isAppend), nsOf(wait))
	return fileError(int(code), reason, path, token)
}

func raiseFile(path string, token uint64, wait time.Duration) error {
	var texts cStrings
	defer texts.free()
	cPath, err := texts.add(path, "path")
	if err != nil {
		return err
	}
	code, reason := C.go_file_raise(cPath, C.uint64_t(token), nsOf(wait))
	return fileError(int(code), reason, path, token)
}

func highestOfFile(path string) (uint64, error) {
	var texts cStrings
	defer texts.free()
	cPath, err := texts.add(path, "path")
	if err != nil {
		return 0, err
	}
	var highest C.uint64_t
	code, reason := C.go_file_highest(cPath, &highest)
	return uint64(highest), fileError(int(code), reason, path, 0)
}
