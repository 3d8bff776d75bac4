/* redlock.c - the store redlock: rounds, sessions and listings; redlock.h has the idea.
 *
 * Happy path: a request goes to all nodes, and its answer is that of a majority. What can fail:
 * some nodes, which costs nothing as long as a majority is left; or too many, and then the request
 * fails, or counts as unknown where some of them may have done it. */
#include "stores/redis/redlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "core/plan.h"
#include "stores/redis/redis.h"

/* Whole milliseconds at a node, and a little more for what a wall clock does between two readings;
 * clocks that run at different rates are what rho is for. */
#define SLACK TN_MS(10)

tenure_ns tn_rl_now(const struct tn_rl_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

unsigned tn_rl_count(uint32_t mask)
{
    unsigned count = 0;

    for (; mask != 0; mask &= mask - 1)
        count++;
    return count;
}

bool tn_rl_is_majority(const struct tn_rl_store *store, uint32_t mask)
{
    return tn_rl_count(mask) >= store->majority;
}

/* --- Rounds --------------------------------------------------------------------------------- */

static void vote_done(struct tn_store_req *req)
{
    struct tn_rl_vote *vote = (struct tn_rl_vote *)(void *)req;
    struct tn_rl_round *round = vote->round;
    struct tn_rl_bid *bid = round->bid;

    vote->done = true;
    round->answered++;
    round->heard(round, vote);
    if (round->answered < round->asked)
        return;
    TN_ASSERT(round->req == NULL);
    free(round);
    if (bid != NULL && --bid->refs == 0 && bid->dropped)
        free(bid);
}

/* At the nodes of @opens, OPEN takes the place of RENEW. */
static struct tn_rl_round *ask(struct tn_rl_store *store, const struct tn_op *op, uint32_t mask,
                               uint32_t opens, tn_rl_heard *heard, struct tn_rl_bid *bid)
{
    size_t size = sizeof(struct tn_rl_round) + store->count * sizeof(struct tn_rl_vote);
    struct tn_rl_round *round = mask != 0 ? calloc(1, size) : NULL;

    if (round == NULL)
        return NULL;
    round->store = store;
    round->heard = heard;
    round->bid = bid;
    round->op = *op;
    if (op->name != NULL)
        memcpy(round->name, op->name, op->name_len);
    if (op->label != NULL)
        memcpy(round->label, op->label, op->label_len);
    round->op.name = round->name;
    round->op.label = round->label;
    if (bid != NULL)
        bid->refs++;
    round->asked = tn_rl_count(mask);
    for (unsigned i = 0, at = 0; i < store->count; i++) {
        struct tn_rl_vote *vote = &round->votes[at];
        if ((mask & 1U << i) == 0)
            continue;
        at++;
        vote->round = round;
        vote->bit = 1U << i;
        vote->req.base.op = round->op;
        if ((opens & vote->bit) != 0)
            vote->req.base.op.kind = TN_OP_OPEN;
        vote->req.base.done = vote_done;
    }
    for (unsigned at = 0; at < round->asked; at++) {
        struct tn_rl_vote *vote = &round->votes[at];
        struct tn_store *redis = store->nodes[__builtin_ctz(vote->bit)].redis;
        redis->ops->submit(redis, &vote->req.base);
    }
    return round;
}

struct tn_rl_round *tn_rl_ask(struct tn_rl_store *store, const struct tn_op *op, uint32_t mask,
                              tn_rl_heard *heard, struct tn_rl_bid *bid)
{
    return ask(store, op, mask, 0, heard, bid);
}

uint32_t tn_rl_said(const struct tn_rl_round *round, enum tn_answer answer)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < round->asked; i++) {
        const struct tn_rl_vote *vote = &round->votes[i];
        if (vote->done && vote->req.base.status == 0 && vote->req.base.answer == answer)
            mask |= vote->bit;
    }
    return mask;
}

uint32_t tn_rl_all(const struct tn_rl_store *store)
{
    return (1U << store->count) - 1;
}

uint32_t tn_rl_silent(const struct tn_rl_round *round)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < round->asked; i++)
        if (!round->votes[i].done)
            mask |= round->votes[i].bit;
    return mask;
}

uint32_t tn_rl_unsure(const struct tn_rl_round *round)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < round->asked; i++)
        if (round->votes[i].done && tenure_error_unknown(round->votes[i].req.base.status))
            mask |= round->votes[i].bit;
    return mask;
}

/* Waiting does not mend it. */
static bool is_final(int code)
{
    return code == TENURE_E_DENIED || code == TENURE_E_UNSUPPORTED;
}

int tn_rl_blame(const struct tn_rl_round *round, char why[TN_ERROR_TEXT])
{
    const struct tn_rl_store *store = round->store;
    const struct tn_store_req *failed = NULL;
    unsigned good = 0;

    for (unsigned i = 0; i < round->asked; i++) {
        const struct tn_store_req *req = &round->votes[i].req.base;
        good += round->votes[i].done && req->status == 0;
        /* What cannot be mended by waiting is told first. */
        if (round->votes[i].done && req->status != 0 && (failed == NULL || is_final(req->status)))
            failed = req;
    }
    if (store->base.closing) {
        (void)snprintf(why, TN_ERROR_TEXT, "the store is closed");
        return TENURE_E_CLOSED;
    }
    (void)snprintf(why, TN_ERROR_TEXT,
                   "redlock: %u of %u servers answered, and %u must agree%s%.300s", good,
                   store->count, store->majority, failed != NULL ? "; " : "",
                   failed != NULL ? failed->error : "");
    if (failed != NULL && is_final(failed->status))
        return failed->status;
    /* Whoever answered may have done it. */
    return good > 0 || (failed != NULL && tenure_error_unknown(failed->status))
               ? TENURE_E_TIMEOUT
               : TENURE_E_UNAVAILABLE;
}

/* The request has its answer. */
static void answer(struct tn_rl_round *round, enum tn_answer said)
{
    struct tn_store_req *req = round->req;

    round->over = true;
    round->req = NULL;
    if (req == NULL)
        return;
    req->answer = said;
    tn_req_finish(req, 0, "");
}

static void fail_round(struct tn_rl_round *round)
{
    struct tn_store_req *req = round->req;
    char why[TN_ERROR_TEXT];
    int code = tn_rl_blame(round, why);

    round->over = true;
    round->req = NULL;
    if (req != NULL)
        tn_req_finish(req, code, why);
}

/* Once a majority says the same, or nobody is left to ask. */
static void judge_plainly(struct tn_rl_round *round)
{
    static const enum tn_answer answers[] = { TN_ANSWER_OK, TN_ANSWER_STALE, TN_ANSWER_GONE,
                                              TN_ANSWER_FULL };

    if (round->over)
        return;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (tn_rl_is_majority(round->store, tn_rl_said(round, answers[i]))) {
            answer(round, answers[i]);
            return;
        }
    }
    if (round->answered == round->asked)
        fail_round(round);
}

/* --- Sessions ------------------------------------------------------------------------------- */

struct tn_rl_session *tn_rl_session_find(struct tn_rl_store *store, const struct tn_secret *secret)
{
    struct tn_rl_session *session = store->sessions;

    while (session != NULL && !tn_secret_equal(&session->secret, secret))
        session = session->next;
    return session;
}

static struct tn_rl_session *add_session(struct tn_rl_store *store, const struct tn_op *op)
{
    struct tn_rl_session *session = tn_rl_session_find(store, &op->session);

    if (session != NULL)
        return session;
    session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->secret = op->session;
    session->ttl = op->ttl;
    session->label_len = op->label_len;
    if (op->label_len > 0)
        memcpy(session->label, op->label, op->label_len);
    session->next = store->sessions;
    store->sessions = session;
    return session;
}

static void drop_session(struct tn_rl_store *store, const struct tn_secret *secret)
{
    struct tn_secret gone = *secret;

    tn_rl_bids_lost(store, &gone, UINT32_MAX);
    for (struct tn_rl_session **link = &store->sessions; *link != NULL; link = &(*link)->next) {
        struct tn_rl_session *session = *link;
        if (tn_secret_equal(&session->secret, &gone)) {
            *link = session->next;
            free(session);
            return;
        }
    }
}

/* The largest set of nodes that took the renewal and agree on the leases; and one of its votes. */
static uint32_t agreeing(const struct tn_rl_round *round, const struct tn_rl_vote **ret_vote)
{
    uint32_t best = 0;

    *ret_vote = NULL;
    for (unsigned i = 0; i < round->asked; i++) {
        const struct tn_rl_vote *one = &round->votes[i];
        uint32_t mask = 0;
        if (!one->done || one->req.base.status != 0 || one->req.base.answer != TN_ANSWER_OK)
            continue;
        for (unsigned j = 0; j < round->asked; j++) {
            const struct tn_rl_vote *other = &round->votes[j];
            if (other->done && other->req.base.status == 0 &&
                other->req.base.answer == TN_ANSWER_OK && other->req.digest == one->req.digest)
                mask |= other->bit;
        }
        if (tn_rl_count(mask) > tn_rl_count(best)) {
            best = mask;
            *ret_vote = one;
        }
    }
    return best;
}

static void count_renewal(struct tn_rl_round *round)
{
    struct tn_rl_store *store = round->store;
    struct tn_rl_session *session = tn_rl_session_find(store, &round->op.session);
    const struct tn_rl_vote *vote;
    uint32_t mask = agreeing(round, &vote);

    if (!tn_rl_is_majority(store, mask) || !tn_rl_bids_covered(store, &round->op.session, mask))
        return;
    if (session != NULL && (round->op.seq == 0 || round->op.seq >= session->good_seq)) {
        session->good = tn_rl_said(round, TN_ANSWER_OK);
        if (round->op.seq > session->good_seq)
            session->good_seq = round->op.seq;
        tn_rl_bids_good(store, &round->op.session);
    }
    if (round->req != NULL) {
        round->req->ttl = vote->req.base.ttl;
        round->req->held = vote->req.sure;
    }
    answer(round, TN_ANSWER_OK);
}

/* Nodes that took the renewal and do not agree with the others are put right. */
static void heal(struct tn_rl_round *round)
{
    struct tn_secret session = round->op.session;
    const struct tn_rl_vote *vote;
    uint32_t good = agreeing(round, &vote);
    uint32_t others = tn_rl_said(round, TN_ANSWER_OK) & ~good;

    for (unsigned i = 0; i < round->store->count && !round->store->base.closing; i++)
        if ((others & 1U << i) != 0)
            tn_rl_bids_heal(round->store, &session, 1U << i);
}

static void heard_session(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_rl_store *store = round->store;
    struct tn_rl_session *session = tn_rl_session_find(store, &round->op.session);
    struct tn_secret secret = round->op.session;
    bool said = vote->req.base.status == 0;

    if (session != NULL && said && vote->req.base.answer == TN_ANSWER_OK &&
        (session->open & vote->bit) == 0) {
        session->open |= vote->bit;
        tn_rl_bids_join(store, &secret, vote->bit);
    }
    if (session != NULL && said && vote->req.base.answer == TN_ANSWER_GONE) {
        session->open &= ~vote->bit;
        session->good &= ~vote->bit;
        tn_rl_bids_lost(store, &secret, vote->bit);
    }
    if (said && vote->req.base.answer == TN_ANSWER_OK)
        count_renewal(round);
    bool gone = !round->over && tn_rl_is_majority(store, tn_rl_said(round, TN_ANSWER_GONE));
    bool stale = !round->over && tn_rl_is_majority(store, tn_rl_said(round, TN_ANSWER_STALE));
    if (gone)
        drop_session(store, &secret);
    if (gone || stale)
        answer(round, gone ? TN_ANSWER_GONE : TN_ANSWER_STALE);
    if (round->answered < round->asked)
        return;
    heal(round);
    if (!round->over)
        fail_round(round);
}

/* Where the session is not, or not any more, it is opened. */
static void submit_session(struct tn_rl_store *store, struct tn_store_req *req)
{
    bool open = req->op.kind == TN_OP_OPEN;
    struct tn_rl_session *session =
        open ? add_session(store, &req->op) : tn_rl_session_find(store, &req->op.session);
    uint32_t opens = open || session == NULL ? 0 : ~session->open;
    struct tn_op op = req->op;
    struct tn_rl_round *round = NULL;

    if (session != NULL && !open) {
        op.label = session->label;
        op.label_len = session->label_len;
        op.ttl = session->ttl;
    }
    if (session != NULL || !open)
        round = ask(store, &op, tn_rl_all(store), opens, heard_session, NULL);
    if (round != NULL)
        round->req = req;
    else
        tn_rl_fault(store, req, TENURE_E_NOMEM, "out of memory");
}

static void heard_close(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    uint32_t closed = tn_rl_said(round, TN_ANSWER_OK);
    uint32_t gone = tn_rl_said(round, TN_ANSWER_GONE);

    (void)vote;
    if (!round->over && tn_rl_is_majority(round->store, closed | gone))
        answer(round, closed != 0 ? TN_ANSWER_OK : TN_ANSWER_GONE);
    else if (!round->over && round->answered == round->asked)
        fail_round(round);
}

/* --- Names ---------------------------------------------------------------------------------- */

static bool is_before(const struct tn_secret *a, const struct tn_secret *b)
{
    return memcmp(a, b, sizeof *a) < 0;
}

/* Of terms with the same number of votes the one with the lower hash, which is the same for all who
 * look. */
uint32_t tn_rl_holder(const struct tn_rl_round *round, bool sure,
                      struct tn_store_record *ret_record)
{
    uint32_t best = 0;

    for (unsigned i = 0; i < round->asked; i++) {
        const struct tn_rl_vote *one = &round->votes[i];
        uint32_t mask = 0;
        if (!one->done || one->req.base.status != 0)
            continue;
        if (!one->req.base.record.held || (sure && !one->req.confirmed))
            continue;
        for (unsigned j = 0; j < round->asked; j++) {
            const struct tn_rl_vote *other = &round->votes[j];
            if (other->done && other->req.base.status == 0 && other->req.base.record.held &&
                (!sure || other->req.confirmed) &&
                tn_secret_equal(&other->req.base.record.term, &one->req.base.record.term))
                mask |= other->bit;
        }
        if (tn_rl_count(mask) > tn_rl_count(best) ||
            (tn_rl_count(mask) == tn_rl_count(best) &&
             is_before(&one->req.base.record.term, &ret_record->term))) {
            best = mask;
            *ret_record = one->req.base.record;
        }
    }
    return best;
}

/* Nodes that have answered, whatever it was. */
static uint32_t answered(const struct tn_rl_round *round)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < round->asked; i++)
        if (round->votes[i].done && round->votes[i].req.base.status == 0)
            mask |= round->votes[i].bit;
    return mask;
}

static int compare_tokens(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* Free, as far as those who answered know. A token that is on record at few nodes may never have
 * become one; what a majority has reached, without the votes that are out now, is below every token
 * to come: nobody who has seen it refuses the next. */
static void set_free(const struct tn_rl_store *store, uint64_t *tokens, size_t count,
                     struct tn_store_record *ret_record)
{
    qsort(tokens, count, sizeof *tokens, compare_tokens);
    *ret_record =
        (struct tn_store_record) { .token =
                                       count >= store->majority ? tokens[store->majority - 1] : 0 };
}

static void read_free(const struct tn_rl_round *round, struct tn_store_record *ret_record)
{
    uint64_t tokens[TN_ENDPOINTS_MAX];
    size_t count = 0;

    for (unsigned i = 0; i < round->asked; i++)
        if (round->votes[i].done && round->votes[i].req.base.status == 0)
            tokens[count++] = round->votes[i].req.last;
    set_free(round->store, tokens, count, ret_record);
}

/* False: not known yet, and @ret_record is what there is. */
bool tn_rl_read(const struct tn_rl_round *round, struct tn_store_record *ret_record)
{
    const struct tn_rl_store *store = round->store;
    struct tn_store_record record = { .held = false };
    uint32_t mask = tn_rl_holder(round, true, &record);
    unsigned rest = store->count - tn_rl_count(answered(round));

    read_free(round, ret_record);
    if (tn_rl_is_majority(store, mask)) {
        *ret_record = record;
        return true;
    }
    if (tn_rl_count(mask) + rest >= store->majority && round->answered < round->asked)
        return false;
    return tn_rl_is_majority(store, answered(round));
}

static void heard_read(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_store_record record;

    (void)vote;
    if (!round->over && tn_rl_read(round, &record)) {
        round->req->record = record;
        answer(round, record.held ? TN_ANSWER_HELD : TN_ANSWER_FREE);
    } else if (!round->over && round->answered == round->asked) {
        fail_round(round);
    }
}

static void heard_revoke(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    (void)vote;
    if (round->req != NULL)
        (void)tn_rl_read(round, &round->req->record);
    judge_plainly(round);
}

/* --- News of the nodes ---------------------------------------------------------------------- */

static void node_granted(void *arg, const char *name, const struct tn_secret *hash, uint64_t token)
{
    struct tn_rl_node *node = arg;

    if (!node->store->base.closing)
        tn_rl_hear_vote(node->store, 1U << node->number, name, hash, token);
}

static void node_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    struct tn_rl_node *node = arg;

    if (!node->store->base.closing)
        tn_rl_watch_hear(node->store, name, record);
}

static void node_revoked(void *arg, const char *name, uint64_t token)
{
    struct tn_rl_node *node = arg;

    (void)token;
    if (!node->store->base.closing)
        tn_rl_hear_revoked(node->store, name);
}

/* --- Listings ------------------------------------------------------------------------------- */

struct listing {
    struct tn_rl_store *store;
    tn_store_listed *done;
    void *arg;
    struct tn_store_lease *leases; /* Of all nodes. */
    size_t count;
    unsigned left, good;
    int status;
    char error[TN_ERROR_TEXT];
};

static int compare_leases(const void *a, const void *b)
{
    const struct tn_store_lease *x = a;
    const struct tn_store_lease *y = b;
    int order = strcmp(x->name, y->name);

    if (order == 0)
        order = memcmp(&x->record.term, &y->record.term, sizeof x->record.term);
    return order != 0 ? order : compare_tokens(&x->record.token, &y->record.token);
}

/* Those of one name, in the order of their terms and tokens, become one: a majority that has
 * confirmed a term has one token for it. */
static void merge(const struct tn_rl_store *store, const struct tn_store_lease *leases,
                  size_t count, struct tn_store_lease *ret_lease)
{
    struct tn_store_lease lease = leases[0];
    uint64_t tokens[TN_ENDPOINTS_MAX];
    size_t run = 0;

    for (size_t i = 0; i < count; i++)
        tokens[i] = leases[i].record.token;
    set_free(store, tokens, count, &lease.record);
    for (size_t i = 0; i < count; i++) {
        const struct tn_store_record *record = &leases[i].record;
        bool same = i > 0 && tn_secret_equal(&record->term, &leases[i - 1].record.term) &&
                    record->token == leases[i - 1].record.token;
        run = record->held ? (same ? run + 1 : 1) : 0;
        if (run >= store->majority)
            lease.record = *record;
    }
    *ret_lease = lease;
}

static void finish_list(struct listing *list)
{
    struct tn_store_lease *leases = list->leases;
    size_t found = 0;

    if (list->good < list->store->majority || list->status == TENURE_E_NOMEM) {
        list->done(list->arg, list->status, NULL, 0, list->error);
        free(leases);
        free(list);
        return;
    }
    qsort(leases, list->count, sizeof *leases, compare_leases);
    for (size_t at = 0, next; at < list->count; at = next) {
        for (next = at + 1; next < list->count && strcmp(leases[next].name, leases[at].name) == 0;)
            next++;
        merge(list->store, leases + at, next - at, &leases[found++]);
    }
    list->done(list->arg, 0, leases, found, NULL);
    free(list);
}

static void node_listed(void *arg, int status, struct tn_store_lease *leases, size_t count,
                        const char *error)
{
    struct listing *list = arg;

    if (status == 0) {
        struct tn_store_lease *all =
            realloc(list->leases, (list->count + count + 1) * sizeof *leases);
        list->good++;
        if (all != NULL) {
            memcpy(all + list->count, leases, count * sizeof *leases);
            list->leases = all;
            list->count += count;
        } else {
            list->status = TENURE_E_NOMEM;
        }
        free(leases);
    } else if (list->status == 0) {
        list->status = list->store->base.closing ? TENURE_E_CLOSED : status;
        (void)snprintf(list->error, sizeof list->error, "%s", error != NULL ? error : "");
    }
    if (--list->left == 0)
        finish_list(list);
}

static void list_names(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;
    struct listing *list = calloc(1, sizeof *list);

    if (list == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    *list = (struct listing) { .store = store, .done = done, .arg = arg, .left = store->count };
    for (unsigned i = 0; i < store->count; i++)
        store->nodes[i].redis->ops->list(store->nodes[i].redis, prefix, node_listed, list);
}

/* --- Its life ------------------------------------------------------------------------------- */

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;
    const char *fault = tn_op_fault(&req->op);
    struct tn_rl_round *round;

    tn_req_init(req);
    if (fault == NULL && req->op.kind > TN_OP_REVOKE)
        fault = "redlock: no such operation";
    if (fault != NULL) {
        tn_rl_fault(store, req, TENURE_E_INVALID, fault);
        return;
    }
    if (store->base.closing) {
        tn_rl_fault(store, req, TENURE_E_CLOSED, "the store is closed");
        return;
    }
    if (req->op.kind == TN_OP_OPEN || req->op.kind == TN_OP_RENEW) {
        submit_session(store, req);
    } else if (req->op.kind == TN_OP_ACQUIRE) {
        tn_rl_acquire(store, req);
    } else if (req->op.kind == TN_OP_RELEASE) {
        tn_rl_release(store, req);
    } else {
        tn_rl_heard *heard = req->op.kind == TN_OP_READ    ? heard_read
                             : req->op.kind == TN_OP_CLOSE ? heard_close
                                                           : heard_revoke;
        if (req->op.kind == TN_OP_CLOSE)
            drop_session(store, &req->op.session);
        round = tn_rl_ask(store, &req->op, tn_rl_all(store), heard, NULL);
        if (round != NULL)
            round->req = req;
        else
            tn_rl_fault(store, req, TENURE_E_NOMEM, "out of memory");
    }
}

static void handle_closed(uv_handle_t *handle)
{
    struct tn_rl_store *store = handle->data;

    if (--store->handles > 0)
        return;
    tn_rl_bids_done(store);
    while (store->sessions != NULL) {
        struct tn_rl_session *session = store->sessions;
        store->sessions = session->next;
        free(session);
    }
    tn_rl_watches_done(store);
    tn_store_gone(&store->base);
}

static void node_closed(void *arg)
{
    struct tn_rl_store *store = arg;

    if (--store->open_nodes > 0)
        return;
    tn_req_finish_all(&store->faulty);
    uv_close((uv_handle_t *)&store->timer, handle_closed);
    uv_close((uv_handle_t *)&store->idle, handle_closed);
}

static void run_idle(uv_idle_t *idle)
{
    struct tn_rl_store *store = idle->data;

    (void)uv_idle_stop(idle);
    tn_req_finish_all(&store->faulty);
    if (!store->base.closing || store->shut)
        return;
    store->shut = true;
    for (unsigned i = 0; i < store->count; i++)
        store->nodes[i].redis->ops->close(store->nodes[i].redis, node_closed, store);
}

void tn_rl_fault(struct tn_rl_store *store, struct tn_store_req *req, int status, const char *why)
{
    tn_req_fail(req, status, why);
    tn_req_add(&store->faulty, req);
    (void)uv_idle_start(&store->idle, run_idle);
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_rl_store *store = timer->data;

    if (store->base.closing)
        return;
    tn_rl_bids_check(store, tn_rl_now(store));
    tn_rl_arm(store);
}

void tn_rl_arm(struct tn_rl_store *store)
{
    tn_store_wake_at(&store->base, &store->timer, hear_timer,
                     store->base.closing ? TN_NEVER : tn_rl_bids_check_at(store));
}

static void close_store(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;

    tn_store_close(base, closed, arg);
    (void)uv_timer_stop(&store->timer);
    (void)uv_idle_start(&store->idle, run_idle);
}

static void tell_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct tn_rl_store *store = (const struct tn_rl_store *)base;

    /* Whoever has something to complain of, otherwise the last. */
    for (unsigned i = 0; i < store->count; i++) {
        const struct tn_store *redis = store->nodes[i].redis;
        redis->ops->facts(redis, ret_facts);
        if (ret_facts->warning[0] != '\0')
            return;
    }
}

/* A store of redis: for each; false: @reterr says why, and none is left. */
static int open_nodes(struct tn_rl_store *store, struct tn_text *reterr)
{
    static const struct tn_store_host host = { node_granted, node_changed, node_revoked };
    struct tn_rd_url url = store->url;
    int rc = 0;

    url.net.count = 1;
    for (unsigned i = 0; i < store->url.net.count && rc == 0; i++) {
        struct tn_rl_node *node = &store->nodes[i];
        struct tn_store_open how = store->base.how;
        node->store = store;
        node->number = i;
        how.host = &host;
        how.arg = node;
        /* So that what some nodes did not answer can still be told in time. */
        how.patience = how.patience / 2;
        url.net.endpoints[0] = store->url.net.endpoints[i];
        rc = tn_rd_open(&tn_redis_store_ops, &how, &url, true, &node->redis, reterr);
        if (rc == 0)
            store->count = i + 1;
    }
    for (unsigned i = 0; rc < 0 && i < store->count; i++)
        store->nodes[i].redis->ops->close(store->nodes[i].redis, NULL, NULL);
    return rc;
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_rl_store *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    tn_prng_seed(&store->prng, store->base.seeds[0]);
    store->due_end = &store->due;
    int rc = tn_rd_url_parse(ops->scheme, how->rest, &store->url, reterr);
    if (rc == 0)
        rc = open_nodes(store, reterr);
    if (rc < 0) {
        free(store);
        return rc;
    }
    store->majority = store->count / 2 + 1;
    store->open_nodes = store->count;
    (void)uv_timer_init(how->loop, &store->timer);
    (void)uv_idle_init(how->loop, &store->idle);
    store->timer.data = store->idle.data = store;
    store->handles = 2;
    *ret_store = &store->base;
    return 0;
}

#define OPS(scheme_)                                                                             \
    {                                                                                            \
        .scheme = (scheme_), .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_ADVISORY,       \
        .slack = SLACK, .ttl_min = TN_TTL_MIN, .ttl_max = TN_TTL_MAX, .open = open_store,        \
        .submit = submit, .watch = tn_rl_watch, .list = list_names, .close = close_store,        \
        .facts = tell_facts,                                                                     \
        .class_why = "a server that restarts without its data votes twice, and all trust their " \
                     "wall clocks",                                                              \
        .clock_why = "each server has its own",                                                  \
        .restored = "raise the counter at every server: redis-cli SET {tenure}:token #"          \
    }

const struct tn_store_ops tn_redlock_store_ops = OPS("redlock");
const struct tn_store_ops tn_redlocks_store_ops = OPS("redlocks");
