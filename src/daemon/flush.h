/* flush.h - one flush of the journal for all that a turn wrote, and the replies that wait for it.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_FLUSH_H
#define TN_DAEMON_FLUSH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "tenure/error.h"

struct tn_server;

/* Who serves; flush.c. */
struct tn_baton {
    uv_mutex_t lock; /* Guards what follows. */
    uv_cond_t called;
    uv_async_t landed; /* A flush is over whose thread does not serve any more. */
    bool asleep;       /* The second thread sleeps until it is called. */
    bool taken;        /* The other thread took the loop over during the flush. */
    bool over;
    int error;        /* Of the last flush. */
    uint64_t began;   /* The flush that is under way, by uv_hrtime; 0: none is. */
    uint64_t flushes; /* So far. */
};

TENURE_MUST_USE int tn_flush_open(struct tn_server *server);
void tn_flush_close(struct tn_server *server);
/* Flush what is pending. */
enum tn_flushed {
    TN_FLUSH_OVER,  /* All replies may be sent. */
    TN_FLUSH_LASTS, /* Only those that wait for no flush. */
    TN_FLUSH_TAKEN, /* The other thread serves. */
};
TENURE_MUST_USE enum tn_flushed tn_flush(struct tn_server *server);
/* Send what the dirty connections have to be told: all of it, or what needs no flush. */
void tn_flush_send(struct tn_server *server);
void tn_flush_send_unbound(struct tn_server *server);
/* Wait until a flush lasts: then the server is the caller's. False: it is over. */
TENURE_MUST_USE bool tn_flush_stand_by(struct tn_server *server);
void tn_flush_end(struct tn_server *server);

#endif
