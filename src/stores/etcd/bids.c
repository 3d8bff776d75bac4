/* bids.c - terms in a name's queue: requests and watches. The decisions are core/line.c's.
 *
 * Happy path: a request starts a goal of the recipe, the recipe asks for steps (steps.c), and its
 * answer is that of every request that waits for it.
 * What can fail: the lease may be gone, which ends the session; an answer may be missing, and then
 * the requests fail and a term in line looks again by itself. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/etcd/store.h"

#define GO_ON_AFTER TN_MS(250)

/* --- The book of bids ------------------------------------------------------------------------- */

static struct tn_etcd_bid *bid_of(struct tn_line_claim *claim)
{
    return (struct tn_etcd_bid *)(void *)claim; /* Its first member. */
}

static bool is_granted(const struct tn_etcd_bid *bid)
{
    return bid->claim.place == TN_LINE_HELD || bid->claim.place == TN_LINE_REVOKED;
}

static bool is_dead(const struct tn_etcd_bid *bid)
{
    return bid->claim.place == TN_LINE_LEFT || bid->claim.place == TN_LINE_OVER;
}

static void stop_watches(struct tn_etcd_bid *bid)
{
    tn_etcd_watch_stop(&bid->own);
    tn_etcd_watch_stop(&bid->before);
}

/* Take a request of @kind from those that wait; NULL: none. */
static struct tn_store_req *take_req(struct tn_etcd_bid *bid, enum tn_op_kind kind)
{
    for (struct tn_store_req **at = &bid->reqs; *at != NULL; at = &(*at)->next) {
        struct tn_store_req *req = *at;
        if (req->op.kind != kind)
            continue;
        *at = req->next;
        return req;
    }
    return NULL;
}

static void answer_reqs(struct tn_etcd_bid *bid, enum tn_op_kind kind, enum tn_answer answer)
{
    struct tn_store_req *req;

    while ((req = take_req(bid, kind)) != NULL) {
        req->answer = answer;
        req->done(req);
    }
}

/* Free, with what waits for it: the session has ended, or the store is closed. */
void tn_etcd_bid_free(struct tn_etcd_bid *bid)
{
    struct tn_etcd_name *name = bid->name;
    struct tn_etcd_bid **at = &name->bids;

    stop_watches(bid);
    tn_etcd_cancel(bid->rpc);
    tn_line_remove(&bid->claim);
    while (*at != bid)
        at = &(*at)->next;
    *at = bid->next;
    answer_reqs(bid, TN_OP_ACQUIRE, TN_ANSWER_GONE);
    answer_reqs(bid, TN_OP_RELEASE, TN_ANSWER_GONE);
    free(bid);
    tn_etcd_name_free_if_unused(name);
}

static void go_on_later(struct tn_etcd_bid *bid)
{
    bid->due_at = tn_etcd_now(bid->name->store) + GO_ON_AFTER;
    tn_etcd_client_wake(&bid->name->store->client);
}

static bool is_idle(const struct tn_etcd_bid *bid)
{
    return bid->reqs == NULL && bid->rpc == NULL && bid->claim.goal == TN_LINE_REST &&
           bid->claim.step == TN_LINE_NOTHING && bid->due_at == TN_NEVER;
}

/* A few terms that are over are remembered, so that what arrives late for them is known to be. */
static void forget_oldest(struct tn_etcd_bid *bid)
{
    struct tn_etcd_bid *oldest = NULL;
    unsigned dead = 0;

    for (struct tn_etcd_bid *each = bid->name->bids; each != NULL; each = each->next) {
        if (each->session != bid->session || !is_dead(each) || !is_idle(each) || each == bid)
            continue;
        dead++;
        oldest = each; /* New ones are put in front. */
    }
    if (dead >= TN_ETCD_DEAD)
        tn_etcd_bid_free(oldest);
}

/* --- The recipe's host ------------------------------------------------------------------------ */

static void watch_own(struct tn_etcd_bid *bid, bool deletes, int64_t revision)
{
    struct tn_etcd_keys keys;

    tn_etcd_keys(&keys, bid->name->store, bid->name->text, bid->session->lease);
    if (tn_etcd_watch_start(&bid->name->store->client, &bid->own, keys.own, false, deletes,
                            revision) < 0)
        go_on_later(bid);
}

/* The key before ours, and our own, lest we wait without a place. */
static void follow(struct tn_etcd_bid *bid)
{
    if (bid->own.client == NULL)
        watch_own(bid, true, bid->revision + 1);
    if (bid->claim.place == TN_LINE_BLOCKED)
        return;
    if (tn_etcd_watch_start(&bid->name->store->client, &bid->before, bid->before_key, false, true,
                            bid->revision + 1) < 0)
        go_on_later(bid);
}

static void step(void *arg, struct tn_line_claim *claim, enum tn_line_step what, uint64_t request)
{
    struct tn_etcd_bid *bid = bid_of(claim);

    (void)arg;
    (void)request;
    bid->due_at = TN_NEVER;
    if (what == TN_LINE_FOLLOW)
        follow(bid);
    else
        tn_etcd_watch_stop(&bid->before);
    if (what == TN_LINE_REMOVE)
        tn_etcd_watch_stop(&bid->own);
}

/* Our key was the first at bid->revision. */
static void hold(struct tn_etcd_bid *bid)
{
    tn_etcd_watch_stop(&bid->before);
    tn_etcd_watch_stop(&bid->own);
    watch_own(bid, false, bid->revision + 1);
    if (bid->claim.key.token > bid->name->last_token)
        bid->name->last_token = bid->claim.key.token;
}

static void grant(struct tn_etcd_bid *bid)
{
    const struct tn_store_open *how = &bid->name->store->base.how;
    struct tn_store_record record = { .held = true,
                                      .token = bid->claim.key.token,
                                      .term = bid->claim.term,
                                      .label_len = bid->session->label_len };
    bool asked = bid->reqs != NULL;

    memcpy(record.label, bid->session->label, bid->session->label_len);
    hold(bid);
    for (struct tn_store_req *req = bid->reqs; req != NULL; req = req->next)
        req->record = record;
    answer_reqs(bid, TN_OP_ACQUIRE, TN_ANSWER_GRANTED);
    if (!asked)
        how->host->granted(how->arg, bid->name->text, &record.term, record.token);
}

static void end_with_ttl(struct tn_etcd_bid *bid, struct tn_store_req *req)
{
    struct tn_etcd_task *task = tn_etcd_task_new(bid->name->store, req);

    req->answer = TN_ANSWER_HELD;
    if (task != NULL)
        tn_etcd_add_ttl(task, bid->leader_lease);
}

/* Not our turn; bid->leader is the record of the holder. */
static void end_waiting(struct tn_etcd_bid *bid, enum tn_answer answer)
{
    struct tn_store_req *req;

    while ((req = take_req(bid, TN_OP_ACQUIRE)) != NULL) {
        req->record = bid->leader;
        if (!req->op.wait) {
            end_with_ttl(bid, req);
            continue;
        }
        req->answer = answer;
        req->done(req);
    }
}

static void checked_session(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;
    bool gone = reply->status != 0 ? reply->grpc == TN_GRPC_NOT_FOUND : response->ttl <= 0;

    task->rpc = NULL;
    if (reply->status != 0 && !gone) {
        tn_etcd_task_fail(task, reply);
        return;
    }
    if (gone) {
        tn_etcd_session_drop(task->store,
                             tn_etcd_session_find(task->store, &task->req->op.session));
        task->req->answer = TN_ANSWER_GONE;
    }
    tn_etcd_task_end(task);
}

/* We have nothing under that token. Was it ever ours? */
static void answer_stranger(struct tn_etcd_bid *bid, struct tn_store_req *req)
{
    Etcd__LeaseTimeToLiveRequest request = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    uint64_t token = req->op.token;

    req->record = bid->leader;
    if (token != 0 && bid->leader.held && bid->leader.token == token) {
        req->answer = TN_ANSWER_DENIED;
        req->done(req);
        return;
    }
    struct tn_etcd_task *task = tn_etcd_task_new(bid->name->store, req);
    if (task == NULL)
        return;
    req->answer = token == 0 || (!bid->leader.held && bid->leader.token == token)
                      ? TN_ANSWER_RELEASED
                      : TN_ANSWER_STALE;
    request.id = bid->session->lease;
    tn_etcd_task_call(task, "/etcdserverpb.Lease/LeaseTimeToLive", &request.base,
                      &etcd__lease_time_to_live_response__descriptor, checked_session);
}

static void end_release(struct tn_etcd_bid *bid, const struct tn_line_answer *answer)
{
    struct tn_store_req *req;

    stop_watches(bid);
    answer_reqs(bid, TN_OP_ACQUIRE, TN_ANSWER_STALE);
    while (answer->stranger && (req = take_req(bid, TN_OP_RELEASE)) != NULL)
        answer_stranger(bid, req);
    answer_reqs(bid, TN_OP_RELEASE, answer->answer);
}

static void done(void *arg, struct tn_line_claim *claim, enum tn_line_goal goal,
                 const struct tn_line_answer *answer)
{
    struct tn_etcd_bid *bid = bid_of(claim);

    (void)arg;
    if (goal == TN_LINE_RELEASE && answer->answer == TN_ANSWER_STALE && !answer->stranger)
        answer_reqs(bid, TN_OP_RELEASE, TN_ANSWER_STALE);
    else if (goal == TN_LINE_RELEASE)
        end_release(bid, answer);
    else if (answer->answer == TN_ANSWER_GRANTED)
        grant(bid);
    else if (answer->answer == TN_ANSWER_STALE)
        answer_reqs(bid, TN_OP_ACQUIRE, TN_ANSWER_STALE);
    else
        end_waiting(bid, answer->answer);
}

/* A holder whose key is gone hears of it with the next renewal, which tells of one lease less. */
static void news(void *arg, struct tn_line_claim *claim, enum tn_line_news what)
{
    struct tn_etcd_bid *bid = bid_of(claim);
    const struct tn_store_open *how = &bid->name->store->base.how;

    (void)arg;
    if (what == TN_LINE_TOLD_REVOKED)
        how->host->revoked(how->arg, bid->name->text, claim->key.token);
}

static const struct tn_line_host line_host = { step, done, news };

void tn_etcd_line_init(struct tn_etcd_session *session)
{
    const struct tn_line_engine engine = { .atomic = true, .shared = true };

    tn_line_init(&session->line, &line_host, session, &engine);
}

/* --- Between the recipe and the steps --------------------------------------------------------- */

static void fail_reqs(struct tn_etcd_bid *bid, int status, const char *text)
{
    struct tn_store_req *req;

    while ((req = bid->reqs) != NULL) {
        bid->reqs = req->next;
        tn_req_finish(req, status, text);
    }
}

/* No answer to the step under way. Requests fail; a term in line goes on by itself. */
static void fail_step(struct tn_etcd_bid *bid, int status, const char *text)
{
    bool alone = bid->reqs == NULL || bid->claim.place != TN_LINE_OUT;

    (void)tn_line_failed(&bid->claim, bid->claim.request, true);
    fail_reqs(bid, status, text);
    tn_line_give_up(&bid->claim);
    if (alone && status != TENURE_E_CLOSED)
        go_on_later(bid);
}

/* After every call of the recipe: carry out the step that it has asked for. The bid may be gone
 * afterwards. */
static void settle(struct tn_etcd_bid *bid)
{
    tenure_ns now = tn_etcd_now(bid->name->store);

    while (bid->claim.step == TN_LINE_FOLLOW)
        tn_line_followed(&bid->claim, now, bid->claim.request, true);
    if (bid->rpc != NULL && bid->request != bid->claim.request) { /* The recipe has moved on. */
        tn_etcd_cancel(bid->rpc);
        bid->rpc = NULL;
    }
    if (bid->claim.step != TN_LINE_NOTHING && bid->rpc == NULL && !tn_etcd_step(bid))
        fail_step(bid, TENURE_E_NOMEM, "out of memory");
    if (!is_idle(bid))
        return;
    if (is_dead(bid))
        forget_oldest(bid);
    else if (bid->claim.place == TN_LINE_OUT)
        tn_etcd_bid_free(bid);
}

void tn_etcd_bid_saw(struct tn_etcd_bid *bid, const struct tn_line_view *view)
{
    tn_line_saw(&bid->claim, tn_etcd_now(bid->name->store), bid->request, view);
    if (is_granted(bid) && bid->own.client == NULL)
        watch_own(bid, false, bid->revision + 1);
    settle(bid);
}

void tn_etcd_bid_proved(struct tn_etcd_bid *bid, const struct tn_line_proven *proven)
{
    tn_line_proved(&bid->claim, tn_etcd_now(bid->name->store), bid->request, proven);
    settle(bid);
}

void tn_etcd_bid_removed(struct tn_etcd_bid *bid)
{
    tn_line_removed(&bid->claim, tn_etcd_now(bid->name->store), bid->request);
    settle(bid);
}

void tn_etcd_bid_failed(struct tn_etcd_bid *bid, const struct tn_etcd_reply *reply)
{
    if (reply->grpc == TN_GRPC_NOT_FOUND) { /* "requested lease not found" */
        tn_etcd_session_drop(bid->name->store, bid->session);
        return;
    }
    fail_step(bid, reply->status, reply->text);
    settle(bid);
}

/* --- News ------------------------------------------------------------------------------------- */

static void own_fired(struct tn_etcd_watch *watch)
{
    struct tn_etcd_bid *bid = watch->arg;
    tenure_ns now = tn_etcd_now(bid->name->store);

    if (bid->name->store->base.closing)
        return;
    if (is_granted(bid) && watch->put_at != 0) {
        watch_own(bid, true, watch->put_at + 1);
        tn_line_changed(&bid->claim, now, bid->claim.key.order);
    } else {
        tn_line_unwatched(&bid->claim, now);
    }
    settle(bid);
}

static void before_fired(struct tn_etcd_watch *watch)
{
    struct tn_etcd_bid *bid = watch->arg;

    if (bid->name->store->base.closing)
        return;
    tn_line_unwatched(&bid->claim, tn_etcd_now(bid->name->store));
    settle(bid);
}

/* --- Requests --------------------------------------------------------------------------------- */

static struct tn_etcd_bid *find_bid(struct tn_etcd_name *name, struct tn_etcd_session *session,
                                    const struct tn_secret *term)
{
    for (struct tn_etcd_bid *bid = name->bids; bid != NULL; bid = bid->next)
        if (bid->session == session && tn_secret_equal(&bid->claim.term, term))
            return bid;
    struct tn_etcd_bid *bid = calloc(1, sizeof *bid);
    if (bid == NULL)
        return NULL;
    tn_line_add(&session->line, &bid->claim, name, term);
    bid->name = name;
    bid->session = session;
    bid->due_at = TN_NEVER;
    bid->own.fired = own_fired;
    bid->before.fired = before_fired;
    bid->own.arg = bid->before.arg = bid;
    bid->next = name->bids;
    name->bids = bid;
    return bid;
}

void tn_etcd_bid_ask(struct tn_etcd_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    tenure_ns now = tn_etcd_now(store);
    struct tn_store_req **end;
    struct tn_secret term;

    tn_secret_hash(&op->term, 't', &term);
    struct tn_etcd_session *session = tn_etcd_session_get(store, &op->session);
    struct tn_etcd_name *name = tn_etcd_name_find(store, op->name, op->name_len, true);
    struct tn_etcd_bid *bid =
        name != NULL && session != NULL ? find_bid(name, session, &term) : NULL;
    if (bid == NULL) {
        tn_req_finish(req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    for (end = &bid->reqs; *end != NULL; end = &(*end)->next)
        ;
    req->next = NULL;
    *end = req;
    bid->due_at = TN_NEVER;
    if (op->kind == TN_OP_RELEASE)
        tn_line_release(&bid->claim, now, op->token);
    else
        tn_line_acquire(&bid->claim, now, op->wait);
    settle(bid);
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
    struct tn_line_key key = { record.token, record.token };
    /* One that is known, over, in line, or about to look by itself: that is for those steps, which
     * also tell of a grant. */
    if (bid == NULL || bid->due_at != TN_NEVER || bid->rpc != NULL)
        return;
    bid->revision = revision;
    if (tn_line_adopt(&bid->claim, tn_etcd_now(store), &key,
                      leader->mod_revision != leader->create_revision))
        hold(bid);
    settle(bid);
}

/* A request waits no longer than it wants to, whatever the step under way does. */
static void fail_overdue(struct tn_etcd_bid *bid, tenure_ns now)
{
    for (struct tn_store_req **at = &bid->reqs; *at != NULL;) {
        struct tn_store_req *req = *at;
        if (req->give_up_at > now) {
            at = &req->next;
            continue;
        }
        *at = req->next;
        tn_req_finish(req, TENURE_E_TIMEOUT, "etcd: no answer in time");
    }
}

void tn_etcd_bid_tick(struct tn_etcd_bid *bid, tenure_ns now)
{
    tenure_ns real = tn_etcd_now(bid->name->store);

    if (bid->rpc == NULL)
        fail_overdue(bid, real);
    if (bid->due_at > now)
        return;
    bid->due_at = TN_NEVER;
    if (is_granted(bid) && bid->own.client == NULL)
        tn_line_unwatched(&bid->claim, real);
    else
        tn_line_go_on(&bid->claim, real);
    settle(bid);
}
