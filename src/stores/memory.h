/* memory.h - the lease table in this process: for tests, examples and trying things out.
 *
 *   memory:            memory:NAME            memory:NAME?latency=5ms
 *
 * Stores that are opened with the same name (none is a name, too) share one table, whichever loop
 * and thread drives each; it is gone when the last of them is closed. With a latency each store
 * takes its requests that much later. The class is strict as long as the process lives. */
#ifndef TN_STORES_MEMORY_H
#define TN_STORES_MEMORY_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_memory_store_ops;

#endif
