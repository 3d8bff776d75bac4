/* watches.c - the store redlock: who leads a name, by a majority, when a node tells of a change.
 *
 * A node tells only what it knows itself, so its word is a reason to read the name at all of them.
 * What was told already, from whichever node, is none; and few names are read at a time. So a
 * thousand names that change at once, or a node that comes back and tells all of them, cost a read
 * or two each, and no renewal waits behind a crowd of reads. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "stores/redis/redlock.h"

enum { READS_MAX = 16 };

static struct tn_rl_watch **find_watch(struct tn_rl_store *store, const char *name)
{
    const struct tn_hash_key key = { 0, 0 };
    struct tn_rl_watch **link = &store->watches[tn_hash(key, name, strlen(name)) % TN_RD_BUCKETS];

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static bool is_told(const struct tn_rl_watch *watch, const struct tn_store_record *record)
{
    return watch->told && watch->record.held == record->held &&
           watch->record.token == record->token &&
           tn_secret_equal(&watch->record.term, &record->term);
}

/* --- Reading -------------------------------------------------------------------------------- */

static void begin_due(struct tn_rl_store *store);

static void put_off(struct tn_rl_store *store, struct tn_rl_watch *watch)
{
    watch->is_due = true;
    watch->due_next = NULL;
    *store->due_end = watch;
    store->due_end = &watch->due_next;
}

static void forget_due(struct tn_rl_store *store, struct tn_rl_watch *watch)
{
    struct tn_rl_watch **link = &store->due;

    if (!watch->is_due)
        return;
    while (*link != watch)
        link = &(*link)->due_next;
    *link = watch->due_next;
    if (store->due_end == &watch->due_next)
        store->due_end = link;
    watch->is_due = false;
}

/* At once, after the read that is under way, or when there are fewer of them. */
static void want_read(struct tn_rl_store *store, struct tn_rl_watch *watch)
{
    if (watch->reading) {
        watch->dirty = true;
    } else if (!watch->is_due) {
        put_off(store, watch);
        begin_due(store);
    }
}

static void heard(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_rl_store *store = round->store;
    const struct tn_store_open *how = &store->base.how;
    struct tn_rl_watch *watch = *find_watch(store, round->name);
    struct tn_store_record record;

    (void)vote;
    if (round->over || store->base.closing)
        return;
    bool known = tn_rl_read(round, &record);
    if (!known && round->answered < round->asked)
        return;
    round->over = true;
    store->reads--;
    if (watch != NULL) {
        bool news = known && !is_told(watch, &record);
        watch->reading = false;
        if (watch->dirty)
            want_read(store, watch);
        watch->told = watch->told || known;
        if (known)
            watch->record = record;
        if (news)
            how->host->changed(how->arg, round->name, &record);
    }
    begin_due(store);
}

static void begin_due(struct tn_rl_store *store)
{
    while (store->due != NULL && store->reads < READS_MAX) {
        struct tn_rl_watch *watch = store->due;
        struct tn_op op = { .kind = TN_OP_READ,
                            .name = watch->name,
                            .name_len = (uint32_t)strlen(watch->name) };
        forget_due(store, watch);
        watch->dirty = false;
        watch->reading = tn_rl_ask(store, &op, tn_rl_all(store), heard, NULL) != NULL;
        store->reads += watch->reading;
    }
}

void tn_rl_watch_hear(struct tn_rl_store *store, const char *name,
                      const struct tn_store_record *record)
{
    struct tn_rl_watch *watch = *find_watch(store, name);

    if (watch != NULL && !is_told(watch, record))
        want_read(store, watch);
}

/* --- Watching ------------------------------------------------------------------------------- */

int tn_rl_watch(struct tn_store *base, const char *name, bool on)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;
    struct tn_rl_watch **link = find_watch(store, name);
    struct tn_rl_watch *watch = *link;

    if (on && watch == NULL) {
        watch = *link = calloc(1, sizeof *watch);
        if (watch == NULL)
            return TENURE_E_NOMEM;
        memcpy(watch->name, name, strlen(name) + 1);
    }
    TN_ASSERT(watch != NULL);
    watch->count += on ? 1U : -1U;
    for (unsigned i = 0; i < store->count; i++) {
        struct tn_store *redis = store->nodes[i].redis;
        if (watch->count == (on ? 1 : 0) && redis->ops->watch(redis, name, on) < 0)
            return TENURE_E_NOMEM; /* Some of them tell all the same. */
    }
    if (watch->count == 0) {
        forget_due(store, watch);
        *link = watch->next;
        free(watch);
    }
    return 0;
}

void tn_rl_watches_done(struct tn_rl_store *store)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        while (store->watches[i] != NULL) {
            struct tn_rl_watch *watch = store->watches[i];
            store->watches[i] = watch->next;
            free(watch);
        }
    }
}
