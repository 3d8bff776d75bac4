/* channel.h - a gRPC connection that comes back: HTTP/2 on a stream of runtime/stream.h.
 *
 * up() and down() strictly alternate and are called from the loop only, down() after the calls
 * under way were ended. Threads: the loop's. Never blocks. */
#ifndef TN_STORES_ETCD_CHANNEL_H
#define TN_STORES_ETCD_CHANNEL_H

#include "runtime/stream.h"
#include "stores/etcd/grpc.h"

struct tn_channel_host {
    void (*up)(void *arg);
    void (*down)(void *arg);
};

struct tn_channel {
    const struct tn_channel_host *host; /* Borrowed. */
    void *arg;
    struct tn_grpc *grpc;    /* While UP, otherwise NULL. */
    bool proven;             /* The server has said something on this connection. */
    struct tn_stream stream; /* Its loop, clock, TLS and patience are set by the owner. */
    void (*closed)(void *arg);
};

/* Returns 0 or TENURE_E_UNAVAILABLE. */
TENURE_MUST_USE int tn_channel_init(struct tn_channel *channel, const struct tn_endpoint *endpoints,
                                    unsigned count, uint64_t seed);

void tn_channel_start(struct tn_channel *channel);

/* Write what the calls have to say. A failure is told later. */
void tn_channel_flush(struct tn_channel *channel);

/* Give this connection up, because of @why, as soon as the loop comes round. */
void tn_channel_doubt(struct tn_channel *channel, const char *why);

/* "host:port" of the present endpoint. */
const char *tn_channel_where(const struct tn_channel *channel);

/* No more callbacks but @closed, with the channel's arg. */
void tn_channel_close(struct tn_channel *channel, void (*closed)(void *arg));

#endif
