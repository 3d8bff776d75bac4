/* channel.c - connecting, failing over, reading and writing; channel.h has the contract.
 *
 * A link is one attempt to connect and what becomes of it. It is given up in one step - the channel
 * forgets it - but its memory stays until libuv has let go of its handle and of the lookup, which
 * cannot be interrupted. */
#include "stores/etcd/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    PAUSE_MS_MIN = 50,
    PAUSE_MS_MAX = 2000,
    CHUNK = 65536,
};

struct tn_channel_link {
    struct tn_channel *channel; /* For counting; see @given_up. */
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_getaddrinfo_t lookup;
    struct tn_tls *tls;
    struct tn_grpc *grpc;
    unsigned addresses; /* Of the host. */
    bool looking_up, tcp_open, given_up, up;
    bool heard; /* Any byte at all. */
    uint8_t chunk[CHUNK];
};

struct write {
    uv_write_t req;
    uint8_t data[];
};

static const char not_http2[] = "the answer is not HTTP/2; does the server want TLS (etcds:)?";

static void reach(struct tn_channel *channel);
static void hear_timer(uv_timer_t *timer);

const char *tn_channel_where(const struct tn_channel *channel)
{
    return channel->config->endpoints[channel->endpoint].where;
}

/* --- Giving up -------------------------------------------------------------------------------- */

static void count_down(struct tn_channel *channel)
{
    TN_ASSERT(channel->parts > 0);
    if (--channel->parts == 0 && channel->closing)
        channel->closed(channel->arg);
}

static void free_if_over(struct tn_channel_link *link)
{
    struct tn_channel *channel = link->channel;

    if (!link->given_up || link->looking_up || link->tcp_open)
        return;
    free(link);
    count_down(channel);
}

static void tcp_closed(uv_handle_t *handle)
{
    struct tn_channel_link *link = handle->data;

    link->tcp_open = false;
    free_if_over(link);
}

/* Ends the calls under way, then tells. */
static void give_up(struct tn_channel *channel)
{
    struct tn_channel_link *link = channel->link;

    if (link == NULL)
        return;
    channel->link = NULL;
    channel->grpc = NULL;
    channel->broken = false;
    link->given_up = true;
    struct tn_grpc *grpc = link->grpc;
    link->grpc = NULL;
    if (link->looking_up)
        (void)uv_cancel((uv_req_t *)&link->lookup);
    if (link->tcp_open)
        uv_close((uv_handle_t *)&link->tcp, tcp_closed);
    tn_tls_free(link->tls);
    link->tls = NULL;
    bool up = link->up;
    free_if_over(link);
    tn_grpc_free(grpc);
    if (up)
        channel->host->down(channel->arg);
}

static void say(struct tn_channel *channel, const char *why)
{
    (void)snprintf(channel->error, sizeof channel->error, "etcd %s: %s", tn_channel_where(channel),
                   why);
}

/* The next endpoint at once, but all of them in a row only after a pause. */
static void pause_then_reach(struct tn_channel *channel)
{
    uint64_t pause = 0;

    if (channel->closing)
        return;
    if (channel->failures % channel->config->count == 0) {
        unsigned rounds = channel->failures / channel->config->count;
        uint64_t most = PAUSE_MS_MIN;
        for (unsigned i = 1; i < rounds && most < PAUSE_MS_MAX; i++)
            most *= 2;
        pause = most / 2 + tn_prng_below(&channel->prng, most);
    }
    int rc = uv_timer_start(&channel->timer, hear_timer, pause, 0);
    TN_ASSERT(rc == 0);
}

void tn_channel_drop(struct tn_channel *channel, const char *why)
{
    if (channel->closing || channel->link == NULL)
        return;
    say(channel, why);
    channel->failures = channel->link->up ? 1 : channel->failures + 1;
    give_up(channel);
    channel->endpoint = (channel->endpoint + 1) % channel->config->count;
    channel->address = 0;
    pause_then_reach(channel);
}

void tn_channel_doubt(struct tn_channel *channel, const char *why)
{
    if (channel->closing || channel->link == NULL || channel->broken)
        return;
    say(channel, why);
    channel->broken = true;
    int rc = uv_timer_start(&channel->timer, hear_timer, 0, 0);
    TN_ASSERT(rc == 0);
}

/* Another address of the same host, if it has more than one. */
static void try_next_address(struct tn_channel *channel, unsigned count, const char *why)
{
    if (channel->address + 1 >= count) {
        tn_channel_drop(channel, why);
        return;
    }
    say(channel, why);
    give_up(channel);
    channel->address++;
    reach(channel);
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_channel *channel = timer->data;
    char why[160];

    if (channel->link == NULL) {
        reach(channel);
    } else if (channel->broken) {
        char *colon = strstr(channel->error, ": ");
        (void)snprintf(why, sizeof why, "%s", colon != NULL ? colon + 2 : "the connection failed");
        tn_channel_drop(channel, why);
    } else if (!channel->link->up) {
        (void)snprintf(why, sizeof why,
                       "%s within %llu ms; is the address right, and the server up?",
                       channel->link->looking_up ? "the host name was not found" : "no connection",
                       (unsigned long long)channel->reach_ms);
        tn_channel_drop(channel, why);
    }
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void written(uv_write_t *req, int status)
{
    struct tn_channel_link *link = req->data;

    if (status < 0 && !link->given_up)
        tn_channel_doubt(link->channel, uv_strerror(status));
    free((struct write *)(void *)req);
}

static bool write_out(struct tn_channel_link *link, const uint8_t *data, size_t len)
{
    struct write *write = malloc(sizeof *write + len);

    if (write == NULL)
        return false;
    memcpy(write->data, data, len);
    write->req.data = link;
    uv_buf_t buf = uv_buf_init((char *)write->data, (unsigned)len);
    if (uv_write(&write->req, (uv_stream_t *)&link->tcp, &buf, 1, written) == 0)
        return true;
    free(write);
    return false;
}

static bool flush_tls(struct tn_channel_link *link)
{
    uint8_t block[16384];
    size_t len;

    while ((len = tn_tls_pull(link->tls, block, sizeof block)) > 0)
        if (!write_out(link, block, len))
            return false;
    return true;
}

/* Everything nghttp2 has, in blocks that are worth a write. */
static bool flush_grpc(struct tn_channel_link *link)
{
    uint8_t block[16384];
    const uint8_t *data;
    size_t used = 0;
    ssize_t len;

    while ((len = tn_grpc_pull(link->grpc, &data)) > 0) {
        if (link->tls != NULL) {
            if (tn_tls_write(link->tls, data, (size_t)len) < 0)
                return false;
            continue;
        }
        if (used + (size_t)len > sizeof block) {
            if (used > 0 && !write_out(link, block, used))
                return false;
            used = 0;
        }
        if ((size_t)len > sizeof block) {
            if (!write_out(link, data, (size_t)len))
                return false;
            continue;
        }
        memcpy(block + used, data, (size_t)len);
        used += (size_t)len;
    }
    return len == 0 && (used == 0 || write_out(link, block, used));
}

void tn_channel_flush(struct tn_channel *channel)
{
    struct tn_channel_link *link = channel->link;

    if (link == NULL || !link->up || channel->broken)
        return;
    if (!flush_grpc(link) || (link->tls != NULL && !flush_tls(link)))
        tn_channel_doubt(channel, not_http2);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void came_up(struct tn_channel *channel)
{
    struct tn_channel_link *link = channel->link;

    if (tn_grpc_new(&link->grpc, tn_channel_where(channel), channel->tls != NULL) < 0) {
        tn_channel_drop(channel, "out of memory");
        return;
    }
    if (!channel->broken)
        (void)uv_timer_stop(&channel->timer);
    link->up = true;
    channel->grpc = link->grpc;
    channel->heard_at = tn_clock_now(channel->clock);
    channel->error[0] = '\0';
    channel->host->up(channel->arg);
    tn_channel_flush(channel);
}

/* The server is proved to be one by its first bytes, which are its settings. */
static bool feed_grpc(struct tn_channel *channel, const uint8_t *data, size_t len)
{
    channel->failures = 0;
    if (tn_grpc_feed(channel->grpc, data, len) < 0) {
        tn_channel_drop(channel, not_http2);
        return false;
    }
    return true;
}

static void feed_tls(struct tn_channel *channel, const uint8_t *data, size_t len)
{
    struct tn_channel_link *link = channel->link;
    uint8_t plain[16384];
    ssize_t got = 0;

    enum tn_tls_state state = tn_tls_feed(link->tls, data, len);
    if (!flush_tls(link))
        state = TN_TLS_FAILED;
    if (state == TN_TLS_FAILED) {
        tn_channel_drop(channel, tn_tls_error(link->tls));
        return;
    }
    if (state == TN_TLS_UP && !link->up)
        came_up(channel);
    while (state == TN_TLS_UP && channel->link == link &&
           (got = tn_tls_read(link->tls, plain, sizeof plain)) > 0)
        if (!feed_grpc(channel, plain, (size_t)got))
            return;
    if (got < 0 && channel->link == link)
        tn_channel_drop(channel, tn_tls_error(link->tls));
}

static void give_chunk(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_buf)
{
    struct tn_channel_link *link = handle->data;

    (void)wanted;
    *ret_buf = uv_buf_init((char *)link->chunk, sizeof link->chunk);
}

static void hear(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct tn_channel_link *link = stream->data;
    struct tn_channel *channel = link->channel;

    if (link->given_up || got == 0)
        return;
    if (got < 0) {
        const char *why = "the server closed the connection";
        if (!link->heard && link->tls != NULL)
            why = "the server hung up on TLS; does it use TLS?";
        else if (!link->heard)
            why = "the server closed the connection at once; does it want TLS (etcds:)?";
        tn_channel_drop(channel, got != UV_EOF ? uv_strerror((int)got) : why);
        return;
    }
    link->heard = true;
    channel->heard_at = tn_clock_now(channel->clock);
    if (link->tls != NULL)
        feed_tls(channel, (const uint8_t *)buf->base, (size_t)got);
    else
        (void)feed_grpc(channel, (const uint8_t *)buf->base, (size_t)got);
    if (channel->link != link || channel->closing)
        return;
    tn_channel_flush(channel);
    if (link->up && tn_grpc_leaving(link->grpc))
        tn_channel_doubt(channel, "the server is going away");
}

/* --- Connecting ------------------------------------------------------------------------------- */

static void connected(uv_connect_t *req, int status)
{
    struct tn_channel_link *link = req->data;
    struct tn_channel *channel = link->channel;

    if (link->given_up)
        return;
    if (status < 0) {
        try_next_address(channel, link->addresses, uv_strerror(status));
        return;
    }
    (void)uv_tcp_nodelay(&link->tcp, 1);
    int rc = uv_read_start((uv_stream_t *)&link->tcp, give_chunk, hear);
    if (rc < 0)
        tn_channel_drop(channel, uv_strerror(rc));
    else if (link->tls != NULL)
        feed_tls(channel, NULL, 0);
    else
        came_up(channel);
}

static void connect_to(struct tn_channel *channel, const struct sockaddr *address)
{
    struct tn_channel_link *link = channel->link;

    int rc = uv_tcp_connect(&link->connect, &link->tcp, address, connected);
    if (rc < 0)
        tn_channel_drop(channel, uv_strerror(rc));
}

static void looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct tn_channel_link *link = req->data;
    struct tn_channel *channel = link->channel;
    const struct addrinfo *at = found;

    link->looking_up = false;
    if (link->given_up) {
        free_if_over(link);
    } else if (status < 0) {
        tn_channel_drop(channel, uv_strerror(status));
    } else {
        for (const struct addrinfo *each = found; each != NULL; each = each->ai_next)
            link->addresses++;
        for (unsigned i = 0; i < channel->address && at->ai_next != NULL; i++)
            at = at->ai_next;
        connect_to(channel, at->ai_addr);
    }
    uv_freeaddrinfo(found);
}

/* An address needs no lookup, so that a resolver that hangs cannot harm those who use none. */
static int resolve(struct tn_channel *channel)
{
    const struct tn_etcd_endpoint *endpoint = &channel->config->endpoints[channel->endpoint];
    struct tn_channel_link *link = channel->link;
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    int port = (int)strtol(endpoint->port, NULL, 10);

    if (uv_ip4_addr(endpoint->host, port, &v4) == 0) {
        connect_to(channel, (const struct sockaddr *)&v4);
        return 0;
    }
    if (uv_ip6_addr(endpoint->host, port, &v6) == 0) {
        connect_to(channel, (const struct sockaddr *)&v6);
        return 0;
    }
    int rc = uv_getaddrinfo(channel->loop, &link->lookup, looked_up, endpoint->host, endpoint->port,
                            &hints);
    link->looking_up = rc == 0;
    return rc;
}

static const char *tls_host(const struct tn_channel *channel)
{
    const struct tn_etcd_config *config = channel->config;
    return config->name[0] != '\0' ? config->name : config->endpoints[channel->endpoint].host;
}

static void reach(struct tn_channel *channel)
{
    struct tn_channel_link *link = calloc(1, sizeof *link);

    if (link == NULL || uv_tcp_init(channel->loop, &link->tcp) != 0) {
        free(link);
        channel->failures = 0; /* Pause. */
        pause_then_reach(channel);
        return;
    }
    link->channel = channel;
    link->tcp.data = link->connect.data = link->lookup.data = link;
    link->tcp_open = true;
    channel->link = link;
    channel->parts++;
    int rc = uv_timer_start(&channel->timer, hear_timer, channel->reach_ms, 0);
    TN_ASSERT(rc == 0);
    if (channel->tls != NULL) {
        link->tls = tn_tls_new(channel->tls, tls_host(channel));
        if (link->tls == NULL) {
            tn_channel_drop(channel, "out of memory");
            return;
        }
    }
    rc = resolve(channel);
    if (rc < 0)
        tn_channel_drop(channel, uv_strerror(rc));
}

/* --- Life and death --------------------------------------------------------------------------- */

int tn_channel_init(struct tn_channel *channel, uv_loop_t *loop, uint64_t reach_ms, uint64_t seed)
{
    if (uv_timer_init(loop, &channel->timer) != 0)
        return TENURE_E_UNAVAILABLE;
    channel->timer.data = channel;
    channel->loop = loop;
    channel->reach_ms = reach_ms;
    channel->parts = 1;
    tn_prng_seed(&channel->prng, seed);
    channel->endpoint = (unsigned)tn_prng_below(&channel->prng, channel->config->count);
    return 0;
}

void tn_channel_start(struct tn_channel *channel)
{
    int rc = uv_timer_start(&channel->timer, hear_timer, 0, 0);
    TN_ASSERT(rc == 0);
}

static void timer_closed(uv_handle_t *handle)
{
    count_down(handle->data);
}

void tn_channel_close(struct tn_channel *channel, void (*closed)(void *arg))
{
    channel->closing = true;
    channel->closed = closed;
    give_up(channel);
    uv_close((uv_handle_t *)&channel->timer, timer_closed);
}
