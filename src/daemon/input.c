/* input.c - what peers have said, between its being announced and its being carried out.
 *
 * Happy path: the loop tells which connections have something to say; that is read from all of them
 * by one call, each into its share of one buffer; then all of it is carried out in one go. Reading
 * is the kernel's work and carrying out is ours: done in turns, the two drive each other's
 * instructions out of the processor's cache, which costs more than a look at the table does. The
 * clock is read once, after the last of it has arrived.
 *
 * A share is as large as what the peer says at once: small, and larger after one that was filled.
 *
 * What can fail: a connection may be closed while it is in one of the lists; its entry is struck
 * out. What is encrypted, or goes on where half a command ended, lies elsewhere: carried out at
 * once. */
#include <errno.h>

#include "base/assert.h"
#include "daemon/server.h"

/* So many connections ahead of the one that is served, the next one is fetched into the cache. */
#define AHEAD 2
#define SHARE_MIN 1024
/* Between two shares: at distances of whole pages all would be in the same few lines of the cache.
 */
#define APART 64

/* --- Carrying out ----------------------------------------------------------------------------- */

static void fetch(const struct tn_conn *conn)
{
    for (size_t at = 0; conn != NULL && at < sizeof *conn; at += 64)
        __builtin_prefetch((const char *)conn + at);
}

static void carry_out(struct tn_server *server)
{
    struct tn_input *heard = &server->input;

    if (heard->count > 0)
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
    if (server->bulk.count == 0) /* Otherwise there is more in the buffer. */
        heard->len = 0;
}

/* --- Reading ---------------------------------------------------------------------------------- */

void tn_input_call(struct tn_conn *conn)
{
    struct tn_input *heard = &conn->server->input;

    if (conn->called != NULL)
        return;
    if (heard->called_count == TN_INPUT_MAX)
        tn_input_read(conn->server);
    if (conn->state == TN_CONN_CLOSED) /* By what another said. */
        return;
    conn->called = &heard->called[heard->called_count++];
    *conn->called = conn;
}

/* Where to read to: behind half a command that is there already, or a share. False: there is no
 * room before the rest is carried out. */
static bool find_room(struct tn_conn *conn, uv_buf_t *ret_buf)
{
    struct tn_input *heard = &conn->server->input;

    if (conn->in_len > 0) {
        tn_conn_room_in(conn, NULL, ret_buf);
        return true;
    }
    if (conn->share < SHARE_MIN)
        conn->share = SHARE_MIN;
    if (conn->heard != NULL || sizeof heard->bytes - heard->len < conn->share + APART)
        return false;
    *ret_buf = uv_buf_init(heard->bytes + heard->len, conn->share);
    heard->len += conn->share + APART;
    return true;
}

/* From the connection at @at on, as many as there is room for. Returns how far it came. */
static uint32_t ask_some(struct tn_server *server, uint32_t at)
{
    struct tn_input *heard = &server->input;
    struct tn_bulk *bulk = &server->bulk;
    uv_buf_t buf;

    for (; at < heard->called_count; at++) {
        struct tn_conn *conn = heard->called[at];
        if (conn == NULL)
            continue;
        if (bulk->count == TN_BULK_MAX || heard->count + bulk->count == TN_INPUT_MAX ||
            !find_room(conn, &buf))
            break;
        conn->called = NULL;
        tn_bulk_receive(bulk, conn, conn->fd, buf.base, buf.len);
    }
    return at;
}

static void add(struct tn_conn *conn, char *bytes, size_t len)
{
    struct tn_input *heard = &conn->server->input;

    conn->heard = &heard->list[heard->count++];
    *conn->heard = (struct tn_saying) { .conn = conn, .bytes = bytes, .len = len };
    if (len == conn->share && conn->share < TN_FRAME_BYTES)
        conn->share *= 4;
    else if (len < conn->share / 8)
        conn->share /= 4;
}

/* In the order in which they were called: who hung up before another spoke is gone by then. */
static void take_answers(struct tn_server *server)
{
    struct tn_bulk *bulk = &server->bulk;

    for (uint32_t i = 0; i < bulk->count; i++) {
        struct tn_conn *conn = bulk->list[i].arg;
        ssize_t got = bulk->list[i].result;
        if (conn->state == TN_CONN_CLOSED || got == -EAGAIN || got == -EINTR)
            continue;
        if (got <= 0) {
            carry_out(server); /* Its last word may be among it. */
            tn_conn_close(conn);
        } else if (conn->in_len == 0 && conn->state != TN_CONN_DEAF) {
            add(conn, bulk->list[i].bytes, (size_t)got);
        } else {
            tn_conn_hear(conn, bulk->list[i].bytes, (size_t)got);
        }
    }
    bulk->count = 0;
}

void tn_input_read(struct tn_server *server)
{
    struct tn_input *heard = &server->input;

    for (uint32_t at = 0; at < heard->called_count;) {
        at = ask_some(server, at);
        if (server->bulk.count > 0) {
            tn_bulk_go(&server->bulk);
            take_answers(server);
        } else if (at < heard->called_count) {
            carry_out(server);
        }
    }
    heard->called_count = 0;
}

/* --- For the others --------------------------------------------------------------------------- */

char *tn_input_room(struct tn_server *server)
{
    struct tn_input *heard = &server->input;

    if (sizeof heard->bytes - heard->len < TN_FRAME_BYTES)
        carry_out(server);
    return heard->bytes + heard->len;
}

void tn_input_strike_out(struct tn_conn *conn)
{
    if (conn->heard != NULL)
        conn->heard->conn = NULL;
    if (conn->called != NULL)
        *conn->called = NULL;
    conn->heard = NULL;
    conn->called = NULL;
}

void tn_input_carry_out(struct tn_server *server)
{
    tn_input_read(server);
    carry_out(server);
}
