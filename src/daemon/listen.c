/* listen.c - where peers come in: Unix sockets, and TCP on the machine's own addresses.
 *
 * A Unix socket is made with mode 0600; a socket file that nobody listens on any more is removed.
 * TCP carries no proof of who asks, so it stays on loopback until there is mutual TLS. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/number.h"
#include "daemon/server.h"

#define BACKLOG 1024

static int refuse(struct tn_text *reterr, int code, const char *url, const char *why)
{
    tn_text_escape(reterr, url, strlen(url));
    tn_text_addf(reterr, ": %s", why);
    return code;
}

static int begin(struct tn_server *server, struct tn_listener *listener, const char *url,
                 struct tn_text *reterr)
{
    int rc = uv_listen(&listener->uv.stream, BACKLOG, tn_conn_accept);

    listener->server = server;
    listener->open = true;
    listener->uv.handle.data = listener;
    return rc == 0 ? 0 : refuse(reterr, TENURE_E_UNAVAILABLE, url, uv_strerror(rc));
}

/* --- Unix ------------------------------------------------------------------------------------- */

/* Remove a socket file that was left over; one that answers is somebody's. */
static int clear_path(const struct sockaddr_un *address, const char *url, struct tn_text *reterr)
{
    struct stat st;
    int fd;
    int rc;

    if (lstat(address->sun_path, &st) != 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return refuse(reterr, TENURE_E_UNAVAILABLE, url, "there is a file that is no socket");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rc = fd >= 0 ? connect(fd, (const struct sockaddr *)address, sizeof *address) : -1;
    if (rc == 0 || errno != ECONNREFUSED) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return refuse(reterr, TENURE_E_CONFLICT, url,
                      rc == 0 ? "another daemon listens there" : strerror(error));
    }
    (void)close(fd);
    (void)unlink(address->sun_path);
    return 0;
}

static int listen_unix(struct tn_server *server, struct tn_listener *listener, const char *url,
                       const char *path, struct tn_text *reterr)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path)
        return refuse(reterr, TENURE_E_INVALID, url,
                      "give an absolute path of at most 107 characters");
    memcpy(address.sun_path, path, strlen(path) + 1);
    int rc = clear_path(&address, url, reterr);
    if (rc != 0)
        return rc;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        (void)umask(mask);
        if (fd >= 0)
            (void)close(fd);
        return refuse(reterr, error == EACCES ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE, url,
                      strerror(error));
    }
    (void)umask(mask);
    listener->path = strdup(path);
    (void)uv_pipe_init(&server->loop, &listener->uv.pipe, 0);
    (void)uv_pipe_open(&listener->uv.pipe, fd);
    return begin(server, listener, url, reterr);
}

/* --- TCP -------------------------------------------------------------------------------------- */

bool tn_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    return memcmp(&in6->sin6_addr, &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

bool tn_parse_address(const char *text, struct sockaddr_storage *ret_address)
{
    const char *colon = strrchr(text, ':');
    char host[64];
    uint64_t port;
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;

    if (len == 0 || len >= sizeof host || tn_u64_parse(colon + 1, &port) != 0 || port > 65535)
        return false;
    memcpy(host, text, len);
    host[len] = 0;
    if (strcmp(host, "localhost") == 0)
        (void)snprintf(host, sizeof host, "127.0.0.1");
    if (host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = 0;
        return uv_ip6_addr(host + 1, (int)port, (struct sockaddr_in6 *)ret_address) == 0;
    }
    return uv_ip4_addr(host, (int)port, (struct sockaddr_in *)ret_address) == 0;
}

static int listen_tcp(struct tn_server *server, struct tn_listener *listener, const char *url,
                      const char *where, struct tn_text *reterr)
{
    struct sockaddr_storage address = { 0 };

    if (!tn_parse_address(where, &address))
        return refuse(reterr, TENURE_E_INVALID, url,
                      "give tcp:ADDRESS:PORT, as tcp:127.0.0.1:7420");
    if (!tn_is_loopback(&address))
        return refuse(reterr, TENURE_E_DENIED, url,
                      "only a loopback address: beyond this machine mutual TLS is needed, which "
                      "this tenured does not have");
    (void)uv_tcp_init(&server->loop, &listener->uv.tcp);
    int rc = uv_tcp_bind(&listener->uv.tcp, (const struct sockaddr *)&address, 0);
    if (rc != 0) {
        listener->server = server;
        listener->open = true; /* The handle is the loop's; it must be closed. */
        return refuse(reterr, TENURE_E_UNAVAILABLE, url, uv_strerror(rc));
    }
    if (server->acl == NULL)
        tn_log("warning: %s is open to every user of this machine, and no ACL guards it", url);
    return begin(server, listener, url, reterr);
}

int tn_listen(struct tn_server *server, const char *url, struct tn_text *reterr)
{
    struct tn_listener *listener = &server->listeners[server->listener_count];

    if (server->listener_count == TN_LISTENERS_MAX)
        return refuse(reterr, TENURE_E_INVALID, url, "too many --listen");
    server->listener_count++;
    if (strncmp(url, "unix:", 5) == 0)
        return listen_unix(server, listener, url, url + 5, reterr);
    if (strncmp(url, "tcp:", 4) == 0)
        return listen_tcp(server, listener, url, url + 4, reterr);
    return refuse(reterr, TENURE_E_INVALID, url, "give unix:PATH or tcp:ADDRESS:PORT");
}

void tn_listener_name(const struct tn_listener *listener, struct tn_text *text)
{
    struct sockaddr_storage address;
    char host[INET6_ADDRSTRLEN] = "";
    int len = sizeof address;

    if (listener->path != NULL) {
        tn_text_addf(text, "unix:%s", listener->path);
        return;
    }
    if (uv_tcp_getsockname(&listener->uv.tcp, (struct sockaddr *)&address, &len) != 0)
        return;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
        (void)uv_ip4_name(in, host, sizeof host);
        tn_text_addf(text, "tcp:%s:%d", host, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
        (void)uv_ip6_name(in6, host, sizeof host);
        tn_text_addf(text, "tcp:[%s]:%d", host, ntohs(in6->sin6_port));
    }
}
