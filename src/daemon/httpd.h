/* httpd.h - HTTP as the rest of the daemon sees it; http.h is what its own files share.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_HTTPD_H
#define TN_DAEMON_HTTPD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct tn_server;
struct tn_conn;

TENURE_MUST_USE int tn_http_open(struct tn_server *server, const char *where,
                                 struct tn_text *reterr);
/* Go on with connections that have more to say than was served in the last turn. */
void tn_http_run(struct tn_server *server);
/* What a request's connection has to say: the first @len bytes of its buffer. */
void tn_http_send(struct tn_conn *conn, size_t len);
void tn_http_conn_closed(struct tn_conn *conn);
void tn_http_sweep(struct tn_conn *conn);
int tn_http_port(const struct tn_server *server); /* 0: there is none. */
/* @conn speaks HTTP. False: no memory. */
TENURE_MUST_USE bool tn_httpd_open(struct tn_conn *conn);
void tn_httpd_take(struct tn_conn *conn, const char *bytes, size_t len);
void tn_httpd_sent(struct tn_conn *conn); /* What the loop had to write has left. */
void tn_httpd_closed(struct tn_conn *conn);
void tn_httpd_free(struct tn_conn *conn);
void tn_httpd_drain(struct tn_conn *conn); /* The daemon ends: after the answer, so does @conn. */
/* Whether a connection that has been silent for so long waits for nothing. */
bool tn_httpd_is_idle(const struct tn_conn *conn, tenure_ns silence);
/* Whether there is room for the HTTP connection that was added last. */
bool tn_httpd_make_room(struct tn_server *server);

#endif
