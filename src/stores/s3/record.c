/* record.c - the objects in the bucket, as JSON texts; record.h. */
#include "stores/s3/record.h"

#include <inttypes.h>
#include <string.h>

#include "base/hex.h"
#include "base/number.h"
#include "base/time.h"
#include "wire/json.h"

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

/* For people; and a second time exactly, if the first cannot be. */
static void add_label(struct tn_text *text, const char *label, uint32_t len)
{
    char shown[TN_LABEL_MAX];
    bool plain = true;

    for (uint32_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)label[i];
        shown[i] = c >= ' ' ? label[i] : '?';
        plain = plain && c >= ' ' && c <= '~';
    }
    tn_text_add(text, ",\"holder\":");
    tn_json_string(text, shown, len);
    if (plain)
        return;
    char digits[2 * TN_LABEL_MAX];
    tn_hex(digits, label, len);
    tn_text_addf(text, ",\"holder_hex\":\"%.*s\"", (int)(2 * len), digits);
}

void tn_s3_write_record(struct tn_text *text, const struct tn_row *row)
{
    /* Rounded up: a holder is given its whole TTL. */
    tenure_ns ms = (row->ttl + TN_MS(1) - 1) / TN_MS(1);

    tn_text_addf(text, "{\"tenure\":%d,\"held\":%s,\"token\":%" PRIu64 ",\"floor\":%" PRIu64,
                 LAYOUT, row->held ? "true" : "false", row->token, row->floor);
    if (row->held) {
        tn_text_addf(text, ",\"ttl_ms\":%" PRId64, ms);
        if (row->label_len > 0)
            add_label(text, row->label, row->label_len);
    }
    if (row->revoked)
        tn_text_add(text, ",\"revoked\":true");
    add_secret(text, "session", &row->session);
    add_secret(text, "term", &row->term);
    tn_text_addf(text, ",\"nonce\":\"%016" PRIx64 "\"}", row->nonce);
}

void tn_s3_write_counter(struct tn_text *text, uint64_t next, uint64_t nonce)
{
    tn_text_addf(text, "{\"tenure\":%d,\"next\":%" PRIu64 ",\"nonce\":\"%016" PRIx64 "\"}", LAYOUT,
                 next, nonce);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static bool read_number(const struct tn_json_value *values, const char *name, uint64_t *ret_number)
{
    const struct tn_json_value *value = tn_json_get(values, 0, name);
    char digits[24];

    if (value == NULL || value->type != TN_JSON_NUMBER || value->len >= sizeof digits)
        return false;
    memcpy(digits, value->bytes, value->len);
    digits[value->len] = '\0';
    return tn_u64_parse(digits, ret_number) == 0;
}

/* True only if it is there and true; false for anything else. */
static bool is_true(const struct tn_json_value *values, const char *name)
{
    const struct tn_json_value *value = tn_json_get(values, 0, name);

    return value != NULL && value->type == TN_JSON_BOOL && value->bytes[0] == 't';
}

static bool read_secret(const struct tn_json_value *values, const char *name,
                        struct tn_secret *ret_secret)
{
    const struct tn_json_value *value = tn_json_get(values, 0, name);

    if (value == NULL)
        return true;
    return value->type == TN_JSON_STRING && value->len == TN_SECRET_DIGITS &&
           tn_secret_parse(ret_secret, value->bytes);
}

static bool read_label(const struct tn_json_value *values, char *ret_label, uint32_t *ret_len)
{
    const struct tn_json_value *exact = tn_json_get(values, 0, "holder_hex");
    const struct tn_json_value *value = tn_json_get(values, 0, "holder");

    if (exact != NULL) {
        *ret_len = exact->len / 2;
        return exact->type == TN_JSON_STRING && exact->len == 2 * *ret_len &&
               *ret_len <= TN_LABEL_MAX && tn_unhex(ret_label, exact->bytes, *ret_len);
    }
    if (value == NULL)
        return true;
    if (value->type != TN_JSON_STRING || value->len > TN_LABEL_MAX)
        return false;
    memcpy(ret_label, value->bytes, value->len);
    *ret_len = value->len;
    return true;
}

static int read_object(char *body, size_t len, struct tn_json_value *ret_values)
{
    uint64_t layout = 0;

    if (tn_json_read(body, len, ret_values, VALUES) < 1 || ret_values[0].type != TN_JSON_OBJECT ||
        !read_number(ret_values, "tenure", &layout))
        return TENURE_E_DAMAGED;
    return layout == LAYOUT ? 0 : TENURE_E_UNSUPPORTED;
}

int tn_s3_read_record(char *body, size_t len, struct tn_row *ret_row, char ret_label[TN_LABEL_MAX])
{
    struct tn_json_value values[VALUES];
    struct tn_row row = { .label = ret_label };
    uint64_t ms = 0;
    int rc = read_object(body, len, values);

    if (rc < 0)
        return rc;
    const struct tn_json_value *held = tn_json_get(values, 0, "held");
    row.held = is_true(values, "held");
    row.revoked = is_true(values, "revoked");
    if (held == NULL || held->type != TN_JSON_BOOL || !read_number(values, "token", &row.token) ||
        !read_number(values, "floor", &row.floor) ||
        !read_secret(values, "session", &row.session) || !read_secret(values, "term", &row.term) ||
        !read_label(values, ret_label, &row.label_len))
        return TENURE_E_DAMAGED;
    if (row.held && (!read_number(values, "ttl_ms", &ms) || ms == 0 || ms > 86400000))
        return TENURE_E_DAMAGED;
    row.ttl = TN_MS(ms);
    *ret_row = row;
    return 0;
}

int tn_s3_read_counter(char *body, size_t len, uint64_t *ret_next)
{
    struct tn_json_value values[VALUES];
    int rc = read_object(body, len, values);

    if (rc < 0)
        return rc;
    return read_number(values, "next", ret_next) ? 0 : TENURE_E_DAMAGED;
}
