/* server.c - sockets for http/conn.c, on a libuv loop.
 *
 * What can fail: a peer breaks off, or is silent for too long: it is closed. A new connection that
 * is one too many, or has no memory, waits in the backlog until the next sweep. */
#include "http/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

enum {
    SWEEP_MS = 250,
    LINGER_MS = 2000, /* For the last answer: a close at once could tear it away. */
    NEW_MS = 1000,    /* So long a new connection is not idle. */
    BACKLOG = 128,
};

struct tn_http_peer *tn_http_peer_of(struct tn_http_conn *conn)
{
    return (struct tn_http_peer *)conn;
}

static struct tn_http_peer *peer_at(struct tn_list_node *node)
{
    return (struct tn_http_peer *)((char *)node - offsetof(struct tn_http_peer, node));
}

struct tn_http_peer *tn_http_server_next(const struct tn_http_server *server,
                                         const struct tn_http_peer *peer)
{
    struct tn_list_node *next = peer != NULL ? peer->node.next : server->peers.ends.next;

    return next != &server->peers.ends ? peer_at(next) : NULL;
}

static uint64_t now_of(const struct tn_http_server *server)
{
    return uv_now(server->listener.loop);
}

/* --- The end of a connection ------------------------------------------------------------------ */

static void peer_closed(uv_handle_t *handle)
{
    struct tn_http_peer *peer = handle->data;

    tn_http_conn_free(&peer->http);
    free(peer);
}

void tn_http_peer_close(struct tn_http_peer *peer)
{
    struct tn_http_server *server = peer->server;

    if (peer->http.state == TN_HTTP_GONE)
        return;
    tn_http_conn_gone(&peer->http);
    tn_list_remove(&peer->node);
    if (--server->count == 0 && !server->unaccepted)
        (void)uv_timer_stop(&server->sweep);
    if (server->options.gone != NULL)
        server->options.gone(peer);
    uv_close((uv_handle_t *)&peer->tcp, peer_closed);
}

/* --- Sending ---------------------------------------------------------------------------------- */

static void rest_sent(uv_write_t *rest, int status)
{
    struct tn_http_peer *peer = (struct tn_http_peer *)rest->data;

    peer->broken = peer->broken || status < 0;
    tn_http_conn_sent(&peer->http);
}

static bool send_bytes(struct tn_http_conn *conn, const char *bytes, size_t len)
{
    struct tn_http_peer *peer = tn_http_peer_of(conn);
    uv_stream_t *stream = (uv_stream_t *)&peer->tcp;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    int sent = peer->broken ? UV_EPIPE : uv_try_write(stream, &buf, 1);

    peer->deadline = now_of(peer->server) + peer->server->options.idle_ms;
    if (sent == UV_EAGAIN)
        sent = 0;
    peer->broken = sent < 0;
    if (peer->broken || (size_t)sent == len)
        return true;
    buf = uv_buf_init((char *)(uintptr_t)bytes + sent, (unsigned)(len - (size_t)sent));
    peer->rest.data = peer;
    peer->unsent = buf.len;
    peer->broken = uv_write(&peer->rest, stream, &buf, 1, rest_sent) != 0;
    return peer->broken;
}

static void finished(uv_shutdown_t *finish, int status)
{
    (void)finish;
    (void)status;
}

static void end_peer(struct tn_http_conn *conn)
{
    struct tn_http_peer *peer = tn_http_peer_of(conn);

    peer->deadline = now_of(peer->server) + LINGER_MS;
    if (peer->broken || conn->peer_done)
        tn_http_peer_close(peer);
    else
        (void)uv_shutdown(&peer->finish, (uv_stream_t *)&peer->tcp, finished);
}

/* --- Receiving -------------------------------------------------------------------------------- */

/* A deadline for what is awaited now: the rest of a request, or the next one. */
static void set_deadline(struct tn_http_peer *peer)
{
    const struct tn_http_server_options *options = &peer->server->options;
    uint64_t now = now_of(peer->server);
    bool partial = tn_http_conn_is_partial(&peer->http);

    if (peer->http.state == TN_HTTP_ENDED || peer->http.state == TN_HTTP_GONE)
        return;
    peer->deadline = now + options->idle_ms;
    peer->began = !partial ? 0 : peer->began > 0 ? peer->began : now;
    if (partial && options->whole_ms > 0 && peer->deadline > peer->began + options->whole_ms)
        peer->deadline = peer->began + options->whole_ms;
}

static void provide(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct tn_http_peer *peer = handle->data;

    (void)suggested;
    *ret_buf = uv_buf_init(peer->server->buf, sizeof peer->server->buf);
}

static void peer_ended(struct tn_http_peer *peer, bool broken)
{
    struct tn_http_server *server = peer->server;

    (void)uv_read_stop((uv_stream_t *)&peer->tcp);
    peer->broken = peer->broken || broken;
    if (tn_http_conn_peer_done(&peer->http))
        tn_http_peer_close(peer);
    else if (server->options.hung_up != NULL)
        server->options.hung_up(peer);
}

static void received(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct tn_http_peer *peer = stream->data;

    if (got > 0 && !tn_http_conn_take(&peer->http, buf->base, (size_t)got))
        tn_http_peer_close(peer);
    else if (got > 0)
        set_deadline(peer);
    else if (got < 0)
        peer_ended(peer, got != UV_EOF);
}

static void pause_peer(struct tn_http_conn *conn, bool pause)
{
    struct tn_http_peer *peer = tn_http_peer_of(conn);

    if (pause)
        (void)uv_read_stop((uv_stream_t *)&peer->tcp);
    else if (!conn->peer_done)
        (void)uv_read_start((uv_stream_t *)&peer->tcp, provide, received);
}

static const struct tn_http_transport transport = { send_bytes, pause_peer, end_peer, NULL };

/* --- Accepting -------------------------------------------------------------------------------- */

/* For a new connection the one goes that has been idle for the longest time. */
static bool make_room(struct tn_http_server *server)
{
    struct tn_http_peer *oldest = NULL;
    uint64_t least = UINT64_MAX;

    for (struct tn_http_peer *it = NULL; (it = tn_http_server_next(server, it)) != NULL;) {
        if (it->http.state != TN_HTTP_READING || it->http.in_len > 0 || it->deadline >= least)
            continue;
        oldest = it;
        least = it->deadline;
    }
    if (oldest == NULL || least - server->options.idle_ms + NEW_MS > now_of(server))
        return false;
    tn_http_peer_close(oldest);
    return true;
}

static void sweep_peers(uv_timer_t *timer);

static void accept_peer(struct tn_http_server *server)
{
    size_t size = server->options.peer_size;
    bool full = server->count >= server->options.peers_max && !make_room(server);
    struct tn_http_peer *peer = full ? NULL : calloc(1, size > sizeof *peer ? size : sizeof *peer);

    server->unaccepted = peer == NULL;
    if (!uv_is_active((uv_handle_t *)&server->sweep))
        (void)uv_timer_start(&server->sweep, sweep_peers, SWEEP_MS, SWEEP_MS);
    if (peer == NULL)
        return;
    int rc = uv_tcp_init(server->listener.loop, &peer->tcp);
    TN_ASSERT(rc == 0);
    peer->tcp.data = peer;
    peer->server = server;
    tn_http_conn_init(&peer->http, &server->options.service, &transport, &server->head);
    tn_list_add_first(&server->peers, &peer->node);
    server->count++;
    set_deadline(peer);
    rc = uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&peer->tcp);
    (void)uv_tcp_nodelay(&peer->tcp, 1);
    if (rc != 0 || uv_read_start((uv_stream_t *)&peer->tcp, provide, received) != 0)
        tn_http_peer_close(peer);
}

static void connected(uv_stream_t *listener, int status)
{
    if (status == 0)
        accept_peer(listener->data);
}

/* A request that is being served has the time that its service gives it. A peer that takes some of
 * its answer now and then is not idle. */
static bool is_late(struct tn_http_peer *peer, uint64_t now)
{
    size_t unsent = uv_stream_get_write_queue_size((uv_stream_t *)&peer->tcp);
    const struct tn_http_conn *http = &peer->http;

    if (unsent < peer->unsent)
        peer->deadline = now + peer->server->options.idle_ms;
    peer->unsent = unsent;
    return now >= peer->deadline && http->state != TN_HTTP_SERVING &&
           (http->state != TN_HTTP_STREAMING || http->sending);
}

static void sweep_peers(uv_timer_t *timer)
{
    struct tn_http_server *server = timer->data;
    uint64_t now = now_of(server);

    if (server->unaccepted)
        accept_peer(server);
    for (struct tn_http_peer *it = tn_http_server_next(server, NULL), *next; it != NULL;
         it = next) {
        next = tn_http_server_next(server, it);
        if (is_late(it, now))
            tn_http_peer_close(it);
    }
}

int tn_http_server_open(struct tn_http_server *server, uv_loop_t *loop, int fd,
                        const struct tn_http_server_options *options)
{
    server->options = *options;
    tn_list_init(&server->peers);
    server->count = 0;
    server->unaccepted = false;
    (void)uv_timer_init(loop, &server->sweep);
    (void)uv_tcp_init(loop, &server->listener);
    server->sweep.data = server->listener.data = server;
    int rc = uv_tcp_open(&server->listener, fd);
    if (rc != 0)
        (void)close(fd);
    else
        rc = uv_listen((uv_stream_t *)&server->listener, BACKLOG, connected);
    if (rc != 0)
        tn_http_server_close(server);
    return rc;
}

void tn_http_server_close(struct tn_http_server *server)
{
    struct tn_http_peer *peer;

    while ((peer = tn_http_server_next(server, NULL)) != NULL)
        tn_http_peer_close(peer);
    if (!uv_is_closing((uv_handle_t *)&server->listener))
        uv_close((uv_handle_t *)&server->listener, NULL);
    if (!uv_is_closing((uv_handle_t *)&server->sweep))
        uv_close((uv_handle_t *)&server->sweep, NULL);
}
