/* sqlite.h - what the file behind `sqlite:` needs of the fence on a handle; see fence_sqlite.h. */
#ifndef TN_RECEIVERS_SQLITE_H
#define TN_RECEIVERS_SQLITE_H

#include <stdint.h>

#include "receivers/target.h"

struct sqlite3;

/* The error code for SQLite's @rc. */
int tn_fence_sqlite_code(int rc);

/* tenure_fence_sqlite_raise, and where the fence stands: set on 0 and TENURE_E_STALE. */
TENURE_MUST_USE int tn_fence_sqlite_raise(struct sqlite3 *db, const char *resource, uint64_t token,
                                          uint64_t *ret_highest);

/* Make the table of fences, if it is not there. */
TENURE_MUST_USE int tn_fence_sqlite_prepare(struct sqlite3 *db);

/* All fences of the database, by resource. */
TENURE_MUST_USE int tn_fence_sqlite_list(struct sqlite3 *db, tn_fence_each each, void *arg);

#endif
