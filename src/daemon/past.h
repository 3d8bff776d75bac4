/* past.h - the terms that were.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_PAST_H
#define TN_DAEMON_PAST_H

#include <stdbool.h>
#include <uv.h>

#include "core/lease_table.h"
#include "runtime/history.h"

struct tn_server;

/* The terms that were; past.c. */
struct tn_past {
    struct tn_history history;
    uv_timer_t timer;
    bool writing;                /* Lines are on their way to the file. */
    bool failed;                 /* A line says so. */
    bool process_ended;          /* The session that is being closed ends with its process. */
    tenure_ns whole_at, beat_at; /* When the whole file, or a sign of life, may be written. */
    int64_t away_from, back_at;  /* The daemon was not there; @away_from 0: not known. */
};

/* Read the history, once the table is there; write what is new, on the loop; write the rest. */
TENURE_MUST_USE int tn_past_open(struct tn_server *server);
TENURE_MUST_USE int tn_past_start(struct tn_server *server);
void tn_past_close(struct tn_server *server);
/* Before a step; a lease was revoked; a lease changed hands. */
void tn_past_before(struct tn_server *server, const struct tn_op *op);
void tn_past_revoked(struct tn_server *server, uint32_t lease);
void tn_past_changed(struct tn_server *server, const struct tn_op *op,
                     const struct tn_notice *notice);

#endif
