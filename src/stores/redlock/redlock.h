/* redlock.h - leases by a majority of independent Redis servers.
 *
 *   redlock://HOST,HOST,HOST[/DATABASE], redlocks://...
 *
 * The class is advisory: a server that forgets its votes gives them twice. docs/stores/redis.md has
 * the rest. */
#ifndef TN_STORES_REDLOCK_REDLOCK_H
#define TN_STORES_REDLOCK_REDLOCK_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_redlock_store_ops;
extern const struct tn_store_ops tn_redlocks_store_ops;

#endif
