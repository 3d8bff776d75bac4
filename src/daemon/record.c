/* record.c - the records of record.h. One table says which fields each kind has; both directions
 * follow it, so they cannot disagree. */
#include "daemon/record.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/name.h"

enum { HAS_NAME = 1, HAS_SESSION = 2, HAS_TERM = 4, HAS_TOKEN = 8, HAS_TTL = 16, HAS_USER = 32 };

/* In the order in which they are written. 0: there is no such kind. */
static unsigned fields_of(int kind)
{
    switch (kind) {
    case TN_RECORD_OPENED:
        return HAS_NAME | HAS_SESSION | HAS_TTL;
    case TN_RECORD_ENDED:
        return HAS_SESSION;
    case TN_RECORD_GRANTED:
        return HAS_NAME | HAS_SESSION | HAS_TERM | HAS_TOKEN;
    case TN_RECORD_FREED:
        return HAS_NAME | HAS_TERM | HAS_TOKEN;
    case TN_RECORD_SOFT:
        return HAS_SESSION | HAS_TERM | HAS_TTL;
    case TN_RECORD_LENT:
        return HAS_NAME | HAS_SESSION | HAS_TERM;
    case TN_RECORD_REVOKED:
    case TN_RECORD_FENCED:
        return HAS_NAME | HAS_TOKEN;
    case TN_RECORD_OWNED:
        return HAS_NAME | HAS_USER;
    case TN_RECORD_REMOVED:
    case TN_RECORD_FORGOT:
        return HAS_NAME;
    case TN_RECORD_RAISED:
    case TN_RECORD_LAST:
        return HAS_TOKEN;
    default:
        return 0;
    }
}

static void store_le(char *to, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        to[i] = (char)(number >> (8 * i) & 255);
}

static char *put_text(char *at, const char *text, uint32_t len, uint32_t most)
{
    TN_ASSERT(len <= most);
    *at++ = (char)len;
    if (len > 0)
        memcpy(at, text, len);
    return at + len;
}

/* A text at *@at, led by its length. Returns whether it is all there. */
static bool take_text(const char *bytes, size_t len, size_t *at, const char **ret_text,
                      uint32_t *ret_len)
{
    if (*at >= len)
        return false;
    *ret_len = (uint8_t)bytes[(*at)++];
    *ret_text = bytes + *at;
    if (len - *at < *ret_len)
        return false;
    *at += *ret_len;
    return true;
}

size_t tn_record_encode(char *to, const struct tn_journal_record *record)
{
    unsigned fields = fields_of((int)record->kind);
    char *at = to;

    TN_ASSERT(fields != 0);
    *at++ = (char)record->kind;
    if (fields & HAS_NAME)
        at = put_text(at, record->name, record->name_len, TN_NAME_MAX);
    if (fields & HAS_USER)
        at = put_text(at, record->user, record->user_len, TN_USER_MAX);
    if (fields & HAS_SESSION) {
        memcpy(at, record->session.bytes, sizeof record->session.bytes);
        at += sizeof record->session.bytes;
    }
    if (fields & HAS_TERM) {
        memcpy(at, record->term.bytes, sizeof record->term.bytes);
        at += sizeof record->term.bytes;
    }
    if (fields & (HAS_TOKEN | HAS_TTL)) {
        store_le(at, fields & HAS_TOKEN ? record->token : (uint64_t)record->ttl);
        at += 8;
    }
    return (size_t)(at - to);
}

int64_t tn_record_decode(const char *bytes, size_t len, struct tn_journal_record *ret_record)
{
    struct tn_journal_record record = { 0 };
    unsigned fields = len > 0 ? fields_of(bytes[0]) : 0;
    size_t at = 1;
    size_t need;

    if (fields == 0)
        return TENURE_E_DAMAGED;
    record.kind = (enum tn_journal_record_kind)bytes[0];
    if (fields & HAS_NAME && !take_text(bytes, len, &at, &record.name, &record.name_len))
        return TENURE_E_DAMAGED;
    if (fields & HAS_USER && (!take_text(bytes, len, &at, &record.user, &record.user_len) ||
                              record.user_len > TN_USER_MAX))
        return TENURE_E_DAMAGED;
    need = (fields & HAS_SESSION ? 16u : 0) + (fields & HAS_TERM ? 16u : 0) +
           (fields & (HAS_TOKEN | HAS_TTL) ? 8u : 0);
    if (len - at < need)
        return TENURE_E_DAMAGED;
    if (fields & HAS_SESSION) {
        memcpy(record.session.bytes, bytes + at, sizeof record.session.bytes);
        at += sizeof record.session.bytes;
    }
    if (fields & HAS_TERM) {
        memcpy(record.term.bytes, bytes + at, sizeof record.term.bytes);
        at += sizeof record.term.bytes;
    }
    if (fields & (HAS_TOKEN | HAS_TTL)) {
        uint64_t number = tn_load_le((const uint8_t *)bytes + at, 8);
        at += 8;
        if (fields & HAS_TTL && (number == 0 || number > INT64_MAX / 4))
            return TENURE_E_DAMAGED;
        record.token = fields & HAS_TOKEN ? number : 0;
        record.ttl = fields & HAS_TTL ? (tenure_ns)number : 0;
    }
    *ret_record = record;
    return (int64_t)at;
}
