/* channel.c - between gRPC and its stream; channel.h has the contract. */
#include "stores/etcd/channel.h"

static const char not_http2[] = "the answer is not HTTP/2; does the server want TLS (etcds:)?";

const char *tn_channel_where(const struct tn_channel *channel)
{
    return channel->stream.at.where;
}

void tn_channel_doubt(struct tn_channel *channel, const char *why)
{
    tn_stream_doubt(&channel->stream, why);
}

void tn_channel_flush(struct tn_channel *channel)
{
    const uint8_t *data;
    ssize_t len = 0;

    while (channel->grpc != NULL && (len = tn_grpc_pull(channel->grpc, &data)) > 0)
        tn_stream_write(&channel->stream, data, (size_t)len);
    if (len < 0)
        tn_channel_doubt(channel, not_http2);
}

static void came_up(void *arg)
{
    struct tn_channel *channel = arg;

    channel->proven = false;
    if (tn_grpc_new(&channel->grpc, tn_channel_where(channel), channel->stream.tls != NULL) < 0) {
        tn_channel_doubt(channel, "out of memory");
        return;
    }
    channel->host->up(channel->arg);
    tn_channel_flush(channel);
}

/* Ends the calls under way, then tells. */
static void went_down(void *arg)
{
    struct tn_channel *channel = arg;
    struct tn_grpc *grpc = channel->grpc;

    if (grpc == NULL)
        return;
    channel->grpc = NULL;
    tn_grpc_free(grpc);
    channel->host->down(channel->arg);
}

/* The server is proved to be one by its first bytes, which are its settings. */
static void bytes(void *arg, const uint8_t *data, size_t len)
{
    struct tn_channel *channel = arg;

    if (channel->grpc == NULL)
        return;
    channel->proven = true;
    tn_stream_proven(&channel->stream);
    if (tn_grpc_feed(channel->grpc, data, len) < 0) {
        tn_stream_drop(&channel->stream, not_http2);
        return;
    }
    tn_channel_flush(channel);
    if (channel->grpc != NULL && tn_grpc_leaving(channel->grpc))
        tn_channel_doubt(channel, "the server is going away");
}

int tn_channel_init(struct tn_channel *channel, const struct tn_endpoint *endpoints, unsigned count,
                    uint64_t seed)
{
    static const struct tn_stream_host host = { came_up, went_down, bytes };

    channel->stream.host = &host;
    channel->stream.arg = channel;
    channel->stream.scheme = "etcd";
    channel->stream.tls_scheme = "etcds";
    return tn_stream_init(&channel->stream, endpoints, count, seed);
}

void tn_channel_start(struct tn_channel *channel)
{
    tn_stream_start(&channel->stream);
}

static void stream_closed(void *arg)
{
    struct tn_channel *channel = arg;
    channel->closed(channel->arg);
}

void tn_channel_close(struct tn_channel *channel, void (*closed)(void *arg))
{
    channel->closed = closed;
    tn_stream_close(&channel->stream, stream_closed);
}
