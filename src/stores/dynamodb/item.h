/* item.h - a row of core/rows.h as items of DynamoDB.
 *
 * The lock item, whose key is the name:
 *
 *   ownerName, leaseDuration (milliseconds), recordVersionNumber, isReleased    as Amazon's client
 *   tenure    "1 RVN TOKEN SESSION TERM FLAGS LABEL": ours; good only while RVN is the item's own
 *             recordVersionNumber, because that client may leave it behind under a holder of its
 *             own. SESSION and TERM are hashes; FLAGS is "r" (revoked) or "-"; LABEL is "-" or, in
 *             hexadecimal digits, the label if ownerName cannot hold its bytes.
 *
 * The counter item, whose key has "#tenure/" before the name: tenureToken, the highest token ever
 * granted. It survives that client's deletion of the lock item. Its other attributes only make that
 * client's listing work, which expects them in every item.
 *
 * A version is "RVN:TOKEN", or ":TOKEN" if there is only a counter. Pure. Threads: any. */
#ifndef TN_STORES_DYNAMODB_ITEM_H
#define TN_STORES_DYNAMODB_ITEM_H

#include "base/name.h"
#include "core/rows.h"
#include "net/dynamodb.h"
#include "runtime/store.h"

#define TN_ITEM_COUNTER "#tenure/"

enum { TN_ITEM_RVN = 37 }; /* Room for a recordVersionNumber of ours. */

struct tn_item {
    bool there;       /* There is a lock item; */
    bool ours;        /* and it was written by tenure last. */
    uint64_t counter; /* What it says; 0: nothing. */
    struct tn_row row;
    char rvn[TN_ROW_VERSION - 21]; /* A colon, a token and a zero go behind it. */
    char label[TN_LABEL_MAX + 1];  /* What row.label points to. */
};

/* The lock item at @index of an answer. NULL, or what is wrong with it. */
const char *tn_item_read(struct tn_item *ret_item, const struct tn_json_value *values,
                         uint32_t index);
/* The same for a counter. False: that is none. */
bool tn_item_read_counter(struct tn_item *item, const struct tn_json_value *values, uint32_t index);
/* All that was read: the row, and its version. False: there is nothing on record. */
bool tn_item_row(struct tn_item *item, char ret_version[TN_ROW_VERSION]);

/* A new recordVersionNumber. */
void tn_item_rvn(uint64_t high, uint64_t low, char ret_rvn[TN_ITEM_RVN]);

/* Whether the item at @index has the recordVersionNumber of @version. */
bool tn_item_is(const struct tn_json_value *values, uint32_t index, const char *version);

/* Whether writing @row over @version is a grant: the token rises. */
bool tn_item_is_grant(const struct tn_row *row, const char *version);

/* Fill @call with the conditional write of @row over @version: an UpdateItem or, for a grant, a
 * TransactWriteItems. @ret_version is the version after it. */
void tn_item_write(struct tn_dynamo *dynamo, struct tn_dynamo_call *call, const char *name,
                   const struct tn_row *row, const char *version, const char rvn[TN_ITEM_RVN],
                   char ret_version[TN_ROW_VERSION]);

/* What is read of an item: ,"ProjectionExpression":...,"ExpressionAttributeNames":{...} */
void tn_item_add_projection(struct tn_dynamo_call *call);

#endif
