/* fences.h - the fences of a gate: in memory, on the disk, and who is still on the way behind them.
 *
 * A request that was admitted is in flight until its answer is there. A higher token shuts out all
 * lower ones at once, but is itself let in only when those in flight have ended: else an older
 * write could reach the server behind a younger one (P3). A raise waits in the same way, so that
 * after it nothing older is on its way (P4).
 *
 * The file is locked for as long as the gate runs: a fence that somebody else moved behind its back
 * would be one that it does not know of.
 * Threads: one at a time. */
#ifndef TN_GATE_FENCES_H
#define TN_GATE_FENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "receivers/target.h"
#include "tenure/error.h"

struct tn_gate_fences;
struct tn_gate_fence;

/* Who waits for older requests to end; in a list of its fence. */
struct tn_gate_wait {
    struct tn_gate_wait *next, **link; /* NULL: in no list. */
};

/* Open or make the SQLite file at @path. Errors as in receivers/target.h. */
TENURE_MUST_USE int tn_gate_fences_open(const char *path, struct tn_gate_fences **ret_fences,
                                        struct tn_text *reterr);

/* Takes NULL. Nobody may be inside. */
void tn_gate_fences_close(struct tn_gate_fences *fences);

/* Move the fence of @resource up to @token, on the disk first; from then on nothing lower is
 * admitted. Returns 0; TENURE_E_STALE, and *@ret_highest says where the fence stands;
 * TENURE_E_UNAVAILABLE: the disk failed; TENURE_E_FULL: too many resources. */
TENURE_MUST_USE int tn_gate_admit(struct tn_gate_fences *fences, const char *resource, size_t len,
                                  uint64_t token, struct tn_gate_fence **ret_fence,
                                  uint64_t *ret_highest);

/* Whether there is a fence of another resource whose name differs only in the case of letters or in
 * dots at its end: some servers take both for one. */
bool tn_gate_has_alike(struct tn_gate_fences *fences, const char *resource, size_t len);

/* Whether nothing older than @token is in flight. */
bool tn_gate_is_clear(const struct tn_gate_fence *fence, uint64_t token);

/* A request with @token is in flight; the way is clear and the token current. */
void tn_gate_enter(struct tn_gate_fence *fence, uint64_t token);

/* It has ended. When nothing is in flight any more, those who waited are in the list *@ret_waiting
 * and no longer in the fence's: take each out with tn_gate_wait_end, and admit it again. */
void tn_gate_leave(struct tn_gate_fence *fence, struct tn_gate_wait **ret_waiting);

/* Wait at the end of the line. */
void tn_gate_wait(struct tn_gate_fence *fence, struct tn_gate_wait *wait);
void tn_gate_wait_end(struct tn_gate_wait *wait);

/* 0: none. */
uint64_t tn_gate_highest(struct tn_gate_fences *fences, const char *resource, size_t len);

/* All of them, in no order. */
void tn_gate_list(struct tn_gate_fences *fences, tn_fence_each each, void *arg);

#endif
