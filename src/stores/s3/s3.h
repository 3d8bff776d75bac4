/* s3.h - leases in a bucket of Amazon S3, or of a server that speaks its API: s3://BUCKET/PREFIX.
 *
 * One object per name, written with conditions (If-None-Match, If-Match), so that of two writers
 * one is refused. The recipe is core/rows: a holder that is silent for its TTL on the observer's
 * clock is over, and no clock is compared with another. Nothing is ever deleted. Where a name has
 * no object, because it is new or somebody deleted it, its tokens start above all that the prefix
 * has given out: a counter, which is an object of its own, is raised first.
 *
 * The first write is preceded by two that must be refused. A server that carries them out does not
 * know conditions, and nobody leads there. */
#ifndef TN_STORES_S3_S3_H
#define TN_STORES_S3_S3_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_s3_store_ops;

#endif
