/* fences.h - the fences that the daemon keeps for resources which cannot keep one themselves.
 *
 * A map from a resource's name to its fence. A fence that forgets is none, so one that is removed
 * counts no more, for nobody, but its token is remembered: should the resource be used again, older
 * tokens are refused as before. Only tn_fences_forget forgets.
 *
 * A fence counts for the user who made it. Threads: one at a time. */
#ifndef TN_DAEMON_FENCES_H
#define TN_DAEMON_FENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "tenure/error.h"
#include "tenure/fence.h"

#define TN_USER_MAX 32

struct tn_fence_entry {
    char *name; /* NULL: an unused slot. */
    uint32_t len;
    uint32_t owner; /* From 1, in tn_fences.users; 0: nobody's. */
    bool removed;
    struct tenure_fence fence;
};

struct tn_fence_user {
    char name[TN_USER_MAX + 1];
    uint32_t count; /* Of its fences that are not removed. */
};

struct tn_fences {
    struct tn_hash_key key;
    uint32_t limit;   /* Of each of the next two. */
    uint32_t count;   /* Those that are removed not included, */
    uint32_t removed; /* and those alone. */
    uint32_t slots;   /* A power of two. */
    struct tn_fence_entry *entries;
    struct tn_fence_user *users;
    uint32_t user_count;
};

void tn_fences_init(struct tn_fences *fences, struct tn_hash_key key, uint32_t limit);
void tn_fences_done(struct tn_fences *fences);

/* The fence of @name, removed or not, or NULL. Good until a fence is made or forgotten. */
struct tn_fence_entry *tn_fences_find(const struct tn_fences *fences, const char *name,
                                      uint32_t len);

/* The fence of @name, made when there is none; nobody's then. One that was removed counts again.
 * Returns 0 or TENURE_E_NOMEM. Whoever calls looks at the limit. */
TENURE_MUST_USE int tn_fences_get(struct tn_fences *fences, const char *name, uint32_t len,
                                  struct tn_fence_entry **ret_entry);

/* It is @user's. Returns 0 or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_fences_own(struct tn_fences *fences, struct tn_fence_entry *entry,
                                  const char *user, uint32_t len);
/* How many @user has. */
uint32_t tn_fences_of(const struct tn_fences *fences, const char *user);

void tn_fences_remove(struct tn_fences *fences, struct tn_fence_entry *entry);
void tn_fences_forget(struct tn_fences *fences, struct tn_fence_entry *entry);

#endif
