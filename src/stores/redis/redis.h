/* redis.h - leases in Redis; stores/redlock has a majority of several.
 *
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]      in clear
 *   rediss://...                                          with TLS; the host's name is checked
 *   redis+unix:PATH                                       a Unix socket, database 0
 *   redis+sentinel://HOST,HOST,HOST/MASTER[/DATABASE]     found through Redis Sentinel; with TLS
 *                                                         rediss+sentinel://
 *   redis://HOST,HOST,HOST/DATABASE?sentinel=MASTER       the same
 *
 * The class of all of them is advisory: Redis acknowledges before it has written or replicated, so
 * a crash or a failover can undo a grant. Put a fence in front of what must not be written twice.
 * docs/stores/redis.md has the rest. */
#ifndef TN_STORES_REDIS_REDIS_H
#define TN_STORES_REDIS_REDIS_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_redis_store_ops;
extern const struct tn_store_ops tn_rediss_store_ops;
extern const struct tn_store_ops tn_redis_unix_store_ops;
extern const struct tn_store_ops tn_redis_sentinel_store_ops;
extern const struct tn_store_ops tn_rediss_sentinel_store_ops;

#endif
