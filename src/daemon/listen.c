/* listen.c - where peers come in: Unix sockets, and TCP on the machine's own addresses.
 *
 * A Unix socket is made with mode 0600, or 0660 and the group of --socket-group. A socket file that
 * nobody listens on any more is removed.
 * TCP carries no proof of who asks, so beyond loopback it is only there with mutual TLS. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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

static int refuse_url(struct tn_text *reterr, int code, const char *url, const char *why)
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
    return rc == 0 ? 0 : refuse_url(reterr, TENURE_E_UNAVAILABLE, url, uv_strerror(rc));
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
        return refuse_url(reterr, TENURE_E_UNAVAILABLE, url, "there is a file that is no socket");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    rc = fd >= 0 ? connect(fd, (const struct sockaddr *)address, sizeof *address) : -1;
    if (rc == 0 || errno != ECONNREFUSED) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return refuse_url(reterr, TENURE_E_CONFLICT, url,
                          rc == 0 ? "another daemon listens there" : strerror(error));
    }
    (void)close(fd);
    (void)unlink(address->sun_path);
    return 0;
}

/* The group first: until then the socket is its owner's alone. */
static int admit_group(const struct tn_server *server, const char *url, const char *path,
                       struct tn_text *reterr)
{
    if (server->config.socket_group == NULL ||
        (lchown(path, (uid_t)-1, server->config.socket_gid) == 0 && chmod(path, 0660) == 0))
        return 0;
    int rc = refuse_url(reterr, TENURE_E_DENIED, url, "cannot be given to the group ");
    tn_text_addf(reterr, "%s: %s; is the daemon's user in it?", server->config.socket_group,
                 strerror(errno));
    return rc;
}

static int listen_unix(struct tn_server *server, struct tn_listener *listener, const char *url,
                       const char *path, struct tn_text *reterr)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path)
        return refuse_url(reterr, TENURE_E_INVALID, url,
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
        return refuse_url(reterr, error == EACCES ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE, url,
                          strerror(error));
    }
    (void)umask(mask);
    rc = admit_group(server, url, path, reterr);
    if (rc != 0) {
        (void)unlink(path);
        (void)close(fd);
        return rc;
    }
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

void tn_listen_warn(const struct tn_server *server, const char *where)
{
    if (server->acl == NULL)
        tn_log("%s is open to %s, and no ACL guards it", where,
               server->tls != NULL ? "everybody with a certificate of the CA"
                                   : "every user of this machine");
}

static int listen_tcp(struct tn_server *server, struct tn_listener *listener, const char *url,
                      const char *where, struct tn_text *reterr)
{
    struct sockaddr_storage address = { 0 };

    if (!tn_parse_address(where, &address))
        return refuse_url(reterr, TENURE_E_INVALID, url,
                          "give tcp:ADDRESS:PORT, as tcp:127.0.0.1:7420");
    if (server->tls == NULL && !tn_is_loopback(&address))
        return refuse_url(reterr, TENURE_E_DENIED, url,
                          "only a loopback address: beyond this machine mutual TLS is needed; give "
                          "--tls-cert, --tls-key and --tls-ca");
    (void)uv_tcp_init(&server->loop, &listener->uv.tcp);
    int rc = uv_tcp_bind(&listener->uv.tcp, (const struct sockaddr *)&address, 0);
    if (rc != 0) {
        listener->server = server;
        listener->open = true; /* The handle is the loop's; it must be closed. */
        return refuse_url(reterr, TENURE_E_UNAVAILABLE, url, uv_strerror(rc));
    }
    tn_listen_warn(server, url);
    return begin(server, listener, url, reterr);
}

int tn_listen(struct tn_server *server, const char *url, struct tn_text *reterr)
{
    struct tn_listener *listener = &server->listeners[server->listener_count];

    if (server->listener_count == sizeof server->listeners / sizeof server->listeners[0])
        return refuse_url(reterr, TENURE_E_INVALID, url, "too many --listen");
    server->listener_count++;
    if (strncmp(url, "unix:", 5) == 0)
        return listen_unix(server, listener, url, url + 5, reterr);
    if (strncmp(url, "tcp:", 4) == 0)
        return listen_tcp(server, listener, url, url + 4, reterr);
    return refuse_url(reterr, TENURE_E_INVALID, url, "give unix:PATH or tcp:ADDRESS:PORT");
}

/* --- From systemd ----------------------------------------------------------------------------- */

enum { FIRST_INHERITED = 3 };

int tn_inherited_count(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    uint64_t number;

    if (pid == NULL || count == NULL || tn_u64_parse(pid, &number) != 0 ||
        number != (uint64_t)getpid() || tn_u64_parse(count, &number) != 0)
        return 0;
    return number <= TN_LISTENERS_MAX ? (int)number : TN_LISTENERS_MAX;
}

static int take_inherited(struct tn_server *server, int fd, struct tn_text *reterr)
{
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof address;
    struct tn_listener *listener;
    char name[32];

    (void)snprintf(name, sizeof name, "inherited descriptor %d", fd);
    if (server->listener_count == TN_LISTENERS_MAX)
        return refuse_url(reterr, TENURE_E_INVALID, name, "too many sockets");
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return refuse_url(reterr, TENURE_E_INVALID, name, "is not a socket");
    if (address.ss_family != AF_UNIX && server->tls == NULL && !tn_is_loopback(&address))
        return refuse_url(reterr, TENURE_E_DENIED, name,
                          "is neither a Unix socket nor on loopback, and there is no TLS");
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    listener = &server->listeners[server->listener_count++];
    if (address.ss_family == AF_UNIX) {
        (void)uv_pipe_init(&server->loop, &listener->uv.pipe, 0);
        (void)uv_pipe_open(&listener->uv.pipe, fd);
    } else {
        (void)uv_tcp_init(&server->loop, &listener->uv.tcp);
        (void)uv_tcp_open(&listener->uv.tcp, fd);
        tn_listen_warn(server, name);
    }
    return begin(server, listener, name, reterr);
}

int tn_listen_inherited(struct tn_server *server, struct tn_text *reterr)
{
    int count = tn_inherited_count();
    int rc = 0;

    for (int i = 0; rc == 0 && i < count; i++)
        rc = take_inherited(server, FIRST_INHERITED + i, reterr);
    return rc;
}

int tn_listener_port(const struct tn_listener *listener)
{
    struct sockaddr_storage address;
    int len = sizeof address;

    if (listener->uv.handle.type != UV_TCP ||
        uv_tcp_getsockname(&listener->uv.tcp, (struct sockaddr *)&address, &len) != 0)
        return 0;
    return ntohs(((const struct sockaddr_in *)&address)->sin_port); /* In IPv6 at the same place. */
}

void tn_listener_name(const struct tn_listener *listener, struct tn_text *text)
{
    struct sockaddr_storage address;
    char host[INET6_ADDRSTRLEN] = "";
    char path[sizeof(struct sockaddr_un)];
    int len = sizeof address;

    if (listener->path != NULL) {
        tn_text_addf(text, "unix:%s", listener->path);
        return;
    }
    if (listener->uv.handle.type == UV_NAMED_PIPE) {
        size_t size = sizeof path;
        if (uv_pipe_getsockname(&listener->uv.pipe, path, &size) == 0)
            tn_text_addf(text, "unix:%.*s", (int)size, path);
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
