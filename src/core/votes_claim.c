/* votes_claim.c - the votes for one term on one name; votes.h has the picture and the rules.
 *
 * Happy path: every server gives its vote, with a token of its own counter. The highest token of a
 * majority becomes the term's and is confirmed at all servers that voted. Once a majority among
 * those that the session's deadline rests on has confirmed, the term is held.
 *
 * What can fail: the votes split. A claim with too few of them looks for the term with the most,
 * and if that is another's gives its own up and queues again. A server that was away, or has lost
 * its data, is asked for the votes that it lacks. */
#include "base/assert.h"
#include "core/plant.h"
#include "core/votes.h"

/* How often an acquire is asked whose votes had moved on before they were confirmed. */
enum { TRIES = 5 };

static struct tn_votes *votes_of(const struct tn_votes_claim *claim)
{
    return claim->session->votes;
}

/* Whether @mask decides for this claim. */
static bool is_enough(const struct tn_votes_claim *claim, uint32_t mask)
{
    const struct tn_votes *votes = votes_of(claim);

    if (TN_PLANT(VOTE_TWICE) && mask != 0)
        return claim->tally >= votes->majority;
    if (TN_PLANT(MINORITY_GRANT))
        return tn_votes_count(mask) + 1 >= votes->majority;
    return tn_votes_is_majority(votes, mask);
}

void tn_votes_claim_add(struct tn_votes_session *session, struct tn_votes_claim *claim,
                        uint64_t name, const struct tn_secret *term_hash)
{
    session->refs++;
    claim->name = name;
    claim->session = session;
    claim->term = *term_hash;
    claim->state = TN_VOTES_ENDED;
    claim->check_at = TN_NEVER;
    claim->next = session->claims;
    session->claims = claim;
}

void tn_votes_claim_unref(struct tn_votes_claim *claim)
{
    struct tn_votes_session *session = claim->session;
    const struct tn_votes *votes = session->votes;
    struct tn_votes_claim **link = &session->claims;

    bool owes = claim->owed != 0 && !session->over;
    if (claim->state != TN_VOTES_ENDED || claim->refs > 0 || owes)
        return;
    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    votes->host->forget(votes->arg, claim);
    if (--session->refs == 0 && session->over)
        votes->host->forget_session(votes->arg, session);
}

/* Its late answers still come, and what they give goes back. */
static void end_claim(struct tn_votes_claim *claim)
{
    claim->state = TN_VOTES_ENDED;
    claim->led = false;
    claim->voted = claim->sure = claim->busy = claim->out = 0;
    claim->tally = 0;
    claim->asking = NULL;
    claim->check_at = TN_NEVER;
    tn_votes_claim_unref(claim);
}

/* --- Questions and answers -------------------------------------------------------------------- */

static struct tn_votes_round *ask(struct tn_votes_claim *claim, enum tn_votes_kind kind,
                                  uint32_t mask)
{
    struct tn_votes_round draft = { .kind = kind,
                                    .session = claim->session,
                                    .claim = claim,
                                    .name = claim->name,
                                    .token = claim->token };

    return tn_votes_ask(votes_of(claim), &draft, mask);
}

/* Give votes back, and places in queues: YIELD or WITHDRAW. Owed until the server has said so. */
static void give_back(struct tn_votes_claim *claim, enum tn_votes_kind how, uint32_t mask)
{
    if (TN_PLANT(VOTES_KEPT))
        return;
    claim->back = how;
    claim->owed |= mask;
    if (ask(claim, how, mask) != NULL)
        claim->returning |= mask;
}

static void heard_back(struct tn_votes_round *round, unsigned server)
{
    struct tn_votes_claim *claim = round->claim;

    claim->returning &= ~(1U << server);
    if (round->replies[server].outcome == TN_VOTES_ANSWERED)
        claim->owed &= ~(1U << server);
}

static void finish(struct tn_votes_claim *claim, const struct tn_votes_result *result)
{
    const struct tn_votes *votes = votes_of(claim);
    void *job = claim->job;

    claim->job = NULL;
    if (job != NULL)
        votes->host->done(votes->arg, job, result);
}

static void answer(struct tn_votes_claim *claim, enum tn_answer said,
                   const struct tn_votes_round *round)
{
    struct tn_votes_result result = { .answer = said,
                                      .round = round,
                                      .record = { .server = -1, .token = claim->token } };

    if (round != NULL)
        (void)tn_votes_judge(round, &result.record);
    finish(claim, &result);
}

/* @round NULL: something else overtook it, and the outcome is unknown. */
static void fail(struct tn_votes_claim *claim, const struct tn_votes_round *round)
{
    finish(claim, &(struct tn_votes_result) { .failed = true, .round = round });
}

/* It waits with some of the votes, or is in too few queues to win by waiting. */
static bool is_split(const struct tn_votes_claim *claim)
{
    const struct tn_votes *votes = votes_of(claim);

    return claim->voted != 0 ||
           (claim->wait && !tn_votes_is_majority(votes, tn_votes_all(votes) & ~claim->out));
}

static void check_later(struct tn_votes_claim *claim)
{
    struct tn_votes *votes = votes_of(claim);

    claim->check_at = votes->now + votes->check_after +
                      (tenure_ns)tn_prng_below(&votes->prng, (uint64_t)votes->check_spread);
}

/* --- Confirming ------------------------------------------------------------------------------- */

static void confirm_at(struct tn_votes_claim *claim, uint32_t mask)
{
    mask &= ~claim->busy;
    if (ask(claim, TN_VOTES_CONFIRM, mask) != NULL)
        claim->busy |= mask;
}

/* The term's token: the one that a majority has confirmed before, or the highest of the votes. */
static uint64_t choose_token(const struct tn_votes_claim *claim)
{
    const struct tn_votes *votes = votes_of(claim);
    uint64_t chosen = 0;

    for (unsigned i = 0; i < votes->count; i++) {
        uint32_t same = 0;
        if ((claim->voted & 1U << i) == 0)
            continue;
        for (unsigned j = 0; j < votes->count; j++)
            if ((claim->sure & 1U << j) != 0 && claim->tokens[j] == claim->tokens[i])
                same |= 1U << j;
        if (tn_votes_is_majority(votes, same))
            return claim->tokens[i];
        if (chosen == 0 || (claim->tokens[i] > chosen && !TN_PLANT(FIRST_TOKEN)))
            chosen = claim->tokens[i];
    }
    return chosen;
}

static void confirm(struct tn_votes_claim *claim)
{
    uint64_t token = choose_token(claim);

    claim->state = TN_VOTES_CONFIRMING;
    if (token != claim->token)
        claim->sure = 0;
    claim->token = token;
    claim->busy = 0;
    claim->check_at = TN_NEVER;
    confirm_at(claim, claim->voted);
}

static void hold(struct tn_votes_claim *claim)
{
    const struct tn_votes *votes = votes_of(claim);
    struct tn_votes_result result = { .answer = TN_ANSWER_GRANTED,
                                      .claim = claim,
                                      .record = { .server = -1, .token = claim->token } };

    claim->state = TN_VOTES_HELD;
    claim->led = true;
    if (claim->job != NULL)
        finish(claim, &result);
    else
        votes->host->granted(votes->arg, claim);
}

/* What is asked anew is what the claim has by now: the servers know. */
static bool ask_all(struct tn_votes_claim *claim)
{
    claim->state = TN_VOTES_ASKING;
    claim->voted = claim->sure = claim->owed = 0;
    claim->check_at = TN_NEVER;
    claim->asking = ask(claim, TN_VOTES_ASK, tn_votes_all(votes_of(claim)));
    if (claim->asking == NULL)
        claim->state = TN_VOTES_WAITING;
    return claim->asking != NULL;
}

/* Held once a majority has confirmed the token and accepted the last renewal. */
static void end_confirming(struct tn_votes_claim *claim, const struct tn_votes_round *round)
{
    if (is_enough(claim, claim->sure & claim->session->good)) {
        hold(claim);
    } else if (claim->busy != 0 || claim->asking != NULL) {
        return; /* There is more to come. */
    } else if (is_enough(claim, claim->sure)) {
        /* Confirmed, but not by those who keep it until the deadline: the next renewal decides. */
        answer(claim, TN_ANSWER_QUEUED, round);
    } else if (claim->job != NULL && ++claim->tries < TRIES && ask_all(claim)) {
        return; /* Votes that had moved on by then. */
    } else {
        claim->state = TN_VOTES_WAITING;
        check_later(claim);
        fail(claim, round);
    }
}

static void heard_confirm(struct tn_votes_round *round, unsigned server)
{
    struct tn_votes_claim *claim = round->claim;
    const struct tn_votes_reply *reply = &round->replies[server];
    uint32_t bit = 1U << server;

    if (claim->state == TN_VOTES_ENDED || round->token != claim->token)
        return;
    claim->busy &= ~bit;
    if (reply->outcome == TN_VOTES_ANSWERED && reply->answer == TN_ANSWER_OK) {
        claim->sure |= bit;
        claim->tokens[server] = claim->token;
    } else if (reply->outcome == TN_VOTES_ANSWERED) {
        claim->voted &= ~bit;
        claim->sure &= ~bit;
    }
    if (claim->state == TN_VOTES_CONFIRMING)
        end_confirming(claim, round);
}

void tn_votes_claims_good(struct tn_votes_session *session)
{
    for (struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next)
        if (claim->state == TN_VOTES_CONFIRMING && claim->job == NULL &&
            is_enough(claim, claim->sure & session->good))
            hold(claim);
}

/* A majority of votes is gone: another may have the name by now, or have had it. The application
 * hears of it before a renewal counts. */
static void end_if_lost(struct tn_votes_claim *claim)
{
    const struct tn_votes *votes = votes_of(claim);

    if (claim->state != TN_VOTES_HELD || !claim->led || is_enough(claim, claim->sure))
        return;
    claim->state = TN_VOTES_LEAVING;
    claim->led = false;
    give_back(claim, TN_VOTES_WITHDRAW, claim->voted);
    votes->host->revoked(votes->arg, claim);
}

/* --- Voting ----------------------------------------------------------------------------------- */

/* Servers that know who has the name. */
static uint32_t informed(const struct tn_votes_round *round)
{
    return tn_votes_said(round, TN_ANSWER_GRANTED) | tn_votes_said(round, TN_ANSWER_QUEUED) |
           tn_votes_said(round, TN_ANSWER_HELD);
}

static enum tn_answer final_answer(const struct tn_votes_round *round)
{
    static const enum tn_answer finals[] = { TN_ANSWER_GONE, TN_ANSWER_STALE, TN_ANSWER_FULL };

    for (size_t i = 0; i < sizeof finals / sizeof finals[0]; i++)
        if (tn_votes_is_majority(round->votes, tn_votes_said(round, finals[i])))
            return finals[i];
    return TN_ANSWER_OK; /* There is none. */
}

/* A majority cannot come about any more, or nobody knows. */
static void end_asking(struct tn_votes_claim *claim, struct tn_votes_round *round)
{
    bool known = tn_votes_is_majority(round->votes, informed(round));
    enum tn_answer final = final_answer(round);

    claim->state = TN_VOTES_WAITING;
    if (claim->led && known) { /* Its majority is gone, and it with it. */
        give_back(claim, TN_VOTES_WITHDRAW, tn_votes_all(round->votes));
        answer(claim, TN_ANSWER_STALE, round);
        end_claim(claim);
    } else if (final != TN_ANSWER_OK) {
        give_back(claim, TN_VOTES_WITHDRAW, claim->voted);
        answer(claim, final, round);
        end_claim(claim);
    } else if (!known) {
        if (claim->wait && is_split(claim))
            check_later(claim);
        fail(claim, round);
    } else if (claim->wait) {
        if (is_split(claim))
            check_later(claim);
        answer(claim, TN_ANSWER_QUEUED, round);
    } else {
        give_back(claim, TN_VOTES_YIELD, claim->voted | tn_votes_unknown(round));
        answer(claim, TN_ANSWER_HELD, round);
        end_claim(claim);
    }
}

/* Where some servers have confirmed the term before, the others may have, too, and its token
 * stands: all are heard before another is chosen. For a term that was led no other may be. */
static void decide(struct tn_votes_claim *claim, struct tn_votes_round *round)
{
    const struct tn_votes *votes = round->votes;
    bool asked = claim->state == TN_VOTES_ASKING && claim->asking == round;
    bool complete = round->heard == round->asked;
    uint32_t silent = round->asked & ~round->heard;
    bool hopeless = !tn_votes_is_majority(votes, claim->voted | silent);
    struct tn_votes_record record;

    if (is_enough(claim, claim->voted) &&
        (claim->sure == 0 || tn_votes_is_majority(votes, claim->sure) ||
         (asked && !claim->led && complete)))
        confirm(claim);
    else if (asked && ((hopeless && tn_votes_is_majority(votes, informed(round)) &&
                        tn_votes_judge(round, &record)) ||
                       complete))
        end_asking(claim, round);
    else if (claim->state == TN_VOTES_WAITING && is_split(claim) && claim->check_at == TN_NEVER)
        check_later(claim);
}

/* What the server said of the claim's vote there. */
static void note_vote(struct tn_votes_claim *claim, const struct tn_votes_reply *reply,
                      unsigned server)
{
    uint32_t bit = 1U << server;

    if (reply->outcome != TN_VOTES_ANSWERED)
        return;
    if (reply->answer == TN_ANSWER_GRANTED) {
        claim->voted |= bit;
        claim->tally++;
        claim->tokens[server] = reply->token;
        claim->sure = reply->confirmed ? claim->sure | bit : claim->sure & ~bit;
        return;
    }
    claim->voted &= ~bit;
    claim->sure &= ~bit;
    if (reply->answer == TN_ANSWER_GONE) {
        claim->session->open &= ~bit;
        claim->session->good &= ~bit;
    }
}

/* The claim is over, or on its way: what was given, or may have been, goes back. */
static void heard_late(struct tn_votes_claim *claim, const struct tn_votes_reply *reply,
                       unsigned server)
{
    bool given = reply->outcome == TN_VOTES_ANSWERED && reply->answer == TN_ANSWER_GRANTED;
    bool unknown = reply->outcome == TN_VOTES_UNKNOWN && claim->state == TN_VOTES_ENDED;

    if ((given || unknown) && !claim->session->over)
        give_back(claim, claim->state == TN_VOTES_ENDED ? TN_VOTES_YIELD : TN_VOTES_WITHDRAW,
                  1U << server);
}

static void heard_ask(struct tn_votes_round *round, unsigned server)
{
    struct tn_votes_claim *claim = round->claim;
    const struct tn_votes_reply *reply = &round->replies[server];
    uint32_t bit = 1U << server;

    claim->busy &= ~bit;
    if (reply->outcome == TN_VOTES_ANSWERED)
        claim->out = reply->answer == TN_ANSWER_STALE ? claim->out | bit : claim->out & ~bit;
    if (claim->state == TN_VOTES_ENDED || claim->state == TN_VOTES_LEAVING) {
        heard_late(claim, reply, server);
        return;
    }
    note_vote(claim, reply, server);
    bool standing = claim->state == TN_VOTES_HELD || claim->state == TN_VOTES_CONFIRMING;
    if (!standing)
        decide(claim, round);
    if (standing && (claim->voted & ~claim->sure & bit) != 0)
        confirm_at(claim, bit);
    if (round->heard == round->asked && claim->asking == round)
        claim->asking = NULL;
    if (standing)
        end_if_lost(claim);
    if (standing && claim->state == TN_VOTES_CONFIRMING)
        end_confirming(claim, round);
}

bool tn_votes_acquire(struct tn_votes_claim *claim, tenure_ns now, bool wait, void *job)
{
    votes_of(claim)->now = now;
    fail(claim, NULL); /* The job before this one, if there is one. */
    claim->job = job;
    if (claim->state == TN_VOTES_LEAVING) { /* Delayed: this term is over. */
        answer(claim, TN_ANSWER_STALE, NULL);
        return true;
    }
    bool fresh = claim->state == TN_VOTES_ENDED;
    claim->wait = wait;
    claim->tries = 0;
    if (ask_all(claim))
        return true;
    claim->job = NULL;
    if (fresh)
        end_claim(claim);
    return false;
}

/* --- Giving back ------------------------------------------------------------------------------ */

/* A vote that was not confirmed has another token: of our own term it counts as given back, and is
 * withdrawn. */
static void judge_release(struct tn_votes_round *round)
{
    const struct tn_votes *votes = round->votes;
    uint32_t released = tn_votes_said(round, TN_ANSWER_RELEASED);
    uint32_t gone = tn_votes_said(round, TN_ANSWER_GONE);
    uint32_t stale = tn_votes_said(round, TN_ANSWER_STALE);
    uint32_t ours = released | gone | (round->claim != NULL ? stale : 0);

    if (released != 0 && tn_votes_is_majority(votes, ours))
        tn_votes_answer(round, TN_ANSWER_RELEASED);
    else if (tn_votes_is_majority(votes, gone))
        tn_votes_answer(round, TN_ANSWER_GONE);
    else if (tn_votes_is_majority(votes, stale))
        tn_votes_answer(round, TN_ANSWER_STALE);
    else if (tn_votes_is_majority(votes, tn_votes_said(round, TN_ANSWER_DENIED)))
        tn_votes_answer(round, TN_ANSWER_DENIED);
    else if (round->heard == round->asked)
        tn_votes_fail(round);
}

static void heard_release(struct tn_votes_round *round, unsigned server)
{
    struct tn_votes_claim *claim = round->claim;
    const struct tn_votes_reply *reply = &round->replies[server];
    uint32_t bit = 1U << server;

    if (claim != NULL && claim->state == TN_VOTES_LEAVING) {
        if (reply->outcome != TN_VOTES_ANSWERED)
            claim->owed |= bit;
        else if (reply->answer == TN_ANSWER_STALE)
            give_back(claim, TN_VOTES_WITHDRAW, bit);
        if (round->heard == round->asked)
            end_claim(claim);
    }
    judge_release(round);
}

bool tn_votes_release(struct tn_votes_session *session, struct tn_votes_claim *claim, tenure_ns now,
                      uint64_t token, void *job)
{
    struct tn_votes *votes = session->votes;

    votes->now = now;
    if (claim != NULL && (claim->state == TN_VOTES_ENDED || (token != 0 && token != claim->token)))
        claim = NULL;
    if (claim != NULL) {
        claim->state = TN_VOTES_LEAVING;
        claim->led = false;
        claim->back = TN_VOTES_WITHDRAW;
        claim->check_at = TN_NEVER;
        fail(claim, NULL);
    }
    struct tn_votes_round draft = {
        .kind = TN_VOTES_RELEASE, .session = session, .claim = claim, .token = token, .job = job
    };
    return tn_votes_ask(votes, &draft, tn_votes_all(votes)) != NULL;
}

/* --- News ------------------------------------------------------------------------------------- */

void tn_votes_hear_vote(struct tn_votes_claim *claim, tenure_ns now, unsigned server,
                        uint64_t token)
{
    uint32_t bit = 1U << server;

    votes_of(claim)->now = now;
    switch (claim->state) {
    case TN_VOTES_ENDED:
        give_back(claim, TN_VOTES_YIELD, bit);
        return;
    case TN_VOTES_LEAVING:
        give_back(claim, TN_VOTES_WITHDRAW, bit);
        return;
    default:
        if ((claim->sure & bit) != 0)
            return; /* Known, and told again. */
    }
    claim->voted |= bit;
    claim->tally++;
    claim->tokens[server] = token;
    if (claim->state == TN_VOTES_HELD || claim->state == TN_VOTES_CONFIRMING)
        confirm_at(claim, bit);
    else if (is_enough(claim, claim->voted))
        confirm(claim);
    else if (claim->state == TN_VOTES_WAITING && claim->check_at == TN_NEVER)
        check_later(claim);
}

void tn_votes_hear_revoked(struct tn_votes_claim *claim, tenure_ns now)
{
    const struct tn_votes *votes = votes_of(claim);

    if (claim->state != TN_VOTES_HELD)
        return;
    votes_of(claim)->now = now;
    claim->led = false; /* The application stops before the next renewal counts. */
    votes->host->revoked(votes->arg, claim);
}

/* --- Sessions --------------------------------------------------------------------------------- */

void tn_votes_claims_lost(struct tn_votes_session *session, uint32_t mask)
{
    for (struct tn_votes_claim *claim = session->claims, *next; claim != NULL; claim = next) {
        next = claim->next;
        claim->voted &= ~mask;
        claim->sure &= ~mask;
        if (mask == UINT32_MAX) {
            answer(claim, TN_ANSWER_GONE, NULL);
            end_claim(claim);
        } else {
            end_if_lost(claim);
        }
    }
}

bool tn_votes_claims_covered(const struct tn_votes_session *session, uint32_t mask)
{
    for (const struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next)
        if (claim->led && !is_enough(claim, claim->sure & mask))
            return false;
    return true;
}

/* Ask the servers of @mask for the vote, or whether they still have it. */
static void ask_again(struct tn_votes_claim *claim, uint32_t mask)
{
    mask &= ~claim->busy;
    claim->owed &= ~mask;
    if (ask(claim, TN_VOTES_RECLAIM, mask) != NULL)
        claim->busy |= mask;
}

/* If no claim lacks a confirmation there, the server has one that we do not know of: it is asked
 * about all of them. */
void tn_votes_claims_heal(struct tn_votes_session *session, unsigned server)
{
    uint32_t bit = 1U << server;
    bool lacks = false;

    for (const struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next)
        lacks = lacks || (claim->led && (claim->sure & bit) == 0);
    for (struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next) {
        if (claim->state == TN_VOTES_LEAVING)
            give_back(claim, TN_VOTES_WITHDRAW, bit);
        else if (claim->led && ((claim->sure & bit) == 0 || !lacks))
            ask_again(claim, bit);
    }
}

void tn_votes_claims_settle(struct tn_votes_session *session, unsigned server)
{
    for (struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next)
        if ((claim->owed & ~claim->returning & 1U << server) != 0)
            give_back(claim, claim->back, 1U << server);
}

void tn_votes_claims_join(struct tn_votes_session *session, unsigned server)
{
    for (struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next)
        if (claim->led || (claim->state == TN_VOTES_WAITING && claim->wait))
            ask_again(claim, 1U << server);
}

/* --- Votes that split ------------------------------------------------------------------------- */

/* There are enough votes, and too few servers have confirmed the token: one has refused it, or its
 * answer was lost. All are heard before another token is chosen. */
static void ask_everybody(struct tn_votes_claim *claim)
{
    claim->asking = ask(claim, TN_VOTES_RECLAIM, tn_votes_all(votes_of(claim)));
    if (claim->asking != NULL)
        claim->state = TN_VOTES_ASKING;
    else
        check_later(claim);
}

/* The term with the most votes goes on, and asks for what others gave up; they make way, and are in
 * the queues again. */
static void heard_check(struct tn_votes_round *round)
{
    struct tn_votes_claim *claim = round->claim;
    int server;

    if (round->heard != round->asked || claim->state != TN_VOTES_WAITING || !is_split(claim))
        return;
    if (!claim->led && is_enough(claim, claim->voted)) {
        ask_everybody(claim);
        return;
    }
    (void)tn_votes_leader(round, false, &server);
    if (claim->voted == 0 || server < 0 ||
        tn_secret_equal(&round->replies[server].term, &claim->term)) {
        if (claim->wait)
            ask_again(claim, tn_votes_all(round->votes) & ~claim->voted);
        check_later(claim);
        return;
    }
    uint32_t mask = claim->voted;
    claim->voted = claim->sure = 0;
    /* Yielded, not withdrawn: where nobody else waits, the vote is this claim's again at once. */
    give_back(claim, TN_VOTES_YIELD, mask);
    claim->owed &= ~mask; /* The next answer tells what came of it. */
    (void)ask(claim, TN_VOTES_ASK, mask);
}

void tn_votes_claim_heard(struct tn_votes_round *round, unsigned server)
{
    if (round->kind == TN_VOTES_ASK || round->kind == TN_VOTES_RECLAIM)
        heard_ask(round, server);
    else if (round->kind == TN_VOTES_CONFIRM)
        heard_confirm(round, server);
    else if (round->kind == TN_VOTES_RELEASE)
        heard_release(round, server);
    else if (round->kind == TN_VOTES_READ)
        heard_check(round);
    else
        heard_back(round, server);
}

void tn_votes_tick(struct tn_votes *votes, tenure_ns now)
{
    votes->now = now;
    for (struct tn_votes_session *session = votes->sessions; session != NULL;
         session = session->next) {
        for (struct tn_votes_claim *claim = session->claims; claim != NULL; claim = claim->next) {
            if (claim->check_at > now)
                continue;
            claim->check_at = TN_NEVER;
            if (claim->state == TN_VOTES_WAITING && is_split(claim))
                (void)ask(claim, TN_VOTES_READ, tn_votes_all(votes));
        }
    }
}

tenure_ns tn_votes_wake_at(const struct tn_votes *votes)
{
    tenure_ns at = TN_NEVER;

    for (const struct tn_votes_session *session = votes->sessions; session != NULL;
         session = session->next)
        for (const struct tn_votes_claim *claim = session->claims; claim != NULL;
             claim = claim->next)
            if (claim->check_at < at)
                at = claim->check_at;
    return at;
}
