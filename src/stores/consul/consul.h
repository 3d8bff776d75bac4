/* consul.h - the stores consul: and consuls:; docs/stores/consul.md has the layout and the
 * guarantees. */
#ifndef TN_STORES_CONSUL_CONSUL_H
#define TN_STORES_CONSUL_CONSUL_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_consul_store_ops;
extern const struct tn_store_ops tn_consuls_store_ops;

#endif
