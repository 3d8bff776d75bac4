/* watch.c - the names that somebody watches through the SQLite store, and its listings.
 *
 * A watched name is read when the bell says that it changed, when its holder's time is over unless
 * that has renewed, and otherwise once in a while; each time with a random delay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/sqlite/loop.h"

void tn_sqlite_record(const struct tn_sqlite_lease *lease, struct tn_store_record *ret_record)
{
    ret_record->held = lease->held;
    ret_record->revoked = lease->revoked;
    ret_record->token = lease->token;
    ret_record->beat = lease->beat;
    ret_record->ttl = lease->ttl;
    ret_record->remaining = lease->remaining;
    ret_record->term = lease->term;
    ret_record->label_len = lease->label_len;
    memcpy(ret_record->label, lease->label, sizeof ret_record->label);
}

/* --- Watches -------------------------------------------------------------------------------- */

static tenure_ns spread(struct tn_sqlite_store *store)
{
    return tn_prng_range(&store->sqlite->prng, 0, TN_SQLITE_WATCH_JITTER);
}

static void look_later(struct tn_sqlite_store *store, struct tn_sqlite_watch *watch, tenure_ns at)
{
    tn_heap_remove(&store->looks, &watch->look);
    watch->look.at = at;
    tn_heap_insert(&store->looks, &watch->look);
}

static struct tn_sqlite_watch **find_watch(struct tn_sqlite_store *store, const char *name)
{
    struct tn_sqlite_watch **link = &store->watches[tn_bell_name_slot(name) - TN_BELL_HALF];

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static void drop_watch(struct tn_sqlite_store *store, struct tn_sqlite_watch **link)
{
    struct tn_sqlite_watch *watch = *link;

    *link = watch->next;
    tn_heap_remove(&store->looks, &watch->look);
    free(watch);
}

int tn_sqlite_watch_name(struct tn_store *base, const char *name, bool on)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;
    struct tn_sqlite_watch **link = find_watch(store, name);

    TN_ASSERT(on || *link != NULL);
    if (!on) {
        if (--(*link)->count == 0)
            drop_watch(store, link);
        return 0;
    }
    if (*link == NULL) {
        struct tn_sqlite_watch *watch = calloc(1, sizeof *watch + strlen(name) + 1);
        if (watch == NULL)
            return TENURE_E_NOMEM;
        memcpy(watch->name, name, strlen(name) + 1);
        watch->look.at = tn_clock_now(base->how.clock);
        tn_heap_insert(&store->looks, &watch->look);
        *link = watch;
    }
    (*link)->count++;
    tn_sqlite_kick(store);
    return 0;
}

void tn_sqlite_watches_moved(struct tn_sqlite_store *store, unsigned slot, tenure_ns now)
{
    struct tn_sqlite_watch *watch = store->watches[slot - TN_BELL_HALF];

    for (; watch != NULL; watch = watch->next) {
        tenure_ns at = now + spread(store);
        if (at < watch->look.at)
            look_later(store, watch, at);
    }
}

struct errand {
    struct tn_store_req req;
    char name[TN_NAME_MAX + 1];
};

static void errand_done(struct tn_store_req *req)
{
    free((struct errand *)req);
}

/* The holder's time is over, or our clock has yet to look at it: that needs a read which may write.
 * Out of memory: the next look asks again. */
static void ask_to_settle(struct tn_sqlite_store *store, const char *name)
{
    struct errand *errand = calloc(1, sizeof *errand);

    if (errand == NULL)
        return;
    memcpy(errand->name, name, strlen(name) + 1);
    errand->req.op.kind = TN_OP_READ;
    errand->req.op.name = errand->name;
    errand->req.op.name_len = (uint32_t)strlen(name);
    errand->req.done = errand_done;
    store->settle = true;
    tn_sqlite_submit(store, &errand->req);
}

static void read_watch(struct tn_sqlite_store *store, struct tn_sqlite_watch *watch)
{
    struct tn_sqlite *sqlite = store->sqlite;
    struct tn_sqlite_result result;

    if (!tn_sqlite_peek(sqlite, watch->name, &result)) {
        look_later(store, watch, sqlite->now + TN_MS(50));
        if (sqlite->failed == 0)
            ask_to_settle(store, watch->name);
        return;
    }
    tenure_ns next = result.lease.held ? result.lease.remaining : TN_SQLITE_BACKSTOP;
    if (next > TN_SQLITE_BACKSTOP)
        next = TN_SQLITE_BACKSTOP;
    look_later(store, watch, sqlite->now + next + spread(store));
    if (watch->told && watch->held == result.lease.held && watch->token == result.lease.token)
        return;
    struct tn_sqlite_news *news = tn_sqlite_add_news(store);
    if (news == NULL)
        return;
    news->kind = TN_NOTICE_CHANGED;
    memcpy(news->name, watch->name, strlen(watch->name) + 1);
    tn_sqlite_record(&result.lease, &news->record);
    watch->told = true;
    watch->held = result.lease.held;
    watch->token = result.lease.token;
}

void tn_sqlite_watches_read(struct tn_sqlite_store *store)
{
    for (int i = 0; i < TN_SQLITE_BATCH; i++) {
        struct tn_heap_node *first = tn_heap_first(&store->looks);
        if (first == NULL || first->at > store->sqlite->now || store->sqlite->failed != 0)
            return;
        read_watch(store, (struct tn_sqlite_watch *)first);
    }
}

void tn_sqlite_watches_done(struct tn_sqlite_store *store)
{
    for (unsigned i = 0; i < TN_BELL_HALF; i++) {
        while (store->watches[i] != NULL)
            drop_watch(store, &store->watches[i]);
    }
}

/* --- Listings ------------------------------------------------------------------------------- */

static void ask(struct tn_store *base, const char *prefix, struct tn_store_query query)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;

    query.give_up_at = tn_clock_now(base->how.clock) + store->patience;
    if (tn_query_add(&store->lists, &query, prefix))
        tn_sqlite_kick(store);
}

void tn_sqlite_list_names(struct tn_store *base, const char *prefix, tn_store_listed *done,
                          void *arg)
{
    ask(base, prefix, (struct tn_store_query) { .listed = done, .arg = arg });
}

void tn_sqlite_forget_names(struct tn_store *base, const char *prefix, tn_store_done *done,
                            void *arg)
{
    ask(base, prefix, (struct tn_store_query) { .forgotten = done, .arg = arg });
}

static void end_listing(struct tn_sqlite_store *store, int status, struct tn_store_lease *leases,
                        size_t count, const char *text)
{
    struct tn_store_query *listing = store->lists;

    store->lists = listing->next;
    if (listing->forgotten != NULL)
        listing->forgotten(listing->arg, status, text);
    else
        listing->listed(listing->arg, status, leases, count, text);
    free(listing);
}

static struct tn_store_lease *convert(const struct tn_sqlite_lease *leases, size_t count)
{
    struct tn_store_lease *converted = calloc(count > 0 ? count : 1, sizeof *converted);

    for (size_t i = 0; converted != NULL && i < count; i++) {
        memcpy(converted[i].name, leases[i].name, sizeof converted[i].name);
        tn_sqlite_record(&leases[i], &converted[i].record);
    }
    return converted;
}

void tn_sqlite_list_turn(struct tn_sqlite_store *store)
{
    struct tn_sqlite *sqlite = store->sqlite;
    struct tn_sqlite_lease *leases = NULL;
    size_t count = 0;
    char text[256];
    struct tn_text error;

    tn_text_init(&error, text, sizeof text);
    /* Whom this hands a lease to hears it from the bell, here as elsewhere. */
    tn_sqlite_hears *hears = sqlite->hears;
    sqlite->hears = NULL;
    int rc = 0;
    if (store->lists->forgotten != NULL)
        rc = tn_sqlite_forget(sqlite, store->lists->prefix, &error);
    else
        rc = tn_sqlite_list(sqlite, store->lists->prefix, &leases, &count, &error);
    sqlite->hears = hears;
    if (rc < 0 && sqlite->was_busy) {
        tn_query_expire(&store->lists, tn_clock_now(&sqlite->clock), TENURE_E_UNAVAILABLE, text);
        store->tries++;
        return;
    }
    store->tries = 0;
    if (rc < 0 && rc != TENURE_E_INVALID)
        tn_sqlite_disconnect(sqlite);
    struct tn_store_lease *converted = NULL;
    if (rc == 0 && store->lists->listed != NULL)
        converted = convert(leases, count);
    free(leases);
    if (rc == 0 && converted == NULL && store->lists->listed != NULL)
        rc = TENURE_E_NOMEM;
    end_listing(store, tn_sqlite_status(rc), converted, rc == 0 ? count : 0, rc == 0 ? NULL : text);
}

void tn_sqlite_lists_fail(struct tn_sqlite_store *store, int status, const char *text)
{
    tn_query_expire(&store->lists, TN_NEVER, tn_sqlite_status(status), text);
}
