/* load_zookeeper.c - what a lease is on ZooKeeper: an ephemeral node of the connection's session.
 *
 * Its protocol ("jute") frames everything by a length of four bytes, big-endian. In hand-overs each
 * of the two has a node of its own and watches the other's; who sees the other's vanish looks once
 * more, as Curator's recipe does, and holds when there is none before it. */
#include <stdio.h>

#include "bench/load.h"

enum { CREATE = 1, DELETE = 2, EXISTS = 3, PING = 11 };
enum { PING_XID = -2, EVENT_XID = -1 };
enum { PATH_MAX_LEN = 80, NODE_DELETED = 2, NO_NODE = -101 };
enum { CREATING, WATCHING, LOOKING }; /* Stages of a wait. */

static void put_text(struct conn *conn, const char *text)
{
    load_put_u32(conn, (uint32_t)strlen(text));
    load_put(conn, text, strlen(text));
}

static void path_of(const struct conn *conn, int number, char ret_path[PATH_MAX_LEN])
{
    if (number < 0)
        (void)snprintf(ret_path, PATH_MAX_LEN, "/%s", conn->name);
    else
        (void)snprintf(ret_path, PATH_MAX_LEN, "/%s-%d", conn->name, number);
}

/* A request about a node: of hand-over @number, or of the name itself (-1). */
static void put_request(struct conn *conn, int kind, int number)
{
    char path[PATH_MAX_LEN];
    size_t at = conn->out_len;

    path_of(conn, number, path);
    load_put_u32(conn, 0); /* The length, once it is known. */
    load_put_u32(conn, (uint32_t)(kind == PING ? PING_XID : 1));
    load_put_u32(conn, (uint32_t)kind);
    if (kind != PING)
        put_text(conn, path);
    if (kind == CREATE) {
        put_text(conn, conn->term);
        load_put_u32(conn, 1); /* One rule: everybody may do all. */
        load_put_u32(conn, 31);
        put_text(conn, "world");
        put_text(conn, "anyone");
        load_put_u32(conn, 1); /* Ephemeral. */
    } else if (kind == DELETE) {
        load_put_u32(conn, UINT32_MAX); /* Whatever its version. */
    } else if (kind == EXISTS) {
        load_put(conn, "\1", 1); /* And watch it. */
    }
    size_t end = conn->out_len;
    conn->out_len = at;
    load_put_u32(conn, (uint32_t)(end - at - 4));
    conn->out_len = end;
}

static void put_hello(struct conn *conn)
{
    static const char nothing[16];

    load_put_u32(conn, 44);
    load_put(conn, nothing, 12); /* Version 0, no transaction seen. */
    load_put_u32(conn, conn->ttl_ms);
    load_put(conn, nothing, 8); /* A new session, */
    load_put_u32(conn, 16);
    load_put(conn, nothing, 16); /* without a password. */
}

static void zookeeper_begin(struct conn *conn)
{
    switch (conn->op) {
    case OP_OPEN:
        put_hello(conn);
        break;
    case OP_ACQUIRE:
        put_request(conn, CREATE, -1);
        break;
    case OP_RENEW:
        put_request(conn, PING, -1);
        break;
    case OP_LEAD:
    case OP_WAIT:
        put_request(conn, CREATE, (int)conn->number);
        break;
    case OP_RELEASE:
        put_request(conn, DELETE, (int)conn->number);
        break;
    }
}

/* Create, watch the other's, and look once more when it is gone. Returns whether it holds. */
static bool wait_on(struct conn *conn, bool deleted, int error)
{
    if (conn->stage == LOOKING)
        return error == NO_NODE;
    if (conn->stage == CREATING || deleted) {
        put_request(conn, EXISTS, 1 - (int)conn->number);
        conn->stage = deleted ? LOOKING : WATCHING;
    }
    return false;
}

/* One frame of @len bytes: transaction, error, and what it is about. */
static bool take_frame(struct conn *conn, const char *frame, size_t len)
{
    if (conn->op == OP_OPEN)
        return true;
    if (len < 16)
        load_fail("zookeeper", "a short reply", 13);
    int xid = (int)load_u32(frame);
    int error = (int)load_u32(frame + 12);
    bool event = xid == EVENT_XID;
    if (!event && error != 0 &&
        !(error == NO_NODE && conn->op == OP_WAIT && conn->stage == LOOKING)) {
        char text[40];
        (void)snprintf(text, sizeof text, "operation %d, error %d", (int)conn->op, error);
        load_fail("zookeeper", text, strlen(text));
    }
    if (conn->op != OP_WAIT) {
        conn->granted = true;
        return !event;
    }
    return wait_on(conn, event && len >= 20 && load_u32(frame + 16) == NODE_DELETED, error);
}

static bool zookeeper_arrived(struct conn *conn)
{
    bool over = false;

    while (!over && conn->in_len >= 4 && conn->in_len - 4 >= load_u32(conn->in)) {
        size_t len = load_u32(conn->in);
        over = take_frame(conn, conn->in + 4, len);
        load_take(conn, len + 4);
    }
    return over;
}

const struct protocol zookeeper_protocol = { "zookeeper", false, zookeeper_begin,
                                             zookeeper_arrived };
