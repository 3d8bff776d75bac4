/* terms_read.h - terms out of JSON that was read: what history.c and terms_read.c share. */
#ifndef TN_RUNTIME_TERMS_READ_H
#define TN_RUNTIME_TERMS_READ_H

#include "runtime/terms.h"
#include "wire/json.h"

/* Member @key of the object @in; 0: there is none. */
int64_t tn_instant_read(const struct tn_json_value *values, const struct tn_json_value *in,
                        const char *key);

/* The term that the object @in is; its label lies in the document. False: it is none. */
bool tn_term_read(const struct tn_json_value *values, const struct tn_json_value *in,
                  struct tn_term *ret_term);

#endif
