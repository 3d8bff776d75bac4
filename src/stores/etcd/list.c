/* list.c - what is asked of etcd beside the operations: lists of names, and that the names of a
 * test are forgotten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/etcd/store.h"

/* A key's name: what is between the prefix and, for candidates, the last slash, behind which is the
 * number of a lease; for another program's leader, what foreign.c says. */
static bool name_of(const struct tn_etcd_store *store, const Etcd__KeyValue *kv, bool candidate,
                    char ret_name[TN_NAME_MAX + 1])
{
    size_t skip = strlen(store->client.config.prefix) + (candidate ? 0 : strlen("%token/"));
    size_t end = kv->key.len, foreign = candidate ? tn_etcd_foreign_name(kv) : 0;

    if (foreign > 0) {
        end = foreign;
    } else {
        while (candidate && end > skip && kv->key.data[end - 1] != '/')
            end--;
        if (candidate && !tn_etcd_is_lease_id(kv->key.data + end, kv->key.len - end))
            return false;
        end -= candidate && end > skip;
    }
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

static void collect(struct tn_etcd_query *list, const Etcd__RangeResponse *range, bool candidates)
{
    for (size_t i = 0; range != NULL && i < range->n_kvs; i++) {
        char name[TN_NAME_MAX + 1];
        if (!name_of(list->store, range->kvs[i], candidates, name))
            continue;
        struct tn_store_lease *lease = tn_query_add_lease(list->query);
        if (lease == NULL)
            return;
        memcpy(lease->name, name, sizeof name);
        if (candidates) {
            tn_etcd_record(range->kvs[i], &lease->record);
        } else {
            Etcd__RangeResponse one = ETCD__RANGE_RESPONSE__INIT;
            one.n_kvs = 1;
            one.kvs = &range->kvs[i];
            lease->record.token = tn_etcd_last(&one);
        }
    }
}

/* Of each name the first, which leads or tells the last token; the candidates behind it wait. */
static void keep_leaders(struct tn_store_query *query)
{
    struct tn_store_lease *leases = query->leases;
    size_t kept = 0;

    if (query->count > 0)
        qsort(leases, query->count, sizeof *leases, compare_leases);
    for (size_t i = 0; i < query->count; i++) {
        bool waits = leases[i].record.held;
        if (kept == 0 || strcmp(leases[kept - 1].name, leases[i].name) != 0) {
            leases[kept++] = leases[i];
            leases[kept - 1].counted = true;
        } else if (waits) {
            leases[kept - 1].waiting++;
        }
    }
    query->count = kept;
}

/* Of the candidates of one name those behind the first, in the order of their keys' creation. */
static void keep_line(struct tn_store_query *query)
{
    size_t kept = 0;
    bool leads = true;

    if (query->count > 0)
        qsort(query->leases, query->count, sizeof *query->leases, compare_leases);
    for (size_t i = 0; i < query->count; i++) {
        if (!query->leases[i].record.held || strcmp(query->leases[i].name, query->prefix) != 0)
            continue;
        if (!leads)
            query->leases[kept++] = query->leases[i];
        leads = false;
    }
    query->count = kept;
}

static void answered(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_query *asked = arg;
    struct tn_store_query *query = asked->query;
    const Etcd__TxnResponse *txn = (const void *)reply->message;

    if (reply->status == 0 && query->listed != NULL) {
        collect(asked, tn_etcd_answer(txn, 0), true);
        collect(asked, tn_etcd_answer(txn, 1), false);
        if (query->line)
            keep_line(query);
        else
            keep_leaders(query);
    }
    free(asked);
    tn_query_done(query, reply->status, reply->text);
}

static struct tn_etcd_rpc *send_list(struct tn_etcd_query *asked)
{
    struct tn_etcd_store *store = asked->store;
    const char *prefix = asked->query->prefix;
    char keys[2][TN_ETCD_KEY], ends[2][TN_ETCD_KEY];
    Etcd__RangeRequest ranges[2];
    Etcd__RequestOp ops[2], *list[2];
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;

    (void)snprintf(keys[0], TN_ETCD_KEY, "%s%s%s", store->client.config.prefix, prefix,
                   asked->query->exact ? "/" : "");
    (void)snprintf(keys[1], TN_ETCD_KEY, "%s%%token/%s", store->client.config.prefix, prefix);
    for (size_t i = 0; i < 2; i++) {
        tn_etcd_get_all(&ranges[i], keys[i], ends[i]);
        ops[i] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
        ops[i].request_range = &ranges[i];
        list[i] = &ops[i];
    }
    txn.n_success = 2;
    txn.success = list;
    return tn_etcd_txn(&store->client, &txn, asked->query->give_up_at, answered, asked);
}

/* All that is left of a free name is the note of its last token. */
static struct tn_etcd_rpc *send_forget(struct tn_etcd_query *asked)
{
    struct tn_etcd_store *store = asked->store;
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
    Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[1] = { &op };
    Etcd__DeleteRangeRequest removal = ETCD__DELETE_RANGE_REQUEST__INIT;
    Etcd__RangeRequest range;
    char key[TN_ETCD_KEY], end[TN_ETCD_KEY];

    (void)snprintf(key, sizeof key, "%s%%token/%s", store->client.config.prefix,
                   asked->query->prefix);
    tn_etcd_get_all(&range, key, end);
    removal.key = range.key;
    removal.range_end = range.range_end;
    op.request_delete_range = &removal;
    txn.n_success = 1;
    txn.success = ops;
    return tn_etcd_txn(&store->client, &txn, asked->query->give_up_at, answered, asked);
}

void tn_etcd_ask(struct tn_store *base, struct tn_store_query *query)
{
    struct tn_etcd_query *asked = malloc(sizeof *asked);
    struct tn_etcd_rpc *rpc = NULL;

    if (asked != NULL) {
        *asked = (struct tn_etcd_query) { (struct tn_etcd_store *)base, query };
        rpc = query->listed != NULL ? send_list(asked) : send_forget(asked);
    }
    if (rpc == NULL) {
        free(asked);
        tn_query_refuse(base, query, TENURE_E_NOMEM, "out of memory");
    }
    tn_store_kick(base); /* Which sends it. */
}
