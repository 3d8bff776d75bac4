/* sqlite.h - the embedded store: one SQLite file, many processes on one host, no server.
 *
 * It is an authority with the rules of core/lease_table.h: same operations in, same answers out,
 * each one transaction, so that every process sees one order of events. The class is strict: what
 * was answered is on the disk. docs/stores/sqlite.md has the guarantees and what is refused.
 *
 * What differs from the lease table, because a caller may be a script that is gone between steps:
 *   ACQUIRE  with a @ttl opens its session in the same step (or renews it when it exists). Such a
 *            session belongs to this one term and ends with its release; when the answer is
 *            neither GRANTED nor QUEUED, it was not opened.
 *   RENEW    with a @name demands that @term holds @name under @token: else STALE or DENIED.
 *   RELEASE  said again is RELEASED until the next release of that name, also when the session is
 *            over or the lease has passed on. An expired term is STALE, a wrong secret DENIED.
 *   seq 0    is newer than all before: a synchronous call cannot be overtaken.
 *   A waiter learns of its grant by asking again; there are no
 *   notices: a renewal's answer says only how many leases the session has.
 *
 * The same file behind the runtime's interface, with notices and without ever waiting for others,
 * is tn_sqlite_store_ops.
 *
 * Threads: one at a time per store; another thread opens its own. Not usable in a forked child.
 * Blocks for the disk, and while others are in a transaction up to the bound given to open. */
#ifndef TN_STORES_SQLITE_SQLITE_H
#define TN_STORES_SQLITE_SQLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"
#include "base/text.h"
#include "core/lease_table.h"
#include "runtime/clock.h"
#include "runtime/store.h"
#include "tenure/error.h"

#define TN_SQLITE_BUSY TN_SEC(5)

extern const struct tn_store_ops tn_sqlite_store_ops;

struct tn_sqlite;

struct tn_sqlite_options {
    const struct tn_clock *clock; /* Copied. */
    bool create;                  /* Make the file if there is none. */
    tenure_ns busy; /* Wait this long for others; 0: TN_SQLITE_BUSY; negative: do not wait. */
};

/* A name as others may know it. */
struct tn_sqlite_lease {
    char name[TN_NAME_MAX + 1];
    char label[TN_LABEL_MAX + 1]; /* Of the holder; any bytes, and a zero behind them. */
    uint32_t label_len;
    bool held;
    bool revoked;   /* Taken away, and not given back yet. */
    uint64_t token; /* When free: the last one, 0 if there was none. */
    tenure_ns ttl;
    tenure_ns remaining;
    uint64_t beat;         /* Rises with every renewal of the holder. */
    struct tn_secret term; /* Of the holder, as it is stored. */
};

struct tn_sqlite_result {
    enum tn_answer answer;
    tenure_ns ttl;                /* OPEN, RENEW, and ACQUIRE with a @ttl. */
    uint32_t held;                /* OPEN, RENEW: how many leases the session has. */
    int64_t session;              /* Its number, if it exists. */
    struct tn_sqlite_lease lease; /* Operations with a name: as the step left it. */
};

/* The path of the file that "sqlite:@rest" names; for the default store, and with @create, its
 * folders are made. @ret_path: PATH_MAX bytes. Errors:
 * TENURE_E_INVALID     @reterr says what is wrong with the URL, to be put behind it;
 * TENURE_E_UNSUPPORTED there is no home directory; @reterr stands alone. */
TENURE_MUST_USE int tn_sqlite_path(const char *rest, bool create, char *ret_path,
                                   struct tn_text *reterr);

/* Open the store at @path. The result is freed by tn_sqlite_close. Errors, told in @reterr:
 * TENURE_E_NOT_HELD    there is no file, and @options does not ask to create it;
 * TENURE_E_DENIED      a symbolic link, another user's file, or no permission;
 * TENURE_E_DAMAGED     not a Tenure database, or a damaged one; the file was not touched;
 * TENURE_E_UNSUPPORTED a newer schema, or a network filesystem;
 * TENURE_E_INVALID     not the path of a file;
 * TENURE_E_UNAVAILABLE, TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_sqlite_open(const char *path, const struct tn_sqlite_options *options,
                                   struct tn_sqlite **ret_store, struct tn_text *reterr);

/* Takes NULL. */
void tn_sqlite_close(struct tn_sqlite *store);

/* Take one operation: all of it or nothing. Names must have passed tn_name_check; labels have at
 * most TN_LABEL_MAX bytes. On error @ret_result is unchanged and @reterr says why:
 * TENURE_E_UNAVAILABLE nothing happened: full disk, I/O error, busy for too long, file gone;
 * TENURE_E_TIMEOUT     the commit failed half-way, it may have happened: ask again;
 * TENURE_E_DAMAGED, TENURE_E_UNSUPPORTED, TENURE_E_NOMEM nothing happened. */
TENURE_MUST_USE int tn_sqlite_step(struct tn_sqlite *store, const struct tn_op *op,
                                   struct tn_sqlite_result *ret_result, struct tn_text *reterr);

/* All names that begin with @prefix, sorted, as of one instant. The caller frees the array.
 * Errors as tn_sqlite_step. */
TENURE_MUST_USE int tn_sqlite_list(struct tn_sqlite *store, const char *prefix,
                                   struct tn_sqlite_lease **ret_leases, size_t *ret_count,
                                   struct tn_text *reterr);

/* Remove what is on record of the free names that begin with @prefix. Errors as tn_sqlite_step. */
TENURE_MUST_USE int tn_sqlite_forget(struct tn_sqlite *store, const char *prefix,
                                     struct tn_text *reterr);

#endif
