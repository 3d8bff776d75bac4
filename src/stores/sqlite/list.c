/* list.c - the names on record, and forgetting them; each call is a transaction of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/sqlite/private.h"

/* Collect before anything is printed: a reader that stops must not stop the transaction. */
static int collect(struct tn_sqlite *store, const char *prefix, struct tn_sqlite_lease **ret_leases,
                   size_t *ret_count)
{
    struct tn_sqlite_lease *leases = NULL;
    size_t count = 0;
    size_t room = 0;
    char end[TN_NAME_MAX + 2];

    /* No name has a byte above '~'. */
    (void)snprintf(end, sizeof end, "%s\x7f", prefix);
    bool more = tn_sql_step(store, TN_SQL_LIST, "ttt", store->clock.domain, prefix, end);
    for (; more; more = tn_sql_next(store, TN_SQL_LIST)) {
        if (count == room) {
            room = room > 0 ? 2 * room : 64;
            struct tn_sqlite_lease *grown = realloc(leases, room * sizeof *leases);
            if (grown == NULL) {
                free(leases);
                return TENURE_E_NOMEM;
            }
            leases = grown;
        }
        tn_sqlite_read_view(store, TN_SQL_LIST, &leases[count++]);
    }
    *ret_leases = leases;
    *ret_count = count;
    return 0;
}

/* Ends the transaction; one that cannot be ended at once has not happened. */
static int end_or_busy(struct tn_sqlite *store, int status, struct tn_text *reterr)
{
    int rc = tn_sql_end(store, status, reterr);

    if (rc == TN_SQL_AGAIN) {
        tn_sql_roll_back(store);
        store->was_busy = true;
        rc = tn_sql_error(store->path, SQLITE_BUSY, NULL, reterr);
    }
    return rc;
}

int tn_sqlite_list(struct tn_sqlite *store, const char *prefix, struct tn_sqlite_lease **ret_leases,
                   size_t *ret_count, struct tn_text *reterr)
{
    struct tn_sqlite_lease *leases = NULL;
    size_t count = 0;

    if (strlen(prefix) > TN_NAME_MAX) {
        tn_text_add(reterr, "the prefix is longer than a name");
        return TENURE_E_INVALID;
    }
    int rc = tn_sql_begin(store, reterr);
    if (rc < 0)
        return rc;
    tn_sqlite_settle(store);
    rc = end_or_busy(store, collect(store, prefix, &leases, &count), reterr);
    if (rc < 0) {
        free(leases);
        return rc;
    }
    tn_sqlite_ring(store);
    *ret_leases = leases;
    *ret_count = count;
    return 0;
}

int tn_sqlite_forget(struct tn_sqlite *store, const char *prefix, struct tn_text *reterr)
{
    char end[TN_NAME_MAX + 3];

    int rc = tn_sql_begin(store, reterr);
    if (rc < 0)
        return rc;
    tn_sqlite_settle(store);
    (void)snprintf(end, sizeof end, "%s\x7f", prefix);
    (void)tn_sql_step(store, TN_SQL_FORGET, "tt", prefix, end);
    rc = end_or_busy(store, 0, reterr);
    if (rc == 0)
        tn_sqlite_ring(store);
    return rc;
}
