/* postgres.c - `postgres://...` as a fence: the functions of postgres_install.sql, through libpq.
 *
 * Happy path: connect, and ask in one transaction of one round trip, so that a pooler between us
 * and the server makes no difference. What can fail: the connection; a writer that keeps the
 * fence's row for longer than the timeout, for which the server's own lock_timeout is set, so that
 * nothing has happened then; and an answer that never comes, after which it may have happened.
 *
 * libpq is driven through its descriptor, never by its blocking calls: those know no deadline. */
#define _GNU_SOURCE
#include "receivers/target.h"

#ifdef TN_HAVE_LIBPQ

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/time.h"
#include "base/token.h"
#include "receivers/postgres_sql.h" /* Made from the .sql files by CMake. */
#include "runtime/clock.h"

struct server {
    PGconn *connection;
    tenure_ns timeout;
};

/* --- Errors --------------------------------------------------------------------------------- */

/* The first line of what libpq or the server says, without the severity in front. */
static int tell_error(int code, const char *message, struct tn_text *reterr)
{
    static const char *const fronts[] = { "ERROR:  ", "FATAL:  " };
    const char *start = message;

    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        const char *front = strstr(message, fronts[i]);
        if (front != NULL)
            start = front + strlen(fronts[i]);
    }
    tn_text_add(reterr, "postgres: ");
    tn_text_escape(reterr, start, strcspn(start, "\n"));
    return code;
}

/* The SQLSTATEs with a meaning of their own; a whole class ends in "...". */
static const struct {
    const char *state;
    int code;
    const char *text; /* NULL: the server's. */
} states[] = {
    { "TN064", TENURE_E_INVALID, NULL },
    { "42501", TENURE_E_DENIED, NULL },
    { "42P01", TENURE_E_INVALID, NULL },
    { "42809", TENURE_E_INVALID, NULL },
    { "42602", TENURE_E_INVALID, NULL },
    { "3F000", TENURE_E_DAMAGED,
      "there are no fences in this database; 'tenure fence install --at URL' makes them" },
    { "42883", TENURE_E_DAMAGED,
      "there are no fences in this database; 'tenure fence install --at URL' makes them" },
    { "55P03", TENURE_E_UNAVAILABLE,
      "a transaction with an older token keeps the fence for longer than the timeout; end it, or "
      "set idle_in_transaction_session_timeout" },
    { "2BP01", TENURE_E_UNAVAILABLE,
      "a table is still protected; remove that first, with --table" },
    { "23514", TENURE_E_INVALID, NULL },
};

static int tell_result(const PGresult *result, struct tn_text *reterr)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    for (size_t i = 0; state != NULL && i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(state, states[i].state) == 0)
            return tell_error(
                states[i].code,
                states[i].text != NULL ? states[i].text : PQresultErrorMessage(result), reterr);
    }
    return tell_error(TENURE_E_UNAVAILABLE, PQresultErrorMessage(result), reterr);
}

/* --- Waiting -------------------------------------------------------------------------------- */

/* Until the socket is ready for @events; false when @end has come. */
static bool wait_for(const struct server *server, short events, tenure_ns end)
{
    struct pollfd fd = { .fd = PQsocket(server->connection), .events = events };

    for (;;) {
        tenure_ns left = end - tn_boottime();
        if (left <= 0 || fd.fd < 0)
            return false;
        tenure_ns ms = left / TN_MS(1) + 1;
        int ready = poll(&fd, 1, ms < 60000 ? (int)ms : 60000);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static void close_server(void *self)
{
    struct server *server = self;

    PQfinish(server->connection);
    free(server);
}

/* libpq has no code for a refused login, only the server's words. */
static int refuse_connection(const struct server *server, struct tn_text *reterr)
{
    static const char *const denials[] = { "authentication failed", "no pg_hba.conf entry",
                                           "permission denied", "no password supplied",
                                           "FATAL:  role \"" };
    const char *message = PQerrorMessage(server->connection);
    int code = TENURE_E_UNAVAILABLE;

    for (size_t i = 0; i < sizeof denials / sizeof denials[0]; i++) {
        if (strstr(message, denials[i]) != NULL)
            code = TENURE_E_DENIED;
    }
    if (strstr(message, "FATAL:  database \"") != NULL && strstr(message, "does not exist") != NULL)
        code = TENURE_E_INVALID;
    return tell_error(code, message, reterr);
}

static int connect_server(struct server *server, const char *url, struct tn_text *reterr)
{
    tenure_ns end = tn_boottime() + server->timeout;

    server->connection = PQconnectStart(url);
    if (server->connection == NULL)
        return tell_error(TENURE_E_NOMEM, "out of memory", reterr);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (PQstatus(server->connection) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
           state != PGRES_POLLING_FAILED) {
        if (!wait_for(server, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, end))
            return tell_error(TENURE_E_UNAVAILABLE, "the server does not answer", reterr);
        state = PQconnectPoll(server->connection);
    }
    return state == PGRES_POLLING_OK ? 0 : refuse_connection(server, reterr);
}

static void ignore_notices(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

static int open_server(const char *url, const struct tn_fence_options *options, void **ret_self,
                       struct tn_text *reterr)
{
    struct server *server = calloc(1, sizeof *server);

    if (server == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    server->timeout = options->timeout;
    int rc = connect_server(server, url, reterr);
    if (rc < 0) {
        close_server(server);
        return rc;
    }
    (void)PQsetNoticeReceiver(server->connection, ignore_notices, NULL);
    *ret_self = server;
    return 0;
}

/* --- Questions ------------------------------------------------------------------------------ */

/* The next result, or NULL at the end; *@ret_late when it did not come in time. */
static PGresult *next_result(struct server *server, tenure_ns end, bool *ret_late)
{
    while (PQisBusy(server->connection)) {
        if (!wait_for(server, POLLIN, end) || PQconsumeInput(server->connection) == 0) {
            *ret_late = true;
            return NULL;
        }
    }
    return PQgetResult(server->connection);
}

/* Ask, and keep the last result that has rows. On an error the transaction is undone, unless the
 * answer never came. */
static int ask_server(struct server *server, const char *sql, PGresult **ret_rows,
                      struct tn_text *reterr)
{
    tenure_ns end = tn_boottime() + server->timeout;
    PGresult *rows = NULL;
    PGresult *result;
    bool late = false;
    int rc = 0;

    if (PQsendQuery(server->connection, sql) == 0)
        return tell_error(TENURE_E_UNAVAILABLE, PQerrorMessage(server->connection), reterr);
    while ((result = next_result(server, end, &late)) != NULL) {
        ExecStatusType status = PQresultStatus(result);

        if (status == PGRES_TUPLES_OK) {
            PQclear(rows);
            rows = result;
            continue;
        }
        if (status != PGRES_COMMAND_OK && rc == 0)
            rc = tell_result(result, reterr);
        else if (strcmp(PQcmdStatus(result), "ROLLBACK") == 0 && rc == 0)
            rc = tell_error(TENURE_E_UNAVAILABLE, "the transaction was rolled back", reterr);
        PQclear(result);
    }
    if (late || PQstatus(server->connection) != CONNECTION_OK) {
        reterr->len = 0;
        reterr->truncated = false;
        rc = tell_error(TENURE_E_TIMEOUT, "no answer; it may have happened", reterr);
    }
    if (rc < 0 || ret_rows == NULL) {
        PQclear(rows);
        return rc;
    }
    *ret_rows = rows;
    return 0;
}

/* After an error the connection would stay in its failed transaction. */
static int ask_and_mend(struct server *server, const char *sql, PGresult **ret_rows,
                        struct tn_text *reterr)
{
    char scratch[128];
    struct tn_text ignored;

    int rc = ask_server(server, sql, ret_rows, reterr);
    if (rc < 0 && rc != TENURE_E_TIMEOUT &&
        PQtransactionStatus(server->connection) != PQTRANS_IDLE) {
        tn_text_init(&ignored, scratch, sizeof scratch);
        (void)ask_server(server, "ROLLBACK", NULL, &ignored);
    }
    return rc;
}

static int read_token(const PGresult *rows, int row, int column, uint64_t *ret_token,
                      struct tn_text *reterr)
{
    if (rows != NULL && row < PQntuples(rows) && column < PQnfields(rows) &&
        tn_u64_parse(PQgetvalue(rows, row, column), ret_token) == 0)
        return 0;
    return tell_error(TENURE_E_DAMAGED,
                      "the answer is not a token; is tenure_fence another program's?", reterr);
}

/* Read what is committed now, whatever default the role or the database has: with a snapshot from
 * before its wait, a statement would fail or miss what changed meanwhile. */
#define BEGIN_ALWAYS_NEWEST "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; "

/* A resource has no character that needs quoting: its rule was checked. */
static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    struct server *server = self;
    PGresult *rows = NULL;
    uint64_t highest;
    char digits[TN_TOKEN_TEXT];
    char sql[512];

    tn_token_format(digits, token);
    /* The server gives up a little earlier than we do: then it is known that nothing happened. */
    (void)snprintf(sql, sizeof sql,
                   BEGIN_ALWAYS_NEWEST
                   "SET LOCAL lock_timeout = %lld; SELECT tenure_fence.move('%s', %s); COMMIT",
                   (long long)(server->timeout / TN_MS(1) * 4 / 5 + 1), resource, digits);
    int rc = ask_and_mend(server, sql, &rows, reterr);
    if (rc == 0)
        rc = read_token(rows, 0, 0, &highest, reterr);
    PQclear(rows);
    if (rc < 0)
        return rc;
    *ret_highest = highest;
    return highest > token ? TENURE_E_STALE : 0;
}

static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    struct server *server = self;
    PGresult *rows = NULL;
    char sql[512];

    (void)snprintf(sql, sizeof sql, "SELECT tenure_fence.highest('%s')", resource);
    int rc = ask_and_mend(server, sql, &rows, reterr);
    if (rc == 0)
        rc = read_token(rows, 0, 0, ret_highest, reterr);
    PQclear(rows);
    return rc;
}

static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    struct server *server = self;
    PGresult *rows = NULL;
    uint64_t token;

    int rc = ask_and_mend(server, "SELECT resource, token FROM tenure_fence.list()", &rows, reterr);
    for (int i = 0; rc == 0 && i < PQntuples(rows); i++) {
        rc = read_token(rows, i, 1, &token, reterr);
        if (rc == 0)
            each(arg, PQgetvalue(rows, i, 0), token);
    }
    PQclear(rows);
    return rc;
}

/* SELECT FUNCTION('TABLE'[, 'RESOURCE']), in a transaction of its own. */
static int call(struct server *server, const char *function, const char *table,
                const char *resource, struct tn_text *reterr)
{
    char *quoted = PQescapeLiteral(server->connection, table, strlen(table));
    char sql[2048];

    if (quoted == NULL)
        return tell_error(TENURE_E_INVALID, PQerrorMessage(server->connection), reterr);
    int len =
        snprintf(sql, sizeof sql, BEGIN_ALWAYS_NEWEST "SELECT tenure_fence.%s(%s%s%s%s); COMMIT",
                 function, quoted, resource != NULL ? ", '" : "", resource != NULL ? resource : "",
                 resource != NULL ? "'" : "");
    PQfreemem(quoted);
    if (len < 0 || (size_t)len >= sizeof sql)
        return tell_error(TENURE_E_INVALID, "the name of the table is too long", reterr);
    return ask_and_mend(server, sql, NULL, reterr);
}

static int install(void *self, const char *table, const char *resource, struct tn_text *reterr)
{
    int rc = ask_and_mend(self, tn_postgres_install, NULL, reterr);

    if (rc == 0 && table != NULL)
        rc = call(self, "protect", table, resource, reterr);
    return rc;
}

static int remove_fences(void *self, const char *table, struct tn_text *reterr)
{
    if (table != NULL)
        return call(self, "unprotect", table, NULL, reterr);
    return ask_and_mend(self, tn_postgres_remove, NULL, reterr);
}

#define POSTGRES_OPS(scheme_)                                                             \
    {                                                                                     \
        .scheme = (scheme_), .form = scheme_ "//HOST/DATABASE", .open = open_server,      \
        .close = close_server, .raise = raise_fence, .show = show, .list = list,          \
        .install = install, .remove = remove_fences, .install_text = tn_postgres_install, \
    }

#else

static int open_server(const char *url, const struct tn_fence_options *options, void **ret_self,
                       struct tn_text *reterr)
{
    (void)url;
    (void)options;
    (void)ret_self;
    tn_text_add(reterr, "this tenure was built without PostgreSQL; install libpq-dev and build it "
                        "again");
    return TENURE_E_UNSUPPORTED;
}

#define POSTGRES_OPS(scheme_)                                                       \
    {                                                                               \
        .scheme = (scheme_), .form = scheme_ "//HOST/DATABASE", .open = open_server \
    }

#endif

const struct tn_fence_ops tn_fence_postgres_ops = POSTGRES_OPS("postgres:");
const struct tn_fence_ops tn_fence_postgresql_ops = POSTGRES_OPS("postgresql:");
