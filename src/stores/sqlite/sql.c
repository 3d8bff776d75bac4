/* sql.c - the schema, the statements, and how SQLite's errors are told.
 *
 * Every transaction is BEGIN IMMEDIATE: it has the right to write from its start, so it never has
 * to begin again, and what it read cannot change under it. Without a write there is no flush. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "runtime/sole_file.h"
#include "runtime/sqlite_vfs.h"
#include "stores/sqlite/private.h"

/* A lease is held when it has a session. What the last release gave back is kept beside it, so
 * that the release may be said again. A session has a deadline per clock that has looked at it:
 * its own clock's from the renewal, another clock's a full TTL after that clock's first look; a
 * renewal drops them all. Sessions are numbered for ever (AUTOINCREMENT): a number that came back
 * would hand one session's leases to another. */
const char tn_sqlite_schema[] =
    "CREATE TABLE counter (id INTEGER PRIMARY KEY CHECK (id = 1), token INTEGER NOT NULL);"
    "INSERT INTO counter VALUES (1, 0);"
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, secret BLOB NOT NULL UNIQUE,"
    " label BLOB NOT NULL, ttl_ns INTEGER NOT NULL CHECK (ttl_ns > 0), seq INTEGER NOT NULL,"
    " one_shot INTEGER NOT NULL);"
    "CREATE TABLE deadlines (session INTEGER NOT NULL, clock TEXT NOT NULL,"
    " expires_at INTEGER NOT NULL, PRIMARY KEY (session, clock)) WITHOUT ROWID;"
    "CREATE INDEX deadlines_due ON deadlines (clock, expires_at);"
    "CREATE TABLE leases (name TEXT PRIMARY KEY, token INTEGER NOT NULL, session INTEGER, term "
    "BLOB,"
    " released_token INTEGER, released_term BLOB) WITHOUT ROWID;"
    "CREATE INDEX leases_held ON leases (session) WHERE session IS NOT NULL;"
    "CREATE TABLE waiters (place INTEGER PRIMARY KEY, name TEXT NOT NULL, session INTEGER NOT NULL,"
    " term BLOB NOT NULL, UNIQUE (name, session, term));"
    "CREATE INDEX waiters_queue ON waiters (name, place);"
    "CREATE INDEX waiters_session ON waiters (session);";

/* A revoked lease is held off until its row of the looking clock is due. The row names the token,
 * so that one left behind, by whatever, says nothing about the next term. The index finds what a
 * session was granted since a token. */
const char tn_sqlite_schema_2[] =
    "CREATE TABLE revoked (name TEXT NOT NULL, token INTEGER NOT NULL, clock TEXT NOT NULL,"
    " free_at INTEGER NOT NULL, PRIMARY KEY (name, clock)) WITHOUT ROWID;"
    "CREATE INDEX revoked_due ON revoked (clock, free_at);"
    "DROP INDEX leases_held;"
    "CREATE INDEX leases_held ON leases (session, token) WHERE session IS NOT NULL;";

/* Whoever deletes a lease that is held revokes it. The row is of no clock, and so is counted from
 * when one looks. */
const char tn_sqlite_schema_3[] =
    "CREATE TRIGGER leases_kept BEFORE DELETE ON leases "
    "WHEN OLD.session IN (SELECT id FROM sessions) BEGIN "
    "INSERT OR REPLACE INTO revoked VALUES (OLD.name, OLD.token, '', 0); "
    "SELECT RAISE(IGNORE); END;";

/* The terms that were, for people: no rule reads it. Versions that do not know it leave it alone,
 * so the version of the schema stays: a file may be used by this version and by those before it.
 * The row of token 0 says since when there is a history. Soft limits are beside it: what was taken
 * over early is held by a session like any other, so older versions need not know. */
const char tn_sqlite_schema_history[] =
    "CREATE TABLE IF NOT EXISTS history (token INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " label BLOB NOT NULL, ttl_ms INTEGER NOT NULL, began_ms INTEGER NOT NULL, ended_ms INTEGER,"
    " heard_ms INTEGER, why INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS history_name ON history (name, token);"
    "INSERT OR IGNORE INTO history VALUES (0, '', '', 0,"
    " CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), NULL, NULL, 0);"
    "CREATE TABLE IF NOT EXISTS soft (session INTEGER PRIMARY KEY, limit_ns INTEGER NOT NULL,"
    " fences BLOB NOT NULL, name TEXT, rest INTEGER);";

#define VIEW                                                                              \
    "SELECT l.name, l.token, l.session, s.label, s.ttl_ns, d.expires_at, l.term, s.seq, " \
    "EXISTS (SELECT 1 FROM revoked r WHERE r.name = l.name AND r.token = l.token) "       \
    "FROM leases l "                                                                      \
    "LEFT JOIN sessions s ON s.id = l.session "                                           \
    "LEFT JOIN deadlines d ON d.session = s.id AND d.clock = ?1 "

static const char *const texts[TN_SQL_COUNT] = {
    [TN_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [TN_SQL_BEGIN_READ] = "BEGIN",
    [TN_SQL_COMMIT] = "COMMIT",
    [TN_SQL_ROLLBACK] = "ROLLBACK",
    [TN_SQL_ADOPT] =
        "INSERT INTO deadlines SELECT id, ?1, ?2 + ttl_ns FROM sessions WHERE id NOT IN "
        "(SELECT session FROM deadlines WHERE clock = ?1)",
    [TN_SQL_ADOPT_REVOKED] =
        "INSERT OR IGNORE INTO revoked SELECT r.name, r.token, ?1, ?2 + s.ttl_ns FROM revoked r "
        "CROSS JOIN leases l ON l.name = r.name AND l.token = r.token "
        "JOIN sessions s ON s.id = l.session",
    [TN_SQL_EXPIRED] =
        "SELECT session FROM deadlines WHERE clock = ?1 AND expires_at <= ?2 LIMIT 1",
    [TN_SQL_SESSION_FIND] = "SELECT id, ttl_ns, seq FROM sessions WHERE secret = ?1",
    [TN_SQL_SESSION_ADD] = "INSERT INTO sessions (secret, label, ttl_ns, seq, one_shot) "
                           "VALUES (?1, ?2, ?3, 0, 0)", /* No version reads the last one. */
    [TN_SQL_SESSION_SEQ] = "UPDATE sessions SET seq = ?2 WHERE id = ?1",
    [TN_SQL_SESSION_DROP] = "DELETE FROM sessions WHERE id = ?1",
    [TN_SQL_SESSION_LEASE] = "SELECT name FROM leases WHERE session = ?1 LIMIT 1",
    [TN_SQL_SESSION_HELD] = "SELECT count(*) FROM leases WHERE session = ?1",
    [TN_SQL_SESSION_SECRET] = "SELECT secret FROM sessions WHERE id = ?1",
    [TN_SQL_SESSION_REVOKED] = "SELECT DISTINCT l.name, l.token, l.term FROM revoked r "
                               "CROSS JOIN leases l ON l.name = r.name AND l.token = r.token "
                               "WHERE l.session = ?1",
    [TN_SQL_SESSION_SINCE] = "SELECT name, token, term FROM leases WHERE session = ?1 "
                             "AND token > ?2 ORDER BY token",
    [TN_SQL_SESSION_WAITS] = "SELECT 1 FROM waiters WHERE session = ?1 LIMIT 1",
    [TN_SQL_SESSION_DUE] = "SELECT min(coalesce(d.expires_at, 0)) FROM "
                           "(SELECT DISTINCT l.session AS holder FROM waiters w "
                           "CROSS JOIN leases l ON l.name = w.name "
                           "WHERE w.session = ?1 AND l.session IS NOT NULL) "
                           "LEFT JOIN deadlines d ON d.session = holder AND d.clock = ?2",
    [TN_SQL_SESSION_DUE_REVOKED] = "SELECT min(r.free_at) FROM revoked r CROSS JOIN waiters w "
                                   "ON w.name = r.name AND w.session = ?1 WHERE r.clock = ?2",
    [TN_SQL_SESSION_WAITERS_DROP] = "DELETE FROM waiters WHERE session = ?1",
    [TN_SQL_DEADLINE_FIND] = "SELECT d.expires_at, s.ttl_ns FROM sessions s LEFT JOIN deadlines d "
                             "ON d.session = s.id AND d.clock = ?2 WHERE s.id = ?1",
    [TN_SQL_DEADLINE_SET] = "INSERT OR REPLACE INTO deadlines VALUES (?1, ?2, ?3)",
    [TN_SQL_DEADLINES_DROP] = "DELETE FROM deadlines WHERE session = ?1",
    [TN_SQL_LEASE_FIND] = "SELECT token, session, term, released_token, released_term "
                          "FROM leases WHERE name = ?1",
    [TN_SQL_LEASE_ADD] = "INSERT INTO leases (name, token) VALUES (?1, 0)",
    [TN_SQL_LEASE_GRANT] = "UPDATE leases SET token = ?2, session = ?3, term = ?4 WHERE name = ?1",
    [TN_SQL_LEASE_EXPIRE] = "UPDATE leases SET session = NULL WHERE name = ?1",
    [TN_SQL_LEASE_RELEASE] = "UPDATE leases SET session = NULL, released_token = token, "
                             "released_term = term WHERE name = ?1",
    [TN_SQL_LEASE_VIEW] = VIEW "WHERE l.name = ?2",
    [TN_SQL_LIST] = VIEW "WHERE l.name >= ?2 AND l.name < ?3 ORDER BY l.name",
    [TN_SQL_BESIDE] = "SELECT (SELECT began_ms FROM history WHERE token = ?2 AND name = ?1), "
                      "(SELECT count(*) FROM waiters WHERE name = ?1)",
    [TN_SQL_FORGET] = "DELETE FROM leases WHERE name >= ?1 AND name < ?2 AND session IS NULL "
                      "AND NOT EXISTS (SELECT 1 FROM waiters w WHERE w.name = leases.name)",
    [TN_SQL_LEASE_FALL] = "UPDATE leases SET session = ?2, term = ?3 WHERE name = ?1",
    [TN_SQL_SOFT_FIND] = "SELECT limit_ns, fences, name, rest FROM soft WHERE session = ?1",
    [TN_SQL_SOFT_SET] = "INSERT INTO soft VALUES (?1, ?2, ?3, NULL, NULL) "
                        "ON CONFLICT (session) DO UPDATE SET limit_ns = ?2, fences = ?3",
    [TN_SQL_SOFT_REST] = "UPDATE soft SET name = ?2, rest = ?3 WHERE session = ?1",
    [TN_SQL_SOFT_DROP] = "DELETE FROM soft WHERE session = ?1",
    [TN_SQL_SESSION_RENAME] = "UPDATE sessions SET secret = ?2 WHERE id = ?1",
    [TN_SQL_WAITER_FIND] =
        "SELECT place FROM waiters WHERE name = ?1 AND session = ?2 AND term = ?3",
    [TN_SQL_WAITERS] = "SELECT s.label FROM waiters w JOIN sessions s ON s.id = w.session "
                       "WHERE w.name = ?1 ORDER BY w.place",
    [TN_SQL_WAITER_ADD] = "INSERT INTO waiters (name, session, term) VALUES (?1, ?2, ?3)",
    [TN_SQL_WAITER_FIRST] = "SELECT place, session, term FROM waiters WHERE name = ?1 "
                            "ORDER BY place LIMIT 1",
    [TN_SQL_WAITER_DROP] = "DELETE FROM waiters WHERE place = ?1",
    [TN_SQL_REVOKED_FIND] = "SELECT free_at, clock = ?3 FROM revoked WHERE name = ?1 "
                            "AND token = ?2 ORDER BY clock = ?3 DESC LIMIT 1",
    [TN_SQL_REVOKED_SET] = "INSERT OR REPLACE INTO revoked VALUES (?1, ?2, ?3, ?4)",
    [TN_SQL_REVOKED_DROP] = "DELETE FROM revoked WHERE name = ?1",
    [TN_SQL_REVOKED_FORGET] = "DELETE FROM revoked WHERE name = ?1 AND clock = ?2",
    [TN_SQL_REVOKED_DUE] = "SELECT name FROM revoked WHERE clock = ?1 AND free_at <= ?2 LIMIT 1",
    [TN_SQL_HISTORY_BEGIN] =
        "INSERT OR REPLACE INTO history SELECT ?2, ?1, label, ttl_ns / 1000000, ?3, NULL, NULL, 0 "
        "FROM sessions WHERE id = ?4",
    /* A revocation stays one, however its holder leaves. */
    [TN_SQL_HISTORY_END] =
        "UPDATE history SET ended_ms = max(?2, began_ms), heard_ms = max(?3, began_ms), "
        "why = CASE WHEN EXISTS (SELECT 1 FROM revoked r WHERE r.name = ?1 "
        "AND r.token = history.token) THEN ?5 ELSE ?4 END "
        "WHERE token = (SELECT token FROM leases WHERE name = ?1) AND why = 0",
    [TN_SQL_HISTORY_TRIM] =
        "DELETE FROM history WHERE name = ?1 AND token < "
        "(SELECT token FROM history WHERE name = ?1 ORDER BY token DESC LIMIT 1 OFFSET ?2)",
    [TN_SQL_HISTORY_TRIM_ALL] =
        "DELETE FROM history WHERE token IN (SELECT token FROM history WHERE why > 0 "
        "ORDER BY token LIMIT max(0, (SELECT count(*) FROM history) - ?1))",
    [TN_SQL_HISTORY_READ] = "SELECT token, label, ttl_ms, began_ms, ended_ms, heard_ms, why "
                            "FROM history WHERE name = ?1 AND token > 0 ORDER BY token",
    [TN_SQL_HISTORY_SINCE] = "SELECT began_ms FROM history WHERE token = 0",
    [TN_SQL_HISTORY_FORGET] = "DELETE FROM history WHERE name >= ?1 AND name < ?2 AND token > 0 "
                              "AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = history.name)",
    [TN_SQL_TOKEN_READ] = "SELECT token FROM counter WHERE id = 1",
    [TN_SQL_TOKEN_SET] = "UPDATE counter SET token = ?1 WHERE id = 1",
};

/* --- Errors --------------------------------------------------------------------------------- */

static const struct {
    int sqlite;
    int tenure;
    const char *text;
} causes[] = {
    { SQLITE_BUSY, TENURE_E_UNAVAILABLE, "another process keeps the file busy" },
    { SQLITE_LOCKED, TENURE_E_UNAVAILABLE, "another process keeps the file busy" },
    { SQLITE_FULL, TENURE_E_UNAVAILABLE, "the disk is full" },
    { SQLITE_IOERR, TENURE_E_UNAVAILABLE, "input/output error" },
    { SQLITE_READONLY, TENURE_E_UNAVAILABLE, "the file or its directory is read-only" },
    { SQLITE_CANTOPEN, TENURE_E_UNAVAILABLE, "the file cannot be opened" },
    { SQLITE_PERM, TENURE_E_DENIED, "no permission" },
    { SQLITE_AUTH, TENURE_E_DENIED, "no permission" },
    { SQLITE_NOMEM, TENURE_E_NOMEM, "out of memory" },
};

int tn_sql_error(const char *path, int rc, const char *detail, struct tn_text *reterr)
{
    int code = TENURE_E_DAMAGED;
    const char *text = "the database is damaged";

    if ((rc & 0xff) == SQLITE_PERM && tn_sqlite_vfs_refusal(reterr))
        return TENURE_E_DENIED;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        if (causes[i].sqlite == (rc & 0xff)) {
            code = causes[i].tenure;
            text = causes[i].text;
        }
    }
    tn_text_escape(reterr, path, strlen(path));
    tn_text_addf(reterr, ": %s", text);
    if (detail != NULL)
        tn_text_addf(reterr, " (%s)", detail);
    return code;
}

const char *tn_sql_detail(const struct tn_sqlite *store, int rc)
{
    /* What SQLite has to say is more exact when its last error is this one. */
    if (store->db != NULL && sqlite3_extended_errcode(store->db) == rc)
        return sqlite3_errmsg(store->db);
    return sqlite3_errstr(rc);
}

/* --- Statements ----------------------------------------------------------------------------- */

static sqlite3_stmt *prepare(struct tn_sqlite *store, enum tn_sql sql)
{
    sqlite3_stmt **statement = &store->statements[sql];

    if (*statement == NULL && store->failed == 0) {
        store->failed = sqlite3_prepare_v3(store->db, texts[sql], -1, SQLITE_PREPARE_PERSISTENT,
                                           statement, NULL);
        if (store->failed != 0)
            *statement = NULL;
    }
    return store->failed == 0 ? *statement : NULL;
}

/* All that is bound lives until the statement was stepped. */
static int bind_value(sqlite3_stmt *statement, int at, char letter, va_list *args)
{
    if (letter == 'i')
        return sqlite3_bind_int64(statement, at, va_arg(*args, int64_t));
    if (letter == 't')
        return sqlite3_bind_text(statement, at, va_arg(*args, const char *), -1, SQLITE_TRANSIENT);
    if (letter == 's') {
        const struct tn_secret *secret = va_arg(*args, const struct tn_secret *);
        return sqlite3_bind_blob(statement, at, secret->bytes, sizeof secret->bytes,
                                 SQLITE_TRANSIENT);
    }
    TN_ASSERT(letter == 'b');
    const char *bytes = va_arg(*args, const char *);
    size_t len = va_arg(*args, size_t);
    TN_ASSERT(len <= TN_LABEL_MAX);
    return sqlite3_bind_blob(statement, at, len > 0 ? bytes : "", (int)len, SQLITE_TRANSIENT);
}

bool tn_sql_next(struct tn_sqlite *store, enum tn_sql sql)
{
    if (store->failed != 0)
        return false;
    int rc = sqlite3_step(store->statements[sql]);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        store->failed = rc;
    if (rc != SQLITE_ROW)
        (void)sqlite3_reset(store->statements[sql]);
    return rc == SQLITE_ROW;
}

bool tn_sql_step(struct tn_sqlite *store, enum tn_sql sql, const char *format, ...)
{
    sqlite3_stmt *statement = prepare(store, sql);
    va_list args;

    if (statement == NULL)
        return false;
    (void)sqlite3_reset(statement);
    va_start(args, format);
    for (int i = 0; format[i] != '\0' && store->failed == 0; i++)
        store->failed = bind_value(statement, i + 1, format[i], &args);
    va_end(args);
    return tn_sql_next(store, sql);
}

int64_t tn_sql_i64(const struct tn_sqlite *store, enum tn_sql sql, int column)
{
    return sqlite3_column_int64(store->statements[sql], column);
}

bool tn_sql_is_null(const struct tn_sqlite *store, enum tn_sql sql, int column)
{
    return sqlite3_column_type(store->statements[sql], column) == SQLITE_NULL;
}

bool tn_sql_secret(const struct tn_sqlite *store, enum tn_sql sql, int column,
                   struct tn_secret *ret_secret)
{
    const void *blob = sqlite3_column_blob(store->statements[sql], column);

    if (blob == NULL ||
        sqlite3_column_bytes(store->statements[sql], column) != (int)sizeof ret_secret->bytes)
        return false;
    memcpy(ret_secret->bytes, blob, sizeof ret_secret->bytes);
    return true;
}

uint32_t tn_sql_bytes(const struct tn_sqlite *store, enum tn_sql sql, int column, char *buf,
                      size_t size)
{
    const void *blob = sqlite3_column_blob(store->statements[sql], column);
    size_t len = blob != NULL ? (size_t)sqlite3_column_bytes(store->statements[sql], column) : 0;

    TN_ASSERT(size > 0);
    len = len < size ? len : size - 1;
    if (len > 0)
        memcpy(buf, blob, len);
    buf[len] = '\0';
    return (uint32_t)len;
}

void tn_sql_damaged(struct tn_sqlite *store)
{
    if (store->failed == 0)
        store->failed = SQLITE_CORRUPT;
}

/* --- Transactions --------------------------------------------------------------------------- */

/* A statement that still stands on a row would keep the file locked. */
static void reset_all(struct tn_sqlite *store)
{
    for (int i = 0; i < TN_SQL_COUNT; i++) {
        if (store->statements[i] != NULL)
            (void)sqlite3_reset(store->statements[i]);
    }
}

void tn_sql_roll_back(struct tn_sqlite *store)
{
    reset_all(store);
    store->failed = 0;
    if (sqlite3_get_autocommit(store->db) == 0)
        (void)tn_sql_step(store, TN_SQL_ROLLBACK, "");
    store->failed = 0;
    store->adopted = false;
}

/* A file that was removed or replaced is another store now; going on in the old one would make two
 * authorities. */
static bool has_moved(struct tn_sqlite *store)
{
    int moved = 1;

    int rc = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return rc != SQLITE_OK || moved != 0;
}

static int fail_moved(struct tn_sqlite *store, struct tn_text *reterr)
{
    store->has_moved = true;
    tn_text_escape(reterr, store->path, strlen(store->path));
    tn_text_add(reterr, ": the file was removed or replaced while it was in use");
    return TENURE_E_UNAVAILABLE;
}

/* A file that got a second name since it was opened may be in use under that name, with another
 * journal. */
static int check_name(struct tn_sqlite *store, struct tn_text *reterr)
{
    const char *why;
    struct stat st;

    int code = has_moved(store) ? TENURE_E_NOT_HELD : tn_sole_file(store->path, &st, &why);
    if (code == TENURE_E_NOT_HELD)
        return fail_moved(store, reterr);
    if (code < 0) {
        tn_text_escape(reterr, store->path, strlen(store->path));
        tn_text_addf(reterr, ": %s", why);
    }
    return code;
}

static int fail(struct tn_sqlite *store, struct tn_text *reterr)
{
    int rc = store->failed;

    /* Without its file SQLite fails in one way or another; this is the one that helps. */
    bool moved = (rc & 0xff) != SQLITE_NOMEM && has_moved(store);
    int code = moved ? fail_moved(store, reterr)
                     : tn_sql_error(store->path, rc, tn_sql_detail(store, rc), reterr);
    store->was_busy = !moved && ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED);
    tn_sql_roll_back(store);
    return code;
}

static int begin(struct tn_sqlite *store, bool writes, struct tn_text *reterr)
{
    TN_ASSERT(sqlite3_get_autocommit(store->db) != 0);
    store->failed = 0;
    store->was_busy = false;
    store->has_moved = false;
    (void)tn_sql_step(store, writes ? TN_SQL_BEGIN : TN_SQL_BEGIN_READ, "");
    /* A reader begins with its first look. */
    if (!writes && store->failed == 0 && !tn_sql_step(store, TN_SQL_TOKEN_READ, ""))
        tn_sql_damaged(store);
    if (store->failed != 0)
        return fail(store, reterr);
    int code = check_name(store, reterr);
    if (code < 0) {
        tn_sql_roll_back(store);
        return code;
    }
    store->now = tn_clock_now(&store->clock);
    return 0;
}

int tn_sql_begin_read(struct tn_sqlite *store, struct tn_text *reterr)
{
    return begin(store, false, reterr);
}

int tn_sql_begin(struct tn_sqlite *store, struct tn_text *reterr)
{
    store->ring = false;
    memset(store->rung, 0, sizeof store->rung);
    int rc = begin(store, true, reterr);
    if (rc < 0 || store->adopted)
        return rc;
    (void)tn_sql_step(store, TN_SQL_ADOPT, "ti", store->clock.domain, store->now);
    (void)tn_sql_step(store, TN_SQL_ADOPT_REVOKED, "ti", store->clock.domain, store->now);
    store->adopted = true;
    return 0;
}

int tn_sql_end(struct tn_sqlite *store, int status, struct tn_text *reterr)
{
    if (status < 0 && store->failed == 0) {
        tn_sql_roll_back(store);
        return status;
    }
    if (store->failed != 0)
        return fail(store, reterr);
    reset_all(store);
    (void)tn_sql_step(store, TN_SQL_COMMIT, "");
    if (store->failed == 0)
        return 0;
    /* Who commits keeps new readers out, and those that are in leave soon. */
    if ((store->failed & 0xff) == SQLITE_BUSY && sqlite3_get_autocommit(store->db) == 0) {
        store->failed = 0;
        return TN_SQL_AGAIN;
    }
    bool unknown = (store->failed & 0xff) == SQLITE_IOERR;
    int code = fail(store, reterr);
    return unknown ? TENURE_E_TIMEOUT : code;
}

int tn_sql_give_up(struct tn_sqlite *store, struct tn_text *reterr)
{
    tn_sql_roll_back(store);
    store->was_busy = true;
    return tn_sql_error(store->path, SQLITE_BUSY, NULL, reterr);
}

int tn_sql_end_now(struct tn_sqlite *store, int status, struct tn_text *reterr)
{
    int rc = tn_sql_end(store, status, reterr);

    return rc == TN_SQL_AGAIN ? tn_sql_give_up(store, reterr) : rc;
}
