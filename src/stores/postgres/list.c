/* list.c - what is asked of PostgreSQL beside the operations: lists of names, and for `tenure
 * doctor` what the server's clock says, and that the names of a test are forgotten. Each is one
 * statement; they wait in one line behind the operations. */
#include <stdio.h>

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
    else if (list->line)
        tn_pg_send(store, TN_PG_LIST, "SELECT * FROM tenure.line($1::text)", 1, values);
    else
        tn_pg_send(store, TN_PG_LIST,
                   list->forgotten != NULL ? "SELECT tenure.forget($1::text)"
                                           : "SELECT * FROM tenure.list($1::text)",
                   1, values);
}

static void add_names(struct tn_store_query *list, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        struct tn_store_lease *lease = tn_query_add_lease(list);
        bool revoked;
        if (lease == NULL)
            return;
        (void)snprintf(lease->name, sizeof lease->name, "%s", PQgetvalue(result, row, 0));
        (void)tn_pg_record(result, row, 1, &lease->record, &revoked);
    }
}

static void add_line(struct tn_store_query *list, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++)
        if (!tn_query_add_waiter(list, PQgetvalue(result, row, 0),
                                 (size_t)PQgetlength(result, row, 0)))
            return;
}

void tn_pg_answer_list(struct tn_pg_store *store, const PGresult *result)
{
    struct tn_store_query *list = store->sent_list;

    tn_pg_forget_sent(store);
    if (list->clocked != NULL) {
        tn_query_clocked(list, tn_pg_int(result, 0, 0));
        return;
    }
    if (list->line)
        add_line(list, result);
    else if (list->listed != NULL)
        add_names(list, result);
    tn_query_done(list, 0, NULL);
}

void tn_pg_ask(struct tn_store *base, struct tn_store_query *query)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;

    if (query->line && store->lineless) {
        tn_query_refuse(base, query, TENURE_E_UNSUPPORTED, "postgres: the schema has no line()");
        return;
    }
    tn_query_push(&store->lists, query);
    tn_pg_link_start(&store->work, tn_pg_now(store));
    tn_store_kick(base);
}
