/* bids.c - the votes of Redlock, name by name; redlock.h has the idea.
 *
 * Happy path: every node grants the lease, which is a vote with a token of that node's counter. The
 * highest token of a majority of votes becomes the term's: it is confirmed at all nodes that voted,
 * each of which raises its counter to it, if its vote still stands. Once a majority among those
 * that the session's deadline rests on has confirmed, the term is held.
 *
 * What can fail: the votes split. Who has too few of them for a moment looks at who has the most,
 * and if that is another gives its own up and queues again. A node that was away, or has lost its
 * data, is asked for the votes that it lacks. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sha256.h"
#include "stores/redis/redlock.h"

/* How long too few votes are kept before they are looked at, and at most that much longer. */
#define CHECK_AFTER TN_MS(60)
#define CHECK_SPREAD TN_MS(140)

/* How often an acquire is asked whose votes had moved on before they were confirmed. */
#define TRIES 5

static struct tn_rl_bid **bucket_of(struct tn_rl_store *store, const char *name, size_t len)
{
    const struct tn_hash_key key = { 0, 0 };

    return &store->bids[tn_hash(key, name, len) % TN_RD_BUCKETS];
}

/* @session NULL: of any. */
static struct tn_rl_bid *find_bid(struct tn_rl_store *store, const char *name, size_t len,
                                  const struct tn_secret *session, const struct tn_secret *hash)
{
    struct tn_rl_bid *bid = *bucket_of(store, name, len);

    while (bid != NULL && (strlen(bid->name) != len || memcmp(bid->name, name, len) != 0 ||
                           !tn_secret_equal(&bid->hash, hash) ||
                           (session != NULL && !tn_secret_equal(&bid->session, session))))
        bid = bid->next;
    return bid;
}

static struct tn_rl_bid *add_bid(struct tn_rl_store *store, const struct tn_op *op)
{
    struct tn_rl_bid **bucket = bucket_of(store, op->name, op->name_len);
    struct tn_secret hash;

    tn_secret_hash(&op->term, 't', &hash);
    struct tn_rl_bid *bid = find_bid(store, op->name, op->name_len, &op->session, &hash);
    if (bid != NULL)
        return bid;
    bid = calloc(1, sizeof *bid);
    if (bid == NULL)
        return NULL;
    bid->session = op->session;
    bid->term = op->term;
    bid->hash = hash;
    bid->check_at = TN_NEVER;
    memcpy(bid->name, op->name, op->name_len);
    bid->next = *bucket;
    *bucket = bid;
    return bid;
}

static void drop_bid(struct tn_rl_store *store, struct tn_rl_bid *bid)
{
    struct tn_rl_bid **link = bucket_of(store, bid->name, strlen(bid->name));

    if (bid->dropped)
        return;
    while (*link != bid)
        link = &(*link)->next;
    *link = bid->next;
    bid->dropped = true;
    if (bid->refs == 0)
        free(bid);
}

static struct tn_op op_of(const struct tn_rl_bid *bid, enum tn_op_kind kind)
{
    return (struct tn_op) { .kind = kind,
                            .session = bid->session,
                            .term = bid->term,
                            .name = bid->name,
                            .name_len = (uint32_t)strlen(bid->name),
                            .wait = true,
                            .token = kind == TN_OP_RAISE ? bid->token : 0 };
}

static void heard_nothing(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    (void)round;
    (void)vote;
}

/* Give votes back, and places in queues. The term is over there. */
static void withdraw(struct tn_rl_store *store, struct tn_rl_bid *bid, uint32_t mask)
{
    struct tn_op op = op_of(bid, TN_OP_RELEASE);

    (void)tn_rl_ask(store, &op, mask, heard_nothing, NULL);
}

/* The same for who was told that the name is held, and may ask again for the same term. */
static void step_back(struct tn_rl_store *store, struct tn_rl_bid *bid, uint32_t mask)
{
    struct tn_op op = op_of(bid, TN_OP_RELEASE);

    op.evident = true;
    (void)tn_rl_ask(store, &op, mask, heard_nothing, NULL);
}

static void finish_bid(struct tn_rl_bid *bid, enum tn_answer answer,
                       const struct tn_store_record *record)
{
    struct tn_store_req *req = bid->req;

    bid->req = NULL;
    if (req == NULL)
        return;
    req->answer = answer;
    req->record = *record;
    tn_req_finish(req, 0, "");
}

static void fail_bid(struct tn_rl_bid *bid, const struct tn_rl_round *round)
{
    struct tn_store_req *req = bid->req;
    char why[TN_ERROR_TEXT];
    int code = tn_rl_blame(round, why);

    bid->req = NULL;
    if (req != NULL)
        tn_req_finish(req, code, why);
}

/* It waits with some of the votes, or is in too few queues to win by waiting. */
static bool is_split(const struct tn_rl_store *store, const struct tn_rl_bid *bid)
{
    return bid->voted != 0 ||
           (bid->wait && !tn_rl_is_majority(store, tn_rl_all(store) & ~bid->out));
}

static void check_later(struct tn_rl_store *store, struct tn_rl_bid *bid)
{
    bid->check_at = tn_rl_now(store) + CHECK_AFTER +
                    (tenure_ns)tn_prng_below(&store->prng, (uint64_t)CHECK_SPREAD);
    tn_rl_arm(store);
}

/* --- Confirming ----------------------------------------------------------------------------- */

static void heard_confirm(struct tn_rl_round *round, struct tn_rl_vote *vote);

/* Nodes that the session's deadline rests on. */
static uint32_t good_of(struct tn_rl_store *store, const struct tn_rl_bid *bid)
{
    const struct tn_rl_session *session = tn_rl_session_find(store, &bid->session);

    return session != NULL ? session->good : UINT32_MAX;
}

static void confirm_at(struct tn_rl_store *store, struct tn_rl_bid *bid, uint32_t mask)
{
    struct tn_op op = op_of(bid, TN_OP_RAISE);

    mask &= ~bid->healing;
    if (tn_rl_ask(store, &op, mask, heard_confirm, bid) != NULL)
        bid->healing |= mask;
}

/* The term's token: the one that a majority has confirmed before, or the highest of the votes. */
static uint64_t choose_token(const struct tn_rl_store *store, const struct tn_rl_bid *bid)
{
    uint64_t highest = 0;

    for (unsigned i = 0; i < store->count; i++) {
        uint32_t same = 0;
        if ((bid->voted & 1U << i) == 0)
            continue;
        for (unsigned j = 0; j < store->count; j++)
            if ((bid->sure & 1U << j) != 0 && bid->tokens[j] == bid->tokens[i])
                same |= 1U << j;
        if (tn_rl_is_majority(store, same))
            return bid->tokens[i];
        if (bid->tokens[i] > highest)
            highest = bid->tokens[i];
    }
    return highest;
}

static void confirm(struct tn_rl_store *store, struct tn_rl_bid *bid)
{
    uint64_t token = choose_token(store, bid);

    bid->state = TN_RL_CONFIRMING;
    if (token != bid->token)
        bid->sure = 0;
    bid->token = token;
    bid->healing = 0;
    bid->check_at = TN_NEVER;
    confirm_at(store, bid, bid->voted);
}

static void hold(struct tn_rl_store *store, struct tn_rl_bid *bid)
{
    const struct tn_store_open *how = &store->base.how;
    const struct tn_rl_session *session = tn_rl_session_find(store, &bid->session);
    struct tn_store_record record = { .held = true, .token = bid->token, .term = bid->hash };

    if (session != NULL) {
        record.ttl = record.remaining = session->ttl;
        record.label_len = session->label_len;
        memcpy(record.label, session->label, session->label_len);
    }
    bid->state = TN_RL_HELD;
    bid->led = true;
    if (bid->req != NULL)
        finish_bid(bid, TN_ANSWER_GRANTED, &record);
    else
        how->host->granted(how->arg, bid->name, &bid->hash, bid->token);
}

static bool ask_all(struct tn_rl_store *store, struct tn_rl_bid *bid);

/* Held, once those who keep it until the deadline are a majority of who has confirmed. */
static void end_confirming(struct tn_rl_bid *bid, const struct tn_rl_round *round)
{
    struct tn_rl_store *store = round->store;
    struct tn_store_record record;

    if (tn_rl_is_majority(store, bid->sure & good_of(store, bid))) {
        hold(store, bid);
    } else if (bid->healing != 0 || bid->asking != NULL) {
        return; /* There is more to come. */
    } else if (tn_rl_is_majority(store, bid->sure)) {
        /* Confirmed, but not by those who keep it: the next renewal decides. */
        (void)tn_rl_read(round, &record);
        finish_bid(bid, TN_ANSWER_QUEUED, &record);
    } else if (bid->req != NULL && ++bid->tries < TRIES && ask_all(store, bid)) {
        return; /* Votes that had moved on by then. */
    } else {
        bid->state = TN_RL_WAITING;
        check_later(store, bid);
        fail_bid(bid, round);
    }
}

static void heard_confirm(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_rl_bid *bid = round->bid;
    bool said = vote->req.base.status == 0;

    if (bid->dropped || round->op.token != bid->token)
        return;
    bid->healing &= ~vote->bit;
    if (said && vote->req.base.answer == TN_ANSWER_OK) {
        bid->sure |= vote->bit;
        bid->tokens[__builtin_ctz(vote->bit)] = bid->token;
    } else if (said) {
        bid->voted &= ~vote->bit;
        bid->sure &= ~vote->bit;
    }
    if (bid->state == TN_RL_CONFIRMING)
        end_confirming(bid, round);
}

void tn_rl_bids_good(struct tn_rl_store *store, const struct tn_secret *session)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        for (struct tn_rl_bid *bid = store->bids[i], *next; bid != NULL; bid = next) {
            next = bid->next;
            if (bid->state == TN_RL_CONFIRMING && bid->req == NULL &&
                tn_secret_equal(&bid->session, session) &&
                tn_rl_is_majority(store, bid->sure & good_of(store, bid)))
                hold(store, bid);
        }
    }
}

/* A majority of votes is gone: another may have the name by now, or have had it. The application
 * hears of it before a renewal counts. */
static void end_if_lost(struct tn_rl_store *store, struct tn_rl_bid *bid)
{
    const struct tn_store_open *how = &store->base.how;

    if (bid->state != TN_RL_HELD || !bid->led || tn_rl_is_majority(store, bid->sure))
        return;
    bid->state = TN_RL_LEAVING;
    bid->led = false;
    withdraw(store, bid, bid->voted);
    how->host->revoked(how->arg, bid->name, bid->token);
}

/* --- Voting --------------------------------------------------------------------------------- */

/* Nodes that know who has the name. */
static uint32_t told(const struct tn_rl_round *round)
{
    return tn_rl_said(round, TN_ANSWER_GRANTED) | tn_rl_said(round, TN_ANSWER_QUEUED) |
           tn_rl_said(round, TN_ANSWER_HELD);
}

/* A majority cannot come about any more, or it is not known. */
static void end_asking(struct tn_rl_bid *bid, struct tn_rl_round *round)
{
    static const enum tn_answer finals[] = { TN_ANSWER_GONE, TN_ANSWER_STALE, TN_ANSWER_FULL };
    struct tn_rl_store *store = round->store;
    struct tn_store_record record;
    bool known = tn_rl_is_majority(store, told(round));

    (void)tn_rl_read(round, &record);
    bid->state = TN_RL_WAITING;
    if (bid->led && known) { /* Its majority is gone, and it with it. */
        withdraw(store, bid, tn_rl_all(store));
        drop_bid(store, bid);
        finish_bid(bid, TN_ANSWER_STALE, &record);
        return;
    }
    for (size_t i = 0; i < sizeof finals / sizeof finals[0]; i++) {
        if (tn_rl_is_majority(store, tn_rl_said(round, finals[i]))) {
            withdraw(store, bid, bid->voted);
            drop_bid(store, bid); /* First: the answer may lead to the next question. */
            finish_bid(bid, finals[i], &record);
            return;
        }
    }
    if (!known) {
        fail_bid(bid, round);
    } else if (bid->wait) {
        if (is_split(store, bid))
            check_later(store, bid);
        finish_bid(bid, TN_ANSWER_QUEUED, &record);
    } else {
        step_back(store, bid, bid->voted | tn_rl_unsure(round));
        drop_bid(store, bid);
        finish_bid(bid, TN_ANSWER_HELD, &record);
    }
}

/* Where some nodes have confirmed the term before, the others may have, too, and its token stands:
 * all are heard before another is chosen. Of a term that was led no other may be. */
static void decide(struct tn_rl_bid *bid, struct tn_rl_round *round)
{
    struct tn_rl_store *store = round->store;
    bool voted = tn_rl_is_majority(store, bid->voted);
    bool asked = bid->state == TN_RL_ASKING && bid->asking == round;
    bool hopeless = tn_rl_count(bid->voted) + tn_rl_count(tn_rl_silent(round)) < store->majority;
    struct tn_store_record record;

    if (voted && (bid->sure == 0 || tn_rl_is_majority(store, bid->sure) ||
                  (asked && !bid->led && round->answered == round->asked)))
        confirm(store, bid);
    else if (asked &&
             ((hopeless && tn_rl_is_majority(store, told(round)) && tn_rl_read(round, &record)) ||
              round->answered == round->asked))
        end_asking(bid, round);
    else if (bid->state == TN_RL_WAITING && is_split(store, bid) && bid->check_at == TN_NEVER)
        check_later(store, bid);
}

/* An answer for who has gone: what it gave, or may have given, goes back, unless the same term was
 * asked for anew. */
static void heard_late(struct tn_rl_round *round, const struct tn_rl_vote *vote)
{
    struct tn_rl_store *store = round->store;
    struct tn_rl_bid *bid = round->bid;
    bool unsure = (tn_rl_unsure(round) & vote->bit) != 0;
    bool given = vote->req.base.status == 0 && vote->req.base.answer == TN_ANSWER_GRANTED;

    if ((given || unsure) && !store->base.closing &&
        find_bid(store, bid->name, strlen(bid->name), &bid->session, &bid->hash) == NULL)
        step_back(store, bid, vote->bit);
}

static void heard_acquire(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_rl_store *store = round->store;
    struct tn_rl_bid *bid = round->bid;
    struct tn_rl_session *session = tn_rl_session_find(store, &bid->session);
    bool said = vote->req.base.status == 0;

    if (bid->dropped) {
        heard_late(round, vote);
        return;
    }
    bid->healing &= ~vote->bit;
    if (said)
        bid->out &= ~vote->bit;
    if (said && vote->req.base.answer == TN_ANSWER_STALE)
        bid->out |= vote->bit;
    if (bid->state == TN_RL_LEAVING) { /* Asked before it was given back. */
        if (said && vote->req.base.answer == TN_ANSWER_GRANTED)
            withdraw(store, bid, vote->bit);
        return;
    }
    if (said && vote->req.base.answer == TN_ANSWER_GRANTED) {
        bid->voted |= vote->bit;
        bid->tokens[__builtin_ctz(vote->bit)] = vote->req.base.record.token;
        bid->sure = vote->req.confirmed ? bid->sure | vote->bit : bid->sure & ~vote->bit;
    } else if (said) {
        bid->voted &= ~vote->bit;
        bid->sure &= ~vote->bit;
        if (session != NULL && vote->req.base.answer == TN_ANSWER_GONE) {
            session->open &= ~vote->bit;
            session->good &= ~vote->bit;
        }
    }
    if (bid->state == TN_RL_HELD || bid->state == TN_RL_CONFIRMING) {
        if ((bid->voted & ~bid->sure & vote->bit) != 0)
            confirm_at(store, bid, vote->bit);
        if (round->answered == round->asked && bid->asking == round)
            bid->asking = NULL;
        end_if_lost(store, bid);
        if (bid->state == TN_RL_CONFIRMING)
            end_confirming(bid, round);
        return;
    }
    decide(bid, round);
    if (round->answered == round->asked && bid->asking == round)
        bid->asking = NULL;
}

/* What the bid has by now is asked anew: the nodes know. */
static bool ask_all(struct tn_rl_store *store, struct tn_rl_bid *bid)
{
    struct tn_op op = op_of(bid, TN_OP_ACQUIRE);

    op.wait = bid->wait;
    bid->state = TN_RL_ASKING;
    bid->voted = bid->sure = 0;
    bid->check_at = TN_NEVER;
    bid->asking = tn_rl_ask(store, &op, tn_rl_all(store), heard_acquire, bid);
    return bid->asking != NULL;
}

void tn_rl_acquire(struct tn_rl_store *store, struct tn_store_req *req)
{
    struct tn_rl_bid *bid = add_bid(store, &req->op);

    if (bid != NULL && bid->state == TN_RL_LEAVING) { /* Delayed: this term is over. */
        req->answer = TN_ANSWER_STALE;
        req->record.token = bid->token;
        tn_rl_fault(store, req, 0, "");
        return;
    }
    if (bid != NULL && bid->req != NULL)
        tn_rl_fault(store, bid->req, TENURE_E_TIMEOUT, "redlock: asked again");
    if (bid != NULL) {
        bid->wait = req->op.wait;
        bid->req = req;
        bid->tries = 0;
    }
    if (bid == NULL || !ask_all(store, bid)) {
        if (bid != NULL)
            bid->req = NULL;
        tn_rl_fault(store, req, TENURE_E_NOMEM, "out of memory");
    }
}

/* --- Giving back ---------------------------------------------------------------------------- */

static void answer_release(struct tn_rl_round *round, enum tn_answer answer)
{
    struct tn_store_req *req = round->req;

    round->over = true;
    round->req = NULL;
    (void)tn_rl_read(round, &req->record);
    req->answer = answer;
    tn_req_finish(req, 0, "");
}

/* A vote that was not confirmed has another token: of our own term it counts as given back, and is
 * withdrawn. */
static void judge_release(struct tn_rl_round *round)
{
    struct tn_rl_store *store = round->store;
    uint32_t released = tn_rl_said(round, TN_ANSWER_RELEASED);
    uint32_t gone = tn_rl_said(round, TN_ANSWER_GONE);
    uint32_t stale = tn_rl_said(round, TN_ANSWER_STALE);
    uint32_t ours = released | gone | (round->bid != NULL ? stale : 0);
    char why[TN_ERROR_TEXT];

    if (round->over)
        return;
    if (tn_rl_is_majority(store, released) || (released != 0 && tn_rl_is_majority(store, ours))) {
        answer_release(round, TN_ANSWER_RELEASED);
    } else if (tn_rl_is_majority(store, gone)) {
        answer_release(round, TN_ANSWER_GONE);
    } else if (tn_rl_is_majority(store, stale)) {
        answer_release(round, TN_ANSWER_STALE);
    } else if (tn_rl_is_majority(store, tn_rl_said(round, TN_ANSWER_DENIED))) {
        answer_release(round, TN_ANSWER_DENIED);
    } else if (round->answered == round->asked) {
        struct tn_store_req *req = round->req;
        int code = tn_rl_blame(round, why);
        round->over = true;
        round->req = NULL;
        tn_req_finish(req, code, why);
    }
}

static void heard_release(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_rl_bid *bid = round->bid;
    bool said = vote->req.base.status == 0;

    if (bid != NULL && !bid->dropped) {
        if (said)
            bid->voted &= ~vote->bit;
        else
            bid->voted |= vote->bit; /* Still owed there. */
        if (said && vote->req.base.answer == TN_ANSWER_STALE)
            withdraw(round->store, bid, vote->bit);
        if (round->answered == round->asked && bid->voted == 0)
            drop_bid(round->store, bid);
    }
    judge_release(round);
}

void tn_rl_release(struct tn_rl_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    struct tn_secret hash;

    tn_secret_hash(&op->term, 't', &hash);
    struct tn_rl_bid *bid = find_bid(store, op->name, op->name_len, &op->session, &hash);
    if (bid != NULL && op->token != 0 && op->token != bid->token)
        bid = NULL;
    if (bid != NULL) {
        bid->state = TN_RL_LEAVING;
        bid->led = false;
        bid->check_at = TN_NEVER;
        if (bid->req != NULL)
            tn_rl_fault(store, bid->req, TENURE_E_TIMEOUT, "redlock: given back");
        bid->req = NULL;
    }
    struct tn_rl_round *round = tn_rl_ask(store, op, tn_rl_all(store), heard_release, bid);
    if (round != NULL)
        round->req = req;
    else
        tn_rl_fault(store, req, TENURE_E_NOMEM, "out of memory");
}

/* --- News ----------------------------------------------------------------------------------- */

void tn_rl_hear_vote(struct tn_rl_store *store, uint32_t bit, const char *name,
                     const struct tn_secret *hash, uint64_t token)
{
    struct tn_rl_bid *bid = find_bid(store, name, strlen(name), NULL, hash);

    if (bid == NULL)
        return;
    if (bid->state == TN_RL_LEAVING) {
        withdraw(store, bid, bit);
        return;
    }
    if ((bid->sure & bit) != 0)
        return; /* Known, and told again. */
    bid->voted |= bit;
    bid->tokens[__builtin_ctz(bit)] = token;
    if (bid->state == TN_RL_HELD || bid->state == TN_RL_CONFIRMING)
        confirm_at(store, bid, bit);
    else if (tn_rl_is_majority(store, bid->voted))
        confirm(store, bid);
    else if (bid->state == TN_RL_WAITING && bid->check_at == TN_NEVER)
        check_later(store, bid);
}

void tn_rl_hear_revoked(struct tn_rl_store *store, const char *name)
{
    const struct tn_store_open *how = &store->base.how;

    for (struct tn_rl_bid *bid = *bucket_of(store, name, strlen(name)); bid != NULL;
         bid = bid->next) {
        if (bid->state == TN_RL_HELD && strcmp(bid->name, name) == 0) {
            bid->led = false; /* Who is told this has stopped before the next renewal counts. */
            how->host->revoked(how->arg, name, bid->token);
            return;
        }
    }
}

/* --- Sessions ------------------------------------------------------------------------------- */

void tn_rl_bids_lost(struct tn_rl_store *store, const struct tn_secret *session, uint32_t mask)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        for (struct tn_rl_bid *bid = store->bids[i], *next; bid != NULL; bid = next) {
            next = bid->next;
            if (!tn_secret_equal(&bid->session, session))
                continue;
            bid->voted &= ~mask;
            bid->sure &= ~mask;
            if (mask != UINT32_MAX) {
                end_if_lost(store, bid);
                continue;
            }
            if (bid->req != NULL) {
                bid->req->answer = TN_ANSWER_GONE;
                tn_rl_fault(store, bid->req, 0, "");
            }
            bid->req = NULL;
            drop_bid(store, bid);
        }
    }
}

bool tn_rl_bids_covered(struct tn_rl_store *store, const struct tn_secret *session, uint32_t mask)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++)
        for (const struct tn_rl_bid *bid = store->bids[i]; bid != NULL; bid = bid->next)
            if (bid->led && tn_secret_equal(&bid->session, session) &&
                !tn_rl_is_majority(store, bid->sure & mask))
                return false;
    return true;
}

/* Ask the nodes of @mask for the vote, or whether they still have it. */
static void ask_again(struct tn_rl_store *store, struct tn_rl_bid *bid, uint32_t mask)
{
    struct tn_op op = op_of(bid, TN_OP_ACQUIRE);

    op.evident = true; /* The term is not over, whatever a node thinks. */
    mask &= ~bid->healing;
    if (tn_rl_ask(store, &op, mask, heard_acquire, bid) != NULL)
        bid->healing |= mask;
}

void tn_rl_bids_heal(struct tn_rl_store *store, const struct tn_secret *session, uint32_t bit)
{
    bool lacks = false;

    for (unsigned i = 0; i < TN_RD_BUCKETS; i++)
        for (const struct tn_rl_bid *bid = store->bids[i]; bid != NULL; bid = bid->next)
            lacks = lacks ||
                    (bid->led && (bid->sure & bit) == 0 && tn_secret_equal(&bid->session, session));
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        for (struct tn_rl_bid *bid = store->bids[i], *next; bid != NULL; bid = next) {
            next = bid->next;
            if (!tn_secret_equal(&bid->session, session))
                continue;
            if (bid->state == TN_RL_LEAVING)
                withdraw(store, bid, bit);
            else if (bid->led && ((bid->sure & bit) == 0 || !lacks))
                ask_again(store, bid, bit);
        }
    }
}

void tn_rl_bids_join(struct tn_rl_store *store, const struct tn_secret *session, uint32_t bit)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++)
        for (struct tn_rl_bid *bid = store->bids[i]; bid != NULL; bid = bid->next)
            if ((bid->led || (bid->state == TN_RL_WAITING && bid->wait)) &&
                tn_secret_equal(&bid->session, session))
                ask_again(store, bid, bit);
}

/* --- Votes that split ----------------------------------------------------------------------- */

/* Whoever has most goes on, and asks for what others gave up; they make way, and are in the queues
 * again. */
static void heard_check(struct tn_rl_round *round, struct tn_rl_vote *vote)
{
    struct tn_rl_store *store = round->store;
    struct tn_rl_bid *bid = round->bid;
    struct tn_store_record record = { .held = false };

    (void)vote;
    if (round->answered < round->asked || bid->dropped || bid->state != TN_RL_WAITING ||
        !is_split(store, bid))
        return;
    (void)tn_rl_holder(round, false, &record);
    if (bid->voted == 0 || !record.held || tn_secret_equal(&record.term, &bid->hash)) {
        if (bid->wait)
            ask_again(store, bid, tn_rl_all(store) & ~bid->voted);
        check_later(store, bid);
        return;
    }
    uint32_t mask = bid->voted;
    bid->voted = bid->sure = 0;
    withdraw(store, bid, mask);
    struct tn_op op = op_of(bid, TN_OP_ACQUIRE);
    (void)tn_rl_ask(store, &op, mask, heard_acquire, bid);
}

void tn_rl_bids_check(struct tn_rl_store *store, tenure_ns now)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        for (struct tn_rl_bid *bid = store->bids[i]; bid != NULL; bid = bid->next) {
            struct tn_op op = op_of(bid, TN_OP_READ);
            if (bid->check_at > now)
                continue;
            bid->check_at = TN_NEVER;
            if (bid->state == TN_RL_WAITING && is_split(store, bid))
                (void)tn_rl_ask(store, &op, tn_rl_all(store), heard_check, bid);
        }
    }
}

tenure_ns tn_rl_bids_check_at(const struct tn_rl_store *store)
{
    tenure_ns at = TN_NEVER;

    for (unsigned i = 0; i < TN_RD_BUCKETS; i++)
        for (const struct tn_rl_bid *bid = store->bids[i]; bid != NULL; bid = bid->next)
            if (bid->check_at < at)
                at = bid->check_at;
    return at;
}

void tn_rl_bids_done(struct tn_rl_store *store)
{
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        while (store->bids[i] != NULL) {
            struct tn_rl_bid *bid = store->bids[i];
            store->bids[i] = bid->next;
            free(bid);
        }
    }
}
