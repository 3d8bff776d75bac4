/* fence.c - the pure check behind every fence: tokens never go back.
 *
 * Nothing is called from here, not even an assertion: an adapter must be able to take this file
 * alone into a database, a proxy or a sandbox. Storing the fence atomically with the protected
 * effect is the adapter's part. */
#include "tenure/fence.h"

static int move_up(struct tenure_fence *fence, uint64_t token)
{
    if (token == 0)
        return TENURE_E_INVALID;
    if (token < fence->highest)
        return TENURE_E_STALE;
    fence->highest = token;
    return 0;
}

int tenure_fence_admit(struct tenure_fence *fence, uint64_t token)
{
    return move_up(fence, token);
}

int tenure_fence_raise(struct tenure_fence *fence, uint64_t token)
{
    return move_up(fence, token);
}

uint64_t tenure_fence_highest(const struct tenure_fence *fence)
{
    return fence->highest;
}
