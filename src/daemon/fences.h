/* fences.h - the fences that the daemon keeps for resources which cannot keep one themselves.
 *
 * A map from a resource's name to its fence. Resources are never forgotten: a fence that forgets is
 * none. Threads: one at a time. */
#ifndef TN_DAEMON_FENCES_H
#define TN_DAEMON_FENCES_H

#include <stdint.h>

#include "base/hash.h"
#include "tenure/error.h"
#include "tenure/fence.h"

struct tn_fence_entry {
    char *name; /* NULL: an unused slot. */
    uint32_t len;
    struct tenure_fence fence;
};

struct tn_fences {
    struct tn_hash_key key;
    uint32_t limit;
    uint32_t count;
    uint32_t slots; /* A power of two. */
    struct tn_fence_entry *entries;
};

void tn_fences_init(struct tn_fences *fences, struct tn_hash_key key, uint32_t limit);
void tn_fences_done(struct tn_fences *fences);

/* The fence of @name, or NULL. */
struct tn_fence_entry *tn_fences_find(const struct tn_fences *fences, const char *name,
                                      uint32_t len);

/* The fence of @name, made when there is none. Returns 0, TENURE_E_FULL or TENURE_E_NOMEM. Good
 * until the next call. */
TENURE_MUST_USE int tn_fences_get(struct tn_fences *fences, const char *name, uint32_t len,
                                  struct tn_fence_entry **ret_entry);

#endif
