/* fence_sqlite.h - a fence in the application's own SQLite database, in its own transaction.
 *
 *     sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
 *     int rc = tenure_fence_sqlite_admit(db, "orders", token);
 *     if (rc == 0)
 *         ... INSERT, UPDATE, DELETE ...
 *     sqlite3_exec(db, rc == 0 ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
 *
 * The highest token lives in the table tenure_fences of the main database, one row per resource,
 * made when it is first needed. SQLite has one writer at a time, so what was admitted is the
 * highest until the transaction ends: a pause between check and COMMIT cannot let an older holder
 * in, nor a younger one be overwritten. Tokens are kept as twenty digits, because SQLite's integers
 * are signed and end at 2^63 - 1; the order of the digits is the order of the tokens.
 *
 * tenure_fence_sqlite_install makes a table refuse, by triggers, every row that is inserted,
 * updated or deleted by a connection that has not presented the current token: also by the code
 * that was forgotten, and by a shell. Such a statement fails with SQLITE_CONSTRAINT_TRIGGER, or,
 * on a connection that never presented any, because the function tenure_fence_presented is missing.
 *
 * A resource has the form of a lease name: 1 to 255 bytes, A-Z a-z 0-9 . _ ~ : @ - in segments
 * joined by '/'. The calls return 0 or:
 * TENURE_E_INVALID     a malformed resource, token 0 (never granted), or what the call says;
 * TENURE_E_STALE       a later holder exists: roll back, do not retry;
 * TENURE_E_UNAVAILABLE busy, full disk or I/O error: roll back;
 * TENURE_E_DENIED      SQLite's authorizer or the file's mode forbids it; or the file has more than
 *                      one name (a hard link, a mount of the single file), and so two journals;
 * TENURE_E_DAMAGED     tenure_fences holds something else than fences;
 * TENURE_E_NOMEM.
 * sqlite3_errmsg has SQLite's own words for the last four. On any error nothing was admitted.
 *
 * Threads: as the handle; one at a time unless SQLite is in serialized mode. Memory: nothing is
 * kept of the arguments; what a connection has presented is freed when it closes. Blocks as long
 * as SQLite's busy handler does. */
#ifndef TENURE_FENCE_SQLITE_H
#define TENURE_FENCE_SQLITE_H

#include <stdint.h>

#include "tenure/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sqlite3;

/* Admit @token for @resource in the open transaction of @db, unless a higher one was admitted or
 * raised before, and present it for this connection's later statements. Takes SQLite's right to
 * write at once. TENURE_E_INVALID also when no transaction is open: check and effect would be two
 * steps. When the transaction is rolled back, so is the fence. */
TENURE_API TENURE_MUST_USE int tenure_fence_sqlite_admit(struct sqlite3 *db, const char *resource,
                                                         uint64_t token);

/* Raise the fence of @resource to @token before its holder acts: in the open transaction of @db,
 * else in one of its own, which is committed on return. Then TENURE_E_TIMEOUT means that the commit
 * failed half-way and may have happened: raise again. Presents nothing. */
TENURE_API TENURE_MUST_USE int tenure_fence_sqlite_raise(struct sqlite3 *db, const char *resource,
                                                         uint64_t token);

/* The highest token of @resource into @ret_highest; 0 when there was none. */
TENURE_API TENURE_MUST_USE int tenure_fence_sqlite_highest(struct sqlite3 *db, const char *resource,
                                                           uint64_t *ret_highest);

/* Make @table of the main database refuse writes without the current token of @resource. All or
 * nothing; a table that is protected already gets the new resource. TENURE_E_INVALID also when
 * there is no such table, or when it is a view or a virtual table. */
TENURE_API TENURE_MUST_USE int tenure_fence_sqlite_install(struct sqlite3 *db, const char *table,
                                                           const char *resource);

/* Take the protection of @table away; the fence itself stays. Succeeds when there was none. */
TENURE_API TENURE_MUST_USE int tenure_fence_sqlite_remove(struct sqlite3 *db, const char *table);

#ifdef __cplusplus
}
#endif

#endif
