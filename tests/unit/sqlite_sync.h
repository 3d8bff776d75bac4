/* sqlite_sync.h - the rules of the SQLite store without its loop, one transaction for each
 * operation: for tests that bring a clock of their own, or play another process. */
#ifndef TN_TESTS_UNIT_SQLITE_SYNC_H
#define TN_TESTS_UNIT_SQLITE_SYNC_H

#include "stores/sqlite/private.h"

/* Errors as tn_sqlite_store_ops; closed by tn_sqlite_close. */
TENURE_MUST_USE int sync_open(const char *path, const struct tn_clock *clock, bool create,
                              struct tn_sqlite **ret_store, struct tn_text *reterr);

/* An ACQUIRE with a TTL is preceded by the OPEN of its session. */
TENURE_MUST_USE int sync_step(struct tn_sqlite *store, const struct tn_op *op,
                              struct tn_sqlite_result *ret_result, struct tn_text *reterr);

#endif
