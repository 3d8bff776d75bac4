/* etcd.h - the stores etcd: and etcds:; docs/stores/etcd.md has the layout and the guarantees. */
#ifndef TN_STORES_ETCD_ETCD_H
#define TN_STORES_ETCD_ETCD_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_etcd_store_ops;
extern const struct tn_store_ops tn_etcds_store_ops;

/* The server's version, and one line if that version has known faults; empty: not known, none. */
const char *tn_etcd_version(const struct tn_store *store);
const char *tn_etcd_warning(const struct tn_store *store);

#endif
