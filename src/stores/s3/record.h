/* record.h - the objects in the bucket, as JSON texts.
 *
 *   {"tenure":1,"held":true,"token":7,"floor":0,"ttl_ms":15000,"holder":"web-1",
 *    "session":"0123...","term":"0123...","nonce":"0123..."}           PREFIX/NAME/!lease
 *   {"tenure":1,"next":268435456,"nonce":"0123..."}                     PREFIX/!tokens
 *
 * docs/stores/s3.md describes them.
 * Threads: any. Memory: the caller's. */
#ifndef TN_STORES_S3_RECORD_H
#define TN_STORES_S3_RECORD_H

#include "base/text.h"
#include "core/rows.h"
#include "runtime/store.h"

/* TN_S3_BODY has room for any. */
void tn_s3_write_record(struct tn_text *text, const struct tn_row *row);
/* Reads @body, which is changed. @ret_row's label is in @ret_label. Returns 0; TENURE_E_DAMAGED: it
 * is no record of ours; TENURE_E_UNSUPPORTED: of a later version. */
TENURE_MUST_USE int tn_s3_read_record(char *body, size_t len, struct tn_row *ret_row,
                                      char ret_label[TN_LABEL_MAX]);

void tn_s3_write_counter(struct tn_text *text, uint64_t next, uint64_t nonce);
/* Codes as above. */
TENURE_MUST_USE int tn_s3_read_counter(char *body, size_t len, uint64_t *ret_next);

#endif
