/* sqlite_sync.c - the rules of the SQLite store, one transaction for each operation. */
#include "tests/unit/sqlite_sync.h"

int sync_open(const char *path, const struct tn_clock *clock, bool create,
              struct tn_sqlite **ret_store, struct tn_text *reterr)
{
    struct tn_sqlite *store = NULL;

    int rc = tn_sqlite_new(path, clock, &store, reterr);
    if (rc == 0)
        rc = tn_sqlite_connect(store, create, reterr);
    if (rc == 0)
        *ret_store = store;
    else
        tn_sqlite_close(store);
    return rc;
}

static int sync_one(struct tn_sqlite *store, const struct tn_op *op,
                    struct tn_sqlite_result *ret_result, struct tn_text *reterr)
{
    struct tn_sqlite_result result;

    int rc = tn_sql_begin(store, reterr);
    if (rc < 0)
        return rc;
    tn_sqlite_apply(store, op, &result);
    rc = tn_sql_end_now(store, 0, reterr);
    if (rc < 0)
        return rc;
    tn_sqlite_ring(store);
    *ret_result = result;
    return 0;
}

int sync_step(struct tn_sqlite *store, const struct tn_op *op, struct tn_sqlite_result *ret_result,
              struct tn_text *reterr)
{
    struct tn_op open = { .kind = TN_OP_OPEN,
                          .session = op->session,
                          .ttl = op->ttl,
                          .label = op->label,
                          .label_len = op->label_len };

    if (op->kind == TN_OP_ACQUIRE && op->ttl > 0) {
        int rc = sync_one(store, &open, ret_result, reterr);
        if (rc < 0 || ret_result->answer != TN_ANSWER_OK)
            return rc;
    }
    return sync_one(store, op, ret_result, reterr);
}
