/* etcd.h - the stores etcd: and etcds:; docs/stores/etcd.md has the layout and the guarantees. */
#ifndef TN_STORES_ETCD_ETCD_H
#define TN_STORES_ETCD_ETCD_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_etcd_store_ops;
extern const struct tn_store_ops tn_etcds_store_ops;

#endif
