/* load_etcd.c - what a lease is on etcd: a lease of its own and a key under it.
 *
 * An acquire is what everybody does there: LeaseGrant, then a transaction that puts the key if it
 * is not there. A renewal is a message on the stream of LeaseKeepAlive. In hand-overs each of the
 * two has a key of its own and watches the other's; who sees the other's vanish looks once more, as
 * etcd's own election does, and holds when there is none before it.
 * The messages are few and small, so they are written by hand; numbers are those of etcd's
 * rpc.proto. */
#include "bench/load.h"

#include <stdio.h>
#include <stdlib.h>

#include "stores/etcd/grpc.h"

struct own {
    struct conn *conn;
    struct tn_grpc *grpc;
    struct tn_grpc_call call, keep, watch;
    uint64_t lease;     /* Of the session. */
    uint64_t key_lease; /* Of the key being put. */
    uint64_t answer_id; /* In the reply to LeaseGrant. */
    bool done, message, event;
};

/* --- Messages --------------------------------------------------------------------------------- */

struct message {
    uint8_t bytes[512];
    size_t len;
};

static void add_varint(struct message *message, uint64_t number)
{
    do {
        if (message->len == sizeof message->bytes)
            load_fail("etcd", "a message is too long", 21);
        message->bytes[message->len++] = (uint8_t)(number > 127 ? number | 128 : number);
    } while ((number >>= 7) != 0);
}

static void add_number(struct message *message, unsigned field, uint64_t number)
{
    add_varint(message, field << 3);
    add_varint(message, number);
}

static void add_bytes(struct message *message, unsigned field, const void *bytes, size_t len)
{
    add_varint(message, field << 3 | 2);
    add_varint(message, len);
    if (len > sizeof message->bytes - message->len)
        load_fail("etcd", "a message is too long", 21);
    memcpy(message->bytes + message->len, bytes, len);
    message->len += len;
}

static void add_message(struct message *message, unsigned field, const struct message *inner)
{
    add_bytes(message, field, inner->bytes, inner->len);
}

static uint64_t take_varint(const uint8_t *bytes, size_t len, size_t *at)
{
    uint64_t number = 0;

    for (unsigned shift = 0; *at < len && shift < 64; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return number;
}

/* The number in @wanted, or how long the bytes in it are; 0 when there is no such field. */
static uint64_t find_field(const uint8_t *bytes, size_t len, unsigned wanted)
{
    for (size_t at = 0; at < len;) {
        uint64_t head = take_varint(bytes, len, &at);
        uint64_t value = take_varint(bytes, len, &at);
        if (head >> 3 == wanted)
            return value;
        if ((head & 7) == 2)
            at += value;
    }
    return 0;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void got_message(struct tn_grpc_call *call, const uint8_t *data, size_t len)
{
    struct own *own = call->arg;

    own->message = true;
    if (call == &own->watch)
        own->event = find_field(data, len, 11) != 0;
    else
        own->answer_id = find_field(data, len, 2); /* LeaseGrant's ID; a transaction's success. */
}

static void got_done(struct tn_grpc_call *call)
{
    struct own *own = call->arg;

    if (call->status != 0)
        load_fail("etcd", call->text, strlen(call->text));
    own->done = true;
}

static void send_call(struct own *own, struct tn_grpc_call *call, const char *path,
                      const struct message *message, bool last)
{
    own->done = own->message = own->event = false;
    int rc = 0;
    if (call->grpc == NULL) {
        *call = (struct tn_grpc_call) { .message = got_message, .done = got_done, .arg = own };
        rc = tn_grpc_start(own->grpc, call, path, NULL, 0);
    }
    if (rc == 0)
        rc = tn_grpc_send(call, message->bytes, message->len, last);
    if (rc != 0)
        load_fail("etcd", "a call cannot be made", 21);
}

static void pull(struct conn *conn)
{
    struct own *own = conn->own;
    const uint8_t *bytes;
    ssize_t len;

    while ((len = tn_grpc_pull(own->grpc, &bytes)) > 0)
        load_put(conn, bytes, (size_t)len);
}

/* --- Operations ------------------------------------------------------------------------------- */

static void grant(struct own *own)
{
    struct message message = { .len = 0 };

    add_number(&message, 1, own->conn->ttl_ms / 1000);
    send_call(own, &own->call, "/etcdserverpb.Lease/LeaseGrant", &message, true);
}

static size_t key_of(const struct conn *conn, int number, char ret_key[64])
{
    int len = number < 0 ? snprintf(ret_key, 64, "%s", conn->name)
                         : snprintf(ret_key, 64, "%s/%d", conn->name, number);
    return (size_t)len;
}

/* Put the key under @lease if it is not there. */
static void put_key(struct own *own, int number, uint64_t lease)
{
    struct message message = { .len = 0 }, compare = { .len = 0 };
    struct message put = { .len = 0 }, op = { .len = 0 };
    char key[64];
    size_t len = key_of(own->conn, number, key);

    add_number(&compare, 2, 1); /* Its create revision */
    add_bytes(&compare, 3, key, len);
    add_number(&compare, 5, 0); /* is 0. */
    add_bytes(&put, 1, key, len);
    add_bytes(&put, 2, own->conn->term, 32);
    add_number(&put, 3, lease);
    add_message(&op, 2, &put);
    add_message(&message, 1, &compare);
    add_message(&message, 2, &op);
    send_call(own, &own->call, "/etcdserverpb.KV/Txn", &message, true);
}

static void delete_key(struct own *own)
{
    struct message message = { .len = 0 };
    char key[64];
    size_t len = key_of(own->conn, (int)own->conn->number, key);

    add_bytes(&message, 1, key, len);
    send_call(own, &own->call, "/etcdserverpb.KV/DeleteRange", &message, true);
}

static void watch_other(struct own *own)
{
    struct message message = { .len = 0 }, create = { .len = 0 };
    char key[64];
    size_t len = key_of(own->conn, 1 - (int)own->conn->number, key);

    add_bytes(&create, 1, key, len);
    add_number(&create, 5, 0); /* No puts. */
    add_message(&message, 1, &create);
    tn_grpc_cancel(&own->watch);
    send_call(own, &own->watch, "/etcdserverpb.Watch/Watch", &message, false);
}

static void look_again(struct own *own)
{
    struct message message = { .len = 0 };
    char key[64];
    size_t len = key_of(own->conn, 1 - (int)own->conn->number, key);

    add_bytes(&message, 1, key, len);
    send_call(own, &own->call, "/etcdserverpb.KV/Range", &message, true);
}

static void keep_alive(struct own *own)
{
    struct message message = { .len = 0 };

    add_number(&message, 1, own->lease);
    send_call(own, &own->keep, "/etcdserverpb.Lease/LeaseKeepAlive", &message, false);
}

static void etcd_begin(struct conn *conn)
{
    struct own *own = conn->own;

    switch (conn->op) {
    case OP_OPEN:
        own = calloc(1, sizeof *own);
        if (own == NULL || tn_grpc_new(&own->grpc, "bench", false) != 0)
            load_fail("no memory", "", 0);
        own->conn = conn;
        conn->own = own;
        grant(own);
        break;
    case OP_ACQUIRE:
        grant(own);
        break;
    case OP_RENEW:
        keep_alive(own);
        break;
    case OP_LEAD:
    case OP_WAIT:
        put_key(own, (int)conn->number, own->lease);
        break;
    case OP_RELEASE:
        delete_key(own);
        break;
    }
    pull(conn);
}

/* Returns whether the operation is over. */
static bool go_on(struct conn *conn)
{
    struct own *own = conn->own;
    int stage = conn->stage;

    if (conn->op == OP_RENEW)
        return own->message;
    if (conn->op == OP_WAIT && stage == 1 && own->event) {
        conn->stage++;
        look_again(own);
        return false;
    }
    if (!own->done)
        return false;
    conn->stage++;
    conn->granted = own->answer_id != 0;
    if (conn->op == OP_OPEN)
        own->lease = own->answer_id;
    else if (conn->op == OP_ACQUIRE && stage == 0)
        put_key(own, -1, own->answer_id);
    else if (conn->op == OP_WAIT && stage == 0)
        watch_other(own);
    return conn->op == OP_WAIT ? stage == 2 : conn->op != OP_ACQUIRE || stage == 1;
}

static bool etcd_arrived(struct conn *conn)
{
    struct own *own = conn->own;
    int rc = tn_grpc_feed(own->grpc, (const uint8_t *)conn->in, conn->in_len);

    if (rc != 0)
        load_fail("etcd", "the connection is damaged", 25);
    conn->in_len = 0;
    bool over = go_on(conn);
    pull(conn);
    return over;
}

const struct protocol etcd_protocol = { "etcd", false, etcd_begin, etcd_arrived };
