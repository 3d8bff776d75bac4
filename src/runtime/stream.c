/* stream.c - connecting, failing over, reading and writing; stream.h has the contract.
 *
 * A link is one attempt to connect and what becomes of it. It is given up in one step - the stream
 * forgets it - but its memory stays until libuv has let go of its handle and of the lookup, which
 * cannot be interrupted. */
#define _GNU_SOURCE /* struct ucred */
#include "runtime/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runtime/socket_trust.h"

enum {
    PAUSE_MS_MIN = 50,
    PAUSE_MS_MAX = 2000,
    REACH_MS_MIN = 250,
    REACH_MS_MAX = 5000,
    CHUNK = 65536,
    BLOCK = 16384,
    WHERE_SHOWN = 120,
};

struct tn_stream_link {
    struct tn_stream *stream; /* For counting; see @given_up. */
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    uv_connect_t connect;
    uv_getaddrinfo_t lookup;
    struct tn_tls *tls;
    unsigned addresses; /* Of the host. */
    bool looking_up, open, given_up;
    bool heard;  /* Any byte at all. */
    bool spoken; /* Bytes for the owner. */
    uint8_t chunk[CHUNK];
};

struct tn_stream_write {
    uv_write_t req;
    size_t len, size;
    uint8_t data[];
};

static void reach(struct tn_stream *stream);
static void hear_timer(uv_timer_t *timer);

/* --- Giving up -------------------------------------------------------------------------------- */

static void count_down(struct tn_stream *stream)
{
    TN_ASSERT(stream->parts > 0);
    if (--stream->parts == 0 && stream->closing)
        stream->closed(stream->arg);
}

static void free_if_over(struct tn_stream_link *link)
{
    struct tn_stream *stream = link->stream;

    if (!link->given_up || link->looking_up || link->open)
        return;
    free(link);
    count_down(stream);
}

static void handle_closed(uv_handle_t *handle)
{
    struct tn_stream_link *link = handle->data;

    link->open = false;
    free_if_over(link);
}

static void forget_output(struct tn_stream *stream)
{
    free(stream->out);
    stream->out = NULL;
    (void)uv_prepare_stop(&stream->turn);
}

static void give_up(struct tn_stream *stream)
{
    struct tn_stream_link *link = stream->link;
    bool up = stream->up;

    if (link == NULL)
        return;
    stream->link = NULL;
    stream->up = false;
    stream->broken = false;
    forget_output(stream);
    link->given_up = true;
    if (link->looking_up)
        (void)uv_cancel((uv_req_t *)&link->lookup);
    if (link->open)
        uv_close(&link->uv.handle, handle_closed);
    tn_tls_free(link->tls);
    link->tls = NULL;
    free_if_over(link);
    if (up)
        stream->host->down(stream->arg);
}

static void say(struct tn_stream *stream, int status, const char *why)
{
    struct tn_text text;

    tn_text_init(&text, stream->error, sizeof stream->error);
    tn_text_addf(&text, "%s %.*s: ", stream->scheme, WHERE_SHOWN, stream->at.where);
    tn_text_add(&text, why);
    tn_text_cut(&text);
    stream->status = status;
}

/* The next endpoint at once, but all of them in a row only after a pause. */
static void pause_then_reach(struct tn_stream *stream)
{
    uint64_t pause = 0;

    if (stream->closing)
        return;
    if (stream->failures % stream->count == 0) {
        unsigned rounds = stream->failures / stream->count;
        uint64_t most = PAUSE_MS_MIN;
        for (unsigned i = 1; i < rounds && most < PAUSE_MS_MAX; i++)
            most *= 2;
        pause = most / 2 + tn_prng_below(&stream->prng, most);
    }
    int rc = uv_timer_start(&stream->timer, hear_timer, pause, 0);
    TN_ASSERT(rc == 0);
}

static void fail(struct tn_stream *stream, int status, const char *why)
{
    if (stream->closing || stream->link == NULL)
        return;
    say(stream, status, why);
    stream->failures++;
    stream->endpoint = (stream->endpoint + 1) % stream->count;
    stream->address = 0;
    give_up(stream);
    pause_then_reach(stream);
}

void tn_stream_drop(struct tn_stream *stream, const char *why)
{
    fail(stream, TENURE_E_UNAVAILABLE, why);
}

/* With the remedy, where nobody listens. */
static const char *uv_text(const struct tn_stream *stream, int rc)
{
    if (rc == UV_ENOENT && stream->at.local)
        return "no such socket; check the path, and that the server runs";
    if (rc == UV_ECONNREFUSED)
        return "connection refused; check the address, and that the server runs";
    return uv_strerror(rc);
}

static void fail_uv(struct tn_stream *stream, int rc)
{
    bool denied = rc == UV_EACCES || rc == UV_EPERM;
    fail(stream, denied ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE, uv_text(stream, rc));
}

void tn_stream_doubt(struct tn_stream *stream, const char *why)
{
    if (stream->closing || stream->link == NULL || stream->broken)
        return;
    say(stream, TENURE_E_UNAVAILABLE, why);
    stream->broken = true;
    int rc = uv_timer_start(&stream->timer, hear_timer, 0, 0);
    TN_ASSERT(rc == 0);
}

void tn_stream_proven(struct tn_stream *stream)
{
    stream->failures = 0;
    if (stream->broken) /* It has a reason already. */
        return;
    stream->error[0] = '\0';
    stream->status = TENURE_E_UNAVAILABLE;
}

/* Another address of the same host, if it has more than one. */
static void try_next_address(struct tn_stream *stream, unsigned count, int rc)
{
    if (stream->address + 1 >= count) {
        fail_uv(stream, rc);
        return;
    }
    give_up(stream);
    stream->address++;
    reach(stream);
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_stream *stream = timer->data;
    char why[TN_ERROR_TEXT];

    if (stream->link == NULL) {
        reach(stream);
    } else if (stream->broken) {
        size_t skip = strlen(stream->scheme) + strnlen(stream->at.where, WHERE_SHOWN) + 3;
        (void)snprintf(why, sizeof why, "%s", stream->error + skip);
        fail(stream, stream->status, why);
    } else if (!stream->up) {
        (void)snprintf(why, sizeof why,
                       "%s within %llu ms; is the address right, and the server up?",
                       stream->link->looking_up ? "the host name was not found" : "no connection",
                       (unsigned long long)stream->reach_ms);
        tn_stream_drop(stream, why);
    }
}

/* Why the connection of @link ended, by @rc of libuv. A server that closes a connection before it
 * has read everything resets it, and what it said last may be lost on the way: so no more can be
 * made of an end than of a reset. */
static const char *explain_end(const struct tn_stream_link *link, int rc, char why[TN_ERROR_TEXT])
{
    const struct tn_stream *stream = link->stream;
    bool hung_up = rc == UV_EOF || rc == UV_ECONNRESET || rc == UV_EPIPE;

    if (!hung_up || link->spoken)
        return rc == UV_EOF ? "the server closed the connection" : uv_strerror(rc);
    if (link->tls != NULL)
        return link->heard ? "the server ended TLS; does it want a certificate (cert=, key=)?"
                           : "the server hung up on TLS; does it use TLS?";
    if (stream->tls_scheme == NULL)
        return "the server closed the connection at once";
    (void)snprintf(why, TN_ERROR_TEXT,
                   "the server closed the connection at once; does it want TLS (%s:)?",
                   stream->tls_scheme);
    return why;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void written(uv_write_t *req, int status)
{
    struct tn_stream_link *link = req->data;
    char why[TN_ERROR_TEXT];

    if (status < 0 && !link->given_up)
        tn_stream_doubt(link->stream, explain_end(link, status, why));
    free((struct tn_stream_write *)(void *)req);
}

/* Takes @write over. */
static bool write_out(struct tn_stream_link *link, struct tn_stream_write *write)
{
    uv_buf_t buf = uv_buf_init((char *)write->data, (unsigned)write->len);

    write->req.data = link;
    if (uv_write(&write->req, &link->uv.stream, &buf, 1, written) == 0)
        return true;
    free(write);
    return false;
}

static bool write_tls(struct tn_stream_link *link)
{
    uint8_t block[BLOCK];
    size_t len;

    while ((len = tn_tls_pull(link->tls, block, sizeof block)) > 0) {
        struct tn_stream_write *write = malloc(sizeof *write + len);
        if (write == NULL)
            return false;
        write->len = len;
        memcpy(write->data, block, len);
        if (!write_out(link, write))
            return false;
    }
    return true;
}

void tn_stream_flush(struct tn_stream *stream)
{
    struct tn_stream_write *out = stream->out;
    bool good;

    if (out == NULL)
        return;
    stream->out = NULL;
    (void)uv_prepare_stop(&stream->turn);
    if (stream->link->tls == NULL) {
        good = write_out(stream->link, out);
    } else {
        good = tn_tls_write(stream->link->tls, out->data, out->len) == 0 && write_tls(stream->link);
        free(out);
    }
    if (!good)
        tn_stream_doubt(stream, "cannot write; out of memory?");
}

static void hear_turn(uv_prepare_t *turn)
{
    tn_stream_flush(turn->data);
}

void tn_stream_write(struct tn_stream *stream, const void *data, size_t len)
{
    struct tn_stream_write *out = stream->out;
    size_t have = out != NULL ? out->len : 0;

    if (!stream->up || stream->broken || len == 0)
        return;
    if (out == NULL || out->size - have < len) {
        size_t size = (have + len) * 2 < BLOCK ? BLOCK : (have + len) * 2;
        out = realloc(out, sizeof *out + size);
        if (out == NULL) {
            tn_stream_doubt(stream, "out of memory");
            return;
        }
        out->size = size;
    }
    memcpy(out->data + have, data, len);
    out->len = have + len;
    if (stream->out == NULL)
        (void)uv_prepare_start(&stream->turn, hear_turn);
    stream->out = out;
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void came_up(struct tn_stream *stream)
{
    if (!stream->broken)
        (void)uv_timer_stop(&stream->timer);
    stream->up = true;
    stream->heard_at = tn_clock_now(stream->clock);
    stream->host->up(stream->arg);
}

static void give_bytes(struct tn_stream_link *link, const uint8_t *data, size_t len)
{
    link->spoken = true;
    link->stream->host->bytes(link->stream->arg, data, len);
}

static void feed_tls(struct tn_stream *stream, const uint8_t *data, size_t len)
{
    struct tn_stream_link *link = stream->link;
    uint8_t plain[BLOCK];
    ssize_t got = 0;

    enum tn_tls_state state = tn_tls_feed(link->tls, data, len);
    if (!write_tls(link))
        state = TN_TLS_FAILED;
    if (state == TN_TLS_FAILED) {
        tn_stream_drop(stream, tn_tls_error(link->tls));
        return;
    }
    if (state == TN_TLS_UP && !stream->up)
        came_up(stream);
    while (state == TN_TLS_UP && stream->link == link &&
           (got = tn_tls_read(link->tls, plain, sizeof plain)) > 0)
        give_bytes(link, plain, (size_t)got);
    if (got < 0 && stream->link == link)
        tn_stream_drop(stream, tn_tls_error(link->tls));
}

static void give_chunk(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_buf)
{
    struct tn_stream_link *link = handle->data;

    (void)wanted;
    *ret_buf = uv_buf_init((char *)link->chunk, sizeof link->chunk);
}

static void hear_bytes(uv_stream_t *handle, ssize_t got, const uv_buf_t *buf)
{
    struct tn_stream_link *link = handle->data;
    struct tn_stream *stream = link->stream;
    char why[TN_ERROR_TEXT];

    if (link->given_up || got == 0)
        return;
    if (got < 0) {
        tn_stream_drop(stream, explain_end(link, (int)got, why));
        return;
    }
    link->heard = true;
    stream->heard_at = tn_clock_now(stream->clock);
    if (link->tls != NULL)
        feed_tls(stream, (const uint8_t *)buf->base, (size_t)got);
    else
        give_bytes(link, (const uint8_t *)buf->base, (size_t)got);
}

/* --- Connecting ------------------------------------------------------------------------------- */

/* Whoever made the socket could be anybody who may write to its directory. */
static bool is_trusted_peer(struct tn_stream *stream)
{
    int fd = -1;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    if ((!stream->own_peer && !stream->service_peer) || !stream->at.local)
        return true;
    tn_text_init(&text, why, sizeof why);
    if (uv_fileno(&stream->link->uv.handle, &fd) == 0 &&
        tn_socket_trust(fd, stream->at.host, stream->service_peer ? TN_TRUST_SERVICE : TN_TRUST_OWN,
                        &text) == 0)
        return true;
    fail(stream, TENURE_E_DENIED, why[0] != '\0' ? why : "cannot tell whose server this is");
    return false;
}

static void connected(uv_connect_t *req, int status)
{
    struct tn_stream_link *link = req->data;
    struct tn_stream *stream = link->stream;

    if (link->given_up)
        return;
    if (status < 0) {
        try_next_address(stream, link->addresses, status);
        return;
    }
    if (!is_trusted_peer(stream))
        return;
    if (!stream->at.local)
        (void)uv_tcp_nodelay(&link->uv.tcp, 1);
    int rc = uv_read_start(&link->uv.stream, give_chunk, hear_bytes);
    if (rc < 0)
        fail_uv(stream, rc);
    else if (link->tls != NULL)
        feed_tls(stream, NULL, 0);
    else
        came_up(stream);
}

static void connect_to(struct tn_stream *stream, const struct sockaddr *address)
{
    int rc = uv_tcp_connect(&stream->link->connect, &stream->link->uv.tcp, address, connected);
    if (rc < 0)
        fail_uv(stream, rc);
}

static void looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct tn_stream_link *link = req->data;
    struct tn_stream *stream = link->stream;
    const struct addrinfo *at = found;

    link->looking_up = false;
    if (link->given_up) {
        free_if_over(link);
    } else if (status < 0) {
        fail_uv(stream, status);
    } else {
        for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
            link->addresses++;
        for (unsigned i = 0; i < stream->address && at->ai_next != NULL; i++)
            at = at->ai_next;
        connect_to(stream, at->ai_addr);
    }
    uv_freeaddrinfo(found);
}

/* An address needs no lookup, so that a resolver that hangs cannot harm those who use none. */
static int resolve(struct tn_stream *stream)
{
    const struct tn_endpoint *endpoint = &stream->at;
    struct tn_stream_link *link = stream->link;
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    int port = (int)strtol(endpoint->port, NULL, 10);

    if (endpoint->local) {
        uv_pipe_connect(&link->connect, &link->uv.pipe, endpoint->host, connected);
        return 0;
    }
    if (uv_ip4_addr(endpoint->host, port, &v4) == 0) {
        connect_to(stream, (const struct sockaddr *)&v4);
        return 0;
    }
    if (uv_ip6_addr(endpoint->host, port, &v6) == 0) {
        connect_to(stream, (const struct sockaddr *)&v6);
        return 0;
    }
    int rc = uv_getaddrinfo(stream->loop, &link->lookup, looked_up, endpoint->host, endpoint->port,
                            &hints);
    link->looking_up = rc == 0;
    return rc;
}

static const char *tls_host(const struct tn_stream *stream)
{
    bool given = stream->tls_name != NULL && stream->tls_name[0] != '\0';
    return given ? stream->tls_name : stream->at.host;
}

static struct tn_stream_link *new_link(struct tn_stream *stream)
{
    struct tn_stream_link *link = calloc(1, sizeof *link);
    int rc;

    if (link == NULL)
        return NULL;
    rc = stream->at.local ? uv_pipe_init(stream->loop, &link->uv.pipe, 0)
                          : uv_tcp_init(stream->loop, &link->uv.tcp);
    if (rc != 0) {
        free(link);
        return NULL;
    }
    link->stream = stream;
    link->uv.handle.data = link->connect.data = link->lookup.data = link;
    link->open = true;
    return link;
}

static void reach(struct tn_stream *stream)
{
    stream->at = stream->endpoints[stream->endpoint];
    stream->link = new_link(stream);
    if (stream->link == NULL) {
        stream->failures = 0; /* Pause. */
        pause_then_reach(stream);
        return;
    }
    stream->parts++;
    int rc = uv_timer_start(&stream->timer, hear_timer, stream->reach_ms, 0);
    TN_ASSERT(rc == 0);
    if (stream->tls != NULL) {
        stream->link->tls = tn_tls_new(stream->tls, tls_host(stream));
        if (stream->link->tls == NULL) {
            tn_stream_drop(stream, "out of memory");
            return;
        }
    }
    rc = resolve(stream);
    if (rc < 0)
        fail_uv(stream, rc);
}

/* --- Life and death --------------------------------------------------------------------------- */

void tn_stream_set_endpoints(struct tn_stream *stream, const struct tn_endpoint *endpoints,
                             unsigned count)
{
    TN_ASSERT(count > 0);
    TN_ASSERT(count <= TN_ENDPOINTS_MAX);
    memcpy(stream->endpoints, endpoints, count * sizeof *endpoints);
    stream->count = count;
    stream->address = 0;
    stream->endpoint = stream->link != NULL ? count - 1 : 0; /* A failure goes to the one behind. */
}

int tn_stream_init(struct tn_stream *stream, const struct tn_endpoint *endpoints, unsigned count,
                   uint64_t seed)
{
    if (uv_timer_init(stream->loop, &stream->timer) != 0 ||
        uv_prepare_init(stream->loop, &stream->turn) != 0)
        return TENURE_E_UNAVAILABLE;
    stream->timer.data = stream->turn.data = stream;
    stream->parts = 2;
    tn_prng_seed(&stream->prng, seed);
    tn_stream_set_endpoints(stream, endpoints, count);
    stream->endpoint = (unsigned)tn_prng_below(&stream->prng, count);
    stream->at = stream->endpoints[stream->endpoint];
    stream->status = TENURE_E_UNAVAILABLE;
    return 0;
}

uint64_t tn_stream_reach_ms(tenure_ns patience)
{
    uint64_t ms = (uint64_t)(patience / TN_MS(1));

    return ms < REACH_MS_MIN ? REACH_MS_MIN : ms > REACH_MS_MAX ? REACH_MS_MAX : ms;
}

void tn_stream_start(struct tn_stream *stream)
{
    if (stream->closing || stream->link != NULL || uv_is_active((uv_handle_t *)&stream->timer))
        return;
    int rc = uv_timer_start(&stream->timer, hear_timer, 0, 0);
    TN_ASSERT(rc == 0);
}

static void part_closed(uv_handle_t *handle)
{
    count_down(handle->data);
}

void tn_stream_close(struct tn_stream *stream, void (*closed)(void *arg))
{
    tn_stream_flush(stream);
    stream->closing = true;
    stream->closed = closed;
    give_up(stream);
    uv_close((uv_handle_t *)&stream->timer, part_closed);
    uv_close((uv_handle_t *)&stream->turn, part_closed);
}
