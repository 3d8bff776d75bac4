/* json.h - a row as a JSON object, for engines whose rows are texts.
 *
 *   {"tenure":1,"owner":"SESSION","token":7,"floor":0,"ttl_ms":15000,"holder":"web-1",
 *    "session":"0123...","term":"0123...","nonce":"0123..."}
 *
 * The number behind "tenure" is the layout's version. A row whose token the engine mints has no
 * "token"; "owner" is for engines with sessions. A label that is no plain text is "holder_base64".
 * Threads: any. Memory: the caller's. */
#ifndef TN_STORES_ROWS_JSON_H
#define TN_STORES_ROWS_JSON_H

#include "base/text.h"
#include "core/rows.h"
#include "runtime/store.h"
#include "wire/json.h"

enum { TN_ROW_JSON = 2048 }; /* Room for any row. */

void tn_row_json_write(struct tn_text *text, const struct tn_row *row);
/* Reads @body, which is changed; whether the row is held is not in it. @ret_row's label is in
 * @ret_label. Returns 0; TENURE_E_DAMAGED: it is no row of ours; TENURE_E_UNSUPPORTED: one of a
 * later version. */
TENURE_MUST_USE int tn_row_json_read(char *body, size_t len, struct tn_row *ret_row,
                                     char ret_label[TN_LABEL_MAX + 1]);

/* A number or a string of at most @size - 1 bytes; empty: there is none, or it is null. False: it
 * is something else, or too long. */
bool tn_json_copy(const struct tn_json_value *value, char *ret_text, size_t size);

/* Member @key of the OBJECT @in. False: it is no secret, and nobody's: zero. */
bool tn_json_secret(const struct tn_json_value *values, const struct tn_json_value *in,
                    const char *key, struct tn_secret *ret_secret);

#endif
