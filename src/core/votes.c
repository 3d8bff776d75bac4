/* votes.c - rounds, sessions and what a majority says; votes.h has the picture and the rules.
 *
 * Happy path: a question goes to all servers, and the answer is that of a majority. What can fail:
 * some servers, which costs nothing as long as a majority is left; or too many, and then the job
 * fails, and its outcome is unknown where some of them may have done it. */
#include "core/votes.h"

#include <string.h>

#include "base/assert.h"
#include "core/plant.h"

unsigned tn_votes_count(uint32_t mask)
{
    unsigned count = 0;

    for (; mask != 0; mask &= mask - 1)
        count++;
    return count;
}

uint32_t tn_votes_all(const struct tn_votes *votes)
{
    return (1U << votes->count) - 1;
}

bool tn_votes_is_majority(const struct tn_votes *votes, uint32_t mask)
{
    return tn_votes_count(mask & tn_votes_all(votes)) >= votes->majority;
}

void tn_votes_init(struct tn_votes *votes, const struct tn_votes_host *host, void *arg,
                   unsigned count, uint64_t seed)
{
    TN_ASSERT(count >= 1 && count <= TN_VOTES_SERVERS);
    *votes = (struct tn_votes) {
        .host = host,
        .arg = arg,
        .count = count,
        .majority = count / 2 + 1,
        .check_after = TN_MS(60),
        .check_spread = TN_MS(140),
    };
    tn_prng_seed(&votes->prng, seed);
}

void tn_votes_close(struct tn_votes *votes)
{
    votes->closed = true;
}

/* --- Rounds ----------------------------------------------------------------------------------- */

static bool is_answered(const struct tn_votes_round *round, unsigned server)
{
    return round->replies[server].outcome == TN_VOTES_ANSWERED;
}

uint32_t tn_votes_said(const struct tn_votes_round *round, enum tn_answer answer)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < round->votes->count; i++)
        if (is_answered(round, i) && round->replies[i].answer == answer)
            mask |= 1U << i;
    return mask;
}

uint32_t tn_votes_unknown(const struct tn_votes_round *round)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < round->votes->count; i++)
        if (round->replies[i].outcome == TN_VOTES_UNKNOWN)
            mask |= 1U << i;
    return mask;
}

struct tn_votes_round *tn_votes_ask(struct tn_votes *votes, const struct tn_votes_round *draft,
                                    uint32_t mask)
{
    struct tn_votes_round like = *draft;

    like.votes = votes;
    like.asked = mask & tn_votes_all(votes);
    struct tn_votes_round *round =
        like.asked != 0 && !votes->closed ? votes->host->begin(votes->arg, &like) : NULL;
    if (round == NULL)
        return NULL;
    if (round->session != NULL)
        round->session->refs++;
    if (round->claim != NULL)
        round->claim->refs++;
    for (unsigned i = 0; i < votes->count; i++) {
        bool opens = (like.opens & 1U << i) != 0;
        if ((like.asked & 1U << i) != 0)
            votes->host->send(votes->arg, round, i, opens ? TN_VOTES_OPEN : like.kind);
    }
    return round;
}

static void end_round(struct tn_votes_round *round)
{
    const struct tn_votes *votes = round->votes;
    struct tn_votes_session *session = round->session;
    struct tn_votes_claim *claim = round->claim;

    TN_ASSERT(round->job == NULL);
    votes->host->end(votes->arg, round);
    if (claim != NULL) {
        claim->refs--;
        tn_votes_claim_unref(claim);
    }
    if (session != NULL && --session->refs == 0 && session->over)
        votes->host->forget_session(votes->arg, session);
}

static void finish(struct tn_votes_round *round, const struct tn_votes_result *result)
{
    void *job = round->job;

    round->job = NULL;
    if (job != NULL)
        round->votes->host->done(round->votes->arg, job, result);
}

void tn_votes_answer(struct tn_votes_round *round, enum tn_answer answer)
{
    struct tn_votes_result result = { .answer = answer, .round = round };

    (void)tn_votes_judge(round, &result.record);
    finish(round, &result);
}

void tn_votes_fail(struct tn_votes_round *round)
{
    finish(round, &(struct tn_votes_result) { .failed = true, .round = round });
}

/* --- What a majority says --------------------------------------------------------------------- */

static bool counts_for(const struct tn_votes_reply *reply, bool sure)
{
    return reply->outcome == TN_VOTES_ANSWERED && reply->held && (!sure || reply->confirmed);
}

/* Of terms with the same number of votes the one with the lower hash: all who look agree on it. */
static bool is_better(uint32_t mask, const struct tn_votes_reply *reply, uint32_t best,
                      const struct tn_votes_reply *best_reply)
{
    unsigned many = tn_votes_count(mask), most = tn_votes_count(best);

    return many > most ||
           (many == most && memcmp(&reply->term, &best_reply->term, sizeof reply->term) < 0);
}

uint32_t tn_votes_leader(const struct tn_votes_round *round, bool sure, int *ret_server)
{
    const struct tn_votes_reply *replies = round->replies;
    uint32_t best = 0;

    *ret_server = -1;
    for (unsigned i = 0; i < round->votes->count; i++) {
        uint32_t mask = 0;
        if (!counts_for(&replies[i], sure))
            continue;
        for (unsigned j = 0; j < round->votes->count; j++)
            if (counts_for(&replies[j], sure) &&
                tn_secret_equal(&replies[j].term, &replies[i].term))
                mask |= 1U << j;
        if (best == 0 || is_better(mask, &replies[i], best, &replies[*ret_server])) {
            best = mask;
            *ret_server = (int)i;
        }
    }
    return best;
}

/* A token that is on record at few servers may never have become a term's. What a majority has
 * reached, without the votes that are out now, is below every token to come: nobody who has seen it
 * refuses the next. */
uint64_t tn_votes_reached(const struct tn_votes *votes, uint64_t *tokens, unsigned count)
{
    if (count < votes->majority)
        return 0;
    for (unsigned i = 0; i < votes->majority; i++) {
        for (unsigned j = i + 1; j < count; j++) {
            if (tokens[j] > tokens[i]) {
                uint64_t higher = tokens[j];
                tokens[j] = tokens[i];
                tokens[i] = higher;
            }
        }
    }
    return tokens[votes->majority - 1];
}

/* A term of this process that a majority has confirmed without our knowing, since the answers were
 * lost. No renewal covers it, and it may have been revoked: it is held once it was asked for again,
 * and told to nobody here before that. */
static bool is_stray(const struct tn_votes_round *round, const struct tn_secret *term)
{
    const struct tn_votes *votes = round->votes;

    for (const struct tn_votes_session *session = votes->sessions; session != NULL;
         session = session->next)
        for (const struct tn_votes_claim *claim = session->claims; claim != NULL;
             claim = claim->next)
            if (claim->name == round->name && tn_secret_equal(&claim->term, term))
                return !claim->led && claim->state != TN_VOTES_HELD && !TN_PLANT(VOTES_FOUND);
    return false;
}

bool tn_votes_judge(const struct tn_votes_round *round, struct tn_votes_record *ret_record)
{
    const struct tn_votes *votes = round->votes;
    uint64_t tokens[TN_VOTES_SERVERS];
    unsigned count = 0;
    bool held = false;
    int server;
    uint32_t mask = tn_votes_leader(round, true, &server);
    bool decided = tn_votes_is_majority(votes, mask);

    if (decided && !is_stray(round, &round->replies[server].term)) {
        *ret_record =
            (struct tn_votes_record) { server, round->replies[server].token, false, false };
        return true;
    }
    for (unsigned i = 0; i < votes->count; i++) {
        if (is_answered(round, i)) {
            tokens[count++] = round->replies[i].last;
            held = held || round->replies[i].held;
        }
    }
    *ret_record = (struct tn_votes_record) { -1, tn_votes_reached(votes, tokens, count), decided,
                                             !decided && held };
    if (!decided && tn_votes_count(mask) + votes->count - count >= votes->majority &&
        round->heard != round->asked)
        return false;
    return count >= votes->majority;
}

/* --- Names ------------------------------------------------------------------------------------ */

static void heard_read(struct tn_votes_round *round)
{
    struct tn_votes_record record;

    if (tn_votes_judge(round, &record))
        tn_votes_answer(round, record.server >= 0 ? TN_ANSWER_HELD : TN_ANSWER_FREE);
    else if (round->heard == round->asked)
        tn_votes_fail(round);
}

/* Once a majority says the same, or nobody is left to ask. The holder obeys the first server that
 * takes the lease away, and its release may reach the others before the request does: where one has
 * taken it, a majority that knows the term no more says the same. */
static void heard_revoke(struct tn_votes_round *round)
{
    uint32_t taken = tn_votes_said(round, TN_ANSWER_OK);
    uint32_t over = tn_votes_said(round, TN_ANSWER_STALE);

    if (tn_votes_is_majority(round->votes, taken) ||
        (taken != 0 && tn_votes_is_majority(round->votes, over)))
        tn_votes_answer(round, TN_ANSWER_OK);
    else if (tn_votes_is_majority(round->votes, over))
        tn_votes_answer(round, TN_ANSWER_STALE);
    else if (round->heard == round->asked)
        tn_votes_fail(round);
}

static bool ask_all_servers(struct tn_votes *votes, tenure_ns now, enum tn_votes_kind kind,
                            void *job)
{
    struct tn_votes_round draft = { .kind = kind, .job = job };

    votes->now = now;
    return tn_votes_ask(votes, &draft, tn_votes_all(votes)) != NULL;
}

bool tn_votes_read(struct tn_votes *votes, tenure_ns now, void *job)
{
    return ask_all_servers(votes, now, TN_VOTES_READ, job);
}

bool tn_votes_revoke(struct tn_votes *votes, tenure_ns now, void *job)
{
    return ask_all_servers(votes, now, TN_VOTES_REVOKE, job);
}

/* --- Sessions --------------------------------------------------------------------------------- */

void tn_votes_session_add(struct tn_votes *votes, struct tn_votes_session *session, tenure_ns ttl)
{
    session->votes = votes;
    session->ttl = ttl;
    session->open = session->good = ttl != 0 ? 0 : tn_votes_all(votes);
    session->next = votes->sessions;
    votes->sessions = session;
}

void tn_votes_session_drop(struct tn_votes_session *session)
{
    struct tn_votes *votes = session->votes;
    struct tn_votes_session **link = &votes->sessions;

    if (session->over)
        return;
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    session->refs++;
    tn_votes_claims_lost(session, UINT32_MAX);
    session->over = true;
    if (--session->refs == 0)
        votes->host->forget_session(votes->arg, session);
}

/* The largest set of servers that took the renewal and agree on the leases; and one of them. */
static uint32_t agreeing(const struct tn_votes_round *round, int *ret_server)
{
    uint32_t ok = tn_votes_said(round, TN_ANSWER_OK);
    uint32_t best = 0;

    *ret_server = -1;
    for (unsigned i = 0; i < round->votes->count; i++) {
        uint32_t mask = 0;
        if ((ok & 1U << i) == 0)
            continue;
        for (unsigned j = 0; j < round->votes->count; j++)
            if ((ok & 1U << j) != 0 && round->replies[j].digest == round->replies[i].digest)
                mask |= 1U << j;
        if (tn_votes_count(mask) > tn_votes_count(best)) {
            best = mask;
            *ret_server = (int)i;
        }
    }
    return TN_PLANT(RENEW_ANYWHERE) ? ok : best;
}

static void count_renewal(struct tn_votes_round *round)
{
    struct tn_votes_session *session = round->session;
    struct tn_votes_result result = { .answer = TN_ANSWER_OK, .round = round };
    uint32_t mask = agreeing(round, &result.record.server);

    if (!tn_votes_is_majority(round->votes, mask) ||
        (!tn_votes_claims_covered(session, mask) && !TN_PLANT(RENEW_ANYWHERE)))
        return;
    if (!session->over && (round->seq == 0 || round->seq >= session->good_seq)) {
        session->good = tn_votes_said(round, TN_ANSWER_OK);
        if (round->seq > session->good_seq)
            session->good_seq = round->seq;
        tn_votes_claims_good(session);
    }
    finish(round, &result);
}

/* Servers that took the renewal and do not agree with the others are put right. */
static void heal(struct tn_votes_round *round)
{
    int server;
    uint32_t good = agreeing(round, &server);
    uint32_t others = tn_votes_said(round, TN_ANSWER_OK) & ~good;

    for (unsigned i = 0; i < round->votes->count; i++)
        if ((others & 1U << i) != 0)
            tn_votes_claims_heal(round->session, i);
}

static void heard_session(struct tn_votes_round *round, unsigned server)
{
    struct tn_votes *votes = round->votes;
    struct tn_votes_session *session = round->session;
    uint32_t bit = 1U << server;
    bool ok = (tn_votes_said(round, TN_ANSWER_OK) & bit) != 0;

    if (!session->over && ok && (session->open & bit) == 0) {
        session->open |= bit;
        tn_votes_claims_join(session, server);
    }
    if (!session->over && (tn_votes_said(round, TN_ANSWER_GONE) & bit) != 0) {
        session->open &= ~bit;
        session->good &= ~bit;
        tn_votes_claims_lost(session, bit);
    }
    if (ok)
        tn_votes_claims_settle(session, server);
    if (ok)
        count_renewal(round);
    if (round->job != NULL && tn_votes_is_majority(votes, tn_votes_said(round, TN_ANSWER_GONE))) {
        tn_votes_session_drop(session);
        tn_votes_answer(round, TN_ANSWER_GONE);
    } else if (round->job != NULL &&
               tn_votes_is_majority(votes, tn_votes_said(round, TN_ANSWER_STALE))) {
        tn_votes_answer(round, TN_ANSWER_STALE);
    }
    if (round->heard != round->asked)
        return;
    heal(round);
    tn_votes_fail(round);
}

static void heard_close(struct tn_votes_round *round)
{
    uint32_t closed = tn_votes_said(round, TN_ANSWER_OK);
    uint32_t gone = tn_votes_said(round, TN_ANSWER_GONE);

    if (tn_votes_is_majority(round->votes, closed | gone))
        tn_votes_answer(round, closed != 0 ? TN_ANSWER_OK : TN_ANSWER_GONE);
    else if (round->heard == round->asked)
        tn_votes_fail(round);
}

/* Where the session is not, or not any more, it is opened. */
bool tn_votes_renew(struct tn_votes_session *session, tenure_ns now, bool open, uint64_t seq,
                    void *job)
{
    struct tn_votes_round draft = { .kind = open ? TN_VOTES_OPEN : TN_VOTES_RENEW,
                                    .session = session,
                                    .job = job,
                                    .seq = seq,
                                    .opens = session->ttl != 0 ? ~session->open : 0 };

    session->votes->now = now;
    return tn_votes_ask(session->votes, &draft, tn_votes_all(session->votes)) != NULL;
}

bool tn_votes_end_session(struct tn_votes_session *session, tenure_ns now, void *job)
{
    struct tn_votes *votes = session->votes;
    struct tn_votes_round draft = { .kind = TN_VOTES_CLOSE, .session = session, .job = job };

    votes->now = now;
    bool asked = tn_votes_ask(votes, &draft, tn_votes_all(votes)) != NULL;
    tn_votes_session_drop(session);
    return asked;
}

void tn_votes_heard(struct tn_votes_round *round, tenure_ns now, unsigned server,
                    const struct tn_votes_reply *reply)
{
    TN_ASSERT(reply->outcome != TN_VOTES_SILENT);
    TN_ASSERT((round->asked & ~round->heard & 1U << server) != 0);
    round->votes->now = now;
    round->replies[server] = *reply;
    round->heard |= 1U << server;
    switch (round->kind) {
    case TN_VOTES_OPEN:
    case TN_VOTES_RENEW:
        heard_session(round, server);
        break;
    case TN_VOTES_CLOSE:
        heard_close(round);
        break;
    case TN_VOTES_REVOKE:
        heard_revoke(round);
        break;
    default:
        if (round->kind == TN_VOTES_READ && round->claim == NULL)
            heard_read(round);
        else
            tn_votes_claim_heard(round, server);
        break;
    }
    if (round->heard == round->asked)
        end_round(round);
}
