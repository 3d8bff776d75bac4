/* sqlite.c - the fence in an application's own SQLite database: one row per resource, and triggers.
 *
 * Happy path: one upsert moves the row up, or leaves it, and takes SQLite's right to write in
 * either case; the row that is read back decides. What can fail is SQLite, and then the caller's
 * transaction is rolled back.
 *
 * What a connection has presented is kept in memory, behind two SQL functions, and not in a table:
 * a row would outlive its transaction, and every other connection would see it. A trigger compares
 * it with the fence's row each time, so something presented long ago does no harm. */
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "base/name.h"
#include "base/token.h"
#include "receivers/sqlite.h"
#include "runtime/sole_file.h"
#include "tenure/fence.h"
#include "tenure/fence_sqlite.h"

static const char create_table[] =
    "CREATE TABLE IF NOT EXISTS main.tenure_fences (resource TEXT PRIMARY KEY NOT NULL,"
    " token TEXT NOT NULL CHECK (typeof(token) = 'text' AND length(token) = 20"
    " AND token NOT GLOB '*[^0-9]*' AND token <= '18446744073709551615')) WITHOUT ROWID";

static const char move_row[] =
    "INSERT INTO main.tenure_fences (resource, token) VALUES (?1, ?2)"
    " ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token";

static const char find_table[] =
    "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'tenure_fences'";

static const char find_row[] = "SELECT token FROM main.tenure_fences WHERE resource = ?1";

int tn_fence_sqlite_code(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return 0;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_INTERRUPT:
    case SQLITE_PROTOCOL:
        return TENURE_E_UNAVAILABLE;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
        return TENURE_E_DENIED;
    case SQLITE_NOMEM:
        return TENURE_E_NOMEM;
    default:
        return TENURE_E_DAMAGED;
    }
}

int tn_fence_sqlite_prepare(sqlite3 *db)
{
    return tn_fence_sqlite_code(sqlite3_exec(db, create_table, NULL, NULL, NULL));
}

/* --- What a connection has presented -------------------------------------------------------- */

struct mark {
    struct mark *next;
    char resource[TN_NAME_MAX + 1];
    char token[TN_TOKEN_TEXT];
};

/* Shared by the two functions of one connection. */
struct marks {
    int references;
    struct mark *first;
};

static void drop_marks(void *arg)
{
    struct marks *marks = arg;

    if (--marks->references > 0)
        return;
    while (marks->first != NULL) {
        struct mark *mark = marks->first;
        marks->first = mark->next;
        sqlite3_free(mark);
    }
    sqlite3_free(marks);
}

static struct mark *find_mark(struct marks *marks, const char *resource)
{
    for (struct mark *mark = marks->first; mark != NULL; mark = mark->next) {
        if (strcmp(mark->resource, resource) == 0)
            return mark;
    }
    return NULL;
}

/* tenure_fence_presented(resource): the token, or NULL. */
static void presented(sqlite3_context *context, int count, sqlite3_value **values)
{
    const char *resource = (const char *)sqlite3_value_text(values[0]);
    const struct mark *mark = NULL;

    (void)count;
    if (resource != NULL)
        mark = find_mark(sqlite3_user_data(context), resource);
    if (mark != NULL)
        sqlite3_result_text(context, mark->token, TN_TOKEN_DIGITS, SQLITE_TRANSIENT);
}

/* tenure_fence_present(resource, token), for this file alone: both were checked. */
static void present(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct marks *marks = sqlite3_user_data(context);
    const char *resource = (const char *)sqlite3_value_text(values[0]);
    const char *token = (const char *)sqlite3_value_text(values[1]);
    uint64_t number;

    (void)count;
    if (resource == NULL || token == NULL || tn_name_check(resource, strlen(resource), NULL) < 0 ||
        tn_token_parse(token, strlen(token), &number) < 0) {
        sqlite3_result_error(context, "tenure: not a resource and a token", -1);
        return;
    }
    struct mark *mark = find_mark(marks, resource);
    if (mark == NULL) {
        mark = sqlite3_malloc(sizeof *mark);
        if (mark == NULL) {
            sqlite3_result_error_nomem(context);
            return;
        }
        memcpy(mark->resource, resource, strlen(resource) + 1);
        mark->next = marks->first;
        marks->first = mark;
    }
    memcpy(mark->token, token, TN_TOKEN_TEXT);
}

/* Innocuous, so that triggers may ask with trusted_schema off; presenting is for statements only,
 * or a schema could do it. */
static int add_functions(sqlite3 *db)
{
    struct marks *marks = sqlite3_malloc(sizeof *marks);

    if (marks == NULL)
        return SQLITE_NOMEM;
    *marks = (struct marks) { .references = 2 };
    /* SQLite calls the destructor also when it fails. */
    int rc =
        sqlite3_create_function_v2(db, "tenure_fence_presented", 1, SQLITE_UTF8 | SQLITE_INNOCUOUS,
                                   marks, presented, NULL, NULL, drop_marks);
    int second =
        sqlite3_create_function_v2(db, "tenure_fence_present", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                   marks, present, NULL, NULL, drop_marks);
    return rc != SQLITE_OK ? rc : second;
}

/* --- Statements ----------------------------------------------------------------------------- */

/* Prepare @sql, bind what is not NULL, step once. The caller finalizes, also after an error. */
static int query(sqlite3 *db, const char *sql, const char *one, const char *two,
                 sqlite3_stmt **ret_statement)
{
    sqlite3_stmt *statement = NULL;

    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK && one != NULL)
        rc = sqlite3_bind_text(statement, 1, one, -1, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK && two != NULL)
        rc = sqlite3_bind_text(statement, 2, two, -1, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    *ret_statement = statement;
    return rc;
}

static int run(sqlite3 *db, const char *sql, const char *one, const char *two)
{
    sqlite3_stmt *statement;

    int rc = query(db, sql, one, two, &statement);
    (void)sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Whether the table is there, into *@ret_there. */
static int look_for_table(sqlite3 *db, bool *ret_there)
{
    sqlite3_stmt *statement;

    int rc = query(db, find_table, NULL, NULL, &statement);
    (void)sqlite3_finalize(statement);
    *ret_there = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_row(sqlite3 *db, const char *resource, uint64_t *ret_token)
{
    sqlite3_stmt *statement;
    int code = 0;

    int rc = query(db, find_row, resource, NULL, &statement);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        int len = sqlite3_column_bytes(statement, 0);
        if (text == NULL || tn_token_parse(text, (size_t)len, ret_token) < 0)
            code = TENURE_E_DAMAGED;
    } else if (rc == SQLITE_DONE) {
        *ret_token = 0;
    } else {
        code = tn_fence_sqlite_code(rc);
    }
    (void)sqlite3_finalize(statement);
    return code;
}

/* --- The fence ------------------------------------------------------------------------------ */

static int check(const char *resource, uint64_t token)
{
    return token == 0 ? TENURE_E_INVALID : tn_name_check(resource, strlen(resource), NULL);
}

/* Each name of a database has a journal of its own, and what a killed writer left beside the one is
 * not undone through the other: then the fence itself may go back. A database without a file, or
 * one that can no longer be looked at, is the caller's. */
static int check_names(sqlite3 *db)
{
    const char *path = sqlite3_db_filename(db, "main");
    struct stat st = { .st_ino = 0 };
    const char *why;

    if (path == NULL || path[0] == '\0')
        return 0;
    int rc = tn_sole_file(path, &st, &why);
    return rc == TENURE_E_DENIED && st.st_ino != 0 ? rc : 0;
}

/* In the open transaction. The upsert takes the right to write also when it changes nothing, so
 * nobody can come between this and the caller's own statements. */
static int move_up(sqlite3 *db, const char *resource, uint64_t token, uint64_t *ret_highest)
{
    char text[TN_TOKEN_TEXT];
    struct tenure_fence fence;

    tn_token_format(text, token);
    int code = check_names(db);
    if (code < 0)
        return code;
    int rc = run(db, move_row, resource, text);
    if ((rc & 0xff) == SQLITE_ERROR) { /* No such table: the first time in this database. */
        rc = run(db, create_table, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = run(db, move_row, resource, text);
    }
    if (rc != SQLITE_OK)
        return tn_fence_sqlite_code(rc);
    code = read_row(db, resource, &fence.highest);
    if (code < 0)
        return code;
    *ret_highest = fence.highest;
    code = tenure_fence_admit(&fence, token);
    /* A row that stands lower after the upsert is not one of ours. */
    return code == 0 && fence.highest != *ret_highest ? TENURE_E_DAMAGED : code;
}

static int present_token(sqlite3 *db, const char *resource, uint64_t token)
{
    static const char sql[] = "SELECT tenure_fence_present(?1, ?2)";
    char text[TN_TOKEN_TEXT];

    tn_token_format(text, token);
    int rc = run(db, sql, resource, text);
    if ((rc & 0xff) == SQLITE_ERROR) { /* No such function: the first time on this connection. */
        rc = add_functions(db);
        if (rc == SQLITE_OK)
            rc = run(db, sql, resource, text);
    }
    return tn_fence_sqlite_code(rc);
}

int tenure_fence_sqlite_admit(sqlite3 *db, const char *resource, uint64_t token)
{
    uint64_t highest;

    int rc = check(resource, token);
    if (rc == 0 && sqlite3_get_autocommit(db) != 0)
        rc = TENURE_E_INVALID;
    if (rc == 0)
        rc = move_up(db, resource, token, &highest);
    return rc < 0 ? rc : present_token(db, resource, token);
}

/* After a failed COMMIT the transaction may still be open, and what is on the disk is unknown when
 * the disk failed. */
static int commit(sqlite3 *db)
{
    int rc = run(db, "COMMIT", NULL, NULL);

    if (rc == SQLITE_OK)
        return 0;
    if (sqlite3_get_autocommit(db) == 0)
        (void)run(db, "ROLLBACK", NULL, NULL);
    return (rc & 0xff) == SQLITE_IOERR ? TENURE_E_TIMEOUT : tn_fence_sqlite_code(rc);
}

int tn_fence_sqlite_raise(sqlite3 *db, const char *resource, uint64_t token, uint64_t *ret_highest)
{
    bool own = sqlite3_get_autocommit(db) != 0;

    int code = check(resource, token);
    if (code < 0)
        return code;
    int rc = own ? run(db, "BEGIN IMMEDIATE", NULL, NULL) : SQLITE_OK;
    if (rc != SQLITE_OK)
        return tn_fence_sqlite_code(rc);
    code = move_up(db, resource, token, ret_highest);
    if (own && code == 0)
        code = commit(db);
    else if (own && sqlite3_get_autocommit(db) == 0)
        (void)run(db, "ROLLBACK", NULL, NULL);
    return code;
}

int tenure_fence_sqlite_raise(sqlite3 *db, const char *resource, uint64_t token)
{
    uint64_t highest;

    return tn_fence_sqlite_raise(db, resource, token, &highest);
}

int tenure_fence_sqlite_highest(sqlite3 *db, const char *resource, uint64_t *ret_highest)
{
    uint64_t highest = 0;
    bool there;

    int code = tn_name_check(resource, strlen(resource), NULL);
    if (code == 0)
        code = tn_fence_sqlite_code(look_for_table(db, &there));
    if (code == 0 && there)
        code = read_row(db, resource, &highest);
    if (code == 0)
        *ret_highest = highest;
    return code;
}

int tn_fence_sqlite_list(sqlite3 *db, tn_fence_each each, void *arg)
{
    static const char sql[] = "SELECT resource, token FROM main.tenure_fences ORDER BY resource";
    sqlite3_stmt *statement = NULL;
    uint64_t token;
    bool there;

    int rc = look_for_table(db, &there);
    if (rc != SQLITE_OK || !there)
        return tn_fence_sqlite_code(rc);
    rc = query(db, sql, NULL, NULL, &statement);
    int code = tn_fence_sqlite_code(rc);
    for (; rc == SQLITE_ROW && code == 0; rc = sqlite3_step(statement)) {
        const char *resource = (const char *)sqlite3_column_text(statement, 0);
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        if (resource == NULL || text == NULL || tn_token_parse(text, strlen(text), &token) < 0)
            code = TENURE_E_DAMAGED;
        else
            each(arg, resource, token);
    }
    (void)sqlite3_finalize(statement);
    return code < 0 ? code : tn_fence_sqlite_code(rc);
}

/* --- Triggers ------------------------------------------------------------------------------- */

static const char *const events[] = { "insert", "update", "delete" };

enum { EVENTS = sizeof events / sizeof events[0] };

/* The table is quoted by %w; the resource has no character that needs quoting. */
static int add_trigger(sqlite3 *db, const char *event, const char *table, const char *resource)
{
    char *sql = sqlite3_mprintf(
        "CREATE TRIGGER main.\"tenure_fence_%s_%w\" BEFORE %s ON \"%w\" BEGIN"
        " SELECT RAISE(ABORT, 'tenure: the token presented for %s is stale, or there was none')"
        " WHERE NOT EXISTS (SELECT 1 FROM tenure_fences WHERE resource = '%s'"
        " AND token = tenure_fence_presented('%s')); END",
        event, table, event, table, resource, resource, resource);

    int rc = sql != NULL ? run(db, sql, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc;
}

static int drop_triggers(sqlite3 *db, const char *table)
{
    int rc = SQLITE_OK;

    for (int i = 0; rc == SQLITE_OK && i < EVENTS; i++) {
        char *sql =
            sqlite3_mprintf("DROP TRIGGER IF EXISTS main.\"tenure_fence_%s_%w\"", events[i], table);
        rc = sql != NULL ? run(db, sql, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
    }
    return rc;
}

/* A savepoint is a transaction when there is none. SQLITE_ERROR is what SQLite says to a table that
 * is not there or cannot have such a trigger. */
static int end_savepoint(sqlite3 *db, int rc)
{
    if (rc != SQLITE_OK && sqlite3_get_autocommit(db) == 0)
        (void)run(db, "ROLLBACK TO tenure_fence", NULL, NULL);
    int released = SQLITE_OK;
    if (sqlite3_get_autocommit(db) == 0)
        released = run(db, "RELEASE tenure_fence", NULL, NULL);
    if ((rc & 0xff) == SQLITE_ERROR)
        return TENURE_E_INVALID;
    return tn_fence_sqlite_code(rc != SQLITE_OK ? rc : released);
}

int tenure_fence_sqlite_install(sqlite3 *db, const char *table, const char *resource)
{
    int code = tn_name_check(resource, strlen(resource), NULL);
    if (code < 0 || table[0] == '\0')
        return TENURE_E_INVALID;
    int rc = run(db, "SAVEPOINT tenure_fence", NULL, NULL);
    if (rc != SQLITE_OK)
        return tn_fence_sqlite_code(rc);
    rc = run(db, create_table, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = drop_triggers(db, table);
    for (int i = 0; rc == SQLITE_OK && i < EVENTS; i++)
        rc = add_trigger(db, events[i], table, resource);
    return end_savepoint(db, rc);
}

int tenure_fence_sqlite_remove(sqlite3 *db, const char *table)
{
    int rc = run(db, "SAVEPOINT tenure_fence", NULL, NULL);

    if (rc != SQLITE_OK)
        return tn_fence_sqlite_code(rc);
    return end_savepoint(db, drop_triggers(db, table));
}
