/* terms_read.c - the JSON of terms.h, read again. */
#include "runtime/terms_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/number.h"

/* Per term, in "terms" and in "gaps", and around them. */
enum { VALUES_PER_BYTES = 4, VALUES_MOST = 1 << 20 };
/* The end of the year 9999: later instants are no instants. */
#define INSTANT_MOST UINT64_C(253402300799999)

static bool read_number(const struct tn_json_value *values, const struct tn_json_value *in,
                        const char *key, uint64_t *ret_number)
{
    char digits[24];

    return tn_json_text(values, in, key, digits, sizeof digits) &&
           tn_u64_parse(digits, ret_number) == 0;
}

int64_t tn_instant_read(const struct tn_json_value *values, const struct tn_json_value *in,
                        const char *key)
{
    uint64_t number = 0;

    return read_number(values, in, key, &number) && number <= INSTANT_MOST ? (int64_t)number : 0;
}

bool tn_term_read(const struct tn_json_value *values, const struct tn_json_value *in,
                  struct tn_term *ret_term)
{
    uint32_t index = (uint32_t)(in - values);
    struct tn_term term = { .from = tn_instant_read(values, in, "from") };
    const struct tn_json_value *label;
    char word[16];

    if (in->type != TN_JSON_OBJECT || term.from == 0 ||
        !read_number(values, in, "token", &term.token))
        return false;
    label = tn_json_get(values, index, "holder");
    if (label != NULL && label->type == TN_JSON_STRING && label->len <= TN_NAME_MAX) {
        term.label = label->bytes;
        term.label_len = label->len;
    }
    term.ttl_ms = tn_instant_read(values, in, "ttl_ms");
    term.to = tn_instant_read(values, in, "to");
    term.heard = tn_instant_read(values, in, "heard");
    if (tn_json_text(values, in, "ended", word, sizeof word))
        term.end = tn_term_end_parse(word);
    *ret_term = term;
    return true;
}

int tn_terms_read(char *json, size_t len, struct tn_terms *ret_terms)
{
    size_t most = len / VALUES_PER_BYTES + 16;
    struct tn_json_value *values = NULL;
    struct tn_terms terms = { 0 };
    int rc = TENURE_E_INVALID;

    most = most < VALUES_MOST ? most : VALUES_MOST;
    values = calloc(most, sizeof *values);
    if (values == NULL)
        return TENURE_E_NOMEM;
    if (tn_json_read(json, len, values, (uint32_t)most) < 1 || values[0].type != TN_JSON_OBJECT)
        goto out;
    terms.since = tn_instant_read(values, values, "since");
    terms.now = tn_instant_read(values, values, "now");
    const struct tn_json_value *list = tn_json_get(values, 0, "terms");
    if (list == NULL || list->type != TN_JSON_ARRAY)
        goto out;
    terms.list = calloc((size_t)list->count + 1, sizeof *terms.list);
    rc = terms.list != NULL ? 0 : TENURE_E_NOMEM;
    const struct tn_json_value *item = list + 1;
    for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
        if (tn_term_read(values, item, &terms.list[terms.count]))
            terms.count++;
        item = &values[item->next];
    }
    if (rc == 0)
        *ret_terms = terms;
out:
    free(values);
    return rc;
}
