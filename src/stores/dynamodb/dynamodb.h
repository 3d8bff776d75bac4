/* dynamodb.h - leases in a table of DynamoDB, in the layout of Amazon's lock client, so that both
 * contend in one election. docs/stores/dynamodb.md has the layout. */
#ifndef TN_STORES_DYNAMODB_DYNAMODB_H
#define TN_STORES_DYNAMODB_DYNAMODB_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_dynamodb_store_ops;

#endif
