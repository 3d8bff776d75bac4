/* watch.c - the names that somebody watches through the SQLite store, and its listings.
 *
 * A watched name is read when the bell says that it changed, when its holder's time is over unless
 * that has renewed, and otherwise once in a while; each time with a random delay. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/sqlite/loop.h"

/* --- Watches -------------------------------------------------------------------------------- */

static tenure_ns spread(struct tn_sqlite_store *store)
{
    return tn_prng_range(&store->sqlite->prng, 0, TN_SQLITE_WATCH_JITTER);
}

static void look_later(struct tn_sqlite_store *store, struct tn_sqlite_name *name, tenure_ns at)
{
    tn_heap_remove(&store->looks, &name->look);
    name->look.at = at;
    tn_heap_insert(&store->looks, &name->look);
}

int tn_sqlite_watched(struct tn_store *base, struct tn_store_name *watched, bool on)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;
    struct tn_sqlite_name *name = (struct tn_sqlite_name *)watched;
    struct tn_sqlite_name **link = &store->watches[tn_bell_name_slot(watched->text) - TN_BELL_HALF];

    if (on) {
        name->next = *link;
        *link = name;
        name->look.at = tn_clock_now(base->how.clock);
        tn_heap_insert(&store->looks, &name->look);
        tn_sqlite_kick(store);
        return 0;
    }
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
    tn_heap_remove(&store->looks, &name->look);
    return 0;
}

void tn_sqlite_watches_moved(struct tn_sqlite_store *store, unsigned slot, tenure_ns now)
{
    struct tn_sqlite_name *name = store->watches[slot - TN_BELL_HALF];

    for (; name != NULL; name = name->next) {
        tenure_ns at = now + spread(store);
        if (at < name->look.at)
            look_later(store, name, at);
    }
}

struct sqlite_errand {
    struct tn_store_req req;
    char name[TN_NAME_MAX + 1];
};

static void errand_done(struct tn_store_req *req)
{
    free((struct sqlite_errand *)req);
}

/* The holder's time is over, or our clock has yet to look at it: that needs a read which may write.
 * Out of memory: the next look asks again. */
static void ask_to_settle(struct tn_sqlite_store *store, const char *name)
{
    struct sqlite_errand *errand = calloc(1, sizeof *errand);

    if (errand == NULL)
        return;
    memcpy(errand->name, name, strlen(name) + 1);
    errand->req.op.kind = TN_OP_READ;
    errand->req.op.name = errand->name;
    errand->req.op.name_len = (uint32_t)strlen(name);
    errand->req.done = errand_done;
    errand->req.give_up_at = tn_clock_now(store->base.how.clock) + store->base.how.patience;
    store->settle = true;
    tn_sqlite_submit(&store->base, &errand->req);
}

static void read_watch(struct tn_sqlite_store *store, struct tn_sqlite_name *name)
{
    struct tn_sqlite *sqlite = store->sqlite;
    const struct tn_store_record *record = NULL;
    struct tn_sqlite_result result;

    if (!tn_sqlite_peek(sqlite, name->base.text, &result)) {
        look_later(store, name, sqlite->now + TN_MS(50));
        if (sqlite->failed == 0)
            ask_to_settle(store, name->base.text);
        return;
    }
    record = &result.lease.record;
    tenure_ns next = record->held ? record->remaining : TN_SQLITE_BACKSTOP;
    if (next > TN_SQLITE_BACKSTOP)
        next = TN_SQLITE_BACKSTOP;
    look_later(store, name, sqlite->now + next + spread(store));
    if (tn_store_is_told(&name->base, record))
        return;
    struct tn_sqlite_news *news = tn_sqlite_add_news(store);
    if (news == NULL)
        return;
    news->kind = TN_NOTICE_CHANGED;
    news->record = *record;
    (void)snprintf(news->name, sizeof news->name, "%s", name->base.text);
}

void tn_sqlite_watches_read(struct tn_sqlite_store *store)
{
    for (int i = 0; i < TN_SQLITE_BATCH; i++) {
        struct tn_heap_node *first = tn_heap_first(&store->looks);
        if (first == NULL || first->at > store->sqlite->now || store->sqlite->failed != 0)
            return;
        read_watch(store, (void *)((char *)first - offsetof(struct tn_sqlite_name, look)));
    }
}

/* --- Listings ------------------------------------------------------------------------------- */

void tn_sqlite_ask(struct tn_store *base, struct tn_store_query *query)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;

    tn_query_push(&store->lists, query);
    tn_sqlite_kick(store);
}

void tn_sqlite_list_turn(struct tn_sqlite_store *store)
{
    struct tn_sqlite *sqlite = store->sqlite;
    struct tn_store_query *query = store->lists;
    char text[256];
    struct tn_text error;
    char *json = NULL;
    size_t len = 0;

    tn_text_init(&error, text, sizeof text);
    /* Whom this hands a lease to hears it from the bell, here as elsewhere. */
    tn_sqlite_hears *hears = sqlite->hears;
    sqlite->hears = NULL;
    int rc;
    if (query->forgotten != NULL)
        rc = tn_sqlite_forget(sqlite, query->prefix, &error);
    else if (query->told != NULL)
        rc = tn_sqlite_history(sqlite, query->prefix, &json, &len, &error);
    else
        rc = tn_sqlite_list(sqlite, query, &error);
    sqlite->hears = hears;
    if (rc < 0 && sqlite->was_busy) {
        tn_query_expire(&store->lists, tn_clock_now(&sqlite->clock), TENURE_E_UNAVAILABLE, text);
        store->tries++;
        return;
    }
    store->tries = 0;
    if (rc < 0 && rc != TENURE_E_INVALID)
        tn_sqlite_disconnect(sqlite);
    store->lists = query->next;
    if (rc == 0 && query->told != NULL)
        tn_query_told(query, json, len);
    else
        tn_query_done(query, tn_sqlite_status(rc), rc == 0 ? NULL : text);
    free(json);
}
