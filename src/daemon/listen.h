/* listen.h - the sockets that peers connect to.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_LISTEN_H
#define TN_DAEMON_LISTEN_H

#include <stdbool.h>
#include <uv.h>

#include "base/text.h"
#include "tenure/error.h"

struct tn_server;
struct sockaddr_storage;

#define TN_LISTENERS_MAX 8

struct tn_listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    struct tn_server *server;
    char *path; /* Of a Unix socket, to be removed at the end. */
    bool open;
    bool http;
};

TENURE_MUST_USE int tn_listen(struct tn_server *server, const char *url, struct tn_text *reterr);
/* Listen on the sockets that systemd passed on (LISTEN_FDS). Returns 0, or an error. */
TENURE_MUST_USE int tn_listen_inherited(struct tn_server *server, struct tn_text *reterr);
/* How many there are. */
int tn_inherited_count(void);
/* Where it listens, as a URL: the port that the system chose too. */
int tn_listener_port(const struct tn_listener *listener); /* 0: it is a Unix socket. */
void tn_listener_name(const struct tn_listener *listener, struct tn_text *text);

/* A line when whoever can connect may do everything. */
void tn_listen_warn(const struct tn_server *server, const char *where);

/* "HOST:PORT", "[::1]:PORT". */
bool tn_parse_address(const char *text, struct sockaddr_storage *ret_address);
bool tn_is_loopback(const struct sockaddr_storage *address);

#endif
