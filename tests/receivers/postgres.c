/* postgres.c - a real PostgreSQL as a receiver, each writer in a transaction of its own. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/receivers/fences.h"

#ifdef TN_HAVE_LIBPQ

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "base/time.h"
#include "receivers/target.h"
#include "tenure/error.h"

static struct place place;

static bool run(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static bool prepare(char *why, size_t size)
{
    if (!place_start(&place, "postgres", why, size))
        return false;
    PGconn *connection = PQconnectdb(place.url);
    bool good = run(connection, "CREATE TABLE log (id bigserial PRIMARY KEY, token numeric(20), "
                                "writer int, n int)");
    PQfinish(connection);
    return good && place_install(&place, "log", why, size);
}

static void finish(void)
{
    place_stop(&place, "postgres");
}

static void *open_connection(char *error, size_t size)
{
    PGconn *connection = PQconnectdb(place.url);

    if (PQstatus(connection) == CONNECTION_OK)
        return connection;
    (void)snprintf(error, size, "%s", PQerrorMessage(connection));
    return NULL;
}

/* One transaction, one round trip per statement; each writer at a level of its own. A conflict of
 * serialization is tried again, as any application has to. */
static int write_record(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                        size_t size)
{
    static const char *const levels[] = { "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE" };
    char sql[3][128];

    (void)snprintf(sql[0], sizeof sql[0], "BEGIN ISOLATION LEVEL %s", levels[writer % 3]);
    (void)snprintf(sql[1], sizeof sql[1],
                   unguarded ? "SELECT %llu" : "SELECT tenure_fence.admit('log', %llu)",
                   (unsigned long long)token);
    (void)snprintf(sql[2], sizeof sql[2],
                   "INSERT INTO log (token, writer, n) VALUES (%llu, %u, %u)",
                   (unsigned long long)token, writer, n);
    for (;;) {
        const char *const steps[] = { sql[0], sql[1], sql[2], "COMMIT" };
        char state[6] = "";

        for (size_t i = 0; state[0] == '\0' && i < sizeof steps / sizeof steps[0]; i++) {
            PGresult *result = PQexec(connection, steps[i]);
            const char *field = PQresultErrorField(result, PG_DIAG_SQLSTATE);

            if (field != NULL)
                (void)snprintf(state, sizeof state, "%s", field);
            PQclear(result);
        }
        error[0] = '\0';
        if (state[0] == '\0')
            return 0;
        (void)snprintf(error, size, "%s", PQerrorMessage(connection));
        if (!run(connection, "ROLLBACK"))
            return TENURE_E_UNAVAILABLE;
        if (strcmp(state, "TN080") == 0)
            break;
        if (strcmp(state, "40001") != 0 && strcmp(state, "40P01") != 0)
            return TENURE_E_UNAVAILABLE;
    }
    error[0] = '\0';
    return TENURE_E_STALE;
}

/* Writers with one token do not wait for each other, so among them the numbers of the rows are not
 * the order of the commits; their token is the same, and a later token is numbered later, because
 * its number is drawn after the fence was raised. */
static bool read_records(record_each each, void *arg)
{
    PGconn *connection = PQconnectdb(place.url);
    PGresult *rows = PQexec(connection, "SELECT token, writer, n FROM log ORDER BY id");
    bool good = PQresultStatus(rows) == PGRES_TUPLES_OK;

    for (int i = 0; good && i < PQntuples(rows); i++) {
        uint64_t fields[3] = { 0 };

        for (int j = 0; j < 3; j++)
            good = tn_u64_parse(PQgetvalue(rows, i, j), &fields[j]) == 0 && good;
        each(arg, fields[0], (unsigned)fields[1], (unsigned)fields[2]);
    }
    PQclear(rows);
    PQfinish(connection);
    return good;
}

static int raise_fence(uint64_t token, char *error, size_t size)
{
    return place_raise(&place, token, error, size);
}

static bool read_highest(uint64_t *ret_highest)
{
    return place_highest(&place, ret_highest);
}

static bool guard(bool on)
{
    return place_guard(&place, on);
}

const struct receiver postgres_receiver = {
    .name = "postgres",
    .prepare = prepare,
    .finish = finish,
    .open = open_connection,
    .write = write_record,
    .raise = raise_fence,
    .read = read_records,
    .highest = read_highest,
    .guard = guard,
};

#else

#include <stdio.h>

static bool prepare(char *why, size_t size)
{
    (void)snprintf(why, size, "built without PostgreSQL");
    return false;
}

static void finish(void)
{
}

const struct receiver postgres_receiver = { .name = "postgres",
                                            .prepare = prepare,
                                            .finish = finish };

#endif
