/* votes.c - the host of core/votes.h: its questions become requests to the servers, and its results
 * answers. Nothing is decided here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "stores/redlock/private.h"

tenure_ns tn_rl_now(const struct tn_rl_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

static struct tn_rl_claim *claim_of(const struct tn_votes_claim *claim)
{
    return (struct tn_rl_claim *)(void *)claim;
}

static struct tn_rl_session *session_of(const struct tn_votes_session *session)
{
    return (struct tn_rl_session *)(void *)session;
}

/* --- Rounds --------------------------------------------------------------------------------- */

static enum tn_op_kind op_kind(enum tn_votes_kind kind)
{
    static const enum tn_op_kind kinds[] = {
        [TN_VOTES_OPEN] = TN_OP_OPEN,
        [TN_VOTES_RENEW] = TN_OP_RENEW,
        [TN_VOTES_CLOSE] = TN_OP_CLOSE,
        [TN_VOTES_ASK] = TN_OP_ACQUIRE,
        [TN_VOTES_RECLAIM] = TN_OP_ACQUIRE,
        [TN_VOTES_CONFIRM] = TN_OP_RELEASE, /* With the same words; redis: says confirm. */
        [TN_VOTES_YIELD] = TN_OP_RELEASE,
        [TN_VOTES_WITHDRAW] = TN_OP_RELEASE,
        [TN_VOTES_RELEASE] = TN_OP_RELEASE,
        [TN_VOTES_READ] = TN_OP_READ,
        [TN_VOTES_REVOKE] = TN_OP_REVOKE,
    };

    return kinds[kind];
}

static uint64_t name_number(const struct tn_rl_store *store, const char *name, size_t len)
{
    const struct tn_hash_key key = { store->base.seeds[0], store->base.seeds[1] };

    return tn_hash(key, name, len);
}

/* What all servers are asked: the job's words, or those of the claim. */
static void fill_op(struct tn_rl_round *round)
{
    const struct tn_store_req *job = round->base.job;
    const struct tn_rl_claim *claim = claim_of(round->base.claim);
    const struct tn_rl_session *session = session_of(round->base.session);
    struct tn_op *op = &round->op;

    if (job != NULL)
        *op = job->op;
    else
        *op = (struct tn_op) { .term = claim->term,
                               .name = claim->name->base.text,
                               .name_len = (uint32_t)strlen(claim->name->base.text) };
    if (session != NULL)
        op->session = session->secret;
    if (session != NULL && session->base.ttl != 0) {
        op->label = session->label;
        op->label_len = session->label_len;
        op->ttl = session->base.ttl;
    }
    if (round->base.kind == TN_VOTES_CONFIRM)
        op->token = round->base.token;
    op->wait = round->base.kind != TN_VOTES_ASK || claim->base.wait;
    if (op->name != NULL)
        memcpy(round->name, op->name, op->name_len);
    if (op->label != NULL)
        memcpy(round->label, op->label, op->label_len);
    op->name = round->name;
    op->label = round->label;
    if (tn_op_is_named(op))
        round->base.name = name_number(round->store, op->name, op->name_len);
}

static struct tn_votes_round *begin(void *arg, const struct tn_votes_round *draft)
{
    struct tn_rl_store *store = arg;
    struct tn_rl_round *round = calloc(1, sizeof *round + store->count * sizeof round->votes[0]);

    if (round == NULL)
        return NULL;
    round->base = *draft;
    round->store = store;
    fill_op(round);
    return &round->base;
}

static void vote_done(struct tn_store_req *req)
{
    const struct tn_rl_vote *vote = (const struct tn_rl_vote *)(void *)req;
    struct tn_rl_round *round = vote->round;
    struct tn_rl_store *store = round->store;
    struct tn_votes_reply reply = {
        .outcome = req->status == 0                    ? TN_VOTES_ANSWERED
                   : tenure_error_unknown(req->status) ? TN_VOTES_UNKNOWN
                                                       : TN_VOTES_FAILED,
        .answer = req->answer,
        .held = req->record.held,
        .confirmed = vote->req.confirmed,
        .token = req->record.token,
        .last = vote->req.last,
        .term = req->record.term,
        .digest = vote->req.digest,
    };

    tn_votes_heard(&round->base, tn_rl_now(store), (unsigned)(vote - round->votes), &reply);
    tn_store_kick(&store->base);
}

static void send_vote(void *arg, struct tn_votes_round *base, unsigned server,
                      enum tn_votes_kind kind)
{
    struct tn_rl_store *store = arg;
    struct tn_rl_round *round = (struct tn_rl_round *)base;
    struct tn_rl_vote *vote = &round->votes[server];
    struct tn_store *redis = store->nodes[server].redis;

    vote->round = round;
    vote->req.kind = kind;
    vote->req.base.op = round->op;
    vote->req.base.op.kind = op_kind(kind);
    vote->req.base.done = vote_done;
    redis->ops->submit(redis, &vote->req.base);
}

static void end(void *arg, struct tn_votes_round *round)
{
    (void)arg;
    free(round);
}

/* --- Answers -------------------------------------------------------------------------------- */

/* Waiting does not mend it. */
static bool is_final(int code)
{
    return code == TENURE_E_DENIED || code == TENURE_E_UNSUPPORTED;
}

/* Too few servers answered: why, and the code of it. */
static int blame(const struct tn_rl_store *store, const struct tn_rl_round *round,
                 char why[TN_ERROR_TEXT])
{
    const struct tn_store_req *failed = NULL;
    unsigned good = 0;

    if (store->base.closing) {
        (void)snprintf(why, TN_ERROR_TEXT, "the store is closed");
        return TENURE_E_CLOSED;
    }
    if (round == NULL) {
        (void)snprintf(why, TN_ERROR_TEXT, "redlock: asked again, or given back, meanwhile");
        return TENURE_E_TIMEOUT;
    }
    for (unsigned i = 0; i < store->count; i++) {
        const struct tn_store_req *req = &round->votes[i].req.base;
        if ((round->base.heard & 1U << i) == 0)
            continue;
        good += req->status == 0;
        /* What cannot be mended by waiting is told first. */
        if (req->status != 0 && (failed == NULL || is_final(req->status)))
            failed = req;
    }
    (void)snprintf(why, TN_ERROR_TEXT,
                   "redlock: %u of %u servers answered, and %u must agree%s%.300s", good,
                   store->count, store->votes.majority, failed != NULL ? "; " : "",
                   failed != NULL ? failed->error : "");
    if (failed != NULL && is_final(failed->status))
        return failed->status;
    /* A server that answered may have done it. */
    return good > 0 || (failed != NULL && tenure_error_unknown(failed->status))
               ? TENURE_E_TIMEOUT
               : TENURE_E_UNAVAILABLE;
}

static struct tn_store_record record_of(const struct tn_votes_claim *claim)
{
    const struct tn_rl_session *session = session_of(claim->session);
    struct tn_store_record record = { .held = true,
                                      .token = claim->token,
                                      .term = claim->term,
                                      .ttl = claim->session->ttl,
                                      .remaining = claim->session->ttl,
                                      .label_len = session->label_len };

    memcpy(record.label, session->label, session->label_len);
    return record;
}

/* What @server has on record; revoked if any server says so of that term, since a revocation need
 * not have reached them all. */
static struct tn_store_record record_at(const struct tn_rl_store *store,
                                        const struct tn_rl_round *round, int server)
{
    struct tn_store_record record = round->votes[server].req.base.record;

    for (unsigned i = 0; i < store->count; i++) {
        const struct tn_store_record *other = &round->votes[i].req.base.record;
        record.revoked |= other->revoked && other->token == record.token &&
                          tn_secret_equal(&other->term, &record.term);
    }
    return record;
}

static void done(void *arg, void *job, const struct tn_votes_result *result)
{
    struct tn_rl_store *store = arg;
    struct tn_store_req *req = job;
    const struct tn_rl_round *round = (const struct tn_rl_round *)result->round;
    int server = result->record.server;
    char why[TN_ERROR_TEXT] = "";
    int code = result->failed ? blame(store, round, why) : 0;

    /* Those who watch hear of a term when it is held. */
    if (code == 0 && result->record.stray && tn_rl_is_watch(req))
        code = TENURE_E_TIMEOUT;
    if (result->record.unsure && tn_rl_is_watch(req))
        tn_rl_watch_unsure(req);
    if (result->claim != NULL)
        tn_rl_hear_change(store, claim_of(result->claim)->name->base.text, NULL);

    req->answer = result->answer;
    if (result->claim != NULL) {
        req->record = record_of(result->claim);
    } else if (tn_op_is_named(&req->op)) {
        req->record = (struct tn_store_record) { .token = result->record.token };
        if (!result->failed && server >= 0)
            req->record = record_at(store, round, server);
    } else if (code == 0 && req->op.kind != TN_OP_CLOSE && result->answer == TN_ANSWER_OK) {
        req->ttl = round->votes[server].req.base.ttl;
        req->held = round->votes[server].req.sure;
    }
    if (code == 0)
        tn_req_answer(&store->base, req);
    else
        tn_req_refuse(&store->base, req, code, why);
}

static void granted(void *arg, struct tn_votes_claim *claim)
{
    struct tn_rl_store *store = arg;
    const char *name = claim_of(claim)->name->base.text;

    tn_rl_hear_change(store, name, NULL);
    tn_store_granted(&store->base, name, &claim->term, claim->token);
}

static void revoked(void *arg, struct tn_votes_claim *claim)
{
    tn_store_revoked(arg, claim_of(claim)->name->base.text, claim->token);
}

/* --- Claims and sessions -------------------------------------------------------------------- */

/* @session NULL: of any. */
static struct tn_rl_claim *find_claim(const struct tn_rl_store *store, const char *text, size_t len,
                                      const struct tn_rl_session *session,
                                      const struct tn_secret *term_hash)
{
    const struct tn_rl_name *name =
        (const struct tn_rl_name *)tn_store_name_find(&store->base, text, len);
    struct tn_rl_claim *claim = name != NULL ? name->claims : NULL;

    while (claim != NULL && (!tn_secret_equal(&claim->base.term, term_hash) ||
                             (session != NULL && claim->base.session != &session->base)))
        claim = claim->next;
    return claim;
}

static struct tn_rl_claim *add_claim(struct tn_rl_store *store, struct tn_rl_session *session,
                                     const struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    struct tn_rl_claim *claim = find_claim(store, op->name, op->name_len, session, &req->term_hash);

    if (claim != NULL)
        return claim;
    struct tn_rl_name *name =
        (struct tn_rl_name *)tn_store_name_use(&store->base, op->name, op->name_len);
    if (name == NULL)
        return NULL;
    claim = calloc(1, sizeof *claim);
    if (claim == NULL) {
        tn_store_name_drop(&store->base, &name->base);
        return NULL;
    }
    claim->term = op->term;
    claim->name = name;
    claim->next = name->claims;
    name->claims = claim;
    tn_votes_claim_add(&session->base, &claim->base, name_number(store, op->name, op->name_len),
                       &req->term_hash);
    return claim;
}

static void forget(void *arg, struct tn_votes_claim *base)
{
    struct tn_rl_claim *claim = claim_of(base);
    struct tn_rl_claim **link = &claim->name->claims;

    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    tn_store_name_drop(arg, &claim->name->base);
    free(claim);
}

static void forget_session(void *arg, struct tn_votes_session *session)
{
    (void)arg;
    free(session);
}

/* One that this process has not opened is somebody's who knows its secret. */
static struct tn_rl_session *add_session(struct tn_rl_store *store, const struct tn_op *op)
{
    bool open = op->kind == TN_OP_OPEN;
    struct tn_rl_session *session = session_of(store->votes.sessions);

    while (session != NULL && !tn_secret_equal(&session->secret, &op->session))
        session = session_of(session->base.next);
    if (session != NULL && (!open || session->base.ttl != 0))
        return session;
    if (session == NULL && (session = calloc(1, sizeof *session)) != NULL) {
        session->secret = op->session;
        tn_votes_session_add(&store->votes, &session->base, open ? op->ttl : 0);
    }
    if (session != NULL && open) {
        session->base.ttl = op->ttl;
        session->label_len = op->label_len;
        if (op->label_len > 0)
            memcpy(session->label, op->label, op->label_len);
    }
    return session;
}

/* --- Requests and news ---------------------------------------------------------------------- */

static bool start(struct tn_rl_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    tenure_ns now = tn_rl_now(store);
    struct tn_rl_claim *claim;

    tn_req_hash(req);
    if (op->kind == TN_OP_READ)
        return tn_votes_read(&store->votes, now, req);
    if (op->kind == TN_OP_REVOKE)
        return tn_votes_revoke(&store->votes, now, req);
    struct tn_rl_session *session = add_session(store, op);
    if (session == NULL)
        return false;
    switch (op->kind) {
    case TN_OP_OPEN:
    case TN_OP_RENEW:
        return tn_votes_renew(&session->base, now, op->kind == TN_OP_OPEN, op->seq, req);
    case TN_OP_CLOSE:
        return tn_votes_end_session(&session->base, now, req);
    case TN_OP_ACQUIRE:
        claim = add_claim(store, session, req);
        return claim != NULL && tn_votes_acquire(&claim->base, now, op->wait, req);
    default:
        TN_ASSERT(op->kind == TN_OP_RELEASE);
        claim = find_claim(store, op->name, op->name_len, session, &req->term_hash);
        return tn_votes_release(&session->base, claim != NULL ? &claim->base : NULL, now, op->token,
                                req);
    }
}

void tn_rl_submit(struct tn_store *base, struct tn_store_req *req)
{
    if (!start((struct tn_rl_store *)base, req))
        tn_req_refuse(base, req, TENURE_E_NOMEM, "out of memory");
    tn_store_kick(base);
}

void tn_rl_hear_vote(struct tn_rl_store *store, unsigned server, const char *name,
                     const struct tn_secret *term_hash, uint64_t token)
{
    struct tn_rl_claim *claim = find_claim(store, name, strlen(name), NULL, term_hash);

    if (claim != NULL)
        tn_votes_hear_vote(&claim->base, tn_rl_now(store), server, token);
    tn_store_kick(&store->base);
}

void tn_rl_hear_revoked(struct tn_rl_store *store, const char *text)
{
    const struct tn_rl_name *name =
        (const struct tn_rl_name *)tn_store_name_find(&store->base, text, strlen(text));
    struct tn_rl_claim *claim = name != NULL ? name->claims : NULL;

    while (claim != NULL && claim->base.state != TN_VOTES_HELD)
        claim = claim->next;
    if (claim != NULL)
        tn_votes_hear_revoked(&claim->base, tn_rl_now(store));
}

void tn_rl_votes_init(struct tn_rl_store *store)
{
    static const struct tn_votes_host host = { begin,   send_vote, end,    done,
                                               granted, revoked,   forget, forget_session };

    tn_votes_init(&store->votes, &host, store, store->count, store->base.seeds[0]);
}

void tn_rl_votes_done(struct tn_rl_store *store)
{
    for (struct tn_store_name *at = NULL; (at = tn_store_name_next(&store->base, at)) != NULL;) {
        struct tn_rl_name *name = (struct tn_rl_name *)at;
        while (name->claims != NULL) {
            struct tn_rl_claim *claim = name->claims;
            name->claims = claim->next;
            free(claim);
        }
    }
    while (store->votes.sessions != NULL) {
        struct tn_votes_session *session = store->votes.sessions;
        store->votes.sessions = session->next;
        free(session);
    }
}
