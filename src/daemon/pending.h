/* pending.h - which sessions have something in the journal that is not on disk yet.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_PENDING_H
#define TN_DAEMON_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease_table.h"
#include "daemon/map.h"

struct tn_pending;
struct tn_server;

/* What is not on disk yet about sessions; pending.c. */
struct tn_pendings {
    struct tn_map_node *map[TN_BUCKETS];
    struct tn_pending *gathered, *sealed, *spare;
    uint64_t batch; /* The one that gathers. */
    bool blind;     /* A note is missing: no memory. */
};

/* After a step whose records were added to the batch. */
void tn_pending_note(struct tn_server *server, const struct tn_op *op,
                     const struct tn_result *result);
/* Make of a renewal's result what is on disk. False: the session itself is not, so the reply must
 * wait for the flush. */
TENURE_MUST_USE bool tn_pending_take_back(struct tn_server *server, const struct tn_op *op,
                                          struct tn_result *result);
/* The batch is on its way to the disk; it is there. */
void tn_pending_sealed(struct tn_server *server);
void tn_pending_landed(struct tn_server *server);
void tn_pending_close(struct tn_server *server);

#endif
