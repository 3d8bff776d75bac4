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
struct etcd_step {
    struct tn_etcd_keys keys;
    Etcd__Compare compare, *compares[1];
    Etcd__RequestOp yes[OPS], no[OPS];
    Etcd__RequestOp *yes_list[OPS], *no_list[OPS];
    Etcd__RangeRequest ranges[OPS];
    Etcd__PutRequest puts[2];
    Etcd__DeleteRangeRequest removal;
    Etcd__TxnRequest request;
};

static void begin(struct etcd_step *txn, const struct tn_etcd_claim *claim)
{
    tn_etcd_keys(&txn->keys, claim->name->store, claim->name->base.text, claim->session->lease);
    txn->request = (Etcd__TxnRequest)ETCD__TXN_REQUEST__INIT;
    txn->request.compare = txn->compares;
    txn->request.success = txn->yes_list;
    txn->request.failure = txn->no_list;
    txn->compares[0] = &txn->compare;
}

/* Only if @key (or with @end, all of a range) was created at @created; 0: does not exist. */
static void only_if(struct etcd_step *txn, const char *key, const char *end, int64_t created)
{
    tn_etcd_compare(&txn->compare, key, end, created);
    txn->request.n_compare = 1;
}

static Etcd__RequestOp *then(struct etcd_step *txn)
{
    size_t at = txn->request.n_success++;

    TN_ASSERT(at < OPS);
    txn->yes[at] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
    return txn->yes_list[at] = &txn->yes[at];
}

static Etcd__RequestOp *otherwise(struct etcd_step *txn)
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
static void make_create(struct etcd_step *txn, struct etcd_step *inner,
                        const struct tn_etcd_claim *claim, const char *value, size_t len)
{
    int64_t limit = claim->name->crowded ? 0 : 1;

    begin(txn, claim);
    only_if(txn, txn->keys.base, txn->keys.end, 0);
    then(txn)->request_put = put(&txn->puts[0], txn->keys.own, value, len, claim->session->lease);
    then(txn)->request_put = put(&txn->puts[1], txn->keys.last, "", 0, 0);
    tn_etcd_get(&txn->ranges[0], txn->keys.own);
    tn_etcd_range(&txn->ranges[1], &txn->keys, true, limit, 0);
    if (!claim->base.behind) {
        otherwise(txn)->request_range = &txn->ranges[0];
        otherwise(txn)->request_range = &txn->ranges[1];
        return;
    }
    begin(inner, claim);
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
static void make_look(struct etcd_step *txn, const struct tn_etcd_claim *claim)
{
    int64_t limit = claim->name->crowded ? 0 : 1;
    int64_t created = (int64_t)claim->base.key.order;

    begin(txn, claim);
    tn_etcd_get(&txn->ranges[0], txn->keys.own);
    tn_etcd_range(&txn->ranges[1], &txn->keys, true, limit, 0);
    tn_etcd_get(&txn->ranges[2], txn->keys.last);
    tn_etcd_range(&txn->ranges[3], &txn->keys, false, limit, created - 1);
    for (size_t i = 0; i < (created > 1 ? 4 : 3); i++)
        then(txn)->request_range = &txn->ranges[i];
}

/* Our key is as we made it: neither made anew nor revoked. Note the token in the same step. */
static void make_proof(struct etcd_step *txn, const struct tn_etcd_claim *claim, char token[24])
{
    begin(txn, claim);
    tn_etcd_compare_same(&txn->compare, txn->keys.own, (int64_t)claim->base.key.order);
    txn->request.n_compare = 1;
    (void)snprintf(token, 24, "%" PRIu64, claim->base.key.order);
    then(txn)->request_put = put(&txn->puts[0], txn->keys.last, token, strlen(token), 0);
}

/* A session's keys on a name have one path; the revision tells them apart. */
static void make_removal(struct etcd_step *txn, const struct tn_etcd_claim *claim, uint64_t order)
{
    begin(txn, claim);
    only_if(txn, txn->keys.own, NULL, (int64_t)order);
    txn->removal = (Etcd__DeleteRangeRequest)ETCD__DELETE_RANGE_REQUEST__INIT;
    txn->removal.key.data = (uint8_t *)txn->keys.own;
    txn->removal.key.len = strlen(txn->keys.own);
    then(txn)->request_delete_range = &txn->removal;
}

static tenure_ns give_up_at(const struct tn_etcd_claim *claim)
{
    tenure_ns at = tn_etcd_now(claim->name->store) + claim->name->store->base.how.patience;

    for (const struct tn_store_req *req = claim->reqs.first; req != NULL; req = req->next)
        if (req->give_up_at < at)
            at = req->give_up_at;
    return at;
}

bool tn_etcd_step(struct tn_etcd_claim *claim)
{
    const struct tn_etcd_session *session = claim->session;
    struct etcd_step txn = { .request = ETCD__TXN_REQUEST__INIT }, inner = txn;
    char value[TN_ETCD_VALUE], token[24];
    size_t len = tn_etcd_value(value, session->label, session->label_len, &claim->base.term);

    switch (claim->base.step) {
    case TN_LINE_CREATE:
        make_create(&txn, &inner, claim, value, len);
        break;
    case TN_LINE_LOOK:
        make_look(&txn, claim);
        break;
    case TN_LINE_PROVE:
        make_proof(&txn, claim, token);
        break;
    case TN_LINE_REMOVE:
        make_removal(&txn, claim, claim->base.key.order);
        break;
    default:
        TN_ASSERT(claim->base.step == TN_LINE_CLEAR);
        make_removal(&txn, claim, claim->base.before);
    }
    claim->request = claim->base.request;
    claim->rpc =
        tn_etcd_txn(&claim->name->store->client, &txn.request, give_up_at(claim), answered, claim);
    return claim->rpc != NULL;
}

/* --- Answers ---------------------------------------------------------------------------------- */

/* What an answer said of the queue. */
struct etcd_found {
    const Etcd__KeyValue *own, *leader, *before;
    bool crowded; /* Longer names were in the way. */
};

static void fill_own(const struct tn_etcd_claim *claim, const Etcd__KeyValue *own,
                     struct tn_line_view *view)
{
    struct tn_store_record record;

    tn_etcd_record(own, &record);
    view->own.order = view->own.token = (uint64_t)own->create_revision;
    view->changed = own->mod_revision != own->create_revision;
    view->sibling = record.term;
    view->whose =
        tn_secret_equal(&record.term, &claim->base.term) ? TN_LINE_MINE : TN_LINE_SIBLINGS;
}

/* Keep what a watch and an answer need, and tell the recipe the rest. */
static void tell_view(struct tn_etcd_claim *claim, const struct etcd_found *found, uint64_t last,
                      struct tn_line_view *view)
{
    const Etcd__KeyValue *leader = found->leader;

    if (found->own != NULL)
        fill_own(claim, found->own, view);
    view->first = leader != NULL ? (uint64_t)leader->create_revision : 0;
    if (found->before != NULL) {
        view->before = (uint64_t)found->before->create_revision;
        tn_etcd_candidate_key(found->before, claim->before_key);
    }
    tn_etcd_fill(claim->name, leader, last, &claim->leader);
    claim->leader_lease = leader != NULL ? leader->lease : 0;
    tn_etcd_claim_saw(claim, view);
}

static const Etcd__KeyValue *only_key(const Etcd__RangeResponse *range)
{
    return range != NULL && range->n_kvs > 0 ? range->kvs[0] : NULL;
}

static void hear_create(struct tn_etcd_claim *claim, const Etcd__TxnResponse *txn,
                        const struct tn_etcd_keys *keys)
{
    const Etcd__TxnResponse *inner = txn->n_responses > 0 ? txn->responses[0]->response_txn : NULL;
    const Etcd__TxnResponse *from = inner != NULL ? inner : txn;
    uint64_t revision = (uint64_t)txn->header->revision;
    struct tn_line_view view = { .revision = revision };
    struct etcd_found found = { 0 };

    if (txn->succeeded) { /* Nobody else was there: made, noted and seen in one step. */
        view.whose = TN_LINE_MINE;
        view.own = (struct tn_line_key) { revision, revision };
        view.first = revision;
        view.proved = true;
        tn_etcd_claim_saw(claim, &view);
        return;
    }
    /* Both variants answer with the leader second; first comes our key, or its creation. */
    found.own = only_key(tn_etcd_answer(from, 0));
    found.leader = tn_etcd_first(keys, tn_etcd_answer(from, 1), &found.crowded);
    bool created = inner != NULL && inner->succeeded;
    if (found.crowded && !claim->name->crowded) {
        claim->name->crowded = true;
        if (!created && tn_etcd_step(claim))
            return;
    }
    if (created) {
        const Etcd__RangeResponse *newest = tn_etcd_answer(from, 2);
        view.whose = TN_LINE_MINE;
        view.own = (struct tn_line_key) { revision, revision };
        for (size_t i = 0; newest != NULL && i < newest->n_kvs && found.before == NULL; i++)
            if (tn_etcd_is_candidate(keys, newest->kvs[i]) &&
                (uint64_t)newest->kvs[i]->create_revision < revision)
                found.before = newest->kvs[i];
    }
    tell_view(claim, &found, 0, &view);
}

static void hear_look(struct tn_etcd_claim *claim, const Etcd__TxnResponse *txn,
                      const struct tn_etcd_keys *keys)
{
    struct tn_line_view view = { .revision = (uint64_t)txn->header->revision };
    struct etcd_found found = { .own = only_key(tn_etcd_answer(txn, 0)) };

    found.leader = tn_etcd_first(keys, tn_etcd_answer(txn, 1), &found.crowded);
    found.before = tn_etcd_first(keys, tn_etcd_answer(txn, 3), &found.crowded);
    if (found.crowded && !claim->name->crowded) {
        claim->name->crowded = true;
        if (tn_etcd_step(claim))
            return;
    }
    if (found.before == NULL && claim->base.key.order != 0)
        found.before = found.leader;
    tell_view(claim, &found, tn_etcd_last(tn_etcd_answer(txn, 2)), &view);
}

static void hear_proof(struct tn_etcd_claim *claim, const Etcd__TxnResponse *txn)
{
    struct tn_line_proven proven = { .ours = txn->succeeded, .token = claim->base.key.order };

    tn_etcd_claim_proved(claim, &proven);
}

static void answered(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_claim *claim = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;

    claim->rpc = NULL;
    if (reply->status != 0) {
        tn_etcd_claim_failed(claim, reply);
        return;
    }
    tn_etcd_keys(&keys, claim->name->store, claim->name->base.text, claim->session->lease);
    claim->revision = txn->header->revision;
    TN_ASSERT(claim->base.request == claim->request);
    if (claim->base.step == TN_LINE_CREATE)
        hear_create(claim, txn, &keys);
    else if (claim->base.step == TN_LINE_LOOK)
        hear_look(claim, txn, &keys);
    else if (claim->base.step == TN_LINE_PROVE)
        hear_proof(claim, txn);
    else
        tn_etcd_claim_removed(claim);
}
