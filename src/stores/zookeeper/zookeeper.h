/* zookeeper.h - leases in a ZooKeeper that is already there, laid out as Curator's LeaderLatch.
 *
 * "zookeeper://[user:password@]host[:port],host[:port].../chroot". docs/stores/zookeeper.md has the
 * layout and the guarantees. */
#ifndef TN_STORES_ZOOKEEPER_ZOOKEEPER_H
#define TN_STORES_ZOOKEEPER_ZOOKEEPER_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_zookeeper_store_ops;

/* "zookeepers:", which the client library cannot do: opening it says so. */
extern const struct tn_store_ops tn_zookeepers_store_ops;

#endif
