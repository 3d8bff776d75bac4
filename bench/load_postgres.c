/* load_postgres.c - what a lease is on PostgreSQL: a row, in prepared statements.
 *
 * One statement per operation. Who releases notifies, and who waits acquires when it hears of it.
 * The server's user is "bench", without a password; the table is that of bench/peers. */
#include "bench/load.h"

#include <stdio.h>

static const char *const statements[3] = {
    "INSERT INTO lease AS l VALUES ($1, $2, clock_timestamp() + $3::interval, 1) "
    "ON CONFLICT (name) DO UPDATE SET term = excluded.term, expires = excluded.expires, "
    "token = l.token + 1 WHERE l.expires < clock_timestamp() RETURNING token",
    "UPDATE lease SET expires = clock_timestamp() + $3::interval "
    "WHERE name = $1 AND term = $2 RETURNING token",
    "WITH freed AS (UPDATE lease SET expires = '-infinity' WHERE name = $1 AND term = $2 "
    "AND $3::interval IS NOT NULL RETURNING name) SELECT pg_notify('bell', name) FROM freed",
};
static const char *const names[3] = { "acquire", "renew", "release" };
enum { ACQUIRE, RENEW, RELEASE };

static void put_text(struct conn *conn, const char *text)
{
    load_put(conn, text, strlen(text) + 1);
}

/* A message begins; its length is known at its end. Returns where it stands. */
static size_t begin_message(struct conn *conn, char kind)
{
    size_t at;

    if (kind != 0)
        load_put(conn, &kind, 1);
    at = conn->out_len;
    load_put_u32(conn, 0);
    return at;
}

static void end_message(struct conn *conn, size_t at)
{
    size_t end = conn->out_len;

    conn->out_len = at;
    load_put_u32(conn, (uint32_t)(end - at));
    conn->out_len = end;
}

static void put_sync(struct conn *conn)
{
    end_message(conn, begin_message(conn, 'S'));
}

/* Prepare all statements and listen. */
static void put_preparations(struct conn *conn)
{
    size_t at;

    for (int i = 0; i < 3; i++) {
        at = begin_message(conn, 'P');
        put_text(conn, names[i]);
        put_text(conn, statements[i]);
        load_put(conn, "\0", 2);
        end_message(conn, at);
    }
    put_sync(conn);
    at = begin_message(conn, 'Q');
    put_text(conn, "LISTEN bell");
    end_message(conn, at);
}

static void put_value(struct conn *conn, const char *value)
{
    load_put_u32(conn, (uint32_t)strlen(value));
    load_put(conn, value, strlen(value));
}

/* Run a statement with the name, the term and the TTL. */
static void put_execute(struct conn *conn, int which)
{
    char ttl[24];
    size_t at = begin_message(conn, 'B');

    (void)snprintf(ttl, sizeof ttl, "%u ms", conn->ttl_ms);
    put_text(conn, ""); /* The portal has no name. */
    put_text(conn, names[which]);
    load_put(conn, "\0\0\0\3", 4); /* All as text; three values. */
    put_value(conn, conn->name);
    put_value(conn, conn->term);
    put_value(conn, ttl);
    load_put(conn, "\0", 2); /* So are the results. */
    end_message(conn, at);
    at = begin_message(conn, 'E');
    put_text(conn, "");
    load_put_u32(conn, 0);
    end_message(conn, at);
    put_sync(conn);
}

static void postgres_begin(struct conn *conn)
{
    static const char hello[] = "user\0bench\0database\0postgres\0";
    size_t at;

    conn->granted = false;
    switch (conn->op) {
    case OP_OPEN:
        memcpy(conn->term, conn->session, sizeof conn->term);
        at = begin_message(conn, 0);
        load_put_u32(conn, 3 << 16);
        load_put(conn, hello, sizeof hello);
        end_message(conn, at);
        break;
    case OP_ACQUIRE:
    case OP_LEAD:
        put_execute(conn, ACQUIRE);
        break;
    case OP_RENEW:
        put_execute(conn, RENEW);
        break;
    case OP_WAIT:
        break; /* It has been listening since it connected. */
    case OP_RELEASE:
        put_execute(conn, RELEASE);
        break;
    }
}

/* The server is ready for more. Returns whether the operation is over. */
static bool is_over(struct conn *conn)
{
    int stage = conn->stage++;

    if (conn->op != OP_OPEN)
        return true;
    if (stage == 0)
        put_preparations(conn);
    if (stage == 2)
        put_execute(conn, ACQUIRE);
    return stage == 3;
}

static bool postgres_arrived(struct conn *conn)
{
    bool over = false;

    while (!over && conn->in_len >= 5 && conn->in_len > load_u32(conn->in + 1)) {
        size_t len = load_u32(conn->in + 1) + 1;
        char kind = conn->in[0];
        if (kind == 'E')
            load_fail("postgres", conn->in + 5, len - 5);
        conn->granted |= kind == 'D';
        if (kind == 'A' && conn->op == OP_WAIT && conn->stage == 0) {
            conn->stage = 1;
            put_execute(conn, ACQUIRE);
        }
        over = kind == 'Z' && is_over(conn);
        load_take(conn, len);
    }
    return over;
}

const struct protocol postgres_protocol = { "postgres", true, postgres_begin, postgres_arrived };
