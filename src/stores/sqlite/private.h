/* private.h - what the files of the SQLite store share: statements, errors, transactions.
 *
 * Errors are sticky within a transaction: after the first one every statement does nothing and
 * finds nothing, and the end of the transaction rolls back. So the rules read as rules. */
#ifndef TN_STORES_SQLITE_PRIVATE_H
#define TN_STORES_SQLITE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>

#include "base/prng.h"
#include "base/secret.h"
#include "runtime/store_frame.h"
#include "stores/sqlite/sqlite.h"

#define TN_SQLITE_APPLICATION 0x746e7572 /* "tnur" */
#define TN_SQLITE_SCHEMA 3

/* Terms of the history: of one name, and of all. */
enum { TN_SQLITE_TERMS = 100, TN_SQLITE_TERMS_ALL = 20000 };

enum tn_sql {
    TN_SQL_BEGIN,
    TN_SQL_BEGIN_READ,
    TN_SQL_COMMIT,
    TN_SQL_ROLLBACK,
    TN_SQL_ADOPT,
    TN_SQL_ADOPT_REVOKED,
    TN_SQL_EXPIRED,
    TN_SQL_SESSION_FIND,
    TN_SQL_SESSION_ADD,
    TN_SQL_SESSION_SEQ,
    TN_SQL_SESSION_DROP,
    TN_SQL_SESSION_LEASE,
    TN_SQL_SESSION_HELD,
    TN_SQL_SESSION_SECRET,
    TN_SQL_SESSION_REVOKED,
    TN_SQL_SESSION_SINCE,
    TN_SQL_SESSION_WAITS,
    TN_SQL_SESSION_DUE,
    TN_SQL_SESSION_DUE_REVOKED,
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
    TN_SQL_BESIDE,
    TN_SQL_FORGET,
    TN_SQL_LEASE_FALL,
    TN_SQL_SOFT_FIND,
    TN_SQL_SOFT_SET,
    TN_SQL_SOFT_REST,
    TN_SQL_SOFT_DROP,
    TN_SQL_SESSION_RENAME,
    TN_SQL_WAITERS,
    TN_SQL_WAITER_FIND,
    TN_SQL_WAITER_ADD,
    TN_SQL_WAITER_FIRST,
    TN_SQL_WAITER_DROP,
    TN_SQL_REVOKED_FIND,
    TN_SQL_REVOKED_SET,
    TN_SQL_REVOKED_DROP,
    TN_SQL_REVOKED_FORGET,
    TN_SQL_REVOKED_DUE,
    TN_SQL_TOKEN_READ,
    TN_SQL_TOKEN_SET,
    TN_SQL_HISTORY_BEGIN,
    TN_SQL_HISTORY_END,
    TN_SQL_HISTORY_TRIM,
    TN_SQL_HISTORY_TRIM_ALL,
    TN_SQL_HISTORY_READ,
    TN_SQL_HISTORY_SINCE,
    TN_SQL_HISTORY_FORGET,
    TN_SQL_COUNT
};

/* The bell: a slot per few sessions, then a slot per few names; bell.c. */
enum { TN_BELL_HALF = 512, TN_BELL_SLOTS = 2 * TN_BELL_HALF };

struct tn_bell_page {
    char magic[8];
    uint64_t slots[TN_BELL_SLOTS];
};

/* What the rules do to a session beside answering: its turn came, or its lease was revoked. Called
 * inside the transaction, which may still fail. */
typedef void tn_sqlite_hears(void *arg, bool revoked, int64_t session, const char *name,
                             const struct tn_secret *term, uint64_t token);

struct tn_sqlite {
    sqlite3 *db; /* NULL: not connected. */
    struct tn_clock clock;
    struct tn_prng prng;
    tenure_ns now;          /* Of the transaction: read after it began, so that waiting counts. */
    int failed;             /* The first SQLite error of the transaction. */
    bool was_busy;          /* The last error came from the transaction of another. */
    bool has_moved;         /* The last error came from a file that is no longer there. */
    bool adopted;           /* Sessions of other clocks have a deadline on ours. */
    bool ring;              /* There is something in @rung. */
    tn_sqlite_hears *hears; /* NULL: nobody. */
    void *arg;
    sqlite3_stmt *statements[TN_SQL_COUNT];
    bool rung[TN_BELL_SLOTS]; /* Slots of the bell to be changed after the commit. */
    char path[PATH_MAX];
};

struct tn_sqlite_result {
    enum tn_answer answer;
    tenure_ns ttl;               /* OPEN, RENEW. */
    uint32_t held;               /* OPEN, RENEW: how many leases the session has. */
    int64_t session;             /* Its number, if it exists. */
    struct tn_store_lease lease; /* Operations with a name: as the step left it. */
};

extern const char tn_sqlite_schema[];
/* From schema 1 to 2; what a new store begins with as well. */
extern const char tn_sqlite_schema_2[];
extern const char tn_sqlite_schema_3[];
/* The history of terms, and soft limits: added when one is missing, whatever the version. */
extern const char tn_sqlite_schema_history[];

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
/* For reading only: disturbs nobody but who commits at that moment. */
TENURE_MUST_USE int tn_sql_begin_read(struct tn_sqlite *store, struct tn_text *reterr);
/* Commit, or roll back after an error or with @status < 0, which is then returned. TN_SQL_AGAIN:
 * readers are in the way, and the transaction is still open. */
#define TN_SQL_AGAIN 1
TENURE_MUST_USE int tn_sql_end(struct tn_sqlite *store, int status, struct tn_text *reterr);
/* The same, but readers in the way are a failure: nothing has happened. */
TENURE_MUST_USE int tn_sql_end_now(struct tn_sqlite *store, int status, struct tn_text *reterr);
void tn_sql_roll_back(struct tn_sqlite *store);
/* Readers have been in the way for too long. Returns the code. */
int tn_sql_give_up(struct tn_sqlite *store, struct tn_text *reterr);

/* The rules, inside a transaction. The operation was checked. */
void tn_sqlite_apply(struct tn_sqlite *store, const struct tn_op *op,
                     struct tn_sqlite_result *ret_result);
/* Read @name without changing anything. False: something is due first, apply a READ or a TICK. */
bool tn_sqlite_peek(struct tn_sqlite *store, const char *name, struct tn_sqlite_result *ret_result);
/* Carry out all that is due, on every name. */
void tn_sqlite_settle(struct tn_sqlite *store);
/* The row that @sql stands on, as others may know it. */
void tn_sqlite_read_view(struct tn_sqlite *store, enum tn_sql sql,
                         struct tn_store_lease *ret_lease);
/* Told through @hears: leases of session @id that are revoked. */
void tn_sqlite_tell_revoked(struct tn_sqlite *store, int64_t id);
/* When a lease that session @id waits for may become free without anybody's doing; TN_NEVER. */
tenure_ns tn_sqlite_due_at(struct tn_sqlite *store, int64_t id);

/* Add all names that begin with the query's prefix, or its one line, as of one instant; a
 * transaction, as are the next two. */
TENURE_MUST_USE int tn_sqlite_list(struct tn_sqlite *store, struct tn_store_query *query,
                                   struct tn_text *reterr);
/* Remove what is on record of the free names that begin with @prefix. */
TENURE_MUST_USE int tn_sqlite_forget(struct tn_sqlite *store, const char *prefix,
                                     struct tn_text *reterr);
/* The terms of @name, as runtime/terms.h writes them, for the caller to free. */
TENURE_MUST_USE int tn_sqlite_history(struct tn_sqlite *store, const char *name, char **ret_json,
                                      size_t *ret_len, struct tn_text *reterr);

/* What there is to say about SQLite's @rc; and the code and the line for it. */
const char *tn_sql_detail(const struct tn_sqlite *store, int rc);
int tn_sql_error(const char *path, int rc, const char *detail, struct tn_text *reterr);

/* Refuse what must not be opened; TENURE_E_NOT_HELD when there is nothing. */
TENURE_MUST_USE int tn_sqlite_check(const char *path, struct tn_text *reterr);
/* Make an empty store at @path, unless another process is faster. */
TENURE_MUST_USE int tn_sqlite_create(const char *path, struct tn_text *reterr);
/* The full path, with only the last part possibly a symbolic link. @ret_path: PATH_MAX bytes. */
TENURE_MUST_USE int tn_sqlite_resolve(const char *path, char *ret_path, struct tn_text *reterr);

/* The object without its connection; freed by tn_sqlite_close. The clock is copied. */
TENURE_MUST_USE int tn_sqlite_new(const char *path, const struct tn_clock *clock,
                                  struct tn_sqlite **ret_store, struct tn_text *reterr);
void tn_sqlite_close(struct tn_sqlite *store); /* Takes NULL. */
/* Check the file, and open it; errors as tn_sqlite_store_ops. */
TENURE_MUST_USE int tn_sqlite_connect(struct tn_sqlite *store, bool create, struct tn_text *reterr);
void tn_sqlite_disconnect(struct tn_sqlite *store);

/* Note whom the transaction concerns, and tell them once it is committed. */
unsigned tn_bell_session_slot(const struct tn_secret *session_hash);
unsigned tn_bell_name_slot(const char *name);
void tn_bell_note(struct tn_sqlite *store, unsigned slot);
void tn_sqlite_ring(struct tn_sqlite *store);

/* Who listens: a descriptor of the bell and one of inotify. */
struct tn_bell {
    int file;
    int watch;
};
/* Begin, or begin again after the bell was removed. False: there is no bell to be had now. */
bool tn_bell_listen(const struct tn_sqlite *store, struct tn_bell *bell);
void tn_bell_done(struct tn_bell *bell);
/* Forget what @watch has to tell; true: the file is no longer the one with that name. */
bool tn_bell_drain(struct tn_bell *bell);
/* The page as it is; a bell that is short or was rung by a version without slots reads as one in
 * which everything moved. */
void tn_bell_read(struct tn_sqlite *store, const struct tn_bell *bell,
                  struct tn_bell_page *ret_page);

#endif
