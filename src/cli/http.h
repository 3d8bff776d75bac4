/* http.h - pages for programs beside us, served from the verb's own loop, without a thread.
 *
 * The server is http/server.h, on a libuv loop of its own whose descriptor the verb polls. Threads:
 * one at a time. */
#ifndef TN_CLI_HTTP_H
#define TN_CLI_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "tenure/time.h"

struct tn_http;

/* Write the page at @path. Returns its HTTP status. */
typedef unsigned tn_http_page(void *arg, const char *path, struct tn_text *body,
                              const char **ret_type);

/* Listen on @address, as below, for @option of @verb; with @port_least 0, on a free port if it asks
 * for port 0. Returns -1 to go on, or the exit status after one line on stderr. */
int tn_http_listen(const char *verb, const char *option, const char *address, uint64_t port_least,
                   int *ret_fd);

/* Listen on @address, HOST:PORT or :PORT (then on the loopback alone), and answer GET with @page.
 * Returns -1 to go on, or the exit status after one line on stderr. */
int tn_http_open(const char *verb, const char *address, tn_http_page *page, void *arg,
                 struct tn_http **ret_http);

/* Readable when tn_http_run has something to do; -1 for NULL. */
int tn_http_fd(const struct tn_http *http);

/* When to call tn_http_run even so: idle connections are cut. TN_NEVER for NULL. */
tenure_ns tn_http_wake_at(const struct tn_http *http);

/* Answer what has come in. Never blocks. Takes NULL. */
void tn_http_run(struct tn_http *http);

/* Takes NULL. */
void tn_http_close(struct tn_http *http);

#endif
