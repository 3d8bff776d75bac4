/* relay.c - HTTP with TLS: our own TLS in front, libmicrohttpd behind a pair of sockets.
 *
 * So both protocols have the same certificates, the same reload and the same limits. Either side is
 * read only as fast as the other takes it. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/http.h"

#define AHEAD_MAX (64u * 1024) /* Bytes that wait for libmicrohttpd. */

struct tn_relay {
    uv_pipe_t pipe;
    struct tn_conn *conn; /* NULL: it is gone. */
    struct tn_relay *next, **prev;
    int far; /* libmicrohttpd's end. */
    bool reading;
    char buf[16 * 1024];
};

struct relay_write {
    uv_write_t req;
    char bytes[];
};

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

void tn_relay_close(struct tn_conn *conn)
{
    struct tn_relay *relay = conn->relay;

    conn->relay = NULL;
    relay->conn = NULL;
    *relay->prev = relay->next;
    if (relay->next != NULL)
        relay->next->prev = relay->prev;
    uv_close((uv_handle_t *)&relay->pipe, closed);
}

/* --- From libmicrohttpd to the peer ----------------------------------------------------------- */

static void provide(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct tn_relay *relay = handle->data;

    (void)suggested;
    *ret_buf = uv_buf_init(relay->buf, sizeof relay->buf);
}

static void answered(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tn_relay *relay = stream->data;
    struct tn_conn *conn = relay->conn;

    if (n == 0 || conn == NULL)
        return;
    if (n < 0) { /* It has said all that it had to say. */
        (void)uv_read_stop(stream);
        conn->quitting = true;
        tn_conn_touch(conn);
        return;
    }
    tn_secure_send(conn, buf->base, (size_t)n);
    if (conn->closing || conn->writing == 0)
        return;
    relay->reading = false;
    (void)uv_read_stop(stream);
}

void tn_relay_drained(struct tn_conn *conn)
{
    struct tn_relay *relay = conn->relay;

    if (relay->reading || conn->quitting)
        return;
    relay->reading = true;
    (void)uv_read_start((uv_stream_t *)&relay->pipe, provide, answered);
}

/* --- From the peer to libmicrohttpd ----------------------------------------------------------- */

static void passed_on(uv_write_t *req, int status)
{
    struct tn_relay *relay = req->handle->data;
    struct tn_conn *conn = relay->conn;

    free(req);
    if (conn == NULL)
        return;
    if (status < 0)
        tn_conn_close(conn);
    else if (uv_stream_get_write_queue_size((uv_stream_t *)&relay->pipe) == 0)
        tn_conn_listen(conn);
}

void tn_relay_take(struct tn_conn *conn, const char *bytes, size_t len)
{
    uv_stream_t *stream = (uv_stream_t *)&conn->relay->pipe;
    struct relay_write *write = malloc(sizeof *write + len);

    if (write == NULL) {
        tn_conn_close(conn);
        return;
    }
    memcpy(write->bytes, bytes, len);
    uv_buf_t buf = uv_buf_init(write->bytes, (unsigned)len);
    if (uv_write(&write->req, stream, &buf, 1, passed_on) != 0) {
        free(write);
        tn_conn_close(conn);
    } else if (uv_stream_get_write_queue_size(stream) > AHEAD_MAX) {
        (void)uv_read_stop(&conn->uv.stream);
    }
}

/* --- Beginning -------------------------------------------------------------------------------- */

bool tn_relay_open(struct tn_conn *conn)
{
    struct tn_server *server = conn->server;
    struct sockaddr_in nowhere = { .sin_family = AF_INET };
    struct tn_relay *relay = calloc(1, sizeof *relay);
    int ends[2];

    if (relay == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        free(relay);
        return false;
    }
    (void)uv_pipe_init(&server->loop, &relay->pipe, 0);
    (void)uv_pipe_open(&relay->pipe, ends[0]);
    relay->pipe.data = relay;
    relay->conn = conn;
    relay->far = ends[1];
    relay->next = server->relays;
    relay->prev = &server->relays;
    if (relay->next != NULL)
        relay->next->prev = &relay->next;
    server->relays = relay;
    conn->relay = relay;
    server->http_waits = true;
    /* It closes its end when it cannot take it; then this end reads that. */
    (void)MHD_add_connection(server->http, ends[1], (struct sockaddr *)&nowhere, sizeof nowhere);
    tn_relay_drained(conn);
    return true;
}

const char *tn_relay_user(const struct tn_server *server, int fd)
{
    for (const struct tn_relay *relay = server->relays; relay != NULL; relay = relay->next)
        if (relay->far == fd)
            return relay->conn->user;
    return "";
}
