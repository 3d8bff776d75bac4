/* load.h - one way to load every lease server: bytes out, bytes in, one request outstanding.
 *
 * load.c has the connections, the loop and the clock; each protocol has a file that knows what a
 * lease is there. An operation may take several requests: begin() puts the first one into @out,
 * arrived() takes replies out of @in and puts the next one there, until the operation is over. */
#ifndef TN_BENCH_LOAD_H
#define TN_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum op {
    OP_OPEN,    /* After connecting: a session, and a lease to be renewed. */
    OP_ACQUIRE, /* A name that nobody has; conn->granted tells. */
    OP_RENEW,
    OP_LEAD, /* As OP_ACQUIRE, of a name that another one will wait for. */
    OP_WAIT, /* For that name; over as soon as the peer knows that it holds. */
    OP_RELEASE,
};

struct conn {
    const struct protocol *protocol;
    int fd;
    bool local;      /* A Unix socket. */
    unsigned number; /* In hand-overs the two are 0 and 1. */
    unsigned ttl_ms;
    enum op op;
    int stage; /* How far the operation has come; 0 at its begin. */
    bool granted;
    char name[48];    /* Of the operation. */
    char session[33]; /* Two secrets: for ever, and per term. */
    char term[33];
    uint64_t token;
    void *own; /* The protocol's. */
    uint64_t sent_at;
    size_t out_len, in_len;
    char out[4096];
    char in[16384];
};

struct protocol {
    const char *name;
    bool polls; /* Nobody is told when a lease expires: whoever wants it has to ask. */
    void (*begin)(struct conn *conn);
    /* Takes all whole replies out of conn->in. Returns whether the operation is over. */
    bool (*arrived)(struct conn *conn);
};

extern const struct protocol tenured_protocol, redis_protocol, floor_protocol;
extern const struct protocol etcd_protocol, zookeeper_protocol, postgres_protocol;

/* Says it and ends the program. */
_Noreturn void load_fail(const char *what, const char *detail, size_t len);

/* 32 hexadecimal digits that did not occur before, in this run or another, and a zero. */
void load_secret(char ret_text[33]);

static inline void load_put(struct conn *conn, const void *bytes, size_t len)
{
    if (len > sizeof conn->out - conn->out_len)
        load_fail("a request is too long", "", 0);
    memcpy(conn->out + conn->out_len, bytes, len);
    conn->out_len += len;
}

static inline void load_put_u32(struct conn *conn, uint32_t number)
{
    uint8_t bytes[4] = { (uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                         (uint8_t)number };
    load_put(conn, bytes, sizeof bytes);
}

static inline uint32_t load_u32(const char *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline void load_take(struct conn *conn, size_t len)
{
    conn->in_len -= len;
    memmove(conn->in, conn->in + len, conn->in_len);
}

#endif
