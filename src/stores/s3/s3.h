/* s3.h - leases in a bucket of Amazon S3, or of a server that speaks its API: s3://BUCKET/PREFIX.
 *
 * One object per name, written with conditions, so that of two writers one is refused. The recipe
 * is core/rows: a holder that is silent for its TTL on the observer's clock is over, and no clock
 * is compared with another. Nothing is ever deleted; docs/stores/s3.md has the layout. */
#ifndef TN_STORES_S3_S3_H
#define TN_STORES_S3_S3_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_s3_store_ops;

#endif
