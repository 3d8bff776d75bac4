/* store_query.c - what a store is asked beside the operations: lists, its clock, to forget names;
 * store_frame.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/store_frame.h"

static void query_fail(const struct tn_store_query *query, int status, const char *why)
{
    if (query->listed != NULL)
        query->listed(query->arg, status, NULL, 0, why);
    else if (query->clocked != NULL)
        query->clocked(query->arg, status, 0, why);
    else if (query->forgotten != NULL)
        query->forgotten(query->arg, status, why);
    else if (query->told != NULL)
        query->told(query->arg, status, NULL, 0, why);
}

static struct tn_store_query *query_new(const struct tn_store_query *query, const char *prefix)
{
    struct tn_store_query *copy = malloc(sizeof *copy);

    if (copy == NULL) {
        query_fail(query, TENURE_E_NOMEM, "out of memory");
        return NULL;
    }
    *copy = *query;
    (void)snprintf(copy->prefix, sizeof copy->prefix, "%s", prefix != NULL ? prefix : "");
    return copy;
}

void tn_query_push(struct tn_store_query **queue, struct tn_store_query *query)
{
    query->next = NULL;
    while (*queue != NULL)
        queue = &(*queue)->next;
    *queue = query;
}

void tn_query_refuse(struct tn_store *store, struct tn_store_query *query, int status,
                     const char *why)
{
    query->refused = status;
    query->why = why;
    tn_query_push(&store->late, query);
    tn_store_kick(store);
}

static void query_ask(struct tn_store *store, const struct tn_store_query *query,
                      const char *prefix)
{
    struct tn_store_query *copy = query_new(query, prefix);

    if (copy == NULL)
        return;
    copy->give_up_at = tn_clock_now(store->how.clock) + store->how.patience;
    if (store->closing)
        tn_query_refuse(store, copy, TENURE_E_CLOSED, "the store is closed");
    else
        store->ops->ask(store, copy);
}

void tn_store_list(struct tn_store *store, const char *prefix, tn_store_listed *done, void *arg)
{
    query_ask(store, &(struct tn_store_query) { .listed = done, .arg = arg }, prefix);
}

void tn_store_look(struct tn_store *store, const char *name, tn_store_listed *done, void *arg)
{
    query_ask(store, &(struct tn_store_query) { .listed = done, .arg = arg, .exact = true }, name);
}

void tn_store_line(struct tn_store *store, const char *name, tn_store_listed *done, void *arg)
{
    struct tn_store_query query = { .listed = done, .arg = arg, .exact = true, .line = true };

    query_ask(store, &query, name);
}

void tn_store_read_clock(struct tn_store *store, tn_store_clocked *done, void *arg)
{
    query_ask(store, &(struct tn_store_query) { .clocked = done, .arg = arg }, "");
}

void tn_store_forget(struct tn_store *store, const char *prefix, tn_store_done *done, void *arg)
{
    query_ask(store, &(struct tn_store_query) { .forgotten = done, .arg = arg }, prefix);
}

void tn_store_history(struct tn_store *store, const char *name, tn_store_told *done, void *arg)
{
    query_ask(store, &(struct tn_store_query) { .told = done, .arg = arg }, name);
}

struct tn_store_lease *tn_query_add_lease(struct tn_store_query *query)
{
    if (query->count == query->room) {
        size_t room = query->room > 0 ? 2 * query->room : 16;
        struct tn_store_lease *grown = realloc(query->leases, room * sizeof *grown);
        if (grown == NULL) {
            query->no_memory = true;
            return NULL;
        }
        query->leases = grown;
        query->room = room;
    }
    struct tn_store_lease *lease = &query->leases[query->count++];
    memset(lease, 0, sizeof *lease);
    return lease;
}

bool tn_query_add_waiter(struct tn_store_query *query, const char *label, size_t len)
{
    struct tn_store_lease *waiter = tn_query_add_lease(query);

    if (waiter == NULL)
        return false;
    (void)snprintf(waiter->name, sizeof waiter->name, "%.*s", TN_NAME_MAX, query->prefix);
    waiter->record.label_len = (uint32_t)(len < TN_LABEL_MAX ? len : TN_LABEL_MAX);
    memcpy(waiter->record.label, label, waiter->record.label_len);
    return true;
}

void tn_query_done(struct tn_store_query *query, int status, const char *why)
{
    if (query->no_memory)
        status = TENURE_E_NOMEM;
    if (status != 0) {
        free(query->leases);
        query_fail(query, status, why != NULL ? why : tenure_strerror(status));
    } else if (query->listed != NULL) {
        if (!query->line)
            tn_store_sort(query->leases, query->count);
        query->listed(query->arg, 0, query->leases, query->count, NULL);
    } else if (query->forgotten != NULL) {
        query->forgotten(query->arg, 0, NULL);
    }
    free(query);
}

void tn_query_clocked(struct tn_store_query *query, tenure_ns clock)
{
    query->clocked(query->arg, 0, clock, NULL);
    free(query);
}

void tn_query_told(struct tn_store_query *query, const char *json, size_t len)
{
    query->told(query->arg, 0, json, len, NULL);
    free(query);
}

void tn_query_done_all(struct tn_store_query **queue, int status, const char *why)
{
    while (*queue != NULL) {
        struct tn_store_query *query = *queue;
        *queue = query->next;
        tn_query_done(query, status, why);
    }
}

void tn_query_expire(struct tn_store_query **queue, tenure_ns by, int status, const char *why)
{
    while (*queue != NULL && (*queue)->give_up_at <= by) {
        struct tn_store_query *query = *queue;
        *queue = query->next;
        tn_query_done(query, status, why);
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct tn_store_lease *)a)->name,
                  ((const struct tn_store_lease *)b)->name);
}

void tn_store_sort(struct tn_store_lease *leases, size_t count)
{
    if (count > 0)
        qsort(leases, count, sizeof *leases, compare_names);
}
