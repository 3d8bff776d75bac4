/* tls.h - TLS without the socket: OpenSSL between two buffers, HTTP/2 agreed on by ALPN.
 *
 * The server's certificate is checked against the CA (or the system's) and against the host name or
 * address; there is no way to turn that off. Threads: one at a time. Never blocks. */
#ifndef TN_STORES_ETCD_TLS_H
#define TN_STORES_ETCD_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stores/etcd/config.h"

struct tn_tls_context;
struct tn_tls;

/* Reads the files that @config names. Returns 0, TENURE_E_NOMEM, or TENURE_E_INVALID with a line
 * that names the file. */
TENURE_MUST_USE int tn_tls_context_new(struct tn_tls_context **ret_context,
                                       const struct tn_etcd_config *config, struct tn_text *reterr);
void tn_tls_context_free(struct tn_tls_context *context);

/* One connection to @host, whose certificate must be for that name or address. NULL: no memory. */
struct tn_tls *tn_tls_new(struct tn_tls_context *context, const char *host);
void tn_tls_free(struct tn_tls *tls);

enum tn_tls_state { TN_TLS_SHAKING, TN_TLS_UP, TN_TLS_FAILED };

/* Bytes from the network; NULL begins the handshake. FAILED: tn_tls_error says why. */
enum tn_tls_state tn_tls_feed(struct tn_tls *tls, const uint8_t *data, size_t len);

/* What has arrived, in clear: its length; 0: no more, negative: the peer has closed, or failed. */
ssize_t tn_tls_read(struct tn_tls *tls, uint8_t *buf, size_t size);

/* To be encrypted and sent. Returns 0 or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_tls_write(struct tn_tls *tls, const uint8_t *data, size_t len);

/* Bytes for the network: their number, 0 if there are none. */
size_t tn_tls_pull(struct tn_tls *tls, uint8_t *buf, size_t size);

const char *tn_tls_error(const struct tn_tls *tls);

#endif
