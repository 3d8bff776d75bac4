/* fences.h - the fences of a gate: in memory, on the disk, and who is still on the way behind them.
 *
 * A request that was admitted is in flight until its answer is there. A higher token shuts out all
 * lower ones at once, but is itself let in only when those in flight have ended: else an older
 * write could reach the server behind a younger one (P3). A raise waits in the same way, so that
 * after it nothing older is on its way (P4).
 *
 * The file is locked for as long as the gate runs: a fence that somebody else moved behind its back
 * would be one that it does not know of.
 * Threads: any. */
#ifndef TN_GATE_FENCES_H
#define TN_GATE_FENCES_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "receivers/target.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct tn_gate_fences;
struct tn_gate_fence;

/* Open or make the SQLite file at @path. Errors as in receivers/target.h. */
TENURE_MUST_USE int tn_gate_fences_open(const char *path, struct tn_gate_fences **ret_fences,
                                        struct tn_text *reterr);

/* Takes NULL. Nobody may be inside. */
void tn_gate_fences_close(struct tn_gate_fences *fences);

/* Admit @token; blocks while older requests are in flight, at most for @timeout. With @ret_fence
 * the request counts as in flight until tn_gate_leave; without, it is a raise.
 * Returns 0; TENURE_E_STALE, and *@ret_highest says where the fence stands; TENURE_E_UNAVAILABLE:
 * the disk failed, or older requests did not end in time; TENURE_E_FULL: too many resources. */
TENURE_MUST_USE int tn_gate_enter(struct tn_gate_fences *fences, const char *resource,
                                  uint64_t token, tenure_ns timeout,
                                  struct tn_gate_fence **ret_fence, uint64_t *ret_highest);
void tn_gate_leave(struct tn_gate_fences *fences, struct tn_gate_fence *fence);

/* 0: none. */
uint64_t tn_gate_highest(struct tn_gate_fences *fences, const char *resource);

/* All of them, in no order. */
void tn_gate_list(struct tn_gate_fences *fences, tn_fence_each each, void *arg);

#endif
