/* socket.h - connecting and waiting with a deadline, in clear or with TLS, for the receivers that
 * are servers. */
#ifndef TN_RECEIVERS_SOCKET_H
#define TN_RECEIVERS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/net_url.h"
#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

enum { TN_PLACE_MAX = 256 };

struct tn_tls;
struct tn_tls_context;

struct tn_place {
    char host[TN_PLACE_MAX];
    char port[8];
};

/* HOST[:PORT] or [V6][:PORT] of @len bytes; false: it makes no sense. */
TENURE_MUST_USE bool tn_place_parse(const char *text, size_t len, const char *port,
                                    struct tn_place *ret_place);

/* A connection that does not block, and how it is secured. All zero but for @fd, which is -1, it is
 * none yet, and in clear. */
struct tn_wire {
    int fd; /* -1: not connected. */
    struct tn_tls *tls;
    struct tn_tls_context *context; /* NULL: in clear. */
    char name[TN_PLACE_MAX];        /* Whom the certificate must name; empty: the host. */
    bool certified;                 /* There is a certificate of ours. */
    bool heard;                     /* The server has said something behind the handshake. */
};

/* The URL of one server with TLS, behind the colon of its scheme: @wire is secured by its options,
 * and *@ret_place is where to connect. Codes as tn_net_url_parse and tn_tls_context_new. */
TENURE_MUST_USE int tn_wire_parse(struct tn_wire *wire, const struct tn_net_form *form,
                                  const char *rest, struct tn_net_url *ret_url,
                                  struct tn_place *ret_place, struct tn_text *reterr);

/* Connected, and with TLS sure of the server, by @end (of tn_boottime); but a host's name is
 * resolved for as long as the system's resolver takes. @who begins the line in @reterr. */
TENURE_MUST_USE int tn_wire_connect(struct tn_wire *wire, const struct tn_place *place,
                                    tenure_ns end, const char *who, struct tn_text *reterr);
void tn_wire_disconnect(struct tn_wire *wire);
/* What TLS has to do with a connection that ended, "": nothing. Before it is disconnected. */
const char *tn_wire_error(const struct tn_wire *wire);
/* All of it. */
void tn_wire_done(struct tn_wire *wire);

/* Until @fd is ready for @events of poll; false when @end has come. */
bool tn_socket_wait(int fd, short events, tenure_ns end);

/* All of @bytes; false: the connection is gone, or @end has come. */
bool tn_wire_send(struct tn_wire *wire, const void *bytes, size_t len, tenure_ns end);

/* At least one byte. Returns how many; 0 at the end; -1: gone, or @end has come. */
long tn_wire_receive(struct tn_wire *wire, void *buf, size_t size, tenure_ns end);

#endif
