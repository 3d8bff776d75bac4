/* json.h - JSON (RFC 8259) into a list of values, in the caller's memory.
 *
 * Strict: one value and blanks around it, nothing else; no comments, no trailing commas, no numbers
 * with leading zeros. A text with a zero in it is refused, so that every string can be a C string.
 * Threads: one at a time per document. Memory: the caller's, nothing allocated. */
#ifndef TN_WIRE_JSON_H
#define TN_WIRE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tenure/error.h"

#define TN_JSON_DEPTH 24

enum tn_json_type {
    TN_JSON_NULL,
    TN_JSON_BOOL,
    TN_JSON_NUMBER,
    TN_JSON_STRING,
    TN_JSON_ARRAY,
    TN_JSON_OBJECT,
};

struct tn_json_value {
    enum tn_json_type type;
    const char *bytes; /* STRING: with its escapes resolved; NUMBER and BOOL: as written. */
    uint32_t len;
    uint32_t count; /* ARRAY: values in it; OBJECT: members, each a STRING and a value. */
    uint32_t next;  /* The index of what follows this value and all that is in it. */
};

/* Read the document @bytes, which is changed: escapes are resolved in place. Its values come in the
 * order of the text, what is in an array or object right behind it. Returns how many there are,
 * TENURE_E_INVALID, or TENURE_E_FULL: more than @max, or nested deeper than TN_JSON_DEPTH. */
TENURE_MUST_USE int tn_json_read(char *bytes, size_t len, struct tn_json_value *ret_values,
                                 uint32_t max);

/* Whether a STRING is @text. */
bool tn_json_is(const struct tn_json_value *value, const char *text);

/* The value of member @key of the OBJECT at @index; NULL: there is none, or it is no OBJECT. */
const struct tn_json_value *tn_json_get(const struct tn_json_value *values, uint32_t index,
                                        const char *key);

/* The OBJECT that is member @key of the value at @index; NULL: there is none. */
const struct tn_json_value *tn_json_object(const struct tn_json_value *values, uint32_t index,
                                           const char *key);

/* Member @key of the OBJECT @in, a STRING or a NUMBER, as a C string. False: there is none, @in is
 * NULL or no OBJECT, or it does not fit; the text is empty then. */
bool tn_json_text(const struct tn_json_value *values, const struct tn_json_value *in,
                  const char *key, char *ret_text, size_t size);

/* The same as a number without a sign. */
bool tn_json_u64(const struct tn_json_value *values, const struct tn_json_value *in,
                 const char *key, uint64_t *ret_number);

/* The value at @index, and all that is in it, as JSON again. */
void tn_json_write(struct tn_text *text, const struct tn_json_value *values, uint32_t index);

/* The members of @in (NULL: none) whose keys neither are among @except, which ends with NULL, nor
 * begin with @prefix; each with a comma behind it. */
void tn_json_write_others(struct tn_text *text, const struct tn_json_value *values,
                          const struct tn_json_value *in, const char *const *except,
                          const char *prefix);

#endif
