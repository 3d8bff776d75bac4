/* fences.c - open addressing with linear probing. */
#include "daemon/fences.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void tn_fences_init(struct tn_fences *fences, struct tn_hash_key key, uint32_t limit)
{
    *fences = (struct tn_fences) { .key = key, .limit = limit };
}

void tn_fences_done(struct tn_fences *fences)
{
    for (uint32_t i = 0; i < fences->slots; i++)
        free(fences->entries[i].name);
    free(fences->entries);
    free(fences->users);
    *fences = (struct tn_fences) { 0 };
}

/* Where @name is or belongs. There is always an unused slot. */
static struct tn_fence_entry *slot_of(const struct tn_fences *fences, const char *name,
                                      uint32_t len)
{
    uint32_t at = (uint32_t)tn_hash(fences->key, name, len);

    for (;; at++) {
        struct tn_fence_entry *entry = &fences->entries[at & (fences->slots - 1)];
        if (entry->name == NULL || (entry->len == len && memcmp(entry->name, name, len) == 0))
            return entry;
    }
}

struct tn_fence_entry *tn_fences_find(const struct tn_fences *fences, const char *name,
                                      uint32_t len)
{
    struct tn_fence_entry *entry = fences->slots > 0 ? slot_of(fences, name, len) : NULL;
    return entry != NULL && entry->name != NULL ? entry : NULL;
}

static int grow(struct tn_fences *fences)
{
    struct tn_fences larger = *fences;

    larger.slots = fences->slots > 0 ? fences->slots * 2 : 64;
    larger.entries = calloc(larger.slots, sizeof *larger.entries);
    if (larger.entries == NULL)
        return TENURE_E_NOMEM;
    for (uint32_t i = 0; i < fences->slots; i++) {
        const struct tn_fence_entry *entry = &fences->entries[i];
        if (entry->name != NULL)
            *slot_of(&larger, entry->name, entry->len) = *entry;
    }
    free(fences->entries);
    *fences = larger;
    return 0;
}

static int add(struct tn_fences *fences, const char *name, uint32_t len,
               struct tn_fence_entry **ret_entry)
{
    char *copy;

    if (fences->count + fences->removed >= fences->slots / 2 && grow(fences) != 0)
        return TENURE_E_NOMEM;
    copy = malloc(len > 0 ? len : 1);
    if (copy == NULL)
        return TENURE_E_NOMEM;
    memcpy(copy, name, len);
    *ret_entry = slot_of(fences, name, len);
    **ret_entry = (struct tn_fence_entry) { .name = copy, .len = len };
    fences->count++;
    return 0;
}

int tn_fences_get(struct tn_fences *fences, const char *name, uint32_t len,
                  struct tn_fence_entry **ret_entry)
{
    struct tn_fence_entry *entry = tn_fences_find(fences, name, len);

    if (entry == NULL)
        return add(fences, name, len, ret_entry);
    if (entry->removed) {
        entry->removed = false;
        fences->removed--;
        fences->count++;
    }
    *ret_entry = entry;
    return 0;
}

/* --- Whose they are --------------------------------------------------------------------------- */

/* From 1; 0: it has none. */
static uint32_t number_of(const struct tn_fences *fences, const char *user, size_t len)
{
    for (uint32_t i = 0; i < fences->user_count; i++)
        if (strlen(fences->users[i].name) == len && memcmp(fences->users[i].name, user, len) == 0)
            return i + 1;
    return 0;
}

uint32_t tn_fences_of(const struct tn_fences *fences, const char *user)
{
    uint32_t number = number_of(fences, user, strlen(user));
    return number > 0 ? fences->users[number - 1].count : 0;
}

static void disown(struct tn_fences *fences, struct tn_fence_entry *entry)
{
    if (entry->owner > 0)
        fences->users[entry->owner - 1].count--;
    entry->owner = 0;
}

int tn_fences_own(struct tn_fences *fences, struct tn_fence_entry *entry, const char *user,
                  uint32_t len)
{
    uint32_t number = number_of(fences, user, len);

    TN_ASSERT(len <= TN_USER_MAX);
    if (number == 0) {
        size_t bytes = (fences->user_count + 1) * sizeof *fences->users;
        struct tn_fence_user *larger = realloc(fences->users, bytes);
        if (larger == NULL)
            return TENURE_E_NOMEM;
        fences->users = larger;
        number = ++fences->user_count;
        larger[number - 1] = (struct tn_fence_user) { .count = 0 };
        memcpy(larger[number - 1].name, user, len);
    }
    disown(fences, entry);
    entry->owner = number;
    fences->users[number - 1].count++;
    return 0;
}

/* --- Removing --------------------------------------------------------------------------------- */

void tn_fences_remove(struct tn_fences *fences, struct tn_fence_entry *entry)
{
    if (entry->removed)
        return;
    disown(fences, entry);
    entry->removed = true;
    fences->count--;
    fences->removed++;
}

/* The slots behind it, up to the next unused one, may have been probed past it: those move up. */
void tn_fences_forget(struct tn_fences *fences, struct tn_fence_entry *entry)
{
    uint32_t mask = fences->slots - 1;
    uint32_t at = (uint32_t)(entry - fences->entries);

    tn_fences_remove(fences, entry);
    fences->removed--;
    free(entry->name);
    *entry = (struct tn_fence_entry) { 0 };
    for (at = (at + 1) & mask; fences->entries[at].name != NULL; at = (at + 1) & mask) {
        struct tn_fence_entry moved = fences->entries[at];
        fences->entries[at] = (struct tn_fence_entry) { 0 };
        *slot_of(fences, moved.name, moved.len) = moved;
    }
}
