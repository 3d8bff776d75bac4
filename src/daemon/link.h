/* link.h - sessions and the connections and processes that stand behind them.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_LINK_H
#define TN_DAEMON_LINK_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/secret.h"
#include "daemon/map.h"

struct tn_server;
struct tn_conn;

/* What a session is to its connections and processes; known by the session's hashed secret. */
struct tn_link {
    struct tn_map_node node; /* First. */
    struct tn_secret session;
    struct tn_conn *conn; /* Where its news go; NULL: nowhere. */
    struct tn_link *conn_next, **conn_prev;
    struct tn_bind *binds; /* Processes; when the last one is gone, the session ends, */
    bool unwatched;        /* unless there is one that could not be watched. */
};

/* A process that can act for a session. */
struct tn_bind {
    uv_poll_t poll;
    int pidfd;
    pid_t pid;        /* 0: it cannot be seen from this pid namespace. */
    uint64_t process; /* The pidfd's inode; 0: this kernel has none for each. */
    struct tn_server *server;
    struct tn_link *link;
    struct tn_bind *next;
};

struct tn_link *tn_link_find(struct tn_server *server, const struct tn_secret *session);
/* News of the session go to @conn from now on. False: no memory. */
bool tn_link_attach(struct tn_server *server, struct tn_conn *conn,
                    const struct tn_secret *session);
/* The session lives with the peer's process. Returns 0, TENURE_E_UNSUPPORTED (not on a Unix
 * socket), TENURE_E_NOMEM or TENURE_E_UNAVAILABLE (it cannot be watched; the session lives its TTL
 * from now on). */
int tn_link_bind(struct tn_server *server, struct tn_conn *conn, const struct tn_secret *session);
/* A number of the peer's process that no other one has or will have; 0: the kernel has none. */
uint64_t tn_link_process(const struct tn_conn *conn);
void tn_link_ended(struct tn_server *server, const struct tn_secret *session);
void tn_link_conn_closed(struct tn_conn *conn);
void tn_link_drop_all(struct tn_server *server);

#endif
