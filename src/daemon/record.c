/* record.c - the records of record.h. One table says which fields each kind has; both directions
 * follow it, so they cannot disagree. */
#include "daemon/record.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/name.h"

enum { HAS_NAME = 1, HAS_SESSION = 2, HAS_TERM = 4, HAS_TOKEN = 8, HAS_TTL = 16 };

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
    case TN_RECORD_REVOKED:
    case TN_RECORD_FENCED:
        return HAS_NAME | HAS_TOKEN;
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

size_t tn_record_encode(char *to, const struct tn_record *record)
{
    unsigned fields = fields_of((int)record->kind);
    char *at = to;

    TN_ASSERT(fields != 0);
    *at++ = (char)record->kind;
    if (fields & HAS_NAME) {
        TN_ASSERT(record->name_len <= TN_NAME_MAX);
        *at++ = (char)record->name_len;
        if (record->name_len > 0)
            memcpy(at, record->name, record->name_len);
        at += record->name_len;
    }
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

int64_t tn_record_decode(const char *bytes, size_t len, struct tn_record *ret_record)
{
    struct tn_record record = { 0 };
    unsigned fields = len > 0 ? fields_of(bytes[0]) : 0;
    size_t at = 1;
    size_t need;

    if (fields == 0)
        return TENURE_E_DAMAGED;
    record.kind = (enum tn_record_kind)bytes[0];
    if (fields & HAS_NAME) {
        if (len < 2)
            return TENURE_E_DAMAGED;
        record.name_len = (uint8_t)bytes[at++];
        record.name = bytes + at;
    }
    need = record.name_len + (fields & HAS_SESSION ? 16u : 0) + (fields & HAS_TERM ? 16u : 0) +
           (fields & (HAS_TOKEN | HAS_TTL) ? 8u : 0);
    if (len - at < need)
        return TENURE_E_DAMAGED;
    at += record.name_len;
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
