/* keys.c - the layout in etcd: that of Go's concurrency.Election, and one key of our own per name.
 *
 *   PREFIX/NAME/LEASE         a candidate; LEASE in lower-case hex. The value is the label, and for
 *                             our own " tenure:" and the hash of the term's secret. The lowest
 *                             create revision leads, and is the token.
 *   PREFIX/%token/NAME        the last token that was led with by one of us: the value in decimal,
 *                             or this key's own revision if the value is empty. No name has a '%',
 *                             so it is in nobody's way. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
#include "base/number.h"
#include "stores/etcd/store.h"

static const char mark[] = " tenure:";

enum { MARK = sizeof mark - 1, HEX = 32 };

void tn_etcd_keys(struct tn_etcd_keys *ret_keys, const struct tn_etcd_store *store,
                  const char *name, int64_t lease)
{
    const char *prefix = store->client.config.prefix;

    (void)snprintf(ret_keys->base, sizeof ret_keys->base, "%s%s/", prefix, name);
    (void)snprintf(ret_keys->end, sizeof ret_keys->end, "%s%s0", prefix, name); /* '/' + 1 */
    (void)snprintf(ret_keys->own, sizeof ret_keys->own, "%s%s/%" PRIx64, prefix, name,
                   (uint64_t)lease);
    (void)snprintf(ret_keys->last, sizeof ret_keys->last, "%s%%token/%s", prefix, name);
}

static void set_bytes(ProtobufCBinaryData *bytes, const char *text)
{
    bytes->data = (uint8_t *)(uintptr_t)text;
    bytes->len = strlen(text);
}

void tn_etcd_range(Etcd__RangeRequest *ret_range, const struct tn_etcd_keys *keys, bool ascending,
                   int64_t limit, int64_t max)
{
    *ret_range = (Etcd__RangeRequest)ETCD__RANGE_REQUEST__INIT;
    set_bytes(&ret_range->key, keys->base);
    set_bytes(&ret_range->range_end, keys->end);
    ret_range->limit = limit;
    ret_range->sort_order = ascending ? 1 : 2;
    ret_range->sort_target = 2; /* The create revision. */
    ret_range->max_create_revision = max;
}

void tn_etcd_get(Etcd__RangeRequest *ret_range, const char *key)
{
    *ret_range = (Etcd__RangeRequest)ETCD__RANGE_REQUEST__INIT;
    set_bytes(&ret_range->key, key);
}

void tn_etcd_get_all(Etcd__RangeRequest *ret_range, const char *key, char end[TN_ETCD_KEY])
{
    size_t len = strlen(key);

    tn_etcd_get(ret_range, key);
    if (len == 0) { /* All there are: from the zero byte to no end. */
        ret_range->key.data = ret_range->range_end.data = (uint8_t *)(uintptr_t) "\0";
        ret_range->key.len = ret_range->range_end.len = 1;
        return;
    }
    memcpy(end, key, len + 1);
    end[len - 1]++;
    set_bytes(&ret_range->range_end, end);
}

void tn_etcd_compare(Etcd__Compare *ret_compare, const char *key, const char *end, int64_t created)
{
    *ret_compare = (Etcd__Compare)ETCD__COMPARE__INIT;
    ret_compare->target = 1; /* The create revision. */
    set_bytes(&ret_compare->key, key);
    if (end != NULL)
        set_bytes(&ret_compare->range_end, end);
    ret_compare->target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    ret_compare->create_revision = created;
}

void tn_etcd_compare_same(Etcd__Compare *ret_compare, const char *key, int64_t created)
{
    *ret_compare = (Etcd__Compare)ETCD__COMPARE__INIT;
    ret_compare->target = 2; /* The mod revision. */
    set_bytes(&ret_compare->key, key);
    ret_compare->target_union_case = ETCD__COMPARE__TARGET_UNION_MOD_REVISION;
    ret_compare->mod_revision = created;
}

size_t tn_etcd_value(char ret_value[TN_ETCD_VALUE], const char *label, size_t label_len,
                     const struct tn_secret *term)
{
    memcpy(ret_value, label, label_len);
    memcpy(ret_value + label_len, mark, MARK);
    tn_hex(ret_value + label_len + MARK, term->bytes, sizeof term->bytes);
    return label_len + MARK + HEX;
}

/* False: it does not end in a hash as ours do. */
static bool read_term(const ProtobufCBinaryData *value, struct tn_secret *ret_term)
{
    const char *end = (const char *)value->data + value->len;
    struct tn_secret term;

    if (value->len < MARK + HEX || memcmp(end - HEX - MARK, mark, MARK) != 0 ||
        !tn_unhex(term.bytes, end - HEX, sizeof term.bytes))
        return false;
    *ret_term = term;
    return true;
}

/* A key is named by the lease that it was made with; one without a lease was not moved. */
bool tn_etcd_is_moved(const Etcd__KeyValue *kv)
{
    char own[20];

    int len = snprintf(own, sizeof own, "/%" PRIx64, (uint64_t)kv->lease);
    size_t at = kv->key.len - (size_t)len;
    return kv->lease != 0 && tn_etcd_foreign_name(kv) == 0 &&
           (kv->key.len < (size_t)len || memcmp(kv->key.data + at, own, (size_t)len) != 0);
}

void tn_etcd_record(const Etcd__KeyValue *kv, struct tn_store_record *ret_record)
{
    struct tn_store_record record = { .held = true,
                                      .revoked = tn_etcd_is_moved(kv),
                                      .token = (uint64_t)kv->create_revision };
    size_t len = kv->value.len;

    if (read_term(&kv->value, &record.term))
        len -= MARK + HEX;
    if (len > TN_LABEL_MAX) /* Another client's; it may be of any length. */
        len = TN_LABEL_MAX;
    record.label_len = (uint32_t)len;
    if (len > 0)
        memcpy(record.label, kv->value.data, len);
    *ret_record = record;
}

bool tn_etcd_key_is(const Etcd__KeyValue *kv, const char *key)
{
    return kv->key.len == strlen(key) && memcmp(kv->key.data, key, kv->key.len) == 0;
}

bool tn_etcd_is_lease_id(const uint8_t *text, size_t len)
{
    if (len > 0 && text[0] == '-') {
        text++;
        len--;
    }
    if (len < 1 || len > 16)
        return false;
    for (size_t i = 0; i < len; i++)
        if (memchr("0123456789abcdef", text[i], 16) == NULL)
            return false;
    return true;
}

bool tn_etcd_is_candidate(const struct tn_etcd_keys *keys, const Etcd__KeyValue *kv)
{
    size_t base = strlen(keys->base);

    return kv->key.len > base && memcmp(kv->key.data, keys->base, base) == 0 &&
           tn_etcd_is_lease_id(kv->key.data + base, kv->key.len - base);
}

void tn_etcd_candidate_key(const Etcd__KeyValue *kv, char ret_key[TN_ETCD_KEY])
{
    TN_ASSERT(kv->key.len < TN_ETCD_KEY);
    memcpy(ret_key, kv->key.data, kv->key.len);
    ret_key[kv->key.len] = '\0';
}

const Etcd__KeyValue *tn_etcd_first(const struct tn_etcd_keys *keys,
                                    const Etcd__RangeResponse *range, bool *ret_crowded)
{
    for (size_t i = 0; range != NULL && i < range->n_kvs; i++)
        if (tn_etcd_is_candidate(keys, range->kvs[i]))
            return range->kvs[i];
    if (range != NULL && range->more)
        *ret_crowded = true;
    return NULL;
}

uint64_t tn_etcd_last(const Etcd__RangeResponse *range)
{
    char text[24] = "";
    uint64_t token = 0;

    if (range == NULL || range->n_kvs == 0)
        return 0;
    const Etcd__KeyValue *kv = range->kvs[0];
    if (kv->value.len == 0)
        return (uint64_t)kv->mod_revision;
    if (kv->value.len < sizeof text)
        memcpy(text, kv->value.data, kv->value.len);
    return tn_u64_parse(text, &token) == 0 ? token : 0;
}

const Etcd__RangeResponse *tn_etcd_answer(const Etcd__TxnResponse *txn, size_t number)
{
    return txn != NULL && number < txn->n_responses ? txn->responses[number]->response_range : NULL;
}
