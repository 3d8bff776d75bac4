/* tls.h - TLS without the socket: OpenSSL between two buffers, either side.
 *
 * A client checks the server's certificate against the CA (or the system's) and against the host
 * name or address; a server wants a certificate of every client, signed by its CA. There is no way
 * to turn either off. A build without OpenSSL has tls_none.c, which refuses to make a context.
 * Threads: one at a time. Never blocks. */
#ifndef TN_RUNTIME_TLS_H
#define TN_RUNTIME_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "tenure/error.h"

struct tn_tls_context;
struct tn_tls;

enum tn_tls_side { TN_TLS_CLIENT, TN_TLS_SERVER };

struct tn_tls_options {
    enum tn_tls_side side;
    const char *scheme; /* Error lines begin with it: "etcds". */
    /* PEM files; NULL or empty: none. A server needs all three. */
    const char *ca, *cert, *key;
    const char *alpn; /* The protocol that both sides must agree on, a literal; NULL: any. */
};

/* Reads the files. Returns 0, TENURE_E_NOMEM, TENURE_E_INVALID with a line that names the file, or
 * TENURE_E_UNSUPPORTED in a build without TLS. */
TENURE_MUST_USE int tn_tls_context_new(struct tn_tls_context **ret_context,
                                       const struct tn_tls_options *options,
                                       struct tn_text *reterr);

/* Connections that were made of it live on: to reload certificates, make a new context, use it from
 * now on, and free the old one. NULL is fine. */
void tn_tls_context_free(struct tn_tls_context *context);

/* One connection. A client names the @host that the certificate must be for, a server NULL. NULL:
 * no memory. */
struct tn_tls *tn_tls_new(struct tn_tls_context *context, const char *host);
void tn_tls_free(struct tn_tls *tls);

enum tn_tls_state { TN_TLS_SHAKING, TN_TLS_UP, TN_TLS_FAILED };

/* Bytes from the network; NULL begins a client's handshake. FAILED: tn_tls_error says why, and what
 * tn_tls_pull still gives is the alert that tells the peer. */
enum tn_tls_state tn_tls_feed(struct tn_tls *tls, const uint8_t *data, size_t len);

/* What has arrived, in clear: its length; 0: no more, negative: the peer has closed, or failed. */
ssize_t tn_tls_read(struct tn_tls *tls, uint8_t *buf, size_t size);

/* To be encrypted and sent; only when UP. Returns 0 or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_tls_write(struct tn_tls *tls, const uint8_t *data, size_t len);

/* Bytes for the network: their number, 0 if there are none. */
size_t tn_tls_pull(struct tn_tls *tls, uint8_t *buf, size_t size);

/* How the peer's certificate names it, when UP: its first DNS name or URI, otherwise its common
 * name. Returns 0, or TENURE_E_INVALID if there is none, or one with control characters, or that
 * does not fit. */
TENURE_MUST_USE int tn_tls_principal(const struct tn_tls *tls, char *ret_name, size_t size);

const char *tn_tls_error(const struct tn_tls *tls);

#endif
