/* http.c - pages for neighbours; http.h has the contract. */
#define _GNU_SOURCE
#include "cli/http.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"
#include "base/time.h"
#include "cli/cli.h"
#include "http/server.h"
#include "http/target.h"
#include "runtime/clock.h"

/* Neighbours on the same host; more than that is a mistake, or an attack. */
#define CONNECTIONS_MOST 64u
#define IDLE_MS 10000u
#define PAGE_MOST 16384

struct tn_http {
    uv_loop_t loop;
    struct tn_http_server server;
    tn_http_page *page;
    void *arg;
};

static void answer_text(struct tn_http_conn *conn, unsigned status, const char *type,
                        const char *body)
{
    tn_http_conn_answer(conn, &(struct tn_http_response) { .status = status,
                                                           .type = type,
                                                           .fields = "Cache-Control: no-store\r\n",
                                                           .body = body,
                                                           .len = strlen(body) });
}

static void refuse_request(struct tn_http_conn *conn, unsigned status, const char *why)
{
    char line[200];

    (void)snprintf(line, sizeof line, "%s\n", why);
    answer_text(conn, status, "text/plain", line);
}

static void serve_page(struct tn_http_conn *conn, const struct tn_http_head *head)
{
    const struct tn_http *http = tn_http_peer_of(conn)->server->arg;
    struct tn_http_target target;
    char body[PAGE_MOST];
    const char *type = "text/plain";
    struct tn_text text;

    if (!tn_http_is(&head->method, "get") && !conn->to_head) {
        refuse_request(conn, TN_STATUS_METHOD_NOT_ALLOWED, "only GET");
        return;
    }
    if (tn_http_target_read(&target, &head->target) != 0) {
        refuse_request(conn, TN_STATUS_BAD_REQUEST, "the path is not well-formed");
        return;
    }
    tn_text_init(&text, body, sizeof body);
    unsigned status = http->page(http->arg, target.text, &text, &type);
    tn_http_target_free(&target);
    answer_text(conn, status, type, body);
}

/* --- The address ------------------------------------------------------------------------------ */

static int bad_address(const char *verb, const char *option, const char *address, const char *why)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, address);
    return tn_cli_fail(TN_EXIT_USAGE, verb, "%s: %s %s; write HOST:PORT, as in 127.0.0.1:7422",
                       option, buf, why);
}

/* HOST:PORT, [IPV6]:PORT or :PORT. */
static int resolve(const char *verb, const char *option, const char *address, uint64_t port_least,
                   struct addrinfo **ret_list)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    char host[256];
    const char *colon = strrchr(address, ':');
    const char *begin = address;
    size_t len = colon != NULL ? (size_t)(colon - address) : 0;

    uint64_t port = 0;

    if (colon == NULL || tn_u64_parse(colon + 1, &port) != 0 || port < port_least || port > 65535)
        return bad_address(verb, option, address, "has no port from 1 to 65535");
    if (len >= 2 && begin[0] == '[' && begin[len - 1] == ']') {
        begin++;
        len -= 2;
    }
    if (len >= sizeof host)
        return bad_address(verb, option, address, "is too long");
    memcpy(host, begin, len);
    host[len] = '\0';
    int rc = getaddrinfo(len > 0 ? host : "127.0.0.1", colon + 1, &hints, ret_list);
    return rc != 0 ? bad_address(verb, option, address, gai_strerror(rc)) : -1;
}

static int listen_on(const struct addrinfo *at)
{
    int one = 1;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, (int)CONNECTIONS_MOST) == 0)
        return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

int tn_http_listen(const char *verb, const char *option, const char *address, uint64_t port_least,
                   int *ret_fd)
{
    struct addrinfo *list = NULL;
    int status = resolve(verb, option, address, port_least, &list);

    if (status >= 0)
        return status;
    *ret_fd = listen_on(list);
    int error = errno;
    freeaddrinfo(list);
    if (*ret_fd < 0)
        return tn_cli_fail(error == EACCES ? TN_EXIT_DENIED : TN_EXIT_UNAVAILABLE, verb,
                           "%s: cannot listen there: %s", option, strerror(error));
    return -1;
}

int tn_http_open(const char *verb, const char *address, tn_http_page *page, void *arg,
                 struct tn_http **ret_http)
{
    const struct tn_http_server_options options = {
        .service = { .body_max = 4096, .request = serve_page, .refuse = refuse_request },
        .peers_max = CONNECTIONS_MOST,
        .idle_ms = IDLE_MS,
        .whole_ms = IDLE_MS,
    };
    int fd = -1;
    int status = tn_http_listen(verb, "--http", address, 1, &fd);

    if (status >= 0)
        return status;
    struct tn_http *http = calloc(1, sizeof *http);
    if (http == NULL || uv_loop_init(&http->loop) != 0) {
        free(http);
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, verb, "--http: out of memory or descriptors");
    }
    http->page = page;
    http->arg = arg;
    http->server.arg = http;
    int rc = tn_http_server_open(&http->server, &http->loop, fd, &options);
    if (rc != 0) {
        tn_http_close(http);
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, verb, "--http: cannot serve: %s", uv_strerror(rc));
    }
    *ret_http = http;
    return -1;
}

int tn_http_fd(const struct tn_http *http)
{
    return http != NULL ? uv_backend_fd(&http->loop) : -1;
}

tenure_ns tn_http_wake_at(const struct tn_http *http)
{
    int ms = http != NULL ? uv_backend_timeout(&http->loop) : -1;

    return ms < 0 ? TN_NEVER : tn_boottime() + TN_MS(ms);
}

void tn_http_run(struct tn_http *http)
{
    if (http != NULL)
        (void)uv_run(&http->loop, UV_RUN_NOWAIT);
}

void tn_http_close(struct tn_http *http)
{
    if (http == NULL)
        return;
    tn_http_server_close(&http->server);
    (void)uv_run(&http->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&http->loop);
    free(http);
}
