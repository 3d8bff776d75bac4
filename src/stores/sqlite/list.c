/* list.c - the names on record, and forgetting them; each call is a transaction of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/terms.h"
#include "stores/sqlite/private.h"

static void read_beside(struct tn_sqlite *store, struct tn_store_lease *lease)
{
    if (!tn_sql_step(store, TN_SQL_BESIDE, "ti", lease->name, (int64_t)lease->record.token))
        return;
    if (lease->record.held)
        lease->since = tn_sql_i64(store, TN_SQL_BESIDE, 0);
    lease->waiting = (uint32_t)tn_sql_i64(store, TN_SQL_BESIDE, 1);
}

/* All of it before anything is told: a reader that stops must not stop the transaction. */
static int collect(struct tn_sqlite *store, struct tn_store_query *query)
{
    char end[TN_NAME_MAX + 2];

    /* No name has a byte above '~', or one below '-'. */
    (void)snprintf(end, sizeof end, "%.*s%c", TN_NAME_MAX, query->prefix,
                   query->exact ? '\x01' : '\x7f');
    bool more = tn_sql_step(store, TN_SQL_LIST, "ttt", store->clock.domain, query->prefix, end);
    for (; more; more = tn_sql_next(store, TN_SQL_LIST)) {
        struct tn_store_lease *lease = tn_query_add_lease(query);
        if (lease == NULL)
            return TENURE_E_NOMEM;
        tn_sqlite_read_view(store, TN_SQL_LIST, lease);
        read_beside(store, lease);
    }
    return 0;
}

static int collect_line(struct tn_sqlite *store, struct tn_store_query *query)
{
    char label[TN_LABEL_MAX + 1];
    bool more = tn_sql_step(store, TN_SQL_WAITERS, "t", query->prefix);

    for (; more; more = tn_sql_next(store, TN_SQL_WAITERS)) {
        size_t len = tn_sql_bytes(store, TN_SQL_WAITERS, 0, label, TN_LABEL_MAX);
        if (!tn_query_add_waiter(query, label, len))
            return TENURE_E_NOMEM;
    }
    return 0;
}

int tn_sqlite_list(struct tn_sqlite *store, struct tn_store_query *query, struct tn_text *reterr)
{
    if (strlen(query->prefix) > TN_NAME_MAX) {
        tn_text_add(reterr, "the prefix is longer than a name");
        return TENURE_E_INVALID;
    }
    int rc = tn_sql_begin(store, reterr);
    if (rc < 0)
        return rc;
    query->count = 0; /* Of a try before this one. */
    tn_sqlite_settle(store);
    rc = query->line ? collect_line(store, query) : collect(store, query);
    rc = tn_sql_end_now(store, rc, reterr);
    if (rc == 0)
        tn_sqlite_ring(store);
    return rc;
}

/* --- History -------------------------------------------------------------------------------- */

struct sqlite_terms {
    struct tn_term list[TN_SQLITE_TERMS];
    char labels[TN_SQLITE_TERMS][TN_LABEL_MAX + 1];
    size_t count;
};

static void read_terms(struct tn_sqlite *store, const char *name, struct sqlite_terms *terms)
{
    const enum tn_sql sql = TN_SQL_HISTORY_READ;

    for (bool more = tn_sql_step(store, sql, "t", name); more && terms->count < TN_SQLITE_TERMS;
         more = tn_sql_next(store, sql)) {
        struct tn_term *term = &terms->list[terms->count];
        *term = (struct tn_term) { .token = (uint64_t)tn_sql_i64(store, sql, 0),
                                   .ttl_ms = tn_sql_i64(store, sql, 2),
                                   .from = tn_sql_i64(store, sql, 3),
                                   .to = tn_sql_i64(store, sql, 4),
                                   .heard = tn_sql_i64(store, sql, 5) };
        int64_t why = tn_sql_i64(store, sql, 6);
        term->end = why >= 0 && why < TN_TERM_ENDS ? (enum tn_term_end)why : TN_TERM_UNKNOWN;
        term->label = terms->labels[terms->count];
        term->label_len = tn_sql_bytes(store, sql, 1, terms->labels[terms->count], TN_LABEL_MAX);
        if (term->end != TN_TERM_EXPIRED)
            term->heard = 0;
        terms->count++;
    }
}

/* What a version without a history ended is open here; the next term, or the lease, tells. */
static void close_terms(struct tn_sqlite *store, const char *name, struct sqlite_terms *terms)
{
    struct tn_sqlite_result result;

    for (size_t i = 0; i + 1 < terms->count; i++) {
        if (terms->list[i].end != TN_TERM_OPEN)
            continue;
        terms->list[i].end = TN_TERM_UNKNOWN;
        terms->list[i].to = terms->list[i + 1].from;
    }
    if (terms->count == 0)
        return;
    struct tn_term *last = &terms->list[terms->count - 1];
    if (last->end == TN_TERM_OPEN && tn_sqlite_peek(store, name, &result) &&
        (result.answer != TN_ANSWER_HELD || result.lease.record.token != last->token))
        last->end = TN_TERM_UNKNOWN;
}

int tn_sqlite_history(struct tn_sqlite *store, const char *name, char **ret_json, size_t *ret_len,
                      struct tn_text *reterr)
{
    struct sqlite_terms *terms = calloc(1, sizeof *terms);
    char *json = malloc(tn_terms_room(TN_SQLITE_TERMS));
    struct tn_text text;
    int64_t since = 0;

    int rc = terms != NULL && json != NULL ? tn_sql_begin(store, reterr) : TENURE_E_NOMEM;
    if (rc == 0) {
        tn_sqlite_settle(store);
        read_terms(store, name, terms);
        close_terms(store, name, terms);
        if (tn_sql_step(store, TN_SQL_HISTORY_SINCE, ""))
            since = tn_sql_i64(store, TN_SQL_HISTORY_SINCE, 0);
        rc = tn_sql_end_now(store, 0, reterr);
    }
    if (rc == 0) {
        tn_sqlite_ring(store);
        tn_text_init(&text, json, tn_terms_room(TN_SQLITE_TERMS));
        tn_terms_json(&text, name, strlen(name), terms->list, terms->count, since, tn_wall_ms());
        *ret_json = json;
        *ret_len = text.len;
    } else {
        free(json);
    }
    free(terms);
    return rc;
}

/* --- Forgetting ----------------------------------------------------------------------------- */

int tn_sqlite_forget(struct tn_sqlite *store, const char *prefix, struct tn_text *reterr)
{
    char end[TN_NAME_MAX + 3];

    int rc = tn_sql_begin(store, reterr);
    if (rc < 0)
        return rc;
    tn_sqlite_settle(store);
    (void)snprintf(end, sizeof end, "%s\x7f", prefix);
    (void)tn_sql_step(store, TN_SQL_FORGET, "tt", prefix, end);
    (void)tn_sql_step(store, TN_SQL_HISTORY_FORGET, "tt", prefix, end);
    rc = tn_sql_end_now(store, 0, reterr);
    if (rc == 0)
        tn_sqlite_ring(store);
    return rc;
}
