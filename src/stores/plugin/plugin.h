/* plugin.h - stores that the application brings, by their scheme; tenure/store.h is their contract.
 *
 * Threads: any. */
#ifndef TN_STORES_PLUGIN_PLUGIN_H
#define TN_STORES_PLUGIN_PLUGIN_H

#include "runtime/store.h"

/* The registered store whose scheme are the first @len bytes of @url; NULL: none. */
const struct tn_store_ops *tn_plugin_find(const char *url, size_t len);

#endif
