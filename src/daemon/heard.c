/* heard.c - what peers have said, between its being read and its being carried out.
 *
 * Happy path: the loop reads from one connection after the other into a shared buffer; then all of
 * it is carried out in one go. Reading is the kernel's work and carrying out is ours: done in
 * turns, the two drive each other's instructions out of the processor's cache, which costs more
 * than a look at the table does. The clock is read once, after the last of it has arrived.
 *
 * What can fail: a connection may be closed while it is in the list; its entry is struck out. What
 * is encrypted, or goes on where half a command ended, lies elsewhere: carried out at once. */
#include "base/assert.h"
#include "daemon/server.h"

/* So many connections ahead of the one that is served, the next one is fetched into the cache. */
#define AHEAD 2

char *tn_heard_room(struct tn_conn *conn)
{
    struct tn_heard *heard = &conn->server->heard;

    if (conn->heard != NULL || heard->count == TN_HEARD_MAX ||
        sizeof heard->bytes - heard->len < TN_FRAME_BYTES)
        tn_heard_carry_out(conn->server);
    return heard->bytes + heard->len;
}

void tn_heard_add(struct tn_conn *conn, size_t len)
{
    struct tn_heard *heard = &conn->server->heard;

    TN_ASSERT(conn->heard == NULL && heard->count < TN_HEARD_MAX);
    conn->heard = &heard->list[heard->count++];
    *conn->heard =
        (struct tn_saying) { .conn = conn, .bytes = heard->bytes + heard->len, .len = len };
    heard->len += len;
}

void tn_heard_strike_out(struct tn_conn *conn)
{
    if (conn->heard != NULL)
        conn->heard->conn = NULL;
    conn->heard = NULL;
}

static void fetch(const struct tn_conn *conn)
{
    for (size_t at = 0; conn != NULL && at < sizeof *conn; at += 64)
        __builtin_prefetch((const char *)conn + at);
}

void tn_heard_carry_out(struct tn_server *server)
{
    struct tn_heard *heard = &server->heard;

    if (heard->count == 0)
        return;
    tn_server_tell_time(server);
    for (uint32_t i = 0; i < heard->count; i++) {
        struct tn_saying *saying = &heard->list[i];
        struct tn_conn *conn = saying->conn;
        if (i + AHEAD < heard->count)
            fetch(heard->list[i + AHEAD].conn);
        if (conn == NULL)
            continue;
        conn->heard = NULL;
        conn->heard_at = server->now;
        tn_conn_take(conn, saying->bytes, saying->len);
    }
    heard->count = 0;
    heard->len = 0;
}
