/* server.h - the HTTP server of the programs that have a libuv loop of their own: the sockets
 * under http/conn.h, how many there may be, and how long a silent one is kept.
 *
 * Used by `run --http`, `elect --http`, the console, the sandbox and the gate. tenured has its own
 * sockets, with TLS, and uses conn.h directly. Threads: the loop's. */
#ifndef TN_HTTP_SERVER_H
#define TN_HTTP_SERVER_H

#include <uv.h>

#include "base/list.h"
#include "http/conn.h"

struct tn_http_server;
struct tn_http_peer;

struct tn_http_server_options {
    struct tn_http_service service;
    /* The peer has hung up, or sends no more, while its request is being served or its stream goes
     * on. NULL: serve it to its end. */
    void (*hung_up)(struct tn_http_peer *peer);
    /* The connection is over: free what belongs to it. NULL: nothing does. */
    void (*gone)(struct tn_http_peer *peer);
    size_t peer_size;   /* Of a struct that begins with struct tn_http_peer; 0: there is no more. */
    uint32_t peers_max; /* Beyond that the longest idle one makes room, or a new one waits. */
    uint64_t idle_ms;   /* How long a peer may take to send or to take the next bytes. */
    uint64_t whole_ms;  /* How long a request may take to arrive; 0: as long as it goes on. */
};

struct tn_http_peer {
    struct tn_http_conn http; /* First. */
    struct tn_list_node node; /* Of all; the newest first. */
    uv_tcp_t tcp;
    uv_write_t rest;
    uv_shutdown_t finish;
    struct tn_http_server *server;
    uint64_t deadline, began; /* By uv_now; @began 0: no request has. */
    size_t unsent;            /* At the last look. */
    bool broken;              /* Nothing can be sent any more. */
};

struct tn_http_server {
    struct tn_http_server_options options;
    uv_tcp_t listener;
    uv_timer_t sweep;
    struct tn_list peers;
    uint32_t count;
    bool unaccepted; /* A connection waits for room. */
    void *arg;       /* The user's. */
    struct tn_http_head head;
    char buf[64 << 10]; /* What is read from a socket. */
};

/* Serve on @fd, which is bound; it is the server's, also when that fails. Returns 0 or libuv's
 * code. */
TENURE_MUST_USE int tn_http_server_open(struct tn_http_server *server, uv_loop_t *loop, int fd,
                                        const struct tn_http_server_options *options);
/* Close the sockets. The handles vanish when the loop has run once more. */
void tn_http_server_close(struct tn_http_server *server);

struct tn_http_peer *tn_http_peer_of(struct tn_http_conn *conn);
/* The next of all peers; NULL: the first, and: there is none. */
struct tn_http_peer *tn_http_server_next(const struct tn_http_server *server,
                                         const struct tn_http_peer *peer);
/* Close it without an answer. */
void tn_http_peer_close(struct tn_http_peer *peer);

#endif
