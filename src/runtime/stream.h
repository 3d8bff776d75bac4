/* stream.h - a byte connection that comes back: one of several endpoints at a time, on a loop.
 *
 *            start()            connected              lost, drop()
 *      IDLE --------> REACHING -----------> UP --------------------> WAITING --> REACHING ...
 *                         | failed                                      ^
 *                         +---------------------------------------------+
 *
 * An endpoint is a host and port, by name or address, or a Unix socket; with a TLS context the
 * bytes are encrypted, and UP comes after the handshake. After a failure the next endpoint is
 * tried; when all have failed in a row, after a pause that grows, with jitter. The failures are
 * forgotten only when the owner says that the server is a good one (tn_stream_proven).
 *
 * up() and down() strictly alternate. up(), down() and bytes() are called from the loop only, never
 * from within write, flush, doubt or start; drop() calls down() before it returns.
 * Threads: the loop's. Never blocks: names are looked up by uv_getaddrinfo. */
#ifndef TN_RUNTIME_STREAM_H
#define TN_RUNTIME_STREAM_H

#include <uv.h>

#include "base/net_url.h"
#include "base/prng.h"
#include "base/text.h"
#include "runtime/clock.h"
#include "runtime/tls.h"

struct tn_stream_link;
struct tn_stream_write;

struct tn_stream_host {
    void (*up)(void *arg);
    void (*down)(void *arg); /* The stream's @error says why. */
    /* In clear; borrowed. May drop the stream. */
    void (*bytes)(void *arg, const uint8_t *data, size_t len);
};

struct tn_stream {
    /* Set before tn_stream_init, and borrowed. */
    uv_loop_t *loop;
    const struct tn_clock *clock;
    const struct tn_stream_host *host;
    void *arg;
    const char *scheme;         /* @error begins with it: "etcd". */
    const char *tls_scheme;     /* What a hint calls the scheme with TLS; NULL: there is none. */
    struct tn_tls_context *tls; /* NULL: in clear. */
    const char
        *tls_name;     /* What the certificate must be for; NULL or empty: the endpoint's host. */
    uint64_t reach_ms; /* Bounds one attempt to connect. */
    /* What is checked of a Unix socket's server (socket_trust.h); neither: nothing. */
    bool own_peer;     /* TN_TRUST_OWN */
    bool service_peer; /* TN_TRUST_SERVICE */
    /* May be read. */
    bool up;
    tenure_ns heard_at;    /* When the server last said anything. */
    struct tn_endpoint at; /* Which is connected to, or tried. */
    char
        error[TN_ERROR_TEXT]; /* Why it is not UP, or was not when it was last tried: "SCHEME WHERE:
                              REASON"; empty: not known yet, or proven since. */
    int status;               /* With it: TENURE_E_UNAVAILABLE, or TENURE_E_DENIED by the system. */
    /* The stream's own. */
    struct tn_stream_link *link;
    struct tn_stream_write *out; /* What is written in this turn. */
    uv_timer_t timer;
    uv_prepare_t turn;
    struct tn_prng prng;
    struct tn_endpoint endpoints[TN_ENDPOINTS_MAX];
    unsigned count;
    unsigned endpoint, address; /* Which is tried next, or connected to. */
    unsigned failures;          /* In a row. */
    unsigned parts;             /* Handles and links that are not gone yet. */
    bool broken, closing;
    void (*closed)(void *arg);
};

/* @seed: for the jitter, and for where to begin. Returns 0 or TENURE_E_UNAVAILABLE. */
TENURE_MUST_USE int tn_stream_init(struct tn_stream *stream, const struct tn_endpoint *endpoints,
                                   unsigned count, uint64_t seed);

/* How long an attempt to connect may take where a request may take @patience: so that another
 * endpoint is tried in time, but no connection is given up that only takes a while. */
uint64_t tn_stream_reach_ms(tenure_ns patience);

/* Once it is started, this does nothing. */
void tn_stream_start(struct tn_stream *stream);

/* Copies other endpoints, at least one. The present connection stays; tn_stream_drop leaves it. The
 * next attempt begins with the first. */
void tn_stream_set_endpoints(struct tn_stream *stream, const struct tn_endpoint *endpoints,
                             unsigned count);

/* Bytes for the server; they are copied, and go out together before the loop sleeps. Only when up:
 * otherwise they are dropped. A failure is told later, as down(). */
void tn_stream_write(struct tn_stream *stream, const void *data, size_t len);

/* Now, instead of at the end of the turn. */
void tn_stream_flush(struct tn_stream *stream);

/* The server answers as it should: earlier failures are forgotten, and why. */
void tn_stream_proven(struct tn_stream *stream);

/* Give this connection up, because of @why, and take the next endpoint. */
void tn_stream_drop(struct tn_stream *stream, const char *why);

/* The same, as soon as the loop comes round. */
void tn_stream_doubt(struct tn_stream *stream, const char *why);

/* Hands what was written to the system, and calls down() if it is up. Then there are no more
 * callbacks but @closed, with the stream's arg. */
void tn_stream_close(struct tn_stream *stream, void (*closed)(void *arg));

#endif
