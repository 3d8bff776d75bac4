/* conn.c - one peer: its bytes become commands; its beginning and its end.
 *
 * Reading goes into one buffer that all connections share (input.c); only a command that is not all
 * there is kept with its connection, so ten thousand silent peers cost next to nothing. What the
 * peer is told goes through output.c. */
#define _GNU_SOURCE /* struct ucred */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "daemon/server.h"

#define IGNORED_MAX (8u << 20)

static const struct tn_resp_limits limits = { .frame_bytes = TN_FRAME_BYTES,
                                              .word_bytes = TN_WORD_BYTES,
                                              .words = TN_WORDS_MAX };

/* --- Receiving -------------------------------------------------------------------------------- */

/* Carry out all whole commands in @bytes. Returns how many bytes they took. */
static size_t carry_out(struct tn_conn *conn, char *bytes, size_t len)
{
    struct tn_server *server = conn->server;
    size_t at = 0;

    while (at < len && conn->wait == NULL && conn->state == TN_CONN_SERVED) {
        const char *err = NULL;
        uint32_t count = 0;
        int64_t taken = tn_resp_read(&conn->request, &limits, bytes + at, len - at, server->words,
                                     &count, &err);
        if (taken < 0) {
            struct tn_call call = { .server = server, .conn = conn };
            tn_reply_error(&call, "ERR protocol: %s", err);
            tn_conn_fail(conn);
            return len;
        }
        if (taken == 0)
            break;
        at += (size_t)taken;
        if (count > 0)
            tn_command(conn, count);
    }
    return conn->state == TN_CONN_SERVED ? at : len;
}

/* Keep the @len bytes at @bytes, which may lie in the connection's own buffer. */
static void keep(struct tn_conn *conn, const char *bytes, size_t len)
{
    if (len == 0) {
        free(conn->in);
        conn->in = NULL;
        conn->in_len = conn->in_size = 0;
        conn->partial_since = 0;
        return;
    }
    if (conn->in == NULL) {
        conn->in_size = len < 1024 ? 1024 : TN_FRAME_BYTES;
        conn->in = malloc(conn->in_size);
        if (conn->in == NULL) {
            tn_conn_close(conn);
            return;
        }
    }
    if (conn->partial_since == 0)
        conn->partial_since = conn->server->now;
    memmove(conn->in, bytes, len);
    conn->in_len = (uint32_t)len;
}

void tn_conn_resume(struct tn_conn *conn)
{
    conn->resumable = false;
    if (conn->in_len == 0 || conn->state == TN_CONN_CLOSED)
        return;
    size_t taken = carry_out(conn, conn->in, conn->in_len);
    if (conn->state != TN_CONN_CLOSED)
        keep(conn, conn->in + taken, conn->in_len - taken);
}

void tn_conn_room_in(struct tn_conn *conn, char *shared, uv_buf_t *ret_buf)
{
    if (conn->in_len == 0) {
        *ret_buf = uv_buf_init(shared, TN_FRAME_BYTES);
        return;
    }
    if (conn->in_size - conn->in_len < 512 && conn->in_size < TN_FRAME_BYTES) {
        char *larger = realloc(conn->in, TN_FRAME_BYTES);
        if (larger != NULL) {
            conn->in = larger;
            conn->in_size = TN_FRAME_BYTES;
        }
    }
    /* No room left: the connection ends. */
    *ret_buf = uv_buf_init(conn->in + conn->in_len, conn->in_size - conn->in_len);
}

void tn_conn_take(struct tn_conn *conn, char *bytes, size_t len)
{
    if (conn->web != NULL) {
        tn_httpd_take(conn, bytes, len);
        return;
    }
    if (conn->in_len == 0) {
        size_t taken = carry_out(conn, bytes, len);
        if (conn->state != TN_CONN_CLOSED && len > taken)
            keep(conn, bytes + taken, len - taken);
        return;
    }
    conn->in_len += (uint32_t)len;
    if (conn->wait == NULL)
        tn_conn_resume(conn);
}

void tn_conn_hear(struct tn_conn *conn, char *bytes, size_t len)
{
    if (conn->state == TN_CONN_DEAF) {
        conn->ignored += (uint32_t)len;
        if (conn->ignored > IGNORED_MAX)
            tn_conn_close(conn);
    } else {
        tn_server_tell_time(conn->server);
        conn->heard_at = conn->server->now;
        if (conn->tls != NULL)
            tn_secure_received(conn, bytes, len);
        else
            tn_conn_take(conn, bytes, len);
    }
}

/* Without room libuv does not read, and only tells that there is something: input.c reads it, from
 * all such connections at once. */
static void provide(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct tn_conn *conn = handle->data;

    (void)suggested;
    *ret_buf = uv_buf_init(NULL, 0);
    if (conn->state == TN_CONN_CLOSED) /* By what it said before: nothing more is read. */
        return;
    if (conn->tls != NULL)
        *ret_buf = uv_buf_init(tn_input_room(conn->server), TN_FRAME_BYTES);
    else
        tn_input_call(conn);
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tn_conn *conn = stream->data;

    if (n == 0 || n == UV_ENOBUFS)
        return;
    if (n > 0) {
        tn_conn_hear(conn, buf->base, (size_t)n);
        return;
    }
    tn_input_carry_out(conn->server); /* Its last word may be among it. */
    tn_conn_close(conn);
}

/* --- Beginning and end ------------------------------------------------------------------------ */

static void closed(uv_handle_t *handle)
{
    struct tn_conn *conn = handle->data;

    conn->server->conn_count--;
    free(conn->in);
    free(conn->out.buf);
    if (conn->web != NULL)
        tn_httpd_free(conn);
    tn_tls_free(conn->tls);
    free(conn);
}

static void move(struct tn_conn *conn, enum tn_conn_state state)
{
    static const uint8_t allowed[TN_CONN_STATE_COUNT] = {
        [TN_CONN_SERVED] = 1 << TN_CONN_LEAVING | 1 << TN_CONN_FAILED | 1 << TN_CONN_CLOSED,
        [TN_CONN_LEAVING] = 1 << TN_CONN_FAILED | 1 << TN_CONN_CLOSED,
        [TN_CONN_FAILED] = 1 << TN_CONN_DEAF | 1 << TN_CONN_CLOSED,
        [TN_CONN_DEAF] = 1 << TN_CONN_CLOSED,
    };

    TN_ASSERT(allowed[conn->state] & 1 << state);
    conn->state = state;
}

void tn_conn_leave(struct tn_conn *conn)
{
    if (conn->state == TN_CONN_SERVED)
        move(conn, TN_CONN_LEAVING);
}

void tn_conn_fail(struct tn_conn *conn)
{
    if (conn->state == TN_CONN_SERVED || conn->state == TN_CONN_LEAVING)
        move(conn, TN_CONN_FAILED);
}

void tn_conn_deafen(struct tn_conn *conn)
{
    if (conn->state == TN_CONN_DEAF)
        return;
    move(conn, TN_CONN_DEAF);
    conn->partial_since = conn->server->now;
    (void)shutdown(conn->fd, SHUT_WR);
}

void tn_conn_close(struct tn_conn *conn)
{
    if (conn->state == TN_CONN_CLOSED)
        return;
    tn_peer_drop(conn);
    move(conn, TN_CONN_CLOSED);
    tn_input_strike_out(conn);
    tn_conn_untouch(conn);
    if (conn->prev != NULL) {
        *conn->prev = conn->next;
        if (conn->next != NULL)
            conn->next->prev = conn->prev;
    }
    struct tn_conn **at = &conn->server->gated;
    while (conn->gated && *at != conn)
        at = &(*at)->gated_next;
    if (conn->gated)
        *at = conn->gated_next;
    tn_watch_conn_closed(conn);
    tn_link_conn_closed(conn);
    tn_wait_cancel(conn);
    if (conn->http != NULL)
        tn_http_conn_closed(conn);
    if (conn->web != NULL)
        tn_httpd_closed(conn);
    uv_close(&conn->uv.handle, closed);
}

/* Whether the process at the other end is in the socket's group. What cannot be read is no. */
static bool is_member(const struct tn_conn *conn, gid_t primary)
{
    const struct tn_server_config *config = &conn->server->config;
    socklen_t len = 0;
    bool found = false;

    if (config->socket_group == NULL || primary == config->socket_gid)
        return config->socket_group != NULL;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
        return false; /* It has no further groups, or the kernel does not tell. */
    gid_t *groups = malloc(len);
    if (groups != NULL && getsockopt(conn->fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == 0)
        for (size_t i = 0; i < len / sizeof *groups; i++)
            found = found || groups[i] == config->socket_gid;
    free(groups);
    return found;
}

/* The process at the other end. A Unix socket is for this user, root and the socket's group. */
static bool know_peer(struct tn_conn *conn)
{
    struct ucred cred;
    socklen_t len = sizeof cred;

    if (conn->uv.handle.type != UV_NAMED_PIPE)
        return true;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return false;
    conn->pid = cred.pid;
    conn->uid = cred.uid;
    if (cred.uid == geteuid() || cred.uid == 0)
        conn->peer_kind = TN_PEER_OWNER;
    else if (is_member(conn, cred.gid))
        conn->peer_kind = TN_PEER_MEMBER;
    return conn->peer_kind != TN_PEER_UNKNOWN;
}

static void refuse_peer(struct tn_conn *conn, const char *line)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Connection: close\r\n\r\n";

    if (conn->web != NULL && tn_conn_room(conn, sizeof busy)) {
        memcpy(conn->out.buf, busy, sizeof busy - 1);
        conn->out.len = sizeof busy - 1;
    } else if (conn->web == NULL && tn_conn_room(conn, 128)) {
        tn_resp_put_error(&conn->out, line);
    }
    tn_conn_leave(conn);
    tn_metrics_refused(conn->server, line);
    tn_conn_touch(conn);
}

/* Its handle is there already. */
static void add(struct tn_server *server, struct tn_conn *conn)
{
    conn->server = server;
    conn->fd = -1;
    conn->id = ++server->next_id;
    conn->uv.handle.data = conn;
    conn->next = server->conns;
    conn->prev = &server->conns;
    if (server->conns != NULL)
        server->conns->prev = &conn->next;
    server->conns = conn;
    server->conn_count++;
}

static struct tn_conn *make(struct tn_server *server, const uv_stream_t *listener)
{
    struct tn_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    if (listener->type == UV_NAMED_PIPE)
        (void)uv_pipe_init(&server->loop, &conn->uv.pipe, 0);
    else
        (void)uv_tcp_init(&server->loop, &conn->uv.tcp);
    add(server, conn);
    return conn;
}

struct tn_conn *tn_conn_make_http(struct tn_server *server)
{
    struct tn_conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    (void)uv_timer_init(&server->loop, &conn->uv.none);
    add(server, conn);
    return conn;
}

/* For somebody new the oldest goes that has not said anything; not at once, it may be about to. */
static bool make_room(struct tn_conn *newcomer)
{
    struct tn_server *server = newcomer->server;
    struct tn_conn *oldest = NULL;

    for (struct tn_conn *conn = server->conns; conn != NULL; conn = conn->next)
        if (!conn->spoke && conn->heard == NULL && conn->called == NULL && conn->http == NULL &&
            conn != newcomer)
            oldest = conn; /* The list begins with the newest. */
    if (oldest == NULL || server->now - oldest->partial_since < TN_SEC(1))
        return false;
    tn_metrics_refused(server, "FULL");
    tn_conn_close(oldest);
    return true;
}

void tn_conn_listen(struct tn_conn *conn)
{
    (void)uv_read_start(&conn->uv.stream, provide, received);
}

void tn_conn_accept(uv_stream_t *listener, int status)
{
    struct tn_listener *from = listener->data;
    struct tn_server *server = from->server;
    struct tn_conn *conn = status == 0 ? make(server, listener) : NULL;

    if (conn == NULL)
        return;
    if (uv_accept(listener, &conn->uv.stream) != 0 || uv_fileno(&conn->uv.handle, &conn->fd) != 0) {
        tn_conn_close(conn);
        return;
    }
    if (listener->type == UV_TCP)
        (void)uv_tcp_nodelay(&conn->uv.tcp, 1);
    tn_server_tell_time(server);
    conn->heard_at = conn->partial_since = server->now; /* Its first command has its time, too. */
    if ((from->http && !tn_httpd_open(conn)) ||
        (listener->type == UV_TCP && server->tls != NULL && !tn_secure_accept(conn)))
        tn_conn_close(conn);
    else if (!know_peer(conn))
        refuse_peer(
            conn,
            "DENIED this socket is for its owner, and for the group that --socket-group names");
    else if (!tn_peer_add(conn))
        refuse_peer(conn, "FULL too many connections of this peer");
    else if ((server->conn_count > server->config.conns_max && !make_room(conn)) ||
             (conn->web != NULL && !tn_httpd_make_room(server)))
        refuse_peer(conn, "FULL too many connections");
    else
        tn_conn_listen(conn);
}
