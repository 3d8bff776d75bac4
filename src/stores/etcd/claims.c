/* claims.c - terms in a name's queue: requests and watches. The decisions are core/line.c's.
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

/* --- The book of claims ----------------------------------------------------------------------- */

static struct tn_etcd_claim *claim_of(struct tn_line_claim *base)
{
    return (struct tn_etcd_claim *)(void *)base; /* Its first member. */
}

static struct tn_etcd_claim *claim_in_all(struct tn_list_node *node)
{
    return TN_LIST_ENTRY(node, struct tn_etcd_claim, of_all);
}

/* NULL begins, and NULL is the end. */
static struct tn_etcd_claim *next_of_name(const struct tn_etcd_name *name,
                                          const struct tn_etcd_claim *claim)
{
    struct tn_list_node *next =
        claim != NULL ? tn_list_next(&name->claims, &claim->of_name) : tn_list_first(&name->claims);

    return next != NULL ? TN_LIST_ENTRY(next, struct tn_etcd_claim, of_name) : NULL;
}

static void stop_watches(struct tn_etcd_claim *claim)
{
    tn_etcd_watch_stop(&claim->own);
    tn_etcd_watch_stop(&claim->before);
}

/* Take a request of @kind from those that wait; NULL: none. */
static struct tn_store_req *take_req(struct tn_etcd_claim *claim, enum tn_op_kind kind)
{
    struct tn_req_list all = claim->reqs;
    struct tn_store_req *found = NULL;

    claim->reqs = (struct tn_req_list) { 0 };
    for (struct tn_store_req *req; (req = tn_req_take(&all)) != NULL;) {
        if (found == NULL && req->op.kind == kind)
            found = req;
        else
            tn_req_add(&claim->reqs, req);
    }
    return found;
}

static void answer_reqs(struct tn_etcd_claim *claim, enum tn_op_kind kind, enum tn_answer answer)
{
    struct tn_store_req *req;

    while ((req = take_req(claim, kind)) != NULL) {
        req->answer = answer;
        req->done(req);
    }
}

/* Free, with what waits for it: the session has ended, or the store is closed. */
static void free_claim(struct tn_etcd_claim *claim)
{
    struct tn_etcd_name *name = claim->name;
    struct tn_etcd_store *store = name->store;

    stop_watches(claim);
    tn_etcd_cancel(claim->rpc);
    tn_line_remove(&claim->base);
    if (store->claim_after == &claim->of_all)
        store->claim_after = tn_list_next(&store->claims, &claim->of_all);
    tn_list_remove(&claim->of_name);
    tn_list_remove(&claim->of_all);
    if (store->base.closing)
        tn_req_expire(&claim->reqs, TN_NEVER, TENURE_E_CLOSED, "the store is closed");
    answer_reqs(claim, TN_OP_ACQUIRE, TN_ANSWER_GONE);
    answer_reqs(claim, TN_OP_RELEASE, TN_ANSWER_GONE);
    free(claim);
    tn_store_name_drop(&store->base, &name->base);
}

void tn_etcd_claims_free(struct tn_etcd_store *store, const struct tn_etcd_session *session)
{
    for (struct tn_list_node *node = tn_list_first(&store->claims), *next; node != NULL;
         node = next) {
        struct tn_etcd_claim *claim = claim_in_all(node);
        next = tn_list_next(&store->claims, node);
        if (session == NULL || claim->session == session)
            free_claim(claim);
    }
}

static void go_on_later(struct tn_etcd_claim *claim)
{
    claim->due_at = tn_etcd_now(claim->name->store) + GO_ON_AFTER;
    tn_etcd_client_wake(&claim->name->store->client);
}

static bool is_idle(const struct tn_etcd_claim *claim)
{
    return claim->reqs.first == NULL && claim->rpc == NULL && claim->base.goal == TN_LINE_REST &&
           claim->base.step == TN_LINE_NOTHING && claim->due_at == TN_NEVER;
}

/* A few terms that are over are remembered, so that what arrives late for them is known to be. */
static void forget_oldest(struct tn_etcd_claim *claim)
{
    struct tn_etcd_claim *oldest = NULL;
    unsigned dead = 0;

    for (struct tn_etcd_claim *each = NULL; (each = next_of_name(claim->name, each)) != NULL;) {
        if (each->session != claim->session || !tn_line_is_over(&each->base) || !is_idle(each) ||
            each == claim)
            continue;
        dead++;
        oldest = each; /* New ones are put in front. */
    }
    if (dead >= TN_ETCD_DEAD)
        free_claim(oldest);
}

/* --- The recipe's host ------------------------------------------------------------------------ */

static void watch_own(struct tn_etcd_claim *claim, bool deletes, int64_t revision)
{
    struct tn_etcd_keys keys;

    tn_etcd_keys(&keys, claim->name->store, claim->name->base.text, claim->session->lease);
    if (tn_etcd_watch_start(&claim->name->store->client, &claim->own, keys.own, false, deletes,
                            revision) < 0)
        go_on_later(claim);
}

/* The key before ours, and our own, lest we wait without a place. */
static void follow(struct tn_etcd_claim *claim)
{
    if (claim->own.client == NULL)
        watch_own(claim, true, claim->revision + 1);
    if (claim->base.place == TN_LINE_BLOCKED)
        return;
    if (tn_etcd_watch_start(&claim->name->store->client, &claim->before, claim->before_key, false,
                            true, claim->revision + 1) < 0)
        go_on_later(claim);
}

static void step(void *arg, struct tn_line_claim *base, enum tn_line_step what, uint64_t request)
{
    struct tn_etcd_claim *claim = claim_of(base);

    (void)arg;
    (void)request;
    claim->due_at = TN_NEVER;
    if (what == TN_LINE_FOLLOW)
        follow(claim);
    else
        tn_etcd_watch_stop(&claim->before);
    if (what == TN_LINE_REMOVE)
        tn_etcd_watch_stop(&claim->own);
}

/* Our key was the first at claim->revision. */
static void hold(struct tn_etcd_claim *claim)
{
    tn_etcd_watch_stop(&claim->before);
    tn_etcd_watch_stop(&claim->own);
    watch_own(claim, false, claim->revision + 1);
    if (claim->base.key.token > claim->name->last_token)
        claim->name->last_token = claim->base.key.token;
}

static void grant(struct tn_etcd_claim *claim)
{
    struct tn_store_record record = { .held = true,
                                      .token = claim->base.key.token,
                                      .term = claim->base.term,
                                      .label_len = claim->session->label_len };
    bool asked = claim->reqs.first != NULL;

    memcpy(record.label, claim->session->label, claim->session->label_len);
    hold(claim);
    for (struct tn_store_req *req = claim->reqs.first; req != NULL; req = req->next)
        req->record = record;
    answer_reqs(claim, TN_OP_ACQUIRE, TN_ANSWER_GRANTED);
    if (!asked)
        tn_store_granted(&claim->name->store->base, claim->name->base.text, &record.term,
                         record.token);
}

static void end_with_ttl(struct tn_etcd_claim *claim, struct tn_store_req *req)
{
    struct tn_etcd_job *job = tn_etcd_job_new(claim->name->store, req);

    req->answer = TN_ANSWER_HELD;
    if (job != NULL)
        tn_etcd_add_ttl(job, claim->leader_lease);
}

/* Not our turn; claim->leader is the record of the holder. */
static void end_waiting(struct tn_etcd_claim *claim, enum tn_answer answer)
{
    struct tn_store_req *req;

    while ((req = take_req(claim, TN_OP_ACQUIRE)) != NULL) {
        req->record = claim->leader;
        if (!req->op.wait) {
            end_with_ttl(claim, req);
            continue;
        }
        req->answer = answer;
        req->done(req);
    }
}

static void checked_session(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;
    bool gone = reply->status != 0 ? reply->grpc == TN_GRPC_NOT_FOUND : response->ttl <= 0;

    job->rpc = NULL;
    if (reply->status != 0 && !gone) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    if (gone) {
        tn_etcd_session_drop(job->store, tn_etcd_session_find(job->store, &job->req->op.session));
        job->req->answer = TN_ANSWER_GONE;
    }
    tn_etcd_job_end(job);
}

/* We have nothing under that token. Was it ever ours? */
static void answer_stranger(struct tn_etcd_claim *claim, struct tn_store_req *req)
{
    req->record = claim->leader;
    req->answer = tn_line_judge_release(claim->leader.held, claim->leader.token, req->op.token);
    if (req->answer == TN_ANSWER_DENIED) {
        req->done(req);
        return;
    }
    struct tn_etcd_job *job = tn_etcd_job_new(claim->name->store, req);
    if (job != NULL)
        tn_etcd_job_measure(job, claim->session->lease, checked_session);
}

static void end_release(struct tn_etcd_claim *claim, const struct tn_line_answer *answer)
{
    struct tn_store_req *req;

    stop_watches(claim);
    answer_reqs(claim, TN_OP_ACQUIRE, TN_ANSWER_STALE);
    while (answer->stranger && (req = take_req(claim, TN_OP_RELEASE)) != NULL)
        answer_stranger(claim, req);
    answer_reqs(claim, TN_OP_RELEASE, answer->answer);
}

static void done(void *arg, struct tn_line_claim *base, enum tn_line_goal goal,
                 const struct tn_line_answer *answer)
{
    struct tn_etcd_claim *claim = claim_of(base);

    (void)arg;
    if (goal == TN_LINE_RELEASE && answer->answer == TN_ANSWER_STALE && !answer->stranger)
        answer_reqs(claim, TN_OP_RELEASE, TN_ANSWER_STALE);
    else if (goal == TN_LINE_RELEASE)
        end_release(claim, answer);
    else if (answer->answer == TN_ANSWER_GRANTED)
        grant(claim);
    else if (answer->answer == TN_ANSWER_STALE)
        answer_reqs(claim, TN_OP_ACQUIRE, TN_ANSWER_STALE);
    else
        end_waiting(claim, answer->answer);
}

/* A holder whose key is gone hears of it with the next renewal, which tells of one lease less. */
static void news(void *arg, struct tn_line_claim *base, enum tn_line_news what)
{
    const struct tn_etcd_claim *claim = claim_of(base);

    (void)arg;
    if (what == TN_LINE_TOLD_REVOKED)
        tn_store_revoked(&claim->name->store->base, claim->name->base.text, base->key.token);
}

static const struct tn_line_host line_host = { step, done, news };

void tn_etcd_line_init(struct tn_etcd_session *session)
{
    const struct tn_line_engine engine = { .atomic = true, .shared = true };

    tn_line_init(&session->line, &line_host, session, &engine);
}

/* --- Between the recipe and the steps --------------------------------------------------------- */

/* No answer to the step under way. Requests fail; a term in line goes on by itself. */
static void fail_step(struct tn_etcd_claim *claim, int status, const char *text)
{
    bool alone = claim->reqs.first == NULL || claim->base.place != TN_LINE_OUT;

    (void)tn_line_failed(&claim->base, claim->base.request, true);
    tn_req_expire(&claim->reqs, TN_NEVER, status, text);
    tn_line_give_up(&claim->base);
    if (alone && status != TENURE_E_CLOSED)
        go_on_later(claim);
}

/* After every call of the recipe: carry out the step that it has asked for. The claim may be gone
 * afterwards. */
static void settle(struct tn_etcd_claim *claim)
{
    tenure_ns now = tn_etcd_now(claim->name->store);

    while (claim->base.step == TN_LINE_FOLLOW)
        tn_line_followed(&claim->base, now, claim->base.request, true);
    if (claim->rpc != NULL &&
        claim->request != claim->base.request) { /* The recipe has moved on. */
        tn_etcd_cancel(claim->rpc);
        claim->rpc = NULL;
    }
    if (claim->base.step != TN_LINE_NOTHING && claim->rpc == NULL && !tn_etcd_step(claim))
        fail_step(claim, TENURE_E_NOMEM, "out of memory");
    if (!is_idle(claim))
        return;
    if (tn_line_is_over(&claim->base))
        forget_oldest(claim);
    else if (claim->base.place == TN_LINE_OUT)
        free_claim(claim);
}

void tn_etcd_claim_saw(struct tn_etcd_claim *claim, const struct tn_line_view *view)
{
    tn_line_saw(&claim->base, tn_etcd_now(claim->name->store), claim->request, view);
    if (tn_line_is_granted(&claim->base) && claim->own.client == NULL)
        watch_own(claim, false, claim->revision + 1);
    settle(claim);
}

void tn_etcd_claim_proved(struct tn_etcd_claim *claim, const struct tn_line_proven *proven)
{
    tn_line_proved(&claim->base, tn_etcd_now(claim->name->store), claim->request, proven);
    settle(claim);
}

void tn_etcd_claim_removed(struct tn_etcd_claim *claim)
{
    tn_line_removed(&claim->base, tn_etcd_now(claim->name->store), claim->request);
    settle(claim);
}

void tn_etcd_claim_failed(struct tn_etcd_claim *claim, const struct tn_etcd_reply *reply)
{
    if (reply->grpc == TN_GRPC_NOT_FOUND) { /* "requested lease not found" */
        tn_etcd_session_drop(claim->name->store, claim->session);
        return;
    }
    fail_step(claim, reply->status, reply->text);
    settle(claim);
}

/* --- News ------------------------------------------------------------------------------------- */

static void own_fired(struct tn_etcd_watch *watch)
{
    struct tn_etcd_claim *claim = watch->arg;
    tenure_ns now = tn_etcd_now(claim->name->store);

    if (claim->name->store->base.closing)
        return;
    if (tn_line_is_granted(&claim->base) && watch->put_at != 0) {
        watch_own(claim, true, watch->put_at + 1);
        tn_line_changed(&claim->base, now, claim->base.key.order);
    } else {
        tn_line_unwatched(&claim->base, now);
    }
    settle(claim);
}

static void before_fired(struct tn_etcd_watch *watch)
{
    struct tn_etcd_claim *claim = watch->arg;

    if (claim->name->store->base.closing)
        return;
    tn_line_unwatched(&claim->base, tn_etcd_now(claim->name->store));
    settle(claim);
}

/* --- Requests --------------------------------------------------------------------------------- */

static struct tn_etcd_claim *find_claim(struct tn_etcd_name *name, struct tn_etcd_session *session,
                                        const struct tn_secret *term)
{
    for (struct tn_etcd_claim *claim = NULL; (claim = next_of_name(name, claim)) != NULL;)
        if (claim->session == session && tn_secret_equal(&claim->base.term, term))
            return claim;
    struct tn_etcd_claim *claim = calloc(1, sizeof *claim);
    if (claim == NULL)
        return NULL;
    tn_line_add(&session->line, &claim->base, name, term);
    claim->name = name;
    claim->session = session;
    claim->due_at = TN_NEVER;
    claim->own.fired = own_fired;
    claim->before.fired = before_fired;
    claim->own.arg = claim->before.arg = claim;
    tn_list_add_first(&name->claims, &claim->of_name);
    tn_list_add_first(&name->store->claims, &claim->of_all);
    name->base.uses++;
    return claim;
}

static void ask_claim(struct tn_etcd_claim *claim, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    tenure_ns now = tn_etcd_now(claim->name->store);

    tn_req_add(&claim->reqs, req);
    claim->due_at = TN_NEVER;
    if (op->kind == TN_OP_RELEASE)
        tn_line_release(&claim->base, now, op->token);
    else
        tn_line_acquire(&claim->base, now, op->wait);
    settle(claim);
}

void tn_etcd_claim_ask(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_session *session = tn_etcd_session_get(store, &req->op.session);
    struct tn_etcd_name *name = tn_etcd_name_use(store, req->op.name, req->op.name_len);
    struct tn_etcd_claim *claim =
        name != NULL && session != NULL ? find_claim(name, session, &req->term_hash) : NULL;

    if (claim != NULL)
        ask_claim(claim, req);
    else
        tn_req_finish(req, TENURE_E_NOMEM, "out of memory");
    if (name != NULL)
        tn_store_name_drop(&store->base, &name->base);
}

static void adopt(struct tn_etcd_claim *claim, const struct tn_store_record *record, bool changed,
                  int64_t revision)
{
    struct tn_line_key key = { record->token, record->token };

    /* One that is known, over, in line, or about to look by itself: that is for those steps, which
     * also tell of a grant. */
    if (claim->due_at != TN_NEVER || claim->rpc != NULL)
        return;
    claim->revision = revision;
    if (tn_line_adopt(&claim->base, tn_etcd_now(claim->name->store), &key, changed))
        hold(claim);
    settle(claim);
}

/* The session whose key @leader is; NULL: none of ours. */
static struct tn_etcd_session *find_session_of(const struct tn_etcd_store *store, const char *text,
                                               const Etcd__KeyValue *leader)
{
    struct tn_store_session *at = NULL;
    struct tn_etcd_keys keys;

    while (leader != NULL && (at = tn_store_session_next(&store->base, at)) != NULL) {
        struct tn_etcd_session *session = (struct tn_etcd_session *)at;
        tn_etcd_keys(&keys, store, text, session->lease);
        if (tn_etcd_key_is(leader, keys.own))
            return session;
    }
    return NULL;
}

void tn_etcd_claim_adopt(struct tn_etcd_store *store, const char *text,
                         const Etcd__KeyValue *leader, int64_t revision)
{
    struct tn_etcd_session *session = find_session_of(store, text, leader);
    struct tn_etcd_name *name =
        session != NULL ? tn_etcd_name_use(store, text, strlen(text)) : NULL;
    struct tn_store_record record;

    if (name == NULL)
        return;
    tn_etcd_record(leader, &record);
    struct tn_etcd_claim *claim = find_claim(name, session, &record.term);
    if (claim != NULL)
        adopt(claim, &record, leader->mod_revision != leader->create_revision, revision);
    tn_store_name_drop(&store->base, &name->base);
}

static void tick_claim(struct tn_etcd_claim *claim, tenure_ns now)
{
    tenure_ns real = tn_etcd_now(claim->name->store);

    if (claim->rpc == NULL) /* A request waits no longer than it wants to. */
        tn_req_expire(&claim->reqs, real, TENURE_E_TIMEOUT, "etcd: no answer in time");
    if (claim->due_at > now)
        return;
    claim->due_at = TN_NEVER;
    if (tn_line_is_granted(&claim->base) && claim->own.client == NULL)
        tn_line_unwatched(&claim->base, real);
    else
        tn_line_go_on(&claim->base, real);
    settle(claim);
}

bool tn_etcd_claims_tick(struct tn_etcd_store *store, tenure_ns now)
{
    bool waits = false;

    for (struct tn_list_node *node = tn_list_first(&store->claims); node != NULL;
         node = store->claim_after) {
        struct tn_etcd_claim *claim = claim_in_all(node);
        store->claim_after = tn_list_next(&store->claims, node); /* Unless it is freed meanwhile. */
        waits = waits || claim->due_at != TN_NEVER;
        tick_claim(claim, now);
    }
    return waits;
}
