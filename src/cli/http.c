/* http.c - pages for neighbours; http.h has the contract. */
#define _GNU_SOURCE
#include "cli/http.h"

#include "base/time.h"
#include "cli/cli.h"

#ifndef TENURE_HTTP

int tn_http_open(const char *verb, const char *address, tn_http_page *page, void *arg,
                 struct tn_http **ret_http)
{
    (void)address;
    (void)page;
    (void)arg;
    (void)ret_http;
    return tn_cli_fail(TN_EXIT_USAGE, verb,
                       "--http: not in this build; install libmicrohttpd-dev and build again");
}

int tn_http_fd(const struct tn_http *http)
{
    (void)http;
    return -1;
}

tenure_ns tn_http_wake_at(const struct tn_http *http)
{
    (void)http;
    return TN_NEVER;
}

void tn_http_run(struct tn_http *http)
{
    (void)http;
}

void tn_http_close(struct tn_http *http)
{
    (void)http;
}

#else

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"
#include "runtime/clock.h"

/* Neighbours on the same host; more than that is a mistake, or an attack. */
#define CONNECTIONS_MOST 64u
#define IDLE_SECONDS 10u
#define PAGE_MOST 16384

struct tn_http {
    struct MHD_Daemon *daemon;
    tn_http_page *page;
    void *arg;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              const char *body)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(body), (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result rc = MHD_add_response_header(response, "Content-Type", type);
    if (rc == MHD_YES)
        rc = MHD_add_response_header(response, "Cache-Control", "no-store");
    if (rc == MHD_YES)
        rc = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result hear(void *arg, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *data, size_t *size,
                            void **request)
{
    const struct tn_http *http = arg;
    char body[PAGE_MOST];
    const char *type = "text/plain";
    struct tn_text text;
    bool reads =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;

    (void)version;
    (void)data;
    *size = 0;
    if (*request == NULL) { /* The headers only; the answer is due with the next call. */
        *request = arg;
        return MHD_YES;
    }
    if (!reads)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "only GET\n");
    tn_text_init(&text, body, sizeof body);
    unsigned status = http->page(http->arg, url, &text, &type);
    return answer(connection, status, type, body);
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
    int fd = -1;
    int status = tn_http_listen(verb, "--http", address, 1, &fd);

    if (status >= 0)
        return status;
    struct tn_http *http = calloc(1, sizeof *http);
    if (http != NULL) {
        http->page = page;
        http->arg = arg;
        http->daemon =
            MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, hear, http, MHD_OPTION_LISTEN_SOCKET, fd,
                             MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MOST,
                             MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_END);
    }
    if (http == NULL || http->daemon == NULL) {
        free(http);
        (void)close(fd);
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, verb, "--http: out of memory or descriptors");
    }
    *ret_http = http;
    return -1;
}

int tn_http_fd(const struct tn_http *http)
{
    const union MHD_DaemonInfo *info =
        http != NULL ? MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;

    return info != NULL ? info->epoll_fd : -1;
}

tenure_ns tn_http_wake_at(const struct tn_http *http)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (http == NULL || MHD_get_timeout(http->daemon, &ms) != MHD_YES)
        return TN_NEVER;
    return tn_boottime() + TN_MS(ms);
}

void tn_http_run(struct tn_http *http)
{
    if (http != NULL)
        (void)MHD_run(http->daemon);
}

void tn_http_close(struct tn_http *http)
{
    if (http == NULL)
        return;
    MHD_stop_daemon(http->daemon);
    free(http);
}

#endif
