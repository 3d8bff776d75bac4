/* list.c - what is asked of PostgreSQL beside the operations: lists of names, and for `tenure
 * doctor` what the server's clock says, and that the names of a test are forgotten. Each is one
 * statement; they wait in one line behind the operations. */
#include <stdio.h>
#include <stdlib.h>

#include "stores/postgres/private.h"

void tn_pg_finish_list(struct tn_pg_listing *list, int status, struct tn_store_lease *leases,
                       size_t count, const char *why)
{
    if (list->clocked != NULL)
        list->clocked(list->arg, status, 0, why);
    else if (list->forgotten != NULL)
        list->forgotten(list->arg, status, why);
    else
        list->done(list->arg, status, leases, count, status < 0 ? why : NULL);
    free(list);
}

void tn_pg_send_list(struct tn_pg_store *store)
{
    static const char clock[] =
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint";
    struct tn_pg_listing *list = store->lists;

    store->sent_list = list;
    store->lists = list->next;
    const char *values[] = { list->prefix };
    if (list->clocked != NULL)
        tn_pg_send(store, TN_PG_LIST, clock, 0, NULL);
    else
        tn_pg_send(store, TN_PG_LIST,
                   list->forgotten != NULL ? "SELECT tenure.forget($1::text)"
                                           : "SELECT * FROM tenure.list($1::text)",
                   1, values);
}

void tn_pg_answer_list(struct tn_pg_store *store, const PGresult *result)
{
    struct tn_pg_listing *list = store->sent_list;
    size_t count = (size_t)PQntuples(result);

    tn_pg_forget_sent(store);
    if (list->clocked != NULL) {
        list->clocked(list->arg, 0, tn_pg_int(result, 0, 0), "");
        free(list);
        return;
    }
    if (list->forgotten != NULL) {
        tn_pg_finish_list(list, 0, NULL, 0, "");
        return;
    }
    struct tn_store_lease *leases = calloc(count + 1, sizeof *leases);
    for (size_t i = 0; leases != NULL && i < count; i++) {
        bool revoked;
        (void)snprintf(leases[i].name, sizeof leases[i].name, "%s", PQgetvalue(result, (int)i, 0));
        (void)tn_pg_record(result, (int)i, 1, &leases[i].record, &revoked);
    }
    tn_pg_finish_list(list, leases != NULL ? 0 : TENURE_E_NOMEM, leases, leases != NULL ? count : 0,
                      "out of memory");
}

/* NULL: out of memory. */
static struct tn_pg_listing *add_listing(struct tn_store *base, const char *prefix, void *arg)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;
    struct tn_pg_listing *list = calloc(1, sizeof *list);
    struct tn_pg_listing **end = &store->lists;

    if (list == NULL)
        return NULL;
    list->arg = arg;
    list->give_up_at = tn_pg_now(store) + store->base.how.patience;
    (void)snprintf(list->prefix, sizeof list->prefix, "%s", prefix);
    while (*end != NULL)
        end = &(*end)->next;
    *end = list;
    tn_pg_link_start(&store->work, tn_pg_now(store));
    tn_pg_kick(store);
    return list;
}

void tn_pg_list_names(struct tn_store *base, const char *prefix,
                      void (*done)(void *arg, int status, struct tn_store_lease *leases,
                                   size_t count, const char *error),
                      void *arg)
{
    struct tn_pg_listing *list = add_listing(base, prefix, arg);

    if (list != NULL)
        list->done = done;
    else
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
}

void tn_pg_read_clock(struct tn_store *base,
                      void (*done)(void *arg, int status, tenure_ns clock, const char *error),
                      void *arg)
{
    struct tn_pg_listing *list = add_listing(base, "", arg);

    if (list != NULL)
        list->clocked = done;
    else
        done(arg, TENURE_E_NOMEM, 0, "out of memory");
}

void tn_pg_forget(struct tn_store *base, const char *prefix,
                  void (*done)(void *arg, int status, const char *error), void *arg)
{
    struct tn_pg_listing *list = add_listing(base, prefix, arg);

    if (list != NULL)
        list->forgotten = done;
    else
        done(arg, TENURE_E_NOMEM, "out of memory");
}
