/* item.c - items read and written; item.h has the layout. */
#include "stores/dynamodb/item.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/number.h"
#include "base/time.h"
#include "stores/rows/json.h"

/* A lease that lasts longer than this is never seen to end. */
#define LEASE_MS_MAX UINT64_C(1000000000000)

static const char names[] = "\"#o\":\"ownerName\",\"#l\":\"leaseDuration\","
                            "\"#r\":\"recordVersionNumber\",\"#i\":\"isReleased\"";

/* --- Reading ---------------------------------------------------------------------------------- */

/* Zero stands for "none" in a row, which tn_secret_parse refuses. */
static void read_secret(const char digits[TN_SECRET_DIGITS + 1], struct tn_secret *ret_secret)
{
    if (!tn_secret_parse(ret_secret, digits))
        memset(ret_secret, 0, sizeof *ret_secret);
}

/* The attribute of ours, if it belongs to the item as it is. */
static bool read_ours(struct tn_item *item, const struct tn_json_value *value)
{
    char text[768];
    char rvn[TN_ITEM_RVN];
    char session[TN_SECRET_DIGITS + 1];
    char term[TN_SECRET_DIGITS + 1];
    char label[2 * TN_LABEL_MAX + 1];
    char flags;
    uint64_t token;

    if (!tn_json_copy(value, text, sizeof text) ||
        sscanf(text, "1 %36s %" SCNu64 " %32[0-9a-f] %32[0-9a-f] %c %510s", rvn, &token, session,
               term, &flags, label) != 6 ||
        strcmp(rvn, item->rvn) != 0 || strlen(session) != TN_SECRET_DIGITS ||
        strlen(term) != TN_SECRET_DIGITS)
        return false;
    item->row.token = token;
    item->row.revoked = flags == 'r';
    read_secret(session, &item->row.session);
    read_secret(term, &item->row.term);
    size_t len = strlen(label) / 2;
    if (strcmp(label, "-") != 0 && tn_unhex(item->label, label, len))
        item->row.label_len = (uint32_t)len;
    return true;
}

const char *tn_item_read(struct tn_item *ret_item, const struct tn_json_value *values,
                         uint32_t index)
{
    const struct tn_json_value *owner = tn_dynamo_attribute(values, index, "ownerName", "S");
    const struct tn_json_value *lease = tn_dynamo_attribute(values, index, "leaseDuration", "S");
    const struct tn_json_value *rvn =
        tn_dynamo_attribute(values, index, "recordVersionNumber", "S");
    struct tn_row *row = &ret_item->row;
    char digits[24];
    uint64_t ms;

    memset(ret_item, 0, sizeof *ret_item);
    if (!tn_json_copy(rvn, ret_item->rvn, sizeof ret_item->rvn) || ret_item->rvn[0] == '\0')
        return "its recordVersionNumber is missing or too long";
    if (!tn_json_copy(lease, digits, sizeof digits) || tn_u64_parse(digits, &ms) < 0)
        return "its leaseDuration is missing or not a number of milliseconds";
    ret_item->there = true;
    row->held = tn_dynamo_attribute(values, index, "isReleased", "S") == NULL;
    row->ttl = TN_MS((tenure_ns)(ms < LEASE_MS_MAX ? ms : LEASE_MS_MAX));
    if (owner != NULL) {
        row->label_len = owner->len < TN_LABEL_MAX ? owner->len : TN_LABEL_MAX;
        memcpy(ret_item->label, owner->bytes, row->label_len);
    }
    ret_item->ours = read_ours(ret_item, tn_dynamo_attribute(values, index, "tenure", "S"));
    row->revoked = row->revoked && row->held;
    return NULL;
}

bool tn_item_is(const struct tn_json_value *values, uint32_t index, const char *version)
{
    const struct tn_json_value *rvn =
        tn_dynamo_attribute(values, index, "recordVersionNumber", "S");
    size_t len = strcspn(version, ":");

    return rvn != NULL && len > 0 && rvn->len == len && memcmp(rvn->bytes, version, len) == 0;
}

bool tn_item_read_counter(struct tn_item *item, const struct tn_json_value *values, uint32_t index)
{
    char digits[24];

    return tn_json_copy(tn_dynamo_attribute(values, index, "tenureToken", "N"), digits,
                        sizeof digits) &&
           tn_u64_parse(digits, &item->counter) == 0;
}

bool tn_item_row(struct tn_item *item, char ret_version[TN_ROW_VERSION])
{
    struct tn_row *row = &item->row;

    row->label = item->label;
    row->floor = item->counter;
    if (!item->ours)
        row->token = item->counter; /* Of the last term of ours: theirs have none. */
    (void)snprintf(ret_version, TN_ROW_VERSION, "%s:%" PRIu64, item->rvn, row->token);
    return item->there || item->counter > 0;
}

/* --- Writing ---------------------------------------------------------------------------------- */

void tn_item_rvn(uint64_t high, uint64_t low, char ret_rvn[TN_ITEM_RVN])
{
    (void)snprintf(ret_rvn, TN_ITEM_RVN, "%08x-%04x-4%03x-%04x-%012" PRIx64, (unsigned)(high >> 32),
                   (unsigned)(high >> 16) & 0xffffU, (unsigned)high & 0xfffU,
                   ((unsigned)(low >> 48) & 0x3fffU) | 0x8000U, low & UINT64_C(0xffffffffffff));
}

static uint64_t version_token(const char *version)
{
    const char *colon = strrchr(version, ':');
    uint64_t token = 0;

    return colon != NULL && tn_u64_parse(colon + 1, &token) == 0 ? token : 0;
}

bool tn_item_is_grant(const struct tn_row *row, const char *version)
{
    return row->held && row->token > version_token(version);
}

static void add_string(struct tn_text *text, const char *name, const char *bytes, size_t len)
{
    tn_text_addf(text, ",\"%s\":{\"S\":", name);
    tn_json_string(text, bytes, len);
    tn_text_add(text, "}");
}

static bool is_plain(const struct tn_row *row)
{
    for (uint32_t i = 0; i < row->label_len; i++)
        if (row->label[i] < 0x20 || row->label[i] > 0x7e)
            return false;
    return true;
}

static void add_ours(struct tn_text *text, const struct tn_row *row, const char *rvn)
{
    char session[TN_SECRET_DIGITS];
    char term[TN_SECRET_DIGITS];
    char label[2 * TN_LABEL_MAX + 1] = "";

    tn_secret_text(&row->session, session);
    tn_secret_text(&row->term, term);
    tn_text_addf(text, ",\":t\":{\"S\":\"1 %s %" PRIu64 " %.32s %.32s %c ", rvn, row->token,
                 session, term, row->revoked ? 'r' : '-');
    tn_hex(label, row->label, row->label_len);
    tn_text_addf(text, "%s\"}", is_plain(row) ? "-" : label);
}

/* ,"Key":...,"UpdateExpression":...: the lock item. */
static void add_update(struct tn_dynamo_call *call, const char *name, const struct tn_row *row,
                       const char *version, const char *rvn)
{
    struct tn_text *text = &call->body;
    size_t seen = strcspn(version, ":");
    char owner[TN_LABEL_MAX + 1];
    char digits[24];

    tn_text_add(text, ",\"Key\":");
    tn_dynamo_add_key(call, "", name);
    tn_text_addf(text, ",\"UpdateExpression\":\"SET #r=:r,#t=:t%s\"",
                 !row->held                       ? ",#i=:i"
                 : tn_item_is_grant(row, version) ? ",#o=:o,#l=:l REMOVE #i,#d"
                                                  : ",#o=:o,#l=:l REMOVE #i");
    tn_text_addf(text, ",\"ConditionExpression\":\"%s\"",
                 seen > 0 ? "#r=:v" : "attribute_not_exists(#r)");
    tn_text_add(text, ",\"ExpressionAttributeNames\":{\"#r\":\"recordVersionNumber\","
                      "\"#t\":\"tenure\",\"#i\":\"isReleased\"");
    if (row->held)
        tn_text_addf(text, ",\"#o\":\"ownerName\",\"#l\":\"leaseDuration\"%s",
                     tn_item_is_grant(row, version) ? ",\"#d\":\"data\"" : "");
    tn_text_addf(text, "},\"ExpressionAttributeValues\":{\":r\":{\"S\":\"%s\"}", rvn);
    add_ours(text, row, rvn);
    if (seen > 0)
        add_string(text, ":v", version, seen);
    if (row->held) {
        for (uint32_t i = 0; i < row->label_len; i++)
            owner[i] = (unsigned char)row->label[i] < 0x20 ? '?' : row->label[i];
        add_string(text, ":o", owner, row->label_len);
        (void)snprintf(digits, sizeof digits, "%" PRIi64, (int64_t)(row->ttl / TN_MS(1)));
        add_string(text, ":l", digits, strlen(digits));
    } else {
        add_string(text, ":i", "1", 1);
    }
    tn_text_add(text, "}");
}

/* {"Update":...}: the counter, which must be below the token that is granted. */
static void add_counter(struct tn_dynamo *dynamo, struct tn_dynamo_call *call, const char *name,
                        uint64_t token)
{
    struct tn_text *text = &call->body;

    tn_text_addf(text, "{\"Update\":{\"TableName\":\"%s\",\"Key\":", tn_dynamo_table(dynamo));
    tn_dynamo_add_key(call, TN_ITEM_COUNTER, name);
    tn_text_addf(text,
                 ",\"UpdateExpression\":\"SET #n=:n,#o=:o,#l=:l,#r=:r,#i=:i\""
                 ",\"ConditionExpression\":\"attribute_not_exists(#n) OR #n<:n\""
                 ",\"ExpressionAttributeNames\":{\"#n\":\"tenureToken\",%s}"
                 ",\"ExpressionAttributeValues\":{\":n\":{\"N\":\"%" PRIu64 "\"}"
                 ",\":o\":{\"S\":\"tenure\"},\":l\":{\"S\":\"1000\"},\":r\":{\"S\":\"counter\"}"
                 ",\":i\":{\"S\":\"1\"}}}}",
                 names, token);
}

void tn_item_write(struct tn_dynamo *dynamo, struct tn_dynamo_call *call, const char *name,
                   const struct tn_row *row, const char *version, const char rvn[TN_ITEM_RVN],
                   char ret_version[TN_ROW_VERSION])
{
    struct tn_text *text = &call->body;

    (void)snprintf(ret_version, TN_ROW_VERSION, "%s:%" PRIu64, rvn, row->token);
    if (!tn_item_is_grant(row, version)) {
        tn_dynamo_begin(dynamo, call, "UpdateItem");
        add_update(call, name, row, version, rvn);
        tn_text_add(text, ",\"ReturnValues\":\"UPDATED_NEW\"}");
        return;
    }
    tn_dynamo_begin(dynamo, call, "TransactWriteItems");
    tn_text_init(text, call->sent, sizeof call->sent);
    tn_text_addf(text,
                 "{\"ClientRequestToken\":\"%s\",\"TransactItems\":[{\"Update\":{\"TableName\":"
                 "\"%s\"",
                 rvn, tn_dynamo_table(dynamo));
    add_update(call, name, row, version, rvn);
    tn_text_add(text, "}},");
    add_counter(dynamo, call, name, row->token);
    tn_text_add(text, "]}");
}

void tn_item_add_projection(struct tn_dynamo_call *call)
{
    tn_text_addf(&call->body,
                 ",\"ConsistentRead\":true,\"ProjectionExpression\":\"#k,#o,#l,#r,#i,#t,#n\","
                 "\"ExpressionAttributeNames\":{\"#t\":\"tenure\",\"#n\":\"tenureToken\",%s,"
                 "\"#k\":",
                 names);
    tn_json_string(&call->body, tn_dynamo_key(call->dynamo), strlen(tn_dynamo_key(call->dynamo)));
    tn_text_add(&call->body, "}");
}
