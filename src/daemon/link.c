/* link.c - where a session's news go, and which processes it lives with.
 *
 * A link exists while a session has a connection or a process here. It is not journaled: after a
 * restart the clients come back and make it anew, and until then the TTL holds.
 *
 * A process is watched through a pidfd, which becomes readable when it has ended, however it ended.
 * The kernel hands out the peer's own pidfd (SO_PEERPIDFD, Linux 6.5), also of a process in a pid
 * namespace that this one cannot see, whose number is 0 here. Before Linux 6.5 the pidfd is opened
 * by number: if the process died and its number was used again since it connected, the daemon
 * watches the wrong process, which costs a TTL at most, because the right one is gone.
 *
 * A process that comes back on another connection is recognised, so that it costs one descriptor.
 * That is all the recognition is for: a process that is bound twice is still one that must end, but
 * one that is wrongly taken for another would not be waited for.
 *
 * If a process cannot be watched, the daemon will never know that it has ended. Its session then
 * lives its TTL, whatever happens to the others. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/server.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef PID_FS_MAGIC
#define PID_FS_MAGIC 0x50494446
#endif

#define BINDS_MAX 64 /* Processes of one session. */

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
    if (link->conn != NULL || link->binds != NULL || link->unwatched)
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
    if (link->binds != NULL || link->unwatched)
        return; /* Another process can still act for it. */
    struct tn_op close_op = { .kind = TN_OP_CLOSE, .session = link->session };
    tn_server_tell_time(server);
    drop_if_unused(server, link);
    server->past.process_ended = true;
    tn_server_step(server, &close_op, &result);
    server->past.process_ended = false;
}

/* The number is looked up only where the kernel does not know the option. If it knows the option
 * and fails, the process may be gone and its number another's. */
static int open_pidfd(const struct tn_conn *conn)
{
    int pidfd = -1;
    socklen_t len = sizeof pidfd;

    if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
        return pidfd;
    return errno == ENOPROTOOPT && conn->pid > 0 ? (int)syscall(SYS_pidfd_open, conn->pid, 0) : -1;
}

/* Since Linux 6.9 the inode of a pidfd is its process's own, never used again. Before, all pidfds
 * have the same one. */
static uint64_t process_of(int pidfd)
{
    struct statfs fs;
    struct stat st;

    if (fstatfs(pidfd, &fs) != 0 || fs.f_type != PID_FS_MAGIC || fstat(pidfd, &st) != 0)
        return 0;
    return st.st_ino;
}

uint64_t tn_link_process(const struct tn_conn *conn)
{
    int pidfd = open_pidfd(conn);
    uint64_t process = pidfd >= 0 ? process_of(pidfd) : 0;

    if (pidfd >= 0)
        (void)close(pidfd);
    return process;
}

/* Without the inode the number decides, while the process that has it lives: nobody else has it
 * then. 0 is the number of every process that cannot be seen from here. */
static bool is_same(const struct tn_bind *bind, uint64_t process, pid_t pid)
{
    struct pollfd end = { .fd = bind->pidfd, .events = POLLIN };

    if (bind->process != 0 || process != 0)
        return bind->process == process;
    return pid > 0 && bind->pid == pid && poll(&end, 1, 0) == 0;
}

static bool add_bind(struct tn_server *server, struct tn_link *link, int pidfd, pid_t pid)
{
    struct tn_bind *bind = calloc(1, sizeof *bind);

    if (bind == NULL || uv_poll_init(&server->loop, &bind->poll, pidfd) != 0) {
        free(bind);
        return false;
    }
    bind->pidfd = pidfd;
    bind->pid = pid;
    bind->process = process_of(pidfd);
    bind->server = server;
    bind->link = link;
    bind->next = link->binds;
    bind->poll.data = bind;
    link->binds = bind;
    (void)uv_poll_start(&bind->poll, UV_READABLE, process_ended);
    return true;
}

int tn_link_bind(struct tn_server *server, struct tn_conn *conn, const struct tn_secret *session)
{
    struct tn_link *link = get(server, session);
    const struct tn_bind *bind;
    uint32_t count = 0;

    if (link == NULL)
        return TENURE_E_NOMEM;
    int pidfd = conn->peer_kind != TN_PEER_UNKNOWN ? open_pidfd(conn) : -1;
    uint64_t process = pidfd >= 0 ? process_of(pidfd) : 0;
    for (bind = link->binds; bind != NULL && !is_same(bind, process, conn->pid); bind = bind->next)
        count++;
    if (pidfd >= 0 && bind == NULL && count < BINDS_MAX && add_bind(server, link, pidfd, conn->pid))
        return 0;
    if (pidfd >= 0)
        (void)close(pidfd);
    if (bind != NULL)
        return 0; /* It is watched already. */
    link->unwatched = true;
    return conn->peer_kind != TN_PEER_UNKNOWN ? TENURE_E_UNAVAILABLE : TENURE_E_UNSUPPORTED;
}

static void drop(struct tn_server *server, struct tn_link *link)
{
    while (link->binds != NULL)
        drop_bind(link->binds);
    detach(link);
    link->unwatched = false;
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
