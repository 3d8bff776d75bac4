/* load_resp.c - what a lease is on servers that speak the protocol of Redis: tenured and Redis
 * itself; and the floor, which answers tenured's bytes without a thought.
 *
 * On Redis a lease is a name that is set if it is free, and a token that only grows; both in one
 * script. Who releases deletes the name and pushes to a list on which the next one blocks, and who
 * then acquires: without polling there is no shorter way. */
#include "bench/load.h"
#include "wire/resp.h"

static const char acquire_script[] =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "
    "return redis.call('INCR', KEYS[2]) end return false";
static const char renew_script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
static const char release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) "
    "return redis.call('RPUSH', KEYS[2], '1') end return 0";

static char hashes[3][41]; /* Of the scripts, in that order. */

static void put(struct conn *conn, uint32_t count, const char *const *words)
{
    struct tn_resp_out out = { .buf = conn->out, .size = sizeof conn->out, .len = conn->out_len };

    tn_resp_put_array(&out, count);
    for (uint32_t i = 0; i < count; i++)
        tn_resp_put_text(&out, words[i]);
    if (out.full)
        load_fail("a request is too long", "", 0);
    conn->out_len = out.len;
}

#define PUT(conn, ...)                                                   \
    put(conn, sizeof((const char *[]) { __VA_ARGS__ }) / sizeof(char *), \
        (const char *[]) { __VA_ARGS__ })

static const char *digits(uint64_t number, char ret_text[24])
{
    char *at = ret_text + 23;

    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    return at;
}

static uint64_t number_behind(const char *at)
{
    uint64_t number = 0;

    while (*++at >= '0' && *at <= '9')
        number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

/* The length of the reply at the front of conn->in, or 0 when it is not all there. */
static size_t whole_reply(struct conn *conn)
{
    struct tn_resp_scan scan = { 0 };
    int64_t len = tn_resp_scan(&scan, sizeof conn->in, 64, conn->in, conn->in_len);

    if (len < 0 || (len > 0 && conn->in[0] == '-'))
        load_fail(conn->protocol->name, conn->in, conn->in_len);
    return (size_t)len;
}

/* --- tenured ---------------------------------------------------------------------------------- */

static void tenured_begin(struct conn *conn)
{
    char text[24];

    switch (conn->op) {
    case OP_OPEN:
        load_secret(conn->term);
        if (conn->local)
            PUT(conn, "SESSION", "OPEN", conn->session, digits(conn->ttl_ms, text), "BIND");
        else
            PUT(conn, "SESSION", "OPEN", conn->session, digits(conn->ttl_ms, text));
        PUT(conn, "LEASE", "ACQUIRE", conn->session, conn->term, conn->name);
        break;
    case OP_ACQUIRE:
    case OP_LEAD:
        PUT(conn, "LEASE", "ACQUIRE", conn->session, conn->term, conn->name);
        break;
    case OP_RENEW:
        PUT(conn, "SESSION", "RENEW", conn->session);
        break;
    case OP_WAIT:
        PUT(conn, "LEASE", "ACQUIRE", conn->session, conn->term, conn->name, "WAIT", "0");
        break;
    case OP_RELEASE:
        PUT(conn, "LEASE", "RELEASE", conn->session, conn->term, conn->name,
            digits(conn->token, text));
        break;
    }
}

static bool tenured_arrived(struct conn *conn)
{
    size_t len = whole_reply(conn);

    if (len == 0)
        return false;
    if (conn->op == OP_OPEN && conn->stage++ == 0) {
        load_take(conn, len);
        return conn->in_len > 0 && tenured_arrived(conn);
    }
    if (conn->op != OP_RENEW && conn->op != OP_RELEASE) {
        const char *colon = memchr(conn->in, ':', len);
        conn->granted = len > 15 && memcmp(conn->in + 8, "granted", 7) == 0;
        conn->token = colon != NULL ? number_behind(colon) : 0;
    }
    load_take(conn, len);
    return true;
}

/* --- Redis ------------------------------------------------------------------------------------ */

static void put_acquire(struct conn *conn)
{
    char text[24];

    PUT(conn, "EVALSHA", hashes[0], "2", conn->name, "token", conn->term,
        digits(conn->ttl_ms, text));
}

static void redis_begin(struct conn *conn)
{
    char text[24];

    switch (conn->op) {
    case OP_OPEN:
        memcpy(conn->term, conn->session, sizeof conn->term);
        PUT(conn, "SCRIPT", "LOAD", acquire_script);
        PUT(conn, "SCRIPT", "LOAD", renew_script);
        PUT(conn, "SCRIPT", "LOAD", release_script);
        PUT(conn, "SET", conn->name, conn->term, "PX", digits(conn->ttl_ms, text));
        break;
    case OP_ACQUIRE:
    case OP_LEAD:
        put_acquire(conn);
        break;
    case OP_RENEW:
        PUT(conn, "EVALSHA", hashes[1], "1", conn->name, conn->term, digits(conn->ttl_ms, text));
        break;
    case OP_WAIT:
        PUT(conn, "BLPOP", "bell", "0");
        break;
    case OP_RELEASE:
        PUT(conn, "EVALSHA", hashes[2], "2", conn->name, "bell", conn->term);
        break;
    }
}

static bool redis_arrived(struct conn *conn)
{
    size_t len;

    while ((len = whole_reply(conn)) > 0) {
        int stage = conn->stage++;
        if (conn->op == OP_OPEN && stage < 3)
            memcpy(hashes[stage], conn->in + 5, 40); /* Behind "$40" and a line's end. */
        conn->granted = conn->in[0] == ':';
        load_take(conn, len);
        if (conn->op == OP_WAIT && stage == 0)
            put_acquire(conn);
        else if (conn->op != OP_OPEN || stage == 3)
            return true;
    }
    return false;
}

static void floor_begin(struct conn *conn)
{
    if (conn->op == OP_OPEN)
        load_secret(conn->term);
    PUT(conn, "LEASE", "ACQUIRE", conn->session, conn->term, conn->name);
}

static bool floor_arrived(struct conn *conn)
{
    size_t len = whole_reply(conn);

    load_take(conn, len);
    return len > 0;
}

const struct protocol tenured_protocol = { "tenured", false, tenured_begin, tenured_arrived };
const struct protocol redis_protocol = { "redis", true, redis_begin, redis_arrived };
const struct protocol floor_protocol = { "floor", false, floor_begin, floor_arrived };
