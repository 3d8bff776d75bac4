/* channel.h - a gRPC connection that comes back: one of several endpoints at a time, on a loop.
 *
 *            start()            connected              lost, drop()
 *      IDLE --------> REACHING -----------> UP --------------------> WAITING --> REACHING ...
 *                         | failed                                      ^
 *                         +---------------------------------------------+
 *
 * After a failure the next endpoint is tried; when all have failed in a row, after a pause that
 * grows, with jitter. up() and down() strictly alternate and are called from the loop only, down()
 * after the calls under way were ended.
 * Threads: the loop's. Never blocks: names are looked up by uv_getaddrinfo. */
#ifndef TN_STORES_ETCD_CHANNEL_H
#define TN_STORES_ETCD_CHANNEL_H

#include <uv.h>

#include "base/prng.h"
#include "runtime/clock.h"
#include "stores/etcd/config.h"
#include "stores/etcd/grpc.h"
#include "stores/etcd/tls.h"

struct tn_channel_link;

struct tn_channel_host {
    void (*up)(void *arg);
    void (*down)(void *arg);
};

struct tn_channel {
    uv_loop_t *loop;
    const struct tn_etcd_config *config; /* Borrowed, as the next. */
    struct tn_tls_context *tls;          /* NULL: in clear. */
    const struct tn_clock *clock;
    const struct tn_channel_host *host;
    void *arg;
    struct tn_grpc *grpc; /* While UP, otherwise NULL. */
    tenure_ns heard_at;   /* When the server last said anything. */
    char error[200];      /* Why it is not UP; empty: not known yet. */
    /* The channel's own. */
    struct tn_channel_link *link;
    uv_timer_t timer;
    struct tn_prng prng;
    uint64_t reach_ms;
    unsigned endpoint, address; /* Which are tried, or connected to. */
    unsigned failures;          /* In a row. */
    unsigned parts;             /* Handles and links that are not gone yet. */
    bool broken, closing;
    void (*closed)(void *arg);
};

/* @reach_ms bounds one attempt to connect. Returns 0 or TENURE_E_UNAVAILABLE. */
TENURE_MUST_USE int tn_channel_init(struct tn_channel *channel, uv_loop_t *loop, uint64_t reach_ms,
                                    uint64_t seed);

void tn_channel_start(struct tn_channel *channel);

/* Write what the calls have to say. A failure is told later. */
void tn_channel_flush(struct tn_channel *channel);

/* Give this connection up, because of @why, and take the next endpoint. From the loop, and not from
 * a call's callback: use tn_channel_doubt there. */
void tn_channel_drop(struct tn_channel *channel, const char *why);

/* The same, as soon as the loop comes round. */
void tn_channel_doubt(struct tn_channel *channel, const char *why);

/* "host:port" of the present endpoint. */
const char *tn_channel_where(const struct tn_channel *channel);

/* No more callbacks but @closed, with the channel's arg. */
void tn_channel_close(struct tn_channel *channel, void (*closed)(void *arg));

#endif
