/* steps.c - the steps of core/line.h as transactions of etcd, and their answers as its views.
 *
 * A create makes the key if the name is empty, notes the token and is a proof, in one transaction.
 * Otherwise it makes the key behind the others, or only looks. A key's order and its token are its
 * create revision. Longer names share a name's range: where they were in the way of a limit, the
 * same step is asked once more without one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "stores/etcd/store.h"

enum { OPS = 4 };

static void answered(void *arg, const struct tn_etcd_reply *reply);

/* A transaction on the stack: one comparison, up to four operations on either side. */
struct txn {
    struct tn_etcd_keys keys;
    Etcd__Compare compare, *compares[1];
    Etcd__RequestOp yes[OPS], no[OPS];
    Etcd__RequestOp *yes_list[OPS], *no_list[OPS];
    Etcd__RangeRequest ranges[OPS];
    Etcd__PutRequest puts[2];
    Etcd__DeleteRangeRequest removal;
    Etcd__TxnRequest request;
};

static void begin(struct txn *txn, const struct tn_etcd_bid *bid)
{
    tn_etcd_keys(&txn->keys, bid->name->store, bid->name->text, bid->session->lease);
    txn->request = (Etcd__TxnRequest)ETCD__TXN_REQUEST__INIT;
    txn->request.compare = txn->compares;
    txn->request.success = txn->yes_list;
    txn->request.failure = txn->no_list;
    txn->compares[0] = &txn->compare;
}

/* Only if @key (or with @end, all of a range) was created at @created; 0: does not exist. */
static void only_if(struct txn *txn, const char *key, const char *end, int64_t created)
{
    tn_etcd_compare(&txn->compare, key, end, created);
    txn->request.n_compare = 1;
}

static Etcd__RequestOp *then(struct txn *txn)
{
    size_t at = txn->request.n_success++;

    TN_ASSERT(at < OPS);
    txn->yes[at] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
    return txn->yes_list[at] = &txn->yes[at];
}

static Etcd__RequestOp *otherwise(struct txn *txn)
{
    size_t at = txn->request.n_failure++;

    TN_ASSERT(at < OPS);
    txn->no[at] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
    return txn->no_list[at] = &txn->no[at];
}

static Etcd__PutRequest *put(Etcd__PutRequest *ret_put, const char *key, const char *value,
                             size_t len, int64_t lease)
{
    *ret_put = (Etcd__PutRequest)ETCD__PUT_REQUEST__INIT;
    ret_put->key.data = (uint8_t *)(uintptr_t)key;
    ret_put->key.len = strlen(key);
    ret_put->value.data = (uint8_t *)(uintptr_t)value;
    ret_put->value.len = len;
    ret_put->lease = lease;
    return ret_put;
}

/* IF the name is empty THEN our key, and the token noted ELSE
 *   behind:     IF our key is not there THEN our key, the leader, the newest two
 *                                       ELSE our key, the leader
 *   not behind: our key, the leader */
static void make_create(struct txn *txn, struct txn *inner, const struct tn_etcd_bid *bid,
                        const char *value, size_t len)
{
    int64_t limit = bid->name->crowded ? 0 : 1;

    begin(txn, bid);
    only_if(txn, txn->keys.base, txn->keys.end, 0);
    then(txn)->request_put = put(&txn->puts[0], txn->keys.own, value, len, bid->session->lease);
    then(txn)->request_put = put(&txn->puts[1], txn->keys.last, "", 0, 0);
    tn_etcd_get(&txn->ranges[0], txn->keys.own);
    tn_etcd_range(&txn->ranges[1], &txn->keys, true, limit, 0);
    if (!bid->claim.behind) {
        otherwise(txn)->request_range = &txn->ranges[0];
        otherwise(txn)->request_range = &txn->ranges[1];
        return;
    }
    begin(inner, bid);
    only_if(inner, txn->keys.own, NULL, 0);
    tn_etcd_range(&txn->ranges[2], &txn->keys, false, limit * 2, 0);
    then(inner)->request_put = &txn->puts[0];
    then(inner)->request_range = &txn->ranges[1];
    then(inner)->request_range = &txn->ranges[2];
    otherwise(inner)->request_range = &txn->ranges[0];
    otherwise(inner)->request_range = &txn->ranges[1];
    otherwise(txn)->request_txn = &inner->request;
}

/* Our key, the leader, the last token, and the key before ours once we know where that is. */
static void make_look(struct txn *txn, const struct tn_etcd_bid *bid)
{
    int64_t limit = bid->name->crowded ? 0 : 1;
    int64_t created = (int64_t)bid->claim.key.order;

    begin(txn, bid);
    tn_etcd_get(&txn->ranges[0], txn->keys.own);
    tn_etcd_range(&txn->ranges[1], &txn->keys, true, limit, 0);
    tn_etcd_get(&txn->ranges[2], txn->keys.last);
    tn_etcd_range(&txn->ranges[3], &txn->keys, false, limit, created - 1);
    for (size_t i = 0; i < (created > 1 ? 4 : 3); i++)
        then(txn)->request_range = &txn->ranges[i];
}

/* Our key is as we made it: neither made anew nor revoked. Note the token in the same step. */
static void make_proof(struct txn *txn, const struct tn_etcd_bid *bid, char token[24])
{
    begin(txn, bid);
    tn_etcd_compare_same(&txn->compare, txn->keys.own, (int64_t)bid->claim.key.order);
    txn->request.n_compare = 1;
    (void)snprintf(token, 24, "%" PRIu64, bid->claim.key.order);
    then(txn)->request_put = put(&txn->puts[0], txn->keys.last, token, strlen(token), 0);
}

/* A session's keys on a name have one path; the revision tells them apart. */
static void make_removal(struct txn *txn, const struct tn_etcd_bid *bid, uint64_t order)
{
    begin(txn, bid);
    only_if(txn, txn->keys.own, NULL, (int64_t)order);
    txn->removal = (Etcd__DeleteRangeRequest)ETCD__DELETE_RANGE_REQUEST__INIT;
    txn->removal.key.data = (uint8_t *)txn->keys.own;
    txn->removal.key.len = strlen(txn->keys.own);
    then(txn)->request_delete_range = &txn->removal;
}

static tenure_ns give_up_at(const struct tn_etcd_bid *bid)
{
    tenure_ns at = tn_etcd_now(bid->name->store) + bid->name->store->patience;

    for (const struct tn_store_req *req = bid->reqs; req != NULL; req = req->next)
        if (req->give_up_at < at)
            at = req->give_up_at;
    return at;
}

bool tn_etcd_step(struct tn_etcd_bid *bid)
{
    const struct tn_etcd_session *session = bid->session;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT }, inner = txn;
    char value[TN_ETCD_VALUE], token[24];
    size_t len = tn_etcd_value(value, session->label, session->label_len, &bid->claim.term);

    switch (bid->claim.step) {
    case TN_LINE_CREATE:
        make_create(&txn, &inner, bid, value, len);
        break;
    case TN_LINE_LOOK:
        make_look(&txn, bid);
        break;
    case TN_LINE_PROVE:
        make_proof(&txn, bid, token);
        break;
    case TN_LINE_REMOVE:
        make_removal(&txn, bid, bid->claim.key.order);
        break;
    default:
        TN_ASSERT(bid->claim.step == TN_LINE_CLEAR);
        make_removal(&txn, bid, bid->claim.before);
    }
    bid->request = bid->claim.request;
    bid->rpc = tn_etcd_call(&bid->name->store->client, "/etcdserverpb.KV/Txn", &txn.request.base,
                            &etcd__txn_response__descriptor, give_up_at(bid), answered, bid);
    return bid->rpc != NULL;
}

/* --- Answers ---------------------------------------------------------------------------------- */

/* What an answer said of the queue. */
struct found {
    const Etcd__KeyValue *own, *leader, *before;
    bool crowded; /* Longer names were in the way. */
};

static void fill_own(const struct tn_etcd_bid *bid, const Etcd__KeyValue *own,
                     struct tn_line_view *view)
{
    struct tn_store_record record;

    tn_etcd_record(own, &record);
    view->own.order = view->own.token = (uint64_t)own->create_revision;
    view->changed = own->mod_revision != own->create_revision;
    view->sibling = record.term;
    view->whose = tn_secret_equal(&record.term, &bid->claim.term) ? TN_LINE_MINE : TN_LINE_SIBLINGS;
}

/* Keep what a watch and an answer need, and tell the recipe the rest. */
static void tell_view(struct tn_etcd_bid *bid, const struct found *found, uint64_t last,
                      struct tn_line_view *view)
{
    const Etcd__KeyValue *leader = found->leader;

    if (found->own != NULL)
        fill_own(bid, found->own, view);
    view->first = leader != NULL ? (uint64_t)leader->create_revision : 0;
    if (found->before != NULL) {
        view->before = (uint64_t)found->before->create_revision;
        tn_etcd_bid_key(found->before, bid->before_key);
    }
    tn_etcd_fill(bid->name, leader, last, &bid->leader);
    bid->leader_lease = leader != NULL ? leader->lease : 0;
    tn_etcd_bid_saw(bid, view);
}

static const Etcd__KeyValue *only_key(const Etcd__RangeResponse *range)
{
    return range != NULL && range->n_kvs > 0 ? range->kvs[0] : NULL;
}

static void hear_create(struct tn_etcd_bid *bid, const Etcd__TxnResponse *txn,
                        const struct tn_etcd_keys *keys)
{
    const Etcd__TxnResponse *inner = txn->n_responses > 0 ? txn->responses[0]->response_txn : NULL;
    const Etcd__TxnResponse *from = inner != NULL ? inner : txn;
    uint64_t revision = (uint64_t)txn->header->revision;
    struct tn_line_view view = { .revision = revision };
    struct found found = { 0 };

    if (txn->succeeded) { /* Nobody else was there: made, noted and seen in one step. */
        view.whose = TN_LINE_MINE;
        view.own = (struct tn_line_key) { revision, revision };
        view.first = revision;
        view.proved = true;
        tn_etcd_bid_saw(bid, &view);
        return;
    }
    /* Both variants answer with the leader second; first comes our key, or its creation. */
    found.own = only_key(tn_etcd_answer(from, 0));
    found.leader = tn_etcd_first(keys, tn_etcd_answer(from, 1), &found.crowded);
    bool created = inner != NULL && inner->succeeded;
    if (found.crowded && !bid->name->crowded) {
        bid->name->crowded = true;
        if (!created && tn_etcd_step(bid))
            return;
    }
    if (created) {
        const Etcd__RangeResponse *newest = tn_etcd_answer(from, 2);
        view.whose = TN_LINE_MINE;
        view.own = (struct tn_line_key) { revision, revision };
        for (size_t i = 0; newest != NULL && i < newest->n_kvs && found.before == NULL; i++)
            if (tn_etcd_is_bid(keys, newest->kvs[i]) &&
                (uint64_t)newest->kvs[i]->create_revision < revision)
                found.before = newest->kvs[i];
    }
    tell_view(bid, &found, 0, &view);
}

static void hear_look(struct tn_etcd_bid *bid, const Etcd__TxnResponse *txn,
                      const struct tn_etcd_keys *keys)
{
    struct tn_line_view view = { .revision = (uint64_t)txn->header->revision };
    struct found found = { .own = only_key(tn_etcd_answer(txn, 0)) };

    found.leader = tn_etcd_first(keys, tn_etcd_answer(txn, 1), &found.crowded);
    found.before = tn_etcd_first(keys, tn_etcd_answer(txn, 3), &found.crowded);
    if (found.crowded && !bid->name->crowded) {
        bid->name->crowded = true;
        if (tn_etcd_step(bid))
            return;
    }
    if (found.before == NULL && bid->claim.key.order != 0)
        found.before = found.leader;
    tell_view(bid, &found, tn_etcd_last(tn_etcd_answer(txn, 2)), &view);
}

static void hear_proof(struct tn_etcd_bid *bid, const Etcd__TxnResponse *txn)
{
    struct tn_line_proven proven = { .ours = txn->succeeded, .token = bid->claim.key.order };

    tn_etcd_bid_proved(bid, &proven);
}

static void answered(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_bid *bid = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;

    bid->rpc = NULL;
    if (reply->status != 0) {
        tn_etcd_bid_failed(bid, reply);
        return;
    }
    tn_etcd_keys(&keys, bid->name->store, bid->name->text, bid->session->lease);
    bid->revision = txn->header->revision;
    TN_ASSERT(bid->claim.request == bid->request);
    if (bid->claim.step == TN_LINE_CREATE)
        hear_create(bid, txn, &keys);
    else if (bid->claim.step == TN_LINE_LOOK)
        hear_look(bid, txn, &keys);
    else if (bid->claim.step == TN_LINE_PROVE)
        hear_proof(bid, txn);
    else
        tn_etcd_bid_removed(bid);
}
