/* list.h - all leases below a prefix: the keys page by page, then each object. */
#ifndef TN_STORES_S3_LIST_H
#define TN_STORES_S3_LIST_H

#include "net/s3_bucket.h"
#include "runtime/store.h"

/* The last part of a lease's key. No name has a '!', so no other name's key begins with it: some
 * servers keep objects as files, where "a" cannot be both an object and a folder. */
#define TN_S3_LEASE "!lease"

enum { TN_S3_KEY = TN_NAME_MAX + 16 }; /* Room for one below the prefix. */

/* As tn_store_ops.list, but may call @done inside the call. The records are of slightly different
 * instants. */
void tn_s3_list(struct tn_s3_bucket *bucket, const char *prefix, tn_store_listed *done, void *arg);

#endif
