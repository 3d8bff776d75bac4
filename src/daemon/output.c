/* output.c - what connections are told: gathered in their buffers, and sent after the flush.
 *
 * What can fail: a peer that does not read. What its socket does not take, the loop sends when it
 * can; beyond TN_OUT_MAX the connection is closed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/server.h"

void tn_conn_touch(struct tn_conn *conn)
{
    conn->bound = true;
    if (conn->dirty || conn->state == TN_CONN_CLOSED)
        return;
    conn->dirty = true;
    conn->dirty_next = NULL;
    conn->dirty_prev = conn->server->dirty_last;
    *conn->dirty_prev = conn;
    conn->server->dirty_last = &conn->dirty_next;
}

void tn_conn_untouch(struct tn_conn *conn)
{
    if (!conn->dirty)
        return;
    conn->dirty = false;
    *conn->dirty_prev = conn->dirty_next;
    if (conn->dirty_next != NULL)
        conn->dirty_next->dirty_prev = conn->dirty_prev;
    else
        conn->server->dirty_last = conn->dirty_prev;
}

bool tn_conn_room(struct tn_conn *conn, size_t bytes)
{
    struct tn_resp_out *out = &conn->out;
    size_t size = out->size > 0 ? out->size : 512;

    if (conn->state == TN_CONN_CLOSED || out->full)
        return false;
    if (out->size - out->len >= bytes)
        return true;
    while (size - out->len < bytes)
        size *= 2;
    char *larger = size <= TN_OUT_MAX ? realloc(out->buf, size) : NULL;
    if (larger == NULL) {
        out->full = true; /* tn_conn_send will cut it off. */
        tn_conn_touch(conn);
        return false;
    }
    out->buf = larger;
    out->size = size;
    return true;
}

struct tn_resp_out *tn_conn_room_for_push(struct tn_conn *conn, size_t bytes)
{
    struct tn_resp_out *later = &conn->later;
    size_t size = later->size > 0 ? later->size : 512;

    tn_conn_touch(conn);
    if (!conn->replying)
        return tn_conn_room(conn, bytes) ? &conn->out : NULL;
    later->resp3 = conn->out.resp3;
    while (size - later->len < bytes)
        size *= 2;
    if (size == later->size)
        return later;
    char *larger =
        size <= TN_OUT_MAX && conn->state != TN_CONN_CLOSED ? realloc(later->buf, size) : NULL;
    if (larger == NULL) {
        conn->out.full = true;
        return NULL;
    }
    later->buf = larger;
    later->size = size;
    return later;
}

void tn_conn_replied(struct tn_conn *conn)
{
    struct tn_resp_out *later = &conn->later;

    conn->replying = false;
    if (later->size == 0)
        return;
    if (tn_conn_room(conn, later->len)) {
        memcpy(conn->out.buf + conn->out.len, later->buf, later->len);
        conn->out.len += later->len;
    }
    free(later->buf);
    *later = (struct tn_resp_out) { 0 };
}

struct write_rest {
    uv_write_t req;
    struct tn_conn *conn;
    char *bytes;
};

static void rest_written(uv_write_t *req, int status)
{
    struct write_rest *rest = (struct write_rest *)req;
    struct tn_conn *conn = rest->conn;

    conn->writing--;
    free(rest->bytes);
    free(rest);
    if (status < 0)
        tn_conn_close(conn);
    else if (conn->out.len > 0 || conn->state != TN_CONN_SERVED)
        tn_conn_touch(conn);
    else if (conn->web != NULL && conn->writing == 0)
        tn_httpd_sent(conn);
}

/* The socket is full: let the loop send the @len bytes at @bytes, of which a copy is made. */
static void send_rest(struct tn_conn *conn, const char *bytes, size_t len)
{
    struct write_rest *rest = malloc(sizeof *rest);
    char *copy = malloc(len);

    if (rest == NULL || copy == NULL) {
        free(rest);
        free(copy);
        tn_conn_close(conn);
        return;
    }
    memcpy(copy, bytes, len);
    *rest = (struct write_rest) { .conn = conn, .bytes = copy };
    uv_buf_t buf = uv_buf_init(copy, (unsigned)len);
    conn->writing++;
    if (uv_write(&rest->req, &conn->uv.stream, &buf, 1, rest_written) != 0) {
        conn->writing--;
        free(rest->bytes);
        free(rest);
        tn_conn_close(conn);
    }
}

/* Of the @len bytes at @bytes the socket took @sent, or refused them with an errno, negative. */
static void see_to_rest(struct tn_conn *conn, const char *bytes, size_t len, ssize_t sent)
{
    size_t done = sent > 0 ? (size_t)sent : 0;

    if (sent < 0 && sent != -EAGAIN && sent != -EINTR)
        tn_conn_close(conn);
    else if (done < len)
        send_rest(conn, bytes + done, len - done);
}

void tn_conn_write(struct tn_conn *conn, const char *bytes, size_t len)
{
    ssize_t sent = 0;

    /* Not by uv_try_write: what a socket has of its own is cheaper than what all files share. */
    if (conn->writing == 0)
        sent = send(conn->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    see_to_rest(conn, bytes, len, sent < 0 ? -errno : sent);
}

/* Take the first @len bytes, which are on their way, out of the buffer. */
static void drop_sent(struct tn_conn *conn, size_t len)
{
    struct tn_resp_out *out = &conn->out;

    out->len -= len;
    if (out->len > 0) {
        memmove(out->buf, out->buf + len, out->len);
    } else if (out->size > 4096) {
        free(out->buf);
        out->buf = NULL;
        out->size = 0;
    }
}

/* All is said. A peer that still sends would have its error torn away by the reset that a close
 * means then: so it is told that nothing follows, and heard out for a while. */
static void finish_output(struct tn_conn *conn)
{
    if (conn->state == TN_CONN_LEAVING || conn->tls != NULL || conn->server->draining)
        tn_conn_close(conn);
    else
        tn_conn_deafen(conn);
}

/* The first @len bytes of the buffer are seen to. */
static void go_on(struct tn_conn *conn, size_t len)
{
    if (conn->state == TN_CONN_CLOSED)
        return;
    drop_sent(conn, len);
    conn->bound = conn->out.len > 0;
    if (conn->state != TN_CONN_SERVED && conn->out.len == 0 && conn->writing == 0)
        finish_output(conn);
}

bool tn_conn_is_plain(const struct tn_conn *conn)
{
    return conn->http == NULL && conn->web == NULL && conn->tls == NULL && !conn->out.full &&
           conn->writing == 0;
}

void tn_conn_sent(struct tn_conn *conn, size_t len, ssize_t sent)
{
    if (conn->state == TN_CONN_CLOSED)
        return;
    if (conn->renewed > 0)
        tn_metrics_sent(conn);
    see_to_rest(conn, conn->out.buf, len, sent);
    go_on(conn, len);
}

void tn_conn_send(struct tn_conn *conn, size_t len)
{
    if (conn->renewed > 0)
        tn_metrics_sent(conn);
    if (conn->http != NULL) {
        tn_http_send(conn, len);
        return;
    }
    if (conn->out.full) {
        if (tn_log_due(conn->server, TN_SAID_SLOW))
            tn_log("connection %llu: reads too slowly, cut off", (unsigned long long)conn->id);
        tn_conn_close(conn);
        return;
    }
    if (conn->writing > 0)
        return;
    if (len > 0 && conn->tls != NULL)
        tn_secure_send(conn, conn->out.buf, len);
    else if (len > 0)
        tn_conn_write(conn, conn->out.buf, len);
    go_on(conn, len);
}
