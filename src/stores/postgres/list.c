/* list.c - what is asked of PostgreSQL beside the operations: lists of names, and for `tenure
 * doctor` what the server's clock says, and that the names of a test are forgotten. Each is one
 * statement; they wait in one line behind the operations. */
#include <stdio.h>
#include <stdlib.h>

#include "stores/postgres/private.h"

void tn_pg_send_list(struct tn_pg_store *store)
{
    static const char clock[] =
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint";
    struct tn_store_query *list = store->lists;

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

static void answer_names(const struct tn_store_query *list, const PGresult *result)
{
    size_t count = (size_t)PQntuples(result);
    struct tn_store_lease *leases = calloc(count + 1, sizeof *leases);

    if (leases == NULL) {
        tn_query_fail(list, TENURE_E_NOMEM, "out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool revoked;
        (void)snprintf(leases[i].name, sizeof leases[i].name, "%s", PQgetvalue(result, (int)i, 0));
        (void)tn_pg_record(result, (int)i, 1, &leases[i].record, &revoked);
    }
    list->listed(list->arg, 0, leases, count, NULL);
}

void tn_pg_answer_list(struct tn_pg_store *store, const PGresult *result)
{
    struct tn_store_query *list = store->sent_list;

    tn_pg_forget_sent(store);
    if (list->clocked != NULL)
        list->clocked(list->arg, 0, tn_pg_int(result, 0, 0), NULL);
    else if (list->forgotten != NULL)
        list->forgotten(list->arg, 0, NULL);
    else
        answer_names(list, result);
    free(list);
}

static void ask(struct tn_store *base, const char *prefix, struct tn_store_query query)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;

    query.give_up_at = tn_pg_now(store) + base->how.patience;
    if (!tn_query_add(&store->lists, &query, prefix))
        return;
    tn_pg_link_start(&store->work, tn_pg_now(store));
    tn_pg_kick(store);
}

void tn_pg_list_names(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    ask(base, prefix, (struct tn_store_query) { .listed = done, .arg = arg });
}

void tn_pg_read_clock(struct tn_store *base, tn_store_clocked *done, void *arg)
{
    ask(base, "", (struct tn_store_query) { .clocked = done, .arg = arg });
}

void tn_pg_forget(struct tn_store *base, const char *prefix, tn_store_done *done, void *arg)
{
    ask(base, prefix, (struct tn_store_query) { .forgotten = done, .arg = arg });
}
