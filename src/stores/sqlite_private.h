/* sqlite_private.h - what the files of the SQLite store share: statements, errors, transactions.
 *
 * Errors are sticky within a transaction: after the first one every statement does nothing and
 * finds nothing, and the end of the transaction rolls back. So the rules read as rules. */
#ifndef TN_STORES_SQLITE_PRIVATE_H
#define TN_STORES_SQLITE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>

#include "base/secret.h"
#include "stores/sqlite.h"

#define TN_SQLITE_APPLICATION 0x746e7572 /* "tnur" */
#define TN_SQLITE_SCHEMA 1

enum tn_sql {
    TN_SQL_BEGIN,
    TN_SQL_COMMIT,
    TN_SQL_ROLLBACK,
    TN_SQL_ADOPT,
    TN_SQL_EXPIRED,
    TN_SQL_SESSION_FIND,
    TN_SQL_SESSION_ADD,
    TN_SQL_SESSION_SEQ,
    TN_SQL_SESSION_DROP,
    TN_SQL_SESSION_LEASE,
    TN_SQL_SESSION_WAITERS_DROP,
    TN_SQL_DEADLINE_FIND,
    TN_SQL_DEADLINE_SET,
    TN_SQL_DEADLINES_DROP,
    TN_SQL_LEASE_FIND,
    TN_SQL_LEASE_ADD,
    TN_SQL_LEASE_GRANT,
    TN_SQL_LEASE_EXPIRE,
    TN_SQL_LEASE_RELEASE,
    TN_SQL_LEASE_VIEW,
    TN_SQL_LIST,
    TN_SQL_WAITER_FIND,
    TN_SQL_WAITER_ADD,
    TN_SQL_WAITER_FIRST,
    TN_SQL_WAITER_DROP,
    TN_SQL_TOKEN_READ,
    TN_SQL_TOKEN_SET,
    TN_SQL_COUNT
};

struct tn_sqlite {
    sqlite3 *db;
    struct tn_clock clock;
    tenure_ns busy;
    tenure_ns busy_since;
    tenure_ns now; /* Of the transaction: read after it began, so that waiting counts. */
    int failed;    /* The first SQLite error of the transaction. */
    bool adopted;  /* Sessions of other clocks have a deadline on ours. */
    bool ring;     /* A waiter was granted a lease. */
    sqlite3_stmt *statements[TN_SQL_COUNT];
    char path[PATH_MAX];
};

extern const char tn_sqlite_schema[];

/* Bind and take one step. @format has a letter per argument: i int64_t, t const char *, s const
 * struct tn_secret *, b const char * and size_t as one blob. True: there is a row, to be read with
 * tn_sql_i64 and the like until the statement's next use. */
bool tn_sql_step(struct tn_sqlite *store, enum tn_sql sql, const char *format, ...);
bool tn_sql_next(struct tn_sqlite *store, enum tn_sql sql);
int64_t tn_sql_i64(const struct tn_sqlite *store, enum tn_sql sql, int column);
bool tn_sql_is_null(const struct tn_sqlite *store, enum tn_sql sql, int column);
/* False when the column does not hold exactly one secret. */
bool tn_sql_secret(const struct tn_sqlite *store, enum tn_sql sql, int column,
                   struct tn_secret *ret_secret);
/* At most @size - 1 bytes and a zero; returns the length. */
uint32_t tn_sql_bytes(const struct tn_sqlite *store, enum tn_sql sql, int column, char *buf,
                      size_t size);

/* The file contradicts itself; the transaction will fail with DAMAGED. */
void tn_sql_damaged(struct tn_sqlite *store);

TENURE_MUST_USE int tn_sql_begin(struct tn_sqlite *store, struct tn_text *reterr);
/* Commit, or roll back after an error or with @status < 0, which is then returned. */
TENURE_MUST_USE int tn_sql_end(struct tn_sqlite *store, int status, struct tn_text *reterr);

/* The code and the line for SQLite's @rc. */
int tn_sql_error(const char *path, int rc, const char *detail, struct tn_text *reterr);

/* For sqlite3_busy_handler; its argument is the store. */
int tn_sql_wait(void *arg, int count);

/* Refuse what must not be opened; TENURE_E_NOT_HELD when there is nothing. */
TENURE_MUST_USE int tn_sqlite_check(const char *path, struct tn_text *reterr);
/* Make an empty store at @path, unless another process is faster. */
TENURE_MUST_USE int tn_sqlite_create(const char *path, struct tn_text *reterr);
/* The full path, with only the last part possibly a symbolic link. @ret_path: PATH_MAX bytes. */
TENURE_MUST_USE int tn_sqlite_resolve(const char *path, char *ret_path, struct tn_text *reterr);

/* Tell those who watch. */
void tn_sqlite_ring(const struct tn_sqlite *store);

#endif
