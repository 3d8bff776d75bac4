/* bids.c - one term's way through a name's queue; store.h has the states.
 *
 * Happy path: one transaction creates the key if the name is empty, and that is a grant. Otherwise
 * it creates the key behind the others; then only the key before ours is watched (and our own, lest
 * we wait without a place). When that one is gone we look again, and when we are first, a last
 * transaction makes sure that our key is still there and notes the token: only then is it a grant.
 * What can fail: the lease may be gone, which ends the session; an answer may be missing, and then
 * the same transaction says what became of it, because the key's value names the term. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/etcd/store.h"

#define GO_ON_AFTER TN_MS(250)

enum { TRIES = 4, OPS = 4 };

static void acquire(struct tn_etcd_task *task);
static void look(struct tn_etcd_task *task);

/* --- State ------------------------------------------------------------------------------------ */

static void set_state(struct tn_etcd_bid *bid, enum tn_etcd_bid_state state)
{
    if (bid->state == TN_BID_HELD)
        bid->session->held--;
    if (state == TN_BID_HELD)
        bid->session->held++;
    bid->revoked = bid->revoked && state == TN_BID_HELD;
    bid->state = state;
}

static void stop_watches(struct tn_etcd_bid *bid)
{
    tn_etcd_watch_stop(&bid->own);
    tn_etcd_watch_stop(&bid->before);
}

static void unlink_bid(struct tn_etcd_bid *bid)
{
    struct tn_etcd_bid **at = &bid->name->bids;

    while (*at != bid)
        at = &(*at)->next;
    *at = bid->next;
}

/* Free, with what waits for it: the session has ended, or the store is closed. */
void tn_etcd_bid_free(struct tn_etcd_bid *bid)
{
    struct tn_etcd_name *name = bid->name;
    struct tn_etcd_task *task = bid->task;
    struct tn_store_req *req = bid->queue;

    set_state(bid, TN_BID_DEAD);
    stop_watches(bid);
    unlink_bid(bid);
    if (task != NULL) {
        tn_etcd_cancel(task->rpc);
        task->bid = NULL;
        if (task->req != NULL)
            task->req->answer = TN_ANSWER_GONE;
        tn_etcd_task_end(task);
    }
    while (req != NULL) {
        struct tn_store_req *next = req->next;
        req->answer = TN_ANSWER_GONE;
        req->done(req);
        req = next;
    }
    free(bid);
    tn_etcd_name_free_if_unused(name);
}

/* Remembered for a while, so that what arrives late for it is known to be late. */
static void bury(struct tn_etcd_bid *bid, bool held)
{
    struct tn_etcd_bid *oldest = NULL;
    unsigned dead = 0;

    if (!held)
        bid->created = 0;
    stop_watches(bid);
    set_state(bid, TN_BID_DEAD);
    bid->due_at = TN_NEVER;
    for (struct tn_etcd_bid *each = bid->name->bids; each != NULL; each = each->next) {
        if (each->session != bid->session || each->state != TN_BID_DEAD || each->task != NULL ||
            each == bid)
            continue;
        dead++;
        oldest = each; /* New ones are put in front. */
    }
    if (dead >= TN_ETCD_DEAD)
        tn_etcd_bid_free(oldest);
}

static void go_on_later(struct tn_etcd_bid *bid)
{
    bid->due_at = tn_etcd_now(bid->name->store) + GO_ON_AFTER;
    tn_etcd_client_wake(&bid->name->store->client);
}

/* --- Ends of tasks ---------------------------------------------------------------------------- */

/* Nobody's step has failed: try again, as long as there is something to wait for. */
static void fail_task(struct tn_etcd_task *task, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_bid *bid = task->bid;

    if (reply->grpc == TN_GRPC_NOT_FOUND) { /* "requested lease not found" */
        struct tn_etcd_store *store = task->store;
        struct tn_etcd_session *session = bid->session;
        bid->task = NULL;
        task->bid = NULL;
        tn_etcd_session_drop(store, session);
        if (task->req != NULL)
            task->req->answer = TN_ANSWER_GONE;
        tn_etcd_task_end(task);
        return;
    }
    if (task->req == NULL && reply->status != TENURE_E_CLOSED)
        go_on_later(bid);
    tn_etcd_task_fail(task, reply);
}

static void end_with(struct tn_etcd_task *task, enum tn_answer answer)
{
    if (task->req != NULL)
        task->req->answer = answer;
    tn_etcd_task_end(task);
}

/* Its holder is to stop, and to give it back. */
static void tell_revoked(struct tn_etcd_bid *bid)
{
    const struct tn_store_open *how = &bid->name->store->base.how;
    char name[TN_NAME_MAX + 1];

    bid->revoked = true;
    memcpy(name, bid->name->text, sizeof name);
    how->host->revoked(how->arg, name, (uint64_t)bid->created);
}

static void watch_own(struct tn_etcd_bid *bid, bool deletes, int64_t revision)
{
    struct tn_etcd_keys keys;

    tn_etcd_keys(&keys, bid->name->store, bid->name->text, bid->session->lease);
    /* Without memory to watch, a deletion is heard of later: by the leader's watch. */
    int rc = tn_etcd_watch_start(&bid->name->store->client, &bid->own, keys.own, false, deletes,
                                 revision);
    (void)rc;
}

/* The key was first at @revision. */
static void hold(struct tn_etcd_bid *bid, int64_t revision)
{
    tn_etcd_watch_stop(&bid->before);
    if (bid->state != TN_BID_HELD || bid->own.client == NULL)
        watch_own(bid, false, revision + 1);
    set_state(bid, TN_BID_HELD);
    if ((uint64_t)bid->created > bid->name->last_token)
        bid->name->last_token = (uint64_t)bid->created;
}

static void grant(struct tn_etcd_task *task, int64_t revision)
{
    struct tn_etcd_bid *bid = task->bid;
    const struct tn_store_open *how = &task->store->base.how;
    struct tn_store_record record = { .held = true,
                                      .token = (uint64_t)bid->created,
                                      .term = bid->term,
                                      .label_len = bid->session->label_len };

    memcpy(record.label, bid->session->label, bid->session->label_len);
    hold(bid, revision);
    if (task->req != NULL) {
        task->req->record = record;
        end_with(task, TN_ANSWER_GRANTED);
        return;
    }
    struct tn_secret term = bid->term;
    char name[TN_NAME_MAX + 1];
    memcpy(name, bid->name->text, sizeof name);
    end_with(task, TN_ANSWER_GRANTED);
    how->host->granted(how->arg, name, &term, record.token);
}

/* Not our turn; @leader is who has it. */
static void end_waiting(struct tn_etcd_task *task, const Etcd__KeyValue *leader)
{
    struct tn_etcd_bid *bid = task->bid;

    if (task->req == NULL) {
        tn_etcd_task_end(task);
        return;
    }
    tn_etcd_fill(bid->name, leader, 0, &task->req->record);
    task->req->answer = bid->waits ? TN_ANSWER_QUEUED : TN_ANSWER_HELD;
    if (bid->waits || leader == NULL)
        tn_etcd_task_end(task);
    else
        tn_etcd_add_ttl(task, leader->lease);
}

/* --- Transactions ----------------------------------------------------------------------------- */

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

/* --- Taking a place --------------------------------------------------------------------------- */

/* What an answer said of the queue. */
struct view {
    const Etcd__KeyValue *own, *leader, *before;
    int64_t revision;
    bool crowded; /* Longer names were in the way. */
};

static void confirmed(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
    } else if (txn->succeeded) {
        grant(task, txn->header->revision);
    } else { /* Somebody has deleted or revoked our key, or the lease has ended. */
        look(task);
    }
}

/* Our key is the first. Make sure that it is as we made it, for leading without a key is what this
 * must never do, and note the token in the same step. */
static void confirm(struct tn_etcd_task *task)
{
    struct tn_etcd_bid *bid = task->bid;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT };
    char token[24];

    begin(&txn, bid);
    tn_etcd_compare_same(&txn.compare, txn.keys.own, bid->created);
    txn.request.n_compare = 1;
    (void)snprintf(token, sizeof token, "%" PRId64, bid->created);
    then(&txn)->request_put = put(&txn.puts[0], txn.keys.last, token, strlen(token), 0);
    tn_etcd_task_txn(task, &txn.request, confirmed);
}

static void queue_up(struct tn_etcd_task *task, const struct view *view)
{
    struct tn_etcd_bid *bid = task->bid;
    struct tn_etcd_keys keys;
    char before[TN_ETCD_KEY];
    bool watched = true;

    tn_etcd_keys(&keys, task->store, bid->name->text, bid->session->lease);
    set_state(bid, TN_BID_QUEUED);
    bid->due_at = TN_NEVER;
    if (bid->own.client == NULL)
        watched = tn_etcd_watch_start(&task->store->client, &bid->own, keys.own, false, true,
                                      view->revision + 1) == 0;
    if (view->before != NULL) {
        tn_etcd_bid_key(view->before, before);
        watched = tn_etcd_watch_start(&task->store->client, &bid->before, before, false, true,
                                      view->revision + 1) == 0 &&
                  watched;
    }
    if (!watched)
        go_on_later(bid);
    end_waiting(task, view->leader);
}

static void stepped_back(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
        return;
    }
    task->bid->created = 0;
    set_state(task->bid, TN_BID_NEW);
    end_with(task, TN_ANSWER_HELD);
}

static void delete_own(struct tn_etcd_task *task, tn_etcd_answered *answered)
{
    struct tn_etcd_bid *bid = task->bid;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT };

    begin(&txn, bid);
    only_if(&txn, txn.keys.own, NULL, bid->created);
    txn.removal = (Etcd__DeleteRangeRequest)ETCD__DELETE_RANGE_REQUEST__INIT;
    txn.removal.key.data = (uint8_t *)txn.keys.own;
    txn.removal.key.len = strlen(txn.keys.own);
    then(&txn)->request_delete_range = &txn.removal;
    tn_etcd_task_txn(task, &txn.request, answered);
}

static void lost_place(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
        return;
    }
    stop_watches(task->bid);
    task->bid->created = 0;
    set_state(task->bid, TN_BID_NEW);
    acquire(task);
}

/* Our key was revoked. A term that leads is over, whatever its holder asks; one that has not led
 * yet, because nobody had told it that its turn has come, takes another place. */
static void yield(struct tn_etcd_task *task, const struct view *view)
{
    if (task->bid->state != TN_BID_HELD) {
        delete_own(task, lost_place);
        return;
    }
    if (task->req != NULL)
        tn_etcd_fill(task->bid->name, view->leader, 0, &task->req->record);
    end_with(task, TN_ANSWER_HELD);
}

/* Our key is there, created at bid->created: what follows from who is before it. */
static void judge(struct tn_etcd_task *task, const struct view *view)
{
    struct tn_etcd_bid *bid = task->bid;
    bool first = view->leader != NULL && view->leader->create_revision == bid->created;

    if (first && view->leader->mod_revision != bid->created) {
        yield(task, view);
    } else if (first && bid->state == TN_BID_HELD) {
        grant(task, view->revision); /* Asked again. */
    } else if (first) {
        confirm(task);
    } else if (view->crowded) {
        look(task);
    } else if (!bid->waits && task->created != 0) { /* Took a place only to see: leave it. */
        tn_etcd_fill(bid->name, view->leader, 0, &task->req->record);
        delete_own(task, stepped_back);
    } else if (view->before == NULL && bid->before.client == NULL) {
        look(task);
    } else {
        queue_up(task, view);
    }
}

static bool is_dead(const struct tn_etcd_bid *bid, const struct tn_secret *term)
{
    for (const struct tn_etcd_bid *each = bid->name->bids; each != NULL; each = each->next)
        if (each->session == bid->session && each->state == TN_BID_DEAD &&
            tn_secret_equal(&each->term, term))
            return true;
    return false;
}

static void cleared(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    task->rpc = NULL;
    if (reply->status != 0)
        fail_task(task, reply);
    else
        acquire(task);
}

/* The key is that of another term of this session. If that term is over - its acquire came late,
 * after its release - the key goes; otherwise we wait for it to go. */
static void wait_for_own(struct tn_etcd_task *task, const struct view *view)
{
    struct tn_etcd_bid *bid = task->bid;
    struct tn_store_record other;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT };

    begin(&txn, bid);
    tn_etcd_record(view->own, &other);
    if (is_dead(bid, &other.term)) {
        only_if(&txn, txn.keys.own, NULL, view->own->create_revision);
        txn.removal = (Etcd__DeleteRangeRequest)ETCD__DELETE_RANGE_REQUEST__INIT;
        txn.removal.key.data = (uint8_t *)txn.keys.own;
        txn.removal.key.len = strlen(txn.keys.own);
        then(&txn)->request_delete_range = &txn.removal;
        tn_etcd_task_txn(task, &txn.request, cleared);
        return;
    }
    bid->created = 0;
    set_state(bid, bid->waits ? TN_BID_BLOCKED : TN_BID_NEW);
    if (bid->waits && tn_etcd_watch_start(&task->store->client, &bid->own, txn.keys.own, false,
                                          true, view->revision + 1) < 0)
        go_on_later(bid);
    end_waiting(task, view->leader != NULL ? view->leader : view->own);
}

/* What the transaction of acquire() has found or made. */
static void read_view(struct tn_etcd_task *task, const Etcd__TxnResponse *txn, struct view *view)
{
    struct tn_etcd_bid *bid = task->bid;
    struct tn_etcd_keys keys;
    const Etcd__TxnResponse *inner = txn->n_responses > 0 ? txn->responses[0]->response_txn : NULL;
    const Etcd__TxnResponse *from = inner != NULL ? inner : txn;

    *view = (struct view) { .revision = txn->header->revision };
    tn_etcd_keys(&keys, task->store, bid->name->text, bid->session->lease);
    /* Both variants answer with the leader second; first comes our key, or its creation. */
    const Etcd__RangeResponse *own = tn_etcd_answer(from, 0);
    view->leader = tn_etcd_first(&keys, tn_etcd_answer(from, 1), &view->crowded);
    if (own != NULL && own->n_kvs > 0)
        view->own = own->kvs[0];
    if (inner == NULL || !inner->succeeded)
        return;
    bid->created = view->revision;
    const Etcd__RangeResponse *newest = tn_etcd_answer(from, 2);
    for (size_t i = 0; newest != NULL && i < newest->n_kvs && view->before == NULL; i++)
        if (tn_etcd_is_bid(&keys, newest->kvs[i]) && newest->kvs[i]->create_revision < bid->created)
            view->before = newest->kvs[i];
}

static void acquired(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_etcd_bid *bid = task->bid;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_store_record record;
    struct view view;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
        return;
    }
    if (txn->succeeded) { /* Nobody else was there: made, noted and seen in one step. */
        bid->created = txn->header->revision;
        grant(task, bid->created);
        return;
    }
    int64_t before = bid->created;
    bid->created = 0;
    read_view(task, txn, &view);
    if (bid->created != 0) {
        judge(task, &view); /* Just made. */
    } else if (view.own == NULL && !view.crowded && view.leader != NULL) {
        set_state(bid, TN_BID_NEW);
        end_waiting(task, view.leader); /* Did not want to wait. */
    } else if (view.own == NULL) {
        task->created = 1; /* Only longer names are there: take a place and see. */
        acquire(task);
    } else {
        tn_etcd_record(view.own, &record);
        if (!tn_secret_equal(&record.term, &bid->term)) {
            wait_for_own(task, &view);
            return;
        }
        bid->created = view.own->create_revision;
        if (bid->created != before && bid->state == TN_BID_HELD)
            set_state(bid, TN_BID_NEW);
        judge(task, &view);
    }
}

/* IF the name is empty THEN our key, and the token noted ELSE
 *   wait:    IF our key is not there THEN our key, the leader, the newest two
 *                                    ELSE our key, the leader
 *   no wait: our key, the leader */
static void acquire(struct tn_etcd_task *task)
{
    struct tn_etcd_bid *bid = task->bid;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT }, inner = txn;
    char value[TN_ETCD_VALUE];
    int64_t limit = bid->name->crowded || task->created != 0 ? 0 : 1;
    size_t len = tn_etcd_value(value, bid->session->label, bid->session->label_len, &bid->term);

    if (task->tries++ >= TRIES) {
        struct tn_etcd_reply reply = { .status = TENURE_E_UNAVAILABLE,
                                       .grpc = TN_GRPC_LOST,
                                       .text = "etcd: the key is deleted again and again" };
        fail_task(task, &reply);
        return;
    }
    begin(&txn, bid);
    only_if(&txn, txn.keys.base, txn.keys.end, 0);
    then(&txn)->request_put = put(&txn.puts[0], txn.keys.own, value, len, bid->session->lease);
    then(&txn)->request_put = put(&txn.puts[1], txn.keys.last, "", 0, 0);
    tn_etcd_get(&txn.ranges[0], txn.keys.own);
    tn_etcd_range(&txn.ranges[1], &txn.keys, true, limit, 0);
    if (!bid->waits && task->created == 0) {
        otherwise(&txn)->request_range = &txn.ranges[0];
        otherwise(&txn)->request_range = &txn.ranges[1];
    } else {
        begin(&inner, bid);
        only_if(&inner, txn.keys.own, NULL, 0);
        tn_etcd_range(&txn.ranges[2], &txn.keys, false, limit * 2, 0);
        then(&inner)->request_put = &txn.puts[0];
        then(&inner)->request_range = &txn.ranges[1];
        then(&inner)->request_range = &txn.ranges[2];
        otherwise(&inner)->request_range = &txn.ranges[0];
        otherwise(&inner)->request_range = &txn.ranges[1];
        otherwise(&txn)->request_txn = &inner.request;
    }
    tn_etcd_task_txn(task, &txn.request, acquired);
}

static void looked(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_etcd_bid *bid = task->bid;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct view view = { 0 };
    struct tn_etcd_keys keys;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
        return;
    }
    tn_etcd_keys(&keys, task->store, bid->name->text, bid->session->lease);
    const Etcd__RangeResponse *own = tn_etcd_answer(txn, 0);
    view.revision = txn->header->revision;
    view.leader = tn_etcd_first(&keys, tn_etcd_answer(txn, 1), &view.crowded);
    view.before = tn_etcd_first(&keys, tn_etcd_answer(txn, 2), &view.crowded);
    if (own == NULL || own->n_kvs == 0 || own->kvs[0]->create_revision != bid->created) {
        stop_watches(bid); /* We have lost our place: take another. */
        bid->created = 0;
        set_state(bid, TN_BID_NEW);
        acquire(task);
    } else if (view.crowded && !bid->name->crowded) {
        bid->name->crowded = true;
        look(task);
    } else {
        view.crowded = false;
        tn_etcd_watch_stop(&bid->before);
        view.before = view.before != NULL ? view.before : view.leader;
        judge(task, &view);
    }
}

/* Where are we? */
static void look(struct tn_etcd_task *task)
{
    struct tn_etcd_bid *bid = task->bid;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT };
    int64_t limit = bid->name->crowded ? 0 : 1;

    begin(&txn, bid);
    tn_etcd_get(&txn.ranges[0], txn.keys.own);
    tn_etcd_range(&txn.ranges[1], &txn.keys, true, limit, 0);
    tn_etcd_range(&txn.ranges[2], &txn.keys, false, limit, bid->created - 1);
    for (size_t i = 0; i < 3; i++)
        then(&txn)->request_range = &txn.ranges[i];
    tn_etcd_task_txn(task, &txn.request, looked);
}

/* --- Giving it back --------------------------------------------------------------------------- */

static void deleted(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_etcd_bid *bid = task->bid;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
        return;
    }
    /* If it was not there any more, it is free all the same. */
    bury(bid, task->created != 0);
    end_with(task, TN_ANSWER_RELEASED);
}

static void checked_session(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_etcd_bid *bid = task->bid;
    enum tn_answer answer = task->created != 0 ? TN_ANSWER_RELEASED : TN_ANSWER_STALE;

    task->rpc = NULL;
    const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;
    if (reply->status != 0 && reply->grpc != TN_GRPC_NOT_FOUND) {
        fail_task(task, reply);
    } else if (reply->status != 0 || response->ttl <= 0) {
        struct tn_etcd_reply gone = { .status = TENURE_E_EXPIRED, .grpc = TN_GRPC_NOT_FOUND };
        fail_task(task, &gone);
    } else {
        bury(bid, false);
        end_with(task, answer);
    }
}

/* We have nothing under that token. Was it ever ours? */
static void judge_stranger(struct tn_etcd_task *task, const Etcd__KeyValue *leader, uint64_t last)
{
    Etcd__LeaseTimeToLiveRequest request = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    uint64_t token = task->req->op.token;

    tn_etcd_fill(task->bid->name, leader, last, &task->req->record);
    if (token != 0 && leader != NULL && (uint64_t)leader->create_revision == token) {
        bury(task->bid, false);
        end_with(task, TN_ANSWER_DENIED);
        return;
    }
    task->created = token == 0 || (leader == NULL && last == token);
    request.id = task->bid->session->lease;
    tn_etcd_task_call(task, "/etcdserverpb.Lease/LeaseTimeToLive", &request.base,
                      &etcd__lease_time_to_live_response__descriptor, checked_session);
}

static void found(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_etcd_bid *bid = task->bid;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;
    struct tn_store_record record;
    bool crowded = false;

    task->rpc = NULL;
    if (reply->status != 0) {
        fail_task(task, reply);
        return;
    }
    tn_etcd_keys(&keys, task->store, bid->name->text, bid->session->lease);
    const Etcd__RangeResponse *own = tn_etcd_answer(txn, 0);
    const Etcd__KeyValue *leader = tn_etcd_first(&keys, tn_etcd_answer(txn, 1), &crowded);
    if (own != NULL && own->n_kvs > 0) {
        tn_etcd_record(own->kvs[0], &record);
        if (tn_secret_equal(&record.term, &bid->term)) {
            bid->created = own->kvs[0]->create_revision;
            task->created = leader != NULL && leader->create_revision == bid->created;
            if (task->req->op.token == 0 || task->req->op.token == record.token)
                delete_own(task, deleted);
            else
                end_with(task, TN_ANSWER_STALE);
            return;
        }
    }
    judge_stranger(task, leader, tn_etcd_last(tn_etcd_answer(txn, 2)));
}

static void release(struct tn_etcd_task *task)
{
    struct tn_etcd_bid *bid = task->bid;
    struct txn txn = { .request = ETCD__TXN_REQUEST__INIT };
    uint64_t token = task->req->op.token;

    stop_watches(bid);
    bid->due_at = TN_NEVER;
    if (bid->state == TN_BID_DEAD && bid->created != 0) {
        bool same = token == 0 || token == (uint64_t)bid->created;
        end_with(task, same ? TN_ANSWER_RELEASED : TN_ANSWER_STALE);
        return;
    }
    if (bid->created != 0) {
        task->created = bid->state == TN_BID_HELD;
        if (token == 0 || token == (uint64_t)bid->created)
            delete_own(task, deleted);
        else
            end_with(task, TN_ANSWER_STALE);
        return;
    }
    /* Another process took it, or nobody knows what became of the acquire. */
    begin(&txn, bid);
    tn_etcd_get(&txn.ranges[0], txn.keys.own);
    tn_etcd_range(&txn.ranges[1], &txn.keys, true, 0, 0);
    tn_etcd_get(&txn.ranges[2], txn.keys.last);
    for (size_t i = 0; i < 3; i++)
        then(&txn)->request_range = &txn.ranges[i];
    tn_etcd_task_txn(task, &txn.request, found);
}

/* --- Going on by itself ----------------------------------------------------------------------- */

static void go_on(struct tn_etcd_bid *bid)
{
    struct tn_etcd_task *task;

    if (bid->task != NULL || bid->name->store->base.closing)
        return; /* What is under way will see it. */
    bid->due_at = TN_NEVER;
    task = tn_etcd_task_new(bid->name->store, NULL);
    if (task == NULL) {
        go_on_later(bid);
        return;
    }
    task->bid = bid;
    bid->task = task;
    if (bid->created != 0)
        look(task);
    else
        acquire(task);
}

static void own_fired(struct tn_etcd_watch *watch)
{
    struct tn_etcd_bid *bid = watch->arg;

    if (bid->state == TN_BID_HELD && watch->put_at != 0) {
        watch_own(bid, true, watch->put_at + 1);
        tell_revoked(bid);
    } else if (bid->state == TN_BID_HELD) { /* The next renewal tells of one lease less. */
        set_state(bid, TN_BID_NEW);
        bid->created = 0;
    } else if (bid->state == TN_BID_QUEUED || bid->state == TN_BID_BLOCKED) {
        go_on(bid);
    }
}

static void before_fired(struct tn_etcd_watch *watch)
{
    struct tn_etcd_bid *bid = watch->arg;

    if (bid->state == TN_BID_QUEUED)
        go_on(bid);
}

/* --- Requests --------------------------------------------------------------------------------- */

static struct tn_etcd_bid *find_bid(struct tn_etcd_name *name, struct tn_etcd_session *session,
                                    const struct tn_secret *term)
{
    for (struct tn_etcd_bid *bid = name->bids; bid != NULL; bid = bid->next)
        if (bid->session == session && tn_secret_equal(&bid->term, term))
            return bid;
    struct tn_etcd_bid *bid = calloc(1, sizeof *bid);
    if (bid == NULL)
        return NULL;
    bid->name = name;
    bid->session = session;
    bid->term = *term;
    bid->due_at = TN_NEVER;
    bid->queue_end = &bid->queue;
    bid->own.fired = own_fired;
    bid->before.fired = before_fired;
    bid->own.arg = bid->before.arg = bid;
    bid->next = name->bids;
    name->bids = bid;
    return bid;
}

static void run(struct tn_etcd_bid *bid, struct tn_store_req *req)
{
    struct tn_etcd_task *task = tn_etcd_task_new(bid->name->store, req);

    if (task == NULL)
        return;
    task->bid = bid;
    bid->task = task;
    if (req->op.kind == TN_OP_RELEASE) {
        release(task);
        return;
    }
    bid->waits = req->op.wait;
    if (bid->state == TN_BID_DEAD && bid->created != 0) {
        end_with(task, TN_ANSWER_STALE); /* Late: this term is over. */
        return;
    }
    if (bid->state == TN_BID_DEAD)
        set_state(bid, TN_BID_NEW); /* It had left the queue, and comes back. */
    acquire(task);
}

void tn_etcd_bid_ask(struct tn_etcd_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    struct tn_secret term;

    tn_secret_hash(&op->term, 't', &term);
    struct tn_etcd_session *session = tn_etcd_session_get(store, &op->session);
    struct tn_etcd_name *name = tn_etcd_name_find(store, op->name, op->name_len, true);
    struct tn_etcd_bid *bid =
        name != NULL && session != NULL ? find_bid(name, session, &term) : NULL;
    if (bid == NULL) {
        tn_req_fail(req, TENURE_E_NOMEM, "out of memory");
        req->done(req);
        return;
    }
    if (bid->task != NULL && bid->task->req == NULL) { /* Ours gives way; asking again is safe. */
        tn_etcd_cancel(bid->task->rpc);
        bid->task->bid = NULL;
        tn_etcd_task_end(bid->task);
        bid->task = NULL;
    }
    if (bid->task == NULL) {
        run(bid, req);
        return;
    }
    req->next = NULL;
    *bid->queue_end = req;
    bid->queue_end = &req->next;
}

void tn_etcd_bid_adopt(struct tn_etcd_store *store, const char *text, const Etcd__KeyValue *leader,
                       int64_t revision)
{
    struct tn_etcd_session *session = leader != NULL ? store->sessions : NULL;
    struct tn_store_record record;
    struct tn_etcd_keys keys;

    for (; session != NULL; session = session->next) {
        tn_etcd_keys(&keys, store, text, session->lease);
        if (tn_etcd_key_is(leader, keys.own))
            break;
    }
    if (session == NULL)
        return;
    tn_etcd_record(leader, &record);
    struct tn_etcd_name *name = tn_etcd_name_find(store, text, strlen(text), true);
    struct tn_etcd_bid *bid = name != NULL ? find_bid(name, session, &record.term) : NULL;
    /* One that is known, over, in line, or about to look by itself: that is for those steps, which
     * also tell of a grant. */
    if (bid == NULL || bid->task != NULL || bid->state != TN_BID_NEW || bid->due_at != TN_NEVER)
        return;
    bid->created = leader->create_revision;
    hold(bid, revision);
    if (leader->mod_revision != leader->create_revision)
        tell_revoked(bid);
}

void tn_etcd_bid_next(struct tn_etcd_bid *bid)
{
    struct tn_store_req *req = bid->queue;

    if (bid->task != NULL)
        return;
    if (req != NULL) {
        bid->queue = req->next;
        if (bid->queue == NULL)
            bid->queue_end = &bid->queue;
        run(bid, req);
    } else if (bid->state == TN_BID_NEW && bid->due_at == TN_NEVER) {
        tn_etcd_bid_free(bid);
    }
}

void tn_etcd_bid_tick(struct tn_etcd_bid *bid, tenure_ns now)
{
    tenure_ns real = tn_etcd_now(bid->name->store);

    while (bid->queue != NULL && bid->queue->give_up_at <= real) {
        struct tn_store_req *req = bid->queue;
        bid->queue = req->next;
        if (bid->queue == NULL)
            bid->queue_end = &bid->queue;
        tn_req_fail(req, TENURE_E_UNAVAILABLE, "etcd: an earlier request has no answer yet");
        req->done(req);
    }
    if (bid->due_at <= now && bid->task == NULL)
        go_on(bid);
}
