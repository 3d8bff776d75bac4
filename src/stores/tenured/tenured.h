/* tenured.h - leases in a tenured, on this host or another; docs/protocol.md is what it speaks.
 *
 * "unix:PATH" (without a path: this user's own daemon), "tenured://[user[:password]@]host[:port]",
 * and "tenureds://" for the same with TLS. docs/stores/tenured.md has the guarantees. */
#ifndef TN_STORES_TENURED_TENURED_H
#define TN_STORES_TENURED_TENURED_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_unix_store_ops;
extern const struct tn_store_ops tn_tenured_store_ops;
extern const struct tn_store_ops tn_tenureds_store_ops;

#endif
