/* fences.c - open addressing with linear probing; nothing is removed, which keeps it simple. */
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

int tn_fences_get(struct tn_fences *fences, const char *name, uint32_t len,
                  struct tn_fence_entry **ret_entry)
{
    struct tn_fence_entry *entry = tn_fences_find(fences, name, len);

    if (entry == NULL) {
        char *copy;
        if (fences->count == fences->limit)
            return TENURE_E_FULL;
        if (fences->count >= fences->slots / 2 && grow(fences) != 0)
            return TENURE_E_NOMEM;
        copy = malloc(len > 0 ? len : 1);
        if (copy == NULL)
            return TENURE_E_NOMEM;
        memcpy(copy, name, len);
        entry = slot_of(fences, name, len);
        *entry = (struct tn_fence_entry) { .name = copy, .len = len };
        fences->count++;
    }
    *ret_entry = entry;
    return 0;
}
