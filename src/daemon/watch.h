/* watch.h - connections that watch a name, or all below one.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_WATCH_H
#define TN_DAEMON_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease_table.h"
#include "daemon/map.h"

struct tn_server;
struct tn_conn;
struct tn_call;

/* A connection that watches a name or all below one. */
struct tn_watch {
    struct tn_map_node node; /* First; by pattern. */
    struct tn_conn *conn;
    struct tn_watch *conn_next, **conn_prev;
    uint32_t len;
    char pattern[]; /* A name, or "prefix" + "/" + star, or a star alone. */
};

void tn_watch_changed(struct tn_server *server, uint32_t lease);
void tn_watch_tell(struct tn_server *server, const struct tn_lease_view *view);
/* Whether a connection watches this very name. */
bool tn_watch_has(struct tn_server *server, const char *name, uint32_t len);
/* It was taken away, and not given back yet: an event over HTTP only. */
void tn_watch_revoked(struct tn_server *server, uint32_t lease);
void tn_watch_conn_closed(struct tn_conn *conn);
void tn_cmd_watch(struct tn_call *call);
void tn_cmd_unwatch(struct tn_call *call);

#endif
