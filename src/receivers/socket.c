/* socket.c - sockets that do not block, and a deadline for everything that is waited for. */
#define _GNU_SOURCE
#include "receivers/socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net_url.h"
#include "base/number.h"
#include "base/time.h"
#include "runtime/clock.h"
#include "runtime/tls.h"

/* --- Addresses ------------------------------------------------------------------------------ */

/* A number of at most @most from @len digits. */
static bool read_digits(const char *text, size_t len, uint64_t most, char ret_text[8])
{
    uint64_t value;

    if (len >= 8)
        return false;
    memcpy(ret_text, text, len);
    ret_text[len] = '\0';
    return tn_u64_parse(ret_text, &value) == 0 && value <= most;
}

bool tn_place_parse(const char *text, size_t len, const char *port, struct tn_place *ret_place)
{
    struct tn_place place = { .host = "" };
    const char *end = text + len;
    const char *close = len > 0 && text[0] == '[' ? memchr(text, ']', len) : NULL;
    const char *after = close != NULL ? close + 1 : memchr(text, ':', len);

    if (after == NULL)
        after = end;
    bool good =
        close != NULL
            ? tn_url_decode(place.host, sizeof place.host, text + 1, (size_t)(close - text - 1))
            : tn_url_decode(place.host, sizeof place.host, text, (size_t)(after - text));
    (void)snprintf(place.port, sizeof place.port, "%s", port);
    if (good && after < end)
        good =
            *after == ':' && read_digits(after + 1, (size_t)(end - after - 1), 65535, place.port);
    if (!good || place.host[0] == '\0')
        return false;
    *ret_place = place;
    return true;
}

/* --- Connecting ----------------------------------------------------------------------------- */

bool tn_socket_wait(int fd, short events, tenure_ns end)
{
    struct pollfd ready = { .fd = fd, .events = events };

    for (;;) {
        tenure_ns left = end - tn_boottime();
        if (left <= 0)
            return false;
        tenure_ns ms = left / TN_MS(1) + 1;
        int rc = poll(&ready, 1, ms < 60000 ? (int)ms : 60000);
        if (rc > 0)
            return true;
        if (rc < 0 && errno != EINTR)
            return false;
    }
}

/* A connected socket, or -1 and errno. */
static int connect_to(const struct sockaddr *address, socklen_t len, tenure_ns end)
{
    int error = 0;
    socklen_t size = sizeof error;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (connect(fd, address, len) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (tn_socket_wait(fd, POLLOUT, end) &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error == 0)
        return fd;
    (void)close(fd);
    errno = error;
    return -1;
}

static int tell_error(int code, const char *who, const char *host, const char *why,
                      struct tn_text *reterr)
{
    tn_text_addf(reterr, "%s: ", who);
    tn_text_escape(reterr, host, strlen(host));
    tn_text_addf(reterr, ": %s", why);
    return code;
}

static int connect_place(const struct tn_place *place, tenure_ns end, const char *who, int *ret_fd,
                         struct tn_text *reterr)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int one = 1;
    int fd = -1;

    int rc = getaddrinfo(place->host, place->port, &hints, &found);
    if (rc != 0)
        return tell_error(TENURE_E_UNAVAILABLE, who, place->host, gai_strerror(rc), reterr);
    /* The first of the host's addresses that answers. */
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        fd = connect_to(at->ai_addr, at->ai_addrlen, end);
    int error = errno;
    freeaddrinfo(found);
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    errno = error;
    if (fd < 0)
        return tell_error(errno == EACCES || errno == EPERM ? TENURE_E_DENIED
                                                            : TENURE_E_UNAVAILABLE,
                          who, place->host, strerror(errno), reterr);
    *ret_fd = fd;
    return 0;
}

/* --- Bytes ---------------------------------------------------------------------------------- */

static bool send_bytes(int fd, const void *data, size_t len, tenure_ns end)
{
    const char *bytes = data;

    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0 && !tn_socket_wait(fd, POLLOUT, end))
            return false;
        bytes += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static long receive_bytes(int fd, void *buf, size_t size, tenure_ns end)
{
    for (;;) {
        ssize_t got = recv(fd, buf, size, 0);

        if (got >= 0)
            return got;
        if ((errno != EAGAIN && errno != EINTR) || !tn_socket_wait(fd, POLLIN, end))
            return -1;
    }
}

/* --- Wires ---------------------------------------------------------------------------------- */

/* What TLS wants to tell the server. */
static bool push(struct tn_wire *wire, tenure_ns end)
{
    uint8_t sealed[4096];
    size_t len;

    while ((len = tn_tls_pull(wire->tls, sealed, sizeof sealed)) > 0)
        if (!send_bytes(wire->fd, sealed, len, end))
            return false;
    return true;
}

/* Until the certificate has been checked. False: tn_tls_error says why, if it says anything. */
static bool shake_hands(struct tn_wire *wire, tenure_ns end)
{
    enum tn_tls_state state = tn_tls_feed(wire->tls, NULL, 0);
    uint8_t sealed[4096];

    while (push(wire, end) && state == TN_TLS_SHAKING) {
        long got = receive_bytes(wire->fd, sealed, sizeof sealed, end);
        if (got <= 0)
            return false;
        state = tn_tls_feed(wire->tls, sealed, (size_t)got);
    }
    return state == TN_TLS_UP;
}

int tn_wire_parse(struct tn_wire *wire, const struct tn_net_form *form, const char *rest,
                  struct tn_net_url *ret_url, struct tn_place *ret_place, struct tn_text *reterr)
{
    int rc = tn_net_url_parse(ret_url, form, rest, reterr);
    const struct tn_net_tls *tls = &ret_url->tls;

    if (rc == 0 && ret_url->count != 1) {
        tn_text_addf(reterr, "%s: a fence is on one server; write %s", form->scheme, form->usage);
        rc = TENURE_E_INVALID;
    }
    if (rc == 0)
        rc = tn_tls_context_new(
            &wire->context,
            &(struct tn_tls_options) {
                .scheme = form->scheme, .ca = tls->ca, .cert = tls->cert, .key = tls->key },
            reterr);
    if (rc < 0)
        return rc;
    memcpy(wire->name, tls->name, sizeof wire->name);
    wire->certified = tls->cert[0] != '\0';
    *ret_place = (struct tn_place) { .host = "" };
    memcpy(ret_place->host, ret_url->endpoints[0].host, sizeof ret_place->host);
    memcpy(ret_place->port, ret_url->endpoints[0].port, sizeof ret_url->endpoints[0].port);
    return 0;
}

int tn_wire_connect(struct tn_wire *wire, const struct tn_place *place, tenure_ns end,
                    const char *who, struct tn_text *reterr)
{
    int rc = connect_place(place, end, who, &wire->fd, reterr);

    if (rc < 0 || wire->context == NULL)
        return rc;
    wire->heard = false;
    wire->tls = tn_tls_new(wire->context, wire->name[0] != '\0' ? wire->name : place->host);
    if (wire->tls == NULL)
        rc = tell_error(TENURE_E_NOMEM, who, place->host, "out of memory", reterr);
    else if (!shake_hands(wire, end))
        rc = tell_error(TENURE_E_UNAVAILABLE, who, place->host,
                        tn_tls_error(wire->tls)[0] != '\0'
                            ? tn_tls_error(wire->tls)
                            : "no TLS: the server hung up, or is silent",
                        reterr);
    if (rc < 0)
        tn_wire_disconnect(wire);
    return rc;
}

void tn_wire_disconnect(struct tn_wire *wire)
{
    tn_tls_free(wire->tls);
    wire->tls = NULL;
    if (wire->fd >= 0)
        (void)close(wire->fd);
    wire->fd = -1;
}

void tn_wire_done(struct tn_wire *wire)
{
    tn_wire_disconnect(wire);
    tn_tls_context_free(wire->context);
    wire->context = NULL;
}

const char *tn_wire_error(const struct tn_wire *wire)
{
    const char *why = wire->tls != NULL ? tn_tls_error(wire->tls) : "";

    /* With TLS 1.3 a server looks at our certificate when we think that all is well, and what it
     * says of it may be lost with the connection. */
    if (wire->tls != NULL && why[0] == '\0' && !wire->heard && !wire->certified)
        why = "no answer behind the handshake; does it want a certificate (cert=FILE&key=FILE)?";
    return why;
}

bool tn_wire_send(struct tn_wire *wire, const void *bytes, size_t len, tenure_ns end)
{
    if (wire->tls == NULL)
        return send_bytes(wire->fd, bytes, len, end);
    return len == 0 || (tn_tls_write(wire->tls, bytes, len) == 0 && push(wire, end));
}

/* With TLS there is no end, which somebody may have made who is between: what is not whole by then
 * is lost. */
long tn_wire_receive(struct tn_wire *wire, void *buf, size_t size, tenure_ns end)
{
    uint8_t sealed[4096];

    if (wire->tls == NULL)
        return receive_bytes(wire->fd, buf, size, end);
    for (;;) {
        ssize_t clear = tn_tls_read(wire->tls, buf, size);
        wire->heard = wire->heard || clear > 0;
        if (clear != 0)
            return clear;
        long got = receive_bytes(wire->fd, sealed, sizeof sealed, end);
        if (got <= 0 || tn_tls_feed(wire->tls, sealed, (size_t)got) == TN_TLS_FAILED ||
            !push(wire, end))
            return -1;
    }
}
