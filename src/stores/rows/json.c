/* json.c - rows as JSON objects; json.h. */
#include "stores/rows/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/time.h"

enum { VALUES = 64, LAYOUT = 1 };

/* --- Writing ---------------------------------------------------------------------------------- */

static void add_secret(struct tn_text *text, const char *name, const struct tn_secret *secret)
{
    char digits[TN_SECRET_DIGITS];

    if (tn_secret_is_zero(secret))
        return;
    tn_secret_text(secret, digits);
    tn_text_addf(text, ",\"%s\":\"%.*s\"", name, TN_SECRET_DIGITS, digits);
}

static void add_label(struct tn_text *text, const struct tn_row *row)
{
    bool plain = true;

    for (uint32_t i = 0; i < row->label_len; i++)
        plain = plain && row->label[i] >= ' ' && row->label[i] <= '~';
    if (plain) {
        tn_text_add(text, ",\"holder\":");
        tn_json_string(text, row->label, row->label_len);
        return;
    }
    tn_text_add(text, ",\"holder_base64\":\"");
    tn_base64_add(text, row->label, row->label_len);
    tn_text_add(text, "\"");
}

void tn_row_json_write(struct tn_text *text, const struct tn_row *row)
{
    tn_text_addf(text, "{\"tenure\":%d", LAYOUT);
    if (row->owner[0] != '\0') {
        tn_text_add(text, ",\"owner\":");
        tn_json_string(text, row->owner, strlen(row->owner));
    }
    if (!row->minted)
        tn_text_addf(text, ",\"token\":%" PRIu64, row->token);
    tn_text_addf(text, ",\"floor\":%" PRIu64, row->floor);
    if (row->held) /* Rounded up: a holder is given its whole TTL. */
        tn_text_addf(text, ",\"ttl_ms\":%" PRId64, (row->ttl + TN_MS(1) - 1) / TN_MS(1));
    if (row->held && row->label_len > 0)
        add_label(text, row);
    if (row->revoked)
        tn_text_add(text, ",\"revoked\":true");
    add_secret(text, "session", &row->session);
    add_secret(text, "term", &row->term);
    tn_text_addf(text, ",\"nonce\":\"%016" PRIx64 "\"}", row->nonce);
}

/* --- Reading ---------------------------------------------------------------------------------- */

bool tn_json_copy(const struct tn_json_value *value, char *ret_text, size_t size)
{
    ret_text[0] = '\0';
    if (value == NULL || value->type == TN_JSON_NULL)
        return true;
    if ((value->type != TN_JSON_STRING && value->type != TN_JSON_NUMBER) || value->len >= size)
        return false;
    memcpy(ret_text, value->bytes, value->len);
    ret_text[value->len] = '\0';
    return true;
}

bool tn_json_secret(const struct tn_json_value *values, const struct tn_json_value *in,
                    const char *key, struct tn_secret *ret_secret)
{
    char digits[TN_SECRET_DIGITS + 1];

    memset(ret_secret, 0, sizeof *ret_secret);
    return tn_json_text(values, in, key, digits, sizeof digits) &&
           strlen(digits) == TN_SECRET_DIGITS && tn_secret_parse(ret_secret, digits);
}

static void read_label(const struct tn_json_value *values, struct tn_row *row, char *ret_label)
{
    const struct tn_json_value *plain = tn_json_get(values, 0, "holder");
    const struct tn_json_value *coded = tn_json_get(values, 0, "holder_base64");
    size_t len = 0;
    char *label = coded != NULL && coded->type == TN_JSON_STRING
                      ? tn_base64_decode(coded->bytes, coded->len, &len)
                      : NULL;

    if (label != NULL && len <= TN_LABEL_MAX) {
        memcpy(ret_label, label, len);
        row->label_len = (uint32_t)len;
    } else if (plain != NULL && tn_json_copy(plain, ret_label, TN_LABEL_MAX + 1)) {
        row->label_len = plain->len;
    }
    row->label = ret_label;
    free(label);
}

int tn_row_json_read(char *body, size_t len, struct tn_row *ret_row,
                     char ret_label[TN_LABEL_MAX + 1])
{
    struct tn_json_value values[VALUES];
    struct tn_row row = { .held = false };
    uint64_t layout = 0, ms = 0;

    if (tn_json_read(body, len, values, VALUES) < 1 || values[0].type != TN_JSON_OBJECT ||
        !tn_json_u64(values, values, "tenure", &layout) ||
        !tn_json_copy(tn_json_get(values, 0, "owner"), row.owner, sizeof row.owner))
        return TENURE_E_DAMAGED;
    if (layout != LAYOUT)
        return TENURE_E_UNSUPPORTED;
    const struct tn_json_value *revoked = tn_json_get(values, 0, "revoked");
    row.revoked = revoked != NULL && revoked->type == TN_JSON_BOOL && revoked->bytes[0] == 't';
    row.minted = !tn_json_u64(values, values, "token", &row.token);
    (void)tn_json_u64(values, values, "floor", &row.floor);
    if (tn_json_u64(values, values, "ttl_ms", &ms) && ms <= 86400000)
        row.ttl = TN_MS(ms);
    (void)tn_json_secret(values, values, "session", &row.session);
    (void)tn_json_secret(values, values, "term", &row.term);
    read_label(values, &row, ret_label);
    *ret_row = row;
    return 0;
}
