/* sqlite.h - the embedded store: one SQLite file, many processes on one host, no server.
 *
 * It is an authority with the rules of core/lease_table.h: same operations in, same answers out,
 * each in a transaction, so that every process sees one order of events. The class is strict: what
 * was answered is on the disk. docs/stores/sqlite.md has the guarantees and what is refused.
 *
 * What differs from the lease table, because a caller may be a script that is gone between steps:
 *   RENEW    with a @name demands that @term holds @name under @token: else STALE or DENIED.
 *   RELEASE  said again is RELEASED until the next release of that name, also when the session is
 *            over or the lease has passed on. An expired term is STALE, a wrong secret DENIED.
 *   seq 0    is newer than all before: a script does not know how often it was renewed. */
#ifndef TN_STORES_SQLITE_SQLITE_H
#define TN_STORES_SQLITE_SQLITE_H

#include "base/text.h"
#include "runtime/store.h"

/* Its open() tells, beside what runtime/store.h says:
 * TENURE_E_NOT_HELD    there is no file, and @how does not ask to create it;
 * TENURE_E_DENIED      a symbolic link, another user's file, or no permission;
 * TENURE_E_DAMAGED     not a Tenure database, or a damaged one; the file was not touched;
 * TENURE_E_UNSUPPORTED a newer schema, or a network filesystem;
 * TENURE_E_INVALID     not the path of a file;
 * TENURE_E_UNAVAILABLE, TENURE_E_NOMEM. */
extern const struct tn_store_ops tn_sqlite_store_ops;

/* The path of the file that "sqlite:@rest" names; for the default store, and with @create, its
 * folders are made. @ret_path: PATH_MAX bytes. Errors:
 * TENURE_E_INVALID     @reterr says what is wrong with the URL, to be put behind it;
 * TENURE_E_UNSUPPORTED there is no home directory; @reterr stands alone. */
TENURE_MUST_USE int tn_sqlite_path(const char *rest, bool create, char *ret_path,
                                   struct tn_text *reterr);

#endif
