/* fence.h - decide, at the resource, whether a leader's token is still good.
 *
 * Keep one fence per protected resource, stored with the resource, and make the check and its
 * effect one atomic step: a check that is separated from the write protects nothing. This header
 * and its one source file need no other part of Tenure.
 * Threads: one at a time per fence. Memory: caller's, nothing allocated. Never blocks. */
#ifndef TENURE_FENCE_H
#define TENURE_FENCE_H

#include <stdint.h>

#include "tenure/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero is a fence that has seen no token. Save and restore `highest` with the resource; it
 * must never go back. */
struct tenure_fence {
    uint64_t highest;
};

/* Admit @token unless a higher one was admitted or raised before; the same token is admitted again
 * and again, because a holder makes many requests in one term.
 * Returns 0: apply the request.
 * TENURE_E_STALE: a later holder exists - refuse the request, do not retry.
 * TENURE_E_INVALID: token 0, which is never granted - refuse the request, the sender has a bug.
 * On error the fence is unchanged. */
TENURE_API TENURE_MUST_USE int tenure_fence_admit(struct tenure_fence *fence, uint64_t token);

/* Raise the fence to @token before its holder acts for the first time, so that nothing older is
 * admitted from then on. Raising to the same token again succeeds, which makes a retry after a
 * lost reply harmless.
 * Returns 0: the barrier stands at @token.
 * TENURE_E_STALE: it already stands higher - the term is over, do not act.
 * TENURE_E_INVALID: token 0, which is never granted - the caller has a bug.
 * On error the fence is unchanged. */
TENURE_API TENURE_MUST_USE int tenure_fence_raise(struct tenure_fence *fence, uint64_t token);

/* The highest token admitted or raised, or 0 when there was none. */
TENURE_API uint64_t tenure_fence_highest(const struct tenure_fence *fence);

#ifdef __cplusplus
}
#endif

#endif
