/* names.c - who leads a name: reading, watching, listing.
 *
 * A watched name is looked at once; then only its leader's key is watched, or, while nobody leads,
 * the name. Whatever happens there - also that nobody can tell any more - leads to another look, so
 * there is one way to learn the truth. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "stores/etcd/store.h"

#define LOOK_AGAIN TN_MS(250)

/* --- Names ------------------------------------------------------------------------------------ */

static struct tn_etcd_name **find(struct tn_etcd_store *store, const char *text, size_t len)
{
    const struct tn_hash_key key = { 0x6e616d65, 0x65746364 };
    struct tn_etcd_name **at = &store->names[tn_hash(key, text, len) % TN_ETCD_BUCKETS];

    while (*at != NULL && (strlen((*at)->text) != len || memcmp((*at)->text, text, len) != 0))
        at = &(*at)->next;
    return at;
}

static void watch_fired(struct tn_etcd_watch *watch)
{
    tn_etcd_name_look(watch->arg);
}

struct tn_etcd_name *tn_etcd_name_find(struct tn_etcd_store *store, const char *text, size_t len,
                                       bool make)
{
    struct tn_etcd_name **at = find(store, text, len);

    if (*at == NULL && make) {
        struct tn_etcd_name *name = calloc(1, sizeof *name);
        if (name == NULL)
            return NULL;
        memcpy(name->text, text, len);
        name->store = store;
        name->look_at = TN_NEVER;
        name->watch.fired = watch_fired;
        name->watch.arg = name;
        *at = name;
    }
    return *at;
}

void tn_etcd_name_free_if_unused(struct tn_etcd_name *name)
{
    if (name->watched > 0 || name->bids != NULL)
        return;
    for (struct tn_etcd_task *task = name->store->tasks; task != NULL; task = task->next)
        if (task->name == name)
            return; /* It is looked at again when the task ends, or never: it is small. */
    tn_etcd_watch_stop(&name->watch);
    tn_etcd_cancel(name->look);
    struct tn_etcd_name **at = find(name->store, name->text, strlen(name->text));
    *at = name->next;
    free(name);
}

void tn_etcd_fill(struct tn_etcd_name *name, const Etcd__KeyValue *leader, uint64_t last,
                  struct tn_store_record *ret_record)
{
    if (leader != NULL) {
        tn_etcd_record(leader, ret_record);
        last = ret_record->token;
    }
    if (name != NULL && last > name->last_token)
        name->last_token = last;
    if (leader == NULL)
        *ret_record = (struct tn_store_record) { .token = name != NULL && name->last_token > last
                                                              ? name->last_token
                                                              : last };
}

/* --- Looking ---------------------------------------------------------------------------------- */

/* The two reads that tell who leads: leader first, then the last token. */
struct look {
    struct tn_etcd_keys keys;
    Etcd__RangeRequest leader, last;
    Etcd__RequestOp ops[2];
    Etcd__RequestOp *list[2];
    Etcd__TxnRequest txn;
};

static void make_look(struct look *look, const struct tn_etcd_store *store, const char *name,
                      bool crowded)
{
    tn_etcd_keys(&look->keys, store, name, 0);
    tn_etcd_range(&look->leader, &look->keys, true, crowded ? 0 : 1, 0);
    tn_etcd_get(&look->last, look->keys.last);
    for (size_t i = 0; i < 2; i++) {
        look->ops[i] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
        look->ops[i].request_range = i == 0 ? &look->leader : &look->last;
        look->list[i] = &look->ops[i];
    }
    look->txn = (Etcd__TxnRequest)ETCD__TXN_REQUEST__INIT;
    look->txn.n_success = 2;
    look->txn.success = look->list;
}

static bool is_news(const struct tn_etcd_name *name, const struct tn_store_record *record)
{
    const struct tn_store_record *known = &name->known;

    return !name->told || known->held != record->held || known->token != record->token ||
           known->label_len != record->label_len ||
           memcmp(known->label, record->label, known->label_len) != 0;
}

static void put_off(struct tn_etcd_name *name)
{
    name->look_at = tn_etcd_now(name->store) + LOOK_AGAIN;
    tn_etcd_client_wake(&name->store->client);
}

static void looked(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_name *name = arg;
    const struct tn_store_open *how = &name->store->base.how;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;
    struct tn_store_record record;
    bool crowded = false;
    char leader_key[TN_ETCD_KEY];

    name->look = NULL;
    if (reply->status == TENURE_E_CLOSED || name->watched == 0)
        return;
    if (reply->status != 0) {
        put_off(name);
        return;
    }
    tn_etcd_keys(&keys, name->store, name->text, 0);
    const Etcd__KeyValue *leader = tn_etcd_first(&keys, tn_etcd_answer(txn, 0), &crowded);
    if (crowded && !name->crowded) {
        name->crowded = true;
        tn_etcd_name_look(name);
        return;
    }
    tn_etcd_fill(name, leader, tn_etcd_last(tn_etcd_answer(txn, 1)), &record);
    tn_etcd_bid_adopt(name->store, name->text, leader, txn->header->revision);
    if (leader != NULL)
        tn_etcd_bid_key(leader, leader_key);
    if (tn_etcd_watch_start(&name->store->client, &name->watch,
                            leader != NULL ? leader_key : keys.base, leader == NULL, leader != NULL,
                            txn->header->revision + 1) < 0)
        put_off(name);
    bool news = is_news(name, &record);
    name->told = true;
    name->known = record;
    if (news)
        how->host->changed(how->arg, name->text, &record);
}

void tn_etcd_name_look(struct tn_etcd_name *name)
{
    struct look look;

    name->look_at = TN_NEVER;
    if (name->look != NULL || name->watched == 0 || name->store->base.closing)
        return;
    make_look(&look, name->store, name->text, name->crowded);
    name->look = tn_etcd_call(&name->store->client, "/etcdserverpb.KV/Txn", &look.txn.base,
                              &etcd__txn_response__descriptor,
                              tn_etcd_now(name->store) + name->store->patience, looked, name);
    if (name->look == NULL)
        put_off(name);
}

int tn_etcd_watch(struct tn_store *base, const char *text, bool on)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)(void *)base;
    struct tn_etcd_name *name = tn_etcd_name_find(store, text, strlen(text), on);

    if (name == NULL)
        return on ? TENURE_E_NOMEM : 0;
    if (on) {
        name->watched++;
        if (name->watched == 1)
            name->look_at = 0; /* With the next turn. */
        return 0;
    }
    TN_ASSERT(name->watched > 0);
    if (--name->watched > 0)
        return 0;
    name->told = false;
    name->look_at = TN_NEVER;
    tn_etcd_watch_stop(&name->watch);
    tn_etcd_cancel(name->look);
    name->look = NULL;
    tn_etcd_name_free_if_unused(name);
    return 0;
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void got_ttl(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    /* Not knowing it is no failure; a lease that has ended since has nothing left. */
    if (reply->status == 0) {
        const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;
        task->req->record.ttl = tn_etcd_seconds(response->granted_ttl);
        task->req->record.remaining = tn_etcd_seconds(response->ttl);
    }
    tn_etcd_task_end(task);
}

void tn_etcd_add_ttl(struct tn_etcd_task *task, int64_t lease)
{
    Etcd__LeaseTimeToLiveRequest request = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;

    if (lease == 0) {
        tn_etcd_task_end(task);
        return;
    }
    request.id = lease;
    tn_etcd_task_call(task, "/etcdserverpb.Lease/LeaseTimeToLive", &request.base,
                      &etcd__lease_time_to_live_response__descriptor, got_ttl);
}

static void read_again(struct tn_etcd_task *task);

static void got_record(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_store_req *req = task->req;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;
    bool crowded = false;

    if (reply->status != 0) {
        tn_etcd_task_fail(task, reply);
        return;
    }
    tn_etcd_keys(&keys, task->store, req->op.name, 0);
    const Etcd__KeyValue *leader = tn_etcd_first(&keys, tn_etcd_answer(txn, 0), &crowded);
    if (crowded && task->tries++ == 0) {
        read_again(task);
        return;
    }
    tn_etcd_fill(tn_etcd_name_find(task->store, req->op.name, req->op.name_len, false), leader,
                 tn_etcd_last(tn_etcd_answer(txn, 1)), &req->record);
    if (req->op.kind == TN_OP_REVOKE) {
        task->rpc = NULL;
        tn_etcd_revoke(task, leader);
        return;
    }
    req->answer = leader != NULL ? TN_ANSWER_HELD : TN_ANSWER_FREE;
    tn_etcd_bid_adopt(task->store, req->op.name, leader, txn->header->revision);
    tn_etcd_add_ttl(task, leader != NULL ? leader->lease : 0);
}

static void read_again(struct tn_etcd_task *task)
{
    struct look look;

    make_look(&look, task->store, task->req->op.name, task->tries > 0);
    tn_etcd_task_txn(task, &look.txn, got_record);
}

void tn_etcd_read(struct tn_etcd_task *task)
{
    read_again(task);
}

/* --- Listing ---------------------------------------------------------------------------------- */

static void end_listing(struct tn_etcd_listing *listing, int status, struct tn_store_lease *leases,
                        size_t count, const char *error)
{
    struct tn_etcd_listing **at = &listing->store->listing;

    while (*at != NULL && *at != listing)
        at = &(*at)->next;
    if (*at != NULL)
        *at = listing->next;
    listing->done(listing->arg, status, leases, count, error);
    free(listing);
}

/* A key's name: what is between the prefix and, for candidates, the last slash, behind which is the
 * number of a lease. */
static bool name_of(const struct tn_etcd_store *store, const Etcd__KeyValue *kv, bool candidate,
                    char ret_name[TN_NAME_MAX + 1])
{
    size_t skip = strlen(store->client.config.prefix) + (candidate ? 0 : strlen("%token/"));
    size_t end = kv->key.len;

    while (candidate && end > skip && kv->key.data[end - 1] != '/')
        end--;
    if (candidate && !tn_etcd_is_lease_id(kv->key.data + end, kv->key.len - end))
        return false;
    end -= candidate && end > skip;
    if (end <= skip || tn_name_check((const char *)kv->key.data + skip, end - skip, NULL) < 0)
        return false;
    memset(ret_name, 0, TN_NAME_MAX + 1);
    memcpy(ret_name, kv->key.data + skip, end - skip);
    return true;
}

/* By name, and of one name the leader first, then later candidates, then the last token. */
static int compare_leases(const void *a, const void *b)
{
    const struct tn_store_lease *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order != 0)
        return order;
    if (x->record.held != y->record.held)
        return x->record.held ? -1 : 1;
    return x->record.token < y->record.token ? -1 : x->record.token > y->record.token;
}

static size_t collect(const struct tn_etcd_store *store, const Etcd__RangeResponse *range,
                      bool candidates, struct tn_store_lease *leases)
{
    size_t count = 0;

    for (size_t i = 0; range != NULL && i < range->n_kvs; i++) {
        struct tn_store_lease *lease = &leases[count];
        if (!name_of(store, range->kvs[i], candidates, lease->name))
            continue;
        if (candidates) {
            tn_etcd_record(range->kvs[i], &lease->record);
        } else {
            Etcd__RangeResponse one = ETCD__RANGE_RESPONSE__INIT;
            one.n_kvs = 1;
            one.kvs = &range->kvs[i];
            lease->record = (struct tn_store_record) { .token = tn_etcd_last(&one) };
        }
        count++;
    }
    return count;
}

static void listed(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_listing *listing = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    size_t most = 1, count, kept = 0;

    if (reply->status != 0) {
        end_listing(listing, reply->status, NULL, 0, reply->text);
        return;
    }
    for (size_t i = 0; i < 2; i++)
        most += tn_etcd_answer(txn, i) != NULL ? tn_etcd_answer(txn, i)->n_kvs : 0;
    struct tn_store_lease *leases = calloc(most, sizeof *leases);
    if (leases == NULL) {
        end_listing(listing, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    count = collect(listing->store, tn_etcd_answer(txn, 0), true, leases);
    count += collect(listing->store, tn_etcd_answer(txn, 1), false, leases + count);
    qsort(leases, count, sizeof *leases, compare_leases);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(leases[kept - 1].name, leases[i].name) != 0)
            leases[kept++] = leases[i];
    end_listing(listing, 0, leases, kept, NULL);
}

/* All keys that begin with @key. */
static void range_of(Etcd__RangeRequest *ret_range, const char *key, char end[TN_ETCD_KEY])
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
    ret_range->range_end.data = (uint8_t *)end;
    ret_range->range_end.len = len;
}

void tn_etcd_list(struct tn_etcd_listing *listing)
{
    struct tn_etcd_store *store = listing->store;
    char keys[2][TN_ETCD_KEY], ends[2][TN_ETCD_KEY];
    Etcd__RangeRequest ranges[2];
    Etcd__RequestOp ops[2], *list[2];
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;

    if (store->base.closing) {
        end_listing(listing, TENURE_E_CLOSED, NULL, 0, "the store is closed");
        return;
    }
    (void)snprintf(keys[0], TN_ETCD_KEY, "%s%s", store->client.config.prefix, listing->prefix);
    (void)snprintf(keys[1], TN_ETCD_KEY, "%s%%token/%s", store->client.config.prefix,
                   listing->prefix);
    for (size_t i = 0; i < 2; i++) {
        range_of(&ranges[i], keys[i], ends[i]);
        ops[i] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
        ops[i].request_range = &ranges[i];
        list[i] = &ops[i];
    }
    txn.n_success = 2;
    txn.success = list;
    listing->next = store->listing;
    store->listing = listing;
    listing->rpc = tn_etcd_call(&store->client, "/etcdserverpb.KV/Txn", &txn.base,
                                &etcd__txn_response__descriptor,
                                tn_etcd_now(store) + store->patience, listed, listing);
    if (listing->rpc == NULL)
        end_listing(listing, TENURE_E_NOMEM, NULL, 0, "out of memory");
}
