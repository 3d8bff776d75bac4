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
#include "stores/redlock/private.h"

enum { READS_MAX = 16 };

static struct tn_rl_watch **find_watch(struct tn_rl_store *store, const char *name)
{
    const struct tn_hash_key key = { store->base.seeds[0], store->base.seeds[1] };
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

static void forget_due(struct tn_rl_store *store, struct tn_rl_watch *watch)
{
    struct tn_rl_watch **link = &store->due;

    if (watch->reading != TN_RL_DUE)
        return;
    while (*link != watch)
        link = &(*link)->due_next;
    *link = watch->due_next;
    if (store->due_end == &watch->due_next)
        store->due_end = link;
    watch->reading = TN_RL_AT_REST;
}

/* At once, after the read that is under way, or when there are fewer of them. */
static void want_read(struct tn_rl_store *store, struct tn_rl_watch *watch)
{
    if (watch->reading == TN_RL_READING)
        watch->reading = TN_RL_READING_OLD;
    if (watch->reading != TN_RL_AT_REST)
        return;
    watch->reading = TN_RL_DUE;
    watch->due_next = NULL;
    *store->due_end = watch;
    store->due_end = &watch->due_next;
    begin_due(store);
}

static void drop_watch(struct tn_rl_watch *watch)
{
    struct tn_rl_watch **link = find_watch(watch->store, watch->name);

    *link = watch->next;
    free(watch);
}

static void read_done(struct tn_store_req *req)
{
    struct tn_rl_watch *watch = (struct tn_rl_watch *)req;
    struct tn_rl_store *store = watch->store;
    const struct tn_store_open *how = &store->base.how;
    bool again = watch->reading == TN_RL_READING_OLD;
    bool news = req->status == 0 && !is_told(watch, &req->record);

    store->reads--;
    watch->reading = TN_RL_AT_REST;
    if (store->base.closing)
        return;
    if (watch->count == 0) {
        drop_watch(watch);
    } else {
        if (news) {
            watch->told = true;
            watch->record = req->record;
        }
        if (again)
            want_read(store, watch);
        if (news) { /* Which may be the end of the watch. */
            struct tn_store_record record = watch->record;
            char name[TN_NAME_MAX + 1];
            memcpy(name, watch->name, sizeof name);
            how->host->changed(how->arg, name, &record);
        }
    }
    begin_due(store);
}

bool tn_rl_is_watch(const struct tn_store_req *req)
{
    return req->done == read_done;
}

static void begin_due(struct tn_rl_store *store)
{
    while (store->due != NULL && store->reads < READS_MAX) {
        struct tn_rl_watch *watch = store->due;
        forget_due(store, watch);
        watch->reading = TN_RL_READING;
        store->reads++;
        tn_req_init(&watch->req);
        tn_rl_submit(store, &watch->req);
    }
}

void tn_rl_watch_hear(struct tn_rl_store *store, const char *name,
                      const struct tn_store_record *record)
{
    struct tn_rl_watch *watch = *find_watch(store, name);

    if (watch != NULL && (record == NULL || !is_told(watch, record)))
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
        watch->store = store;
        watch->req.op = (struct tn_op) { .kind = TN_OP_READ,
                                         .name = watch->name,
                                         .name_len = (uint32_t)strlen(name) };
        watch->req.done = read_done;
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
        watch->told = false;
        if (watch->reading == TN_RL_AT_REST)
            drop_watch(watch);
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
