/* wait.h - connections that wait for a lease, or for the record upstream.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_WAIT_H
#define TN_DAEMON_WAIT_H

#include <stdbool.h>
#include <uv.h>

#include "base/name.h"
#include "core/lease_table.h"
#include "daemon/map.h"

struct tn_server;
struct tn_conn;
struct tn_call;

/* What a connection waits for. */
enum tn_wait_kind {
    TN_WAIT_TURN, /* The lease. */
    TN_WAIT_ONCE, /* At an agent: the lease, or word that another has it. */
    TN_WAIT_LOOK, /* At an agent: what is on record upstream. */
};

/* A connection that waits. */
struct tn_wait {
    struct tn_map_node node; /* First; by session. */
    struct tn_conn *conn;
    struct tn_secret session, term;
    char term_text[32];
    uint32_t name_len;
    char name[TN_NAME_MAX];
    uv_timer_t timer;
    enum tn_wait_kind kind;
    bool tagged;
    uint64_t tag;
};

/* The connection waits for the lease; at most @timeout_ms, 0: for ever. */
bool tn_wait_begin(const struct tn_call *call, enum tn_wait_kind kind, const struct tn_op *op,
                   const char *term_text, uint64_t timeout_ms);
/* At an agent: the name's record upstream is known. Answer those who look, and tell those who would
 * not wait that it is held. */
void tn_wait_looked(struct tn_server *server, const struct tn_lease_view *view);
/* The grant is somebody's who waits: answer it. False: nobody here waits for it. */
bool tn_wait_granted(struct tn_server *server, const struct tn_notice *notice);
/* The session is over: whoever waits for it hears so. */
void tn_wait_gone(struct tn_server *server, const struct tn_secret *session);
/* The user has no right to it any more: say so, and give the place in the queue back. */
void tn_wait_refuse(struct tn_conn *conn);
/* The connection that waits for this; NULL: there is none. */
struct tn_conn *tn_wait_conn(struct tn_server *server, const struct tn_secret *session,
                             const struct tn_secret *term, const struct tn_lease_view *view);
/* The connection ends, or the daemon: give the place in the queue back. */
void tn_wait_cancel(struct tn_conn *conn);

#endif
