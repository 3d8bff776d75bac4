/* link.c - where a session's news go, and which processes it lives with.
 *
 * A link exists while a session has a connection or a process here. It is not journaled: after a
 * restart the clients come back and make it anew, and until then the TTL holds.
 *
 * A process is watched through a pidfd, which becomes readable when it has ended, however it ended.
 * The kernel hands out the peer's own pidfd where it can (Linux 6.5); before that it is opened by
 * number, and a process that died and whose number was used again since it connected would be
 * taken for it. Its connection is closed in that case, so the mistake costs a TTL at most. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/server.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static uint64_t hash_of(const struct tn_server *server, const struct tn_secret *session)
{
    return tn_map_hash(server, session->bytes, sizeof session->bytes);
}

struct tn_link *tn_link_find(struct tn_server *server, const struct tn_secret *session)
{
    struct tn_map_node *node = tn_map_first(server->links, hash_of(server, session));

    while (node != NULL && !tn_secret_equal(&((struct tn_link *)node)->session, session))
        node = tn_map_next(node);
    return (struct tn_link *)node;
}

static struct tn_link *get(struct tn_server *server, const struct tn_secret *session)
{
    struct tn_link *link = tn_link_find(server, session);

    if (link == NULL) {
        link = calloc(1, sizeof *link);
        if (link == NULL)
            return NULL;
        link->session = *session;
        tn_map_add(server->links, &link->node, hash_of(server, session));
    }
    return link;
}

static void detach(struct tn_link *link)
{
    if (link->conn == NULL)
        return;
    *link->conn_prev = link->conn_next;
    if (link->conn_next != NULL)
        link->conn_next->conn_prev = link->conn_prev;
    link->conn = NULL;
}

static void drop_if_unused(struct tn_server *server, struct tn_link *link)
{
    if (link->conn != NULL || link->binds != NULL)
        return;
    tn_map_remove(server->links, &link->node);
    free(link);
}

bool tn_link_attach(struct tn_server *server, struct tn_conn *conn, const struct tn_secret *session)
{
    struct tn_link *link = get(server, session);

    if (link == NULL)
        return false;
    if (link->conn == conn)
        return true;
    detach(link);
    link->conn = conn;
    link->conn_next = conn->links;
    link->conn_prev = &conn->links;
    if (conn->links != NULL)
        conn->links->conn_prev = &link->conn_next;
    conn->links = link;
    return true;
}

void tn_link_conn_closed(struct tn_conn *conn)
{
    while (conn->links != NULL) {
        struct tn_link *link = conn->links;
        detach(link);
        drop_if_unused(conn->server, link);
    }
}

/* --- Processes -------------------------------------------------------------------------------- */

static void bind_closed(uv_handle_t *handle)
{
    struct tn_bind *bind = handle->data;
    (void)close(bind->pidfd);
    free(bind);
}

static void drop_bind(struct tn_bind *bind)
{
    struct tn_bind **at = &bind->link->binds;

    while (*at != bind)
        at = &(*at)->next;
    *at = bind->next;
    uv_close((uv_handle_t *)&bind->poll, bind_closed);
}

static void process_ended(uv_poll_t *poll, int status, int events)
{
    struct tn_bind *bind = poll->data;
    struct tn_server *server = bind->server;
    struct tn_link *link = bind->link;
    struct tn_result result;

    (void)status;
    (void)events;
    drop_bind(bind);
    if (link->binds != NULL)
        return; /* Another process can still act for it. */
    struct tn_op close_op = { .kind = TN_OP_CLOSE, .session = link->session };
    tn_server_tell_time(server);
    drop_if_unused(server, link);
    tn_server_step(server, &close_op, &result);
}

static int open_pidfd(const struct tn_conn *conn)
{
    int pidfd = -1;
    socklen_t len = sizeof pidfd;

    if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
        return pidfd;
    return (int)syscall(SYS_pidfd_open, conn->pid, 0);
}

/* Whoever comes back on another connection is watched already. */
static bool is_bound(const struct tn_link *link, pid_t pid)
{
    for (const struct tn_bind *bind = link->binds; bind != NULL; bind = bind->next) {
        struct pollfd end = { .fd = bind->pidfd, .events = POLLIN };
        if (bind->pid == pid && poll(&end, 1, 0) == 0)
            return true;
    }
    return false;
}

int tn_link_bind(struct tn_server *server, struct tn_conn *conn, const struct tn_secret *session)
{
    struct tn_link *link;
    struct tn_bind *bind;
    int pidfd;

    if (!conn->local)
        return TENURE_E_UNSUPPORTED;
    link = tn_link_find(server, session);
    if (link != NULL && is_bound(link, conn->pid))
        return 0;
    pidfd = open_pidfd(conn);
    if (pidfd < 0)
        return TENURE_E_UNAVAILABLE;
    link = get(server, session);
    bind = link != NULL ? calloc(1, sizeof *bind) : NULL;
    if (bind == NULL || uv_poll_init(&server->loop, &bind->poll, pidfd) != 0) {
        if (link != NULL)
            drop_if_unused(server, link);
        free(bind);
        (void)close(pidfd);
        return TENURE_E_NOMEM;
    }
    *bind = (struct tn_bind) { .poll = bind->poll,
                               .pidfd = pidfd,
                               .pid = conn->pid,
                               .server = server,
                               .link = link,
                               .next = link->binds };
    bind->poll.data = bind;
    link->binds = bind;
    (void)uv_poll_start(&bind->poll, UV_READABLE, process_ended);
    return 0;
}

static void drop(struct tn_server *server, struct tn_link *link)
{
    while (link->binds != NULL)
        drop_bind(link->binds);
    detach(link);
    drop_if_unused(server, link);
}

void tn_link_ended(struct tn_server *server, const struct tn_secret *session)
{
    struct tn_link *link = tn_link_find(server, session);

    if (link != NULL)
        drop(server, link);
}

void tn_link_drop_all(struct tn_server *server)
{
    for (size_t i = 0; i < TN_BUCKETS; i++)
        while (server->links[i] != NULL)
            drop(server, (struct tn_link *)server->links[i]);
}
