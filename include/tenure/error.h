/* error.h - the error codes of every Tenure call, and what each says about the write.
 *
 * A call returns 0 or one of the negative codes below. Beside its text, each code has an outcome
 * class, because the two need opposite reactions:
 *   FAILED   the operation had no effect; asking again is a new operation.
 *   UNKNOWN  the operation may have happened; only asking again with the same secret, or reading
 *            the record, tells.
 * Threads: any. Memory: all texts are static. Never blocks. */
#ifndef TENURE_ERROR_H
#define TENURE_ERROR_H

#include <stdbool.h>

#if defined(__GNUC__)
#define TENURE_API __attribute__((visibility("default")))
#define TENURE_MUST_USE __attribute__((warn_unused_result))
#else
#define TENURE_API
#define TENURE_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, outcome class, text). Values are part of the ABI: never reuse or renumber one. */
#define TENURE_ERRORS(X)                                                   \
    X(INVALID, -1, FAILED, "an argument or an input is not valid")         \
    X(CONFLICT, -2, FAILED, "the lease record changed underneath us")      \
    X(STALE, -3, FAILED, "a higher token was seen: a later holder exists") \
    X(TIMEOUT, -4, UNKNOWN, "no reply: the write may have happened")       \
    X(UNAVAILABLE, -5, FAILED, "the store cannot be reached")              \
    X(EXPIRED, -6, FAILED, "the session or the term has expired")          \
    X(NOT_HELD, -7, FAILED, "the lease is not held")                       \
    X(DENIED, -8, FAILED, "not permitted")                                 \
    X(FULL, -9, FAILED, "a limit is reached")                              \
    X(DAMAGED, -10, FAILED, "stored data is damaged")                      \
    X(NOMEM, -11, FAILED, "out of memory")                                 \
    X(CLOSED, -12, FAILED, "already closed")                               \
    X(UNSUPPORTED, -13, FAILED, "not supported here")

enum tenure_error_code {
#define TENURE_ERROR_CODE(name, value, outcome, text) TENURE_E_##name = (value),
    TENURE_ERRORS(TENURE_ERROR_CODE)
#undef TENURE_ERROR_CODE
};

/* The text of @err, for people: lower case, no full stop. Never NULL, also for a code that this
 * version does not know. */
TENURE_API const char *tenure_strerror(int err);

/* Whether the failed operation may have happened all the same. A negative code that this version
 * does not know counts as unknown, which is the safe reading. False for 0. */
TENURE_API bool tenure_error_unknown(int err);

#ifdef __cplusplus
}
#endif

#endif
