/* store.c - sessions, names and requests of a store on rows; rows.h has the picture.
 *
 * Happy path: submit() finds the session and the claim, and starts the recipe on it; the recipe
 * asks the engine; its answer comes in a later turn of the loop, goes to the recipe, and what the
 * recipe answers then goes out: news first, so that a term's end is told before the renewal that
 * found out.
 * What can fail: memory, which fails the request; the engine, which the recipe knows about. */
#include "stores/rows/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/plan.h"
#include "runtime/random.h"
#include "stores/rows/inside.h"

/* Requests of which the engine is asked at once; more would only wait in its queues. */
enum { ACTIVE_MAX = 64 };

tenure_ns tn_rows_now_of(const struct tn_rows_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

/* --- Sessions and claims ---------------------------------------------------------------------- */

static const struct tn_rows_host recipe_host;

struct tn_rows_session *tn_rows_next_session(const struct tn_rows_store *store,
                                             const struct tn_rows_session *session)
{
    return (struct tn_rows_session *)tn_store_session_next(&store->base,
                                                           session != NULL ? &session->base : NULL);
}

/* A new one, or one in which nothing is under way any more. */
static void begin_session(struct tn_rows_store *store, struct tn_rows_session *session,
                          const struct tn_op *op)
{
    tenure_ns ttl = op->kind == TN_OP_OPEN ? op->ttl : store->base.ops->ttl_min;
    struct tn_plan plan;
    struct tn_timing timing;

    TN_ASSERT(session->rows.claims == NULL);
    tn_plan_init(&plan, ttl);
    tn_plan_timing(&plan, ttl, &timing);
    if (op->kind != TN_OP_OPEN) /* No deadline waits for it. */
        timing.attempt_timeout = store->base.how.patience;
    tn_rows_init(&session->rows, &recipe_host, session, &session->base.hash, ttl,
                 timing.attempt_timeout, store->base.how.patience);
    session->rows.mints = store->engine->mints;
    session->rows.has_sessions = store->engine->session != NULL;
    if (store->engine->feed_trust > 0)
        session->rows.feed_trust = store->engine->feed_trust;
    session->store = store;
    session->seq = 0;
    memset(session->label, 0, sizeof session->label);
    if (op->label_len > 0)
        memcpy(session->label, op->label, op->label_len);
    session->rows.label = session->label;
    session->rows.label_len = op->label_len;
}

static struct tn_rows_session *add_session(struct tn_rows_store *store, const struct tn_op *op)
{
    struct tn_rows_session *session =
        (struct tn_rows_session *)tn_store_session_keep(&store->base, &op->session);

    if (session != NULL)
        begin_session(store, session, op);
    return session;
}

static struct rows_claim *find_claim(struct tn_rows_session *session,
                                     const struct tn_rows_watch *watch,
                                     const struct tn_secret *term)
{
    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        struct rows_claim *claim = tn_rows_claim_of(each);
        if (claim->watch == watch && tn_secret_equal(&each->term, term))
            return claim;
    }
    return NULL;
}

struct rows_claim *tn_rows_add_claim(struct tn_rows_session *session, struct tn_rows_watch *watch,
                                     const struct tn_secret *term)
{
    struct rows_claim *claim = calloc(1, sizeof *claim);

    if (claim == NULL)
        return NULL;
    tn_rows_add(&session->rows, &claim->claim, &watch->known, term);
    claim->session = session;
    claim->watch = watch;
    watch->base.uses++;
    return claim;
}

static void free_claim(struct rows_claim *claim)
{
    struct tn_rows_store *store = claim->session->store;

    tn_rows_forget_io(store, claim);
    if (claim->req != NULL)
        store->active--;
    tn_rows_remove(&claim->claim);
    if (claim->watch->poll == claim)
        claim->watch->poll = NULL;
    tn_store_name_drop(&store->base, &claim->watch->base);
    free(claim);
}

/* A claim that is over is kept until its answers are out: the recipe may still be using it. */
static void drop_claims(struct tn_rows_session *session)
{
    struct tn_rows_claim *next;

    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = next) {
        struct rows_claim *claim = tn_rows_claim_of(each);
        next = each->next;
        if (each->goal == TN_ROWS_REST && !each->held && !each->revoked && each->request == 0 &&
            claim->req == NULL && claim->waiting.first == NULL && !claim->untold)
            free_claim(claim);
    }
}

/* The session is to be closed: each row that it has is released, once; what cannot be released is
 * left to those who observe it. */
static void give_back(struct tn_rows_session *session)
{
    struct tn_op op = { .kind = TN_OP_RELEASE };

    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        struct rows_claim *claim = tn_rows_claim_of(each);
        if ((!each->held && !each->revoked) || !tn_rows_is_free(each) || claim->req != NULL)
            continue;
        if (!claim->given_back)
            tn_rows_start(each, tn_rows_now_of(session->store), &op);
        else if (each->goal == TN_ROWS_REST)
            tn_rows_abandon(each);
        claim->given_back = true;
    }
}

static void drop_session(struct tn_rows_store *store, struct tn_rows_session *session)
{
    if (session->close != NULL)
        give_back(session);
    drop_claims(session);
    if (session->close != NULL && session->rows.claims == NULL) {
        tn_req_answer(&store->base, session->close);
        session->close = NULL;
    }
    if (session->kept || session->rows.claims != NULL || session->renewals.first != NULL)
        return;
    tn_rows_close_session(&session->rows);
    tn_rows_forget_calls(store, session);
    tn_store_session_drop(&store->base, &session->base);
}

static void drop_sessions(struct tn_rows_store *store)
{
    struct tn_rows_session *next;

    for (struct tn_rows_session *each = tn_rows_next_session(store, NULL); each != NULL;
         each = next) {
        next = tn_rows_next_session(store, each);
        drop_session(store, each);
    }
}

/* --- What the recipe answers ------------------------------------------------------------------ */

static void recipe_done(void *arg, struct tn_rows_claim *of, enum tn_rows_goal goal,
                        const struct tn_rows_answer *answer)
{
    struct tn_rows_session *session = arg;
    struct tn_rows_store *store = session->store;
    struct rows_claim *claim = tn_rows_claim_of(of);
    struct tn_store_req *req = claim->req;
    bool stray = goal == TN_ROWS_READ && tn_rows_is_stray(store, claim);

    claim->req = NULL;
    if (claim->watch->poll == claim) {
        tn_rows_end_poll(store, claim, answer->failed || stray);
        return;
    }
    if (req == NULL)
        return; /* The session's end. */
    store->active--;
    if (goal == TN_ROWS_ADOPT && answer->answer == TN_ANSWER_OK && !answer->failed) {
        uint32_t len = of->row.label_len < TN_LABEL_MAX ? of->row.label_len : TN_LABEL_MAX;
        if (len > 0) /* The renewal writes it again. */
            memcpy(session->label, of->row.label, len);
        session->rows.label_len = len;
        session->kept = true;
        session->adopted = req; /* tick() renews: no call back from here. */
        tn_store_kick(&store->base);
        return;
    }
    if (answer->failed || stray) {
        int known = claim->denied ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
        tn_req_refuse(&store->base, req, answer->unknown ? TENURE_E_TIMEOUT : known, claim->error);
        return;
    }
    req->answer = answer->answer;
    tn_rows_record(&of->row, of->version, &req->record);
    if (answer->answer != TN_ANSWER_GRANTED)
        tn_rows_judge_record(store, claim->watch, &req->record);
    tn_req_answer(&store->base, req);
    /* What this process did is news to it, too. A refusal that the feed has shown is not. */
    bool shown = answer->answer == TN_ANSWER_HELD && claim->watch->known.fed;
    if (goal != TN_ROWS_READ && claim->watch->base.watchers > 0 && !shown)
        claim->watch->poll_at = 0;
}

/* What the engine said about the last row that it did not write. */
static const char *renewal_error(const struct tn_rows_session *session)
{
    if (session->rows.has_sessions)
        return session->error[0] != '\0' ? session->error : "the session was not renewed in time";
    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        const struct rows_claim *claim = tn_rows_claim_of(each);
        if (claim->error[0] != '\0')
            return claim->error;
    }
    return "a row could not be written";
}

static void recipe_renewed(void *arg, uint64_t seq, enum tn_rows_outcome outcome, uint32_t held)
{
    struct tn_rows_session *session = arg;
    struct tn_req_list others = { NULL, NULL };
    struct tn_store_req *req;

    while ((req = tn_req_take(&session->renewals)) != NULL) {
        if (req->op.beat != seq) { /* Where the frame keeps its own number of it. */
            tn_req_add(&others, req);
            continue;
        }
        req->ttl = session->rows.ttl;
        req->held = held;
        if (outcome == TN_ROWS_GONE)
            req->answer = TN_ANSWER_GONE;
        if (outcome != TN_ROWS_WRITTEN && outcome != TN_ROWS_GONE)
            tn_req_refuse(&session->store->base, req,
                          session->denied ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                          renewal_error(session));
        else
            tn_req_answer(&session->store->base, req);
    }
    session->renewals = others;
}

static void recipe_ended(void *arg, struct tn_rows_claim *of)
{
    struct tn_rows_store *store = ((const struct tn_rows_session *)arg)->store;
    struct rows_claim *claim = tn_rows_claim_of(of);

    if (!claim->untold) {
        claim->untold = true;
        claim->next_end = store->ends;
        store->ends = claim;
    }
    tn_store_kick(&store->base);
}

/* Ends of terms must not be lost: they need no memory, and no answer goes out before. */
static void tell_ends(struct tn_rows_store *store)
{
    struct rows_claim *claim;

    while ((claim = store->ends) != NULL) {
        store->ends = claim->next_end;
        claim->untold = false;
        tn_store_revoked(&store->base, claim->watch->base.text, claim->claim.token);
    }
}

static uint64_t recipe_nonce(void *arg)
{
    const struct tn_rows_session *session = arg;

    return tn_prng_next(&session->store->prng);
}

static const struct tn_rows_host recipe_host = { tn_rows_recipe_get,    tn_rows_recipe_put,
                                                 recipe_done,           recipe_renewed,
                                                 recipe_ended,          recipe_nonce,
                                                 tn_rows_recipe_session };

/* --- Requests --------------------------------------------------------------------------------- */

static void start_next(struct rows_claim *claim)
{
    struct tn_rows_store *store = claim->session->store;
    const struct tn_store_req *next = claim->waiting.first;

    if (next == NULL || claim->req != NULL || !tn_rows_is_free(&claim->claim))
        return;
    if (store->active >= ACTIVE_MAX && next->op.kind != TN_OP_RELEASE)
        return; /* Its time counts from when the engine is asked; tick() starts it. */
    claim->req = tn_req_take(&claim->waiting);
    store->active++;
    claim->denied = false; /* What was said about an earlier one. */
    claim->error[0] = '\0';
    tn_rows_start(&claim->claim, tn_rows_now_of(store), &claim->req->op);
}

static void ask_claim(struct tn_rows_store *store, struct tn_rows_session *session,
                      struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    bool has_term = op->kind != TN_OP_READ && op->kind != TN_OP_REVOKE;
    struct tn_rows_watch *watch = tn_rows_get_name(store, op->name, op->name_len);
    struct rows_claim *claim = NULL;

    tn_req_hash(req);
    if (watch != NULL && has_term)
        claim = find_claim(session, watch, &req->term_hash);
    if (watch != NULL && claim == NULL)
        claim = tn_rows_add_claim(session, watch, has_term ? &req->term_hash : NULL);
    if (claim == NULL) {
        tn_req_refuse(&store->base, req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    tn_req_add(&claim->waiting, req);
    start_next(claim);
}

/* Number 0 is newer than all before: a script does not know how often it was renewed. */
static void renew(struct tn_rows_store *store, struct tn_rows_session *session,
                  struct tn_store_req *req)
{
    struct tn_op *op = &req->op;

    if (op->seq != 0 && op->seq <= session->seq) {
        req->answer = TN_ANSWER_STALE;
        tn_req_answer(&store->base, req);
        return;
    }
    session->seq = op->seq != 0 ? op->seq : session->seq + 1;
    op->beat = session->rows.begun + 1;
    tn_req_add(&session->renewals, req);
    tn_rows_renew(&session->rows, tn_rows_now_of(store), op->beat);
}

/* A script's: the row knows its session, this process does not. */
static void adopt(struct tn_rows_store *store, struct tn_store_req *req)
{
    const char *reason = NULL;
    struct tn_rows_session *session = NULL;

    if (tn_name_check(req->op.name, req->op.name_len, &reason) < 0) {
        tn_req_refuse(&store->base, req, TENURE_E_INVALID, reason);
        return;
    }
    session = add_session(store, &req->op);
    if (session == NULL)
        tn_req_refuse(&store->base, req, TENURE_E_NOMEM, "out of memory");
    else
        ask_claim(store, session, req);
}

static void close_session(struct tn_rows_store *store, struct tn_rows_session *session,
                          struct tn_store_req *req)
{
    session->kept = false;
    session->close = req;
    tn_store_kick(&store->base);
}

/* What is left of a session that is closed, or that nobody renewed for a TTL, is good for a release
 * only. It is opened again once nothing of it is under way. */
static bool is_gone(struct tn_rows_session *session)
{
    if (session->kept && session->seq > 0 &&
        tn_rows_is_over(&session->rows, tn_rows_now_of(session->store))) {
        session->kept = false;
        tn_rows_abandon_all(&session->rows);
    }
    return !session->kept;
}

static void open_session(struct tn_rows_store *store, struct tn_rows_session *session,
                         struct tn_store_req *req)
{
    if (session == NULL) {
        session = add_session(store, &req->op);
    } else if (is_gone(session)) {
        drop_claims(session);
        if (session->close != NULL || session->rows.claims != NULL ||
            session->renewals.first != NULL) {
            tn_req_refuse(&store->base, req, TENURE_E_UNAVAILABLE,
                          "the session's end is still under way");
            return;
        }
        tn_rows_close_session(&session->rows);
        tn_rows_forget_calls(store, session);
        begin_session(store, session, &req->op);
    }
    if (session == NULL) {
        tn_req_refuse(&store->base, req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    session->kept = true;
    renew(store, session, req);
}

static void ask_session(struct tn_rows_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    struct tn_rows_session *session =
        (struct tn_rows_session *)tn_store_session_find(&store->base, &op->session);

    if (op->kind == TN_OP_OPEN) {
        open_session(store, session, req);
        return;
    }
    bool gone = session != NULL && is_gone(session);
    bool foreign = session == NULL && op->name_len > 0;
    if (foreign && (op->kind == TN_OP_RELEASE || op->kind == TN_OP_RENEW)) {
        adopt(store, req);
    } else if (session == NULL || (gone && op->kind != TN_OP_RELEASE)) {
        req->answer = op->kind == TN_OP_CLOSE ? TN_ANSWER_OK : TN_ANSWER_GONE;
        tn_req_answer(&store->base, req);
    } else if (op->kind == TN_OP_RENEW) {
        renew(store, session, req);
    } else if (op->kind == TN_OP_CLOSE) {
        close_session(store, session, req);
    } else {
        ask_claim(store, session, req);
    }
}

void tn_rows_submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;

    if (req->op.kind == TN_OP_READ || req->op.kind == TN_OP_REVOKE)
        ask_claim(store, store->reader, req);
    else
        ask_session(store, req);
}

/* --- Time ------------------------------------------------------------------------------------- */

static void wake(uv_timer_t *handle)
{
    tn_store_kick(handle->data);
}

static tenure_ns wake_at(const struct tn_rows_store *store)
{
    tenure_ns at = tn_rows_wake_names_at(store);

    for (struct tn_rows_session *each = NULL; (each = tn_rows_next_session(store, each)) != NULL;)
        if (tn_rows_wake_at(&each->rows) < at)
            at = tn_rows_wake_at(&each->rows);
    return at;
}

/* A holder whose row somebody else has written learns at once what it means. */
static void look_at_held(struct tn_rows_session *session, tenure_ns now)
{
    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        const struct rows_claim *claim = tn_rows_claim_of(each);
        if (claim->watch->written[0] != '\0' && strcmp(claim->watch->written, each->version) != 0)
            tn_rows_look(each, now);
    }
}

static void tick(struct tn_rows_store *store, tenure_ns now)
{
    for (struct tn_rows_session *each = NULL; (each = tn_rows_next_session(store, each)) != NULL;) {
        tn_rows_tick(&each->rows, now);
        look_at_held(each, now);
        if (each->adopted != NULL) {
            struct tn_store_req *req = each->adopted;
            each->adopted = NULL;
            renew(store, each, req);
        }
        for (struct tn_rows_claim *claim = each->rows.claims; claim != NULL; claim = claim->next)
            start_next(tn_rows_claim_of(claim));
    }
    tn_rows_tick_names(store, now);
}

void tn_rows_turn(struct tn_store *base)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;
    tenure_ns now = tn_rows_now_of(store);

    tn_rows_pass_on(store, now);
    tick(store, now);
    drop_sessions(store);
    tn_rows_drop_names(store);
    tell_ends(store);
    tn_rows_tell_news(store);
    tn_rows_start_lists(store);
    tn_store_wake_at(base, &store->timer, wake, wake_at(store));
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void close_all(struct tn_rows_store *store, struct tn_req_list *list)
{
    for (struct tn_store_req *req; (req = tn_req_take(list)) != NULL;)
        tn_req_refuse(&store->base, req, TENURE_E_CLOSED, "the store is closed");
}

static void free_session(struct tn_rows_store *store, struct tn_rows_session *session)
{
    session->rows.renewal_count = 0;
    while (session->rows.claims != NULL) {
        struct rows_claim *claim = tn_rows_claim_of(session->rows.claims);
        if (claim->req != NULL)
            tn_req_add(&claim->waiting, claim->req);
        close_all(store, &claim->waiting);
        free_claim(claim);
    }
    close_all(store, &session->renewals);
    if (session->close != NULL)
        tn_req_refuse(&store->base, session->close, TENURE_E_CLOSED, "the store is closed");
    if (session->adopted != NULL)
        tn_req_refuse(&store->base, session->adopted, TENURE_E_CLOSED, "the store is closed");
    tn_rows_forget_calls(store, session);
    tn_store_session_drop(&store->base, &session->base);
}

void tn_rows_close(struct tn_store *base)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;

    store->ends = NULL;
    for (struct tn_rows_session *each; (each = tn_rows_next_session(store, NULL)) != NULL;)
        free_session(store, each);
    tn_rows_tell_news(store);
    tn_query_done_all(&store->lists, TENURE_E_CLOSED, "the store is closed");
    store->engine->shut(store);
}

void *tn_rows_open(size_t size, const struct tn_store_ops *ops, const struct tn_rows_engine *engine,
                   const struct tn_store_open *how, struct tn_text *reterr)
{
    struct tn_rows_store *store = tn_store_new(size, ops, how, reterr);
    struct tn_op none = { .kind = TN_OP_READ };

    if (store == NULL)
        return NULL;
    store->engine = engine;
    tn_prng_seed(&store->prng, store->base.seeds[0]);
    if (tn_random_secret(&none.session) == 0)
        store->reader = add_session(store, &none);
    if (store->reader == NULL) {
        (void)tn_store_discard(&store->base, 0, "out of memory", reterr);
        return NULL;
    }
    store->reader->kept = true;
    (void)uv_timer_init(how->loop, &store->timer);
    tn_store_add_handle(&store->base, &store->timer);
    return store;
}
