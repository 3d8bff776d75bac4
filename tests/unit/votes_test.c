/* votes_test.c - the recipe for a majority of servers, against servers that the test plays by hand.
 */
#include "tests/harness/test.h"

#include <string.h>

#include "core/votes.h"

enum { ROUNDS = 64 };

/* What the recipe asked, and what it told. */
static struct tn_votes_round rounds[ROUNDS];
static bool under_way[ROUNDS];
static unsigned sent[TN_VOTES_REVOKE + 1];
static bool no_memory;
static struct {
    unsigned dones, grants, revocations, forgotten, sessions;
    struct tn_votes_result result;
    void *job;
} told;

static struct tn_votes votes;
static struct tn_votes_session session;
static struct tn_votes_claim claim;
static int job, other_job;
static const struct tn_secret mine = { { 2 } }, others = { { 1 } };

static struct tn_votes_round *begin(void *arg, const struct tn_votes_round *draft)
{
    (void)arg;
    for (unsigned i = 0; i < ROUNDS && !no_memory; i++) {
        if (!under_way[i]) {
            under_way[i] = true;
            rounds[i] = *draft;
            return &rounds[i];
        }
    }
    return NULL;
}

static void send(void *arg, struct tn_votes_round *round, unsigned server, enum tn_votes_kind kind)
{
    (void)arg;
    CHECK((round->asked & 1U << server) != 0);
    sent[kind]++;
}

static void end(void *arg, struct tn_votes_round *round)
{
    (void)arg;
    under_way[round - rounds] = false;
}

static void done(void *arg, void *of, const struct tn_votes_result *result)
{
    (void)arg;
    told.dones++;
    told.job = of;
    told.result = *result;
}

static void granted(void *arg, struct tn_votes_claim *of)
{
    (void)arg;
    (void)of;
    told.grants++;
}

static void revoked(void *arg, struct tn_votes_claim *of)
{
    (void)arg;
    (void)of;
    told.revocations++;
}

static void forget(void *arg, struct tn_votes_claim *of)
{
    (void)arg;
    (void)of;
    told.forgotten++;
}

static void forget_session(void *arg, struct tn_votes_session *of)
{
    (void)arg;
    (void)of;
    told.sessions++;
}

static const struct tn_votes_host host = { begin,   send,    end,    done,
                                           granted, revoked, forget, forget_session };

/* --- Playing the servers ---------------------------------------------------------------------- */

/* The round of @kind that waits for @server; NULL: none does. */
static struct tn_votes_round *waiting(enum tn_votes_kind kind, unsigned server)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        if (under_way[i] && rounds[i].kind == kind &&
            (rounds[i].asked & ~rounds[i].heard & 1U << server) != 0)
            return &rounds[i];
    return NULL;
}

static void say(enum tn_votes_kind kind, unsigned server, const struct tn_votes_reply *reply)
{
    struct tn_votes_round *round = waiting(kind, server);

    CHECK(round != NULL);
    if (round != NULL)
        tn_votes_heard(round, votes.now + 1, server, reply);
}

static void say_plainly(enum tn_votes_kind kind, unsigned server, enum tn_answer answer)
{
    say(kind, server, &(struct tn_votes_reply) { .outcome = TN_VOTES_ANSWERED, .answer = answer });
}

static void say_nothing(enum tn_votes_kind kind, unsigned server)
{
    say(kind, server, &(struct tn_votes_reply) { .outcome = TN_VOTES_UNKNOWN });
}

static void vote_for(enum tn_votes_kind kind, unsigned server, uint64_t token)
{
    say(kind, server,
        &(struct tn_votes_reply) { .outcome = TN_VOTES_ANSWERED,
                                   .answer = TN_ANSWER_GRANTED,
                                   .held = true,
                                   .token = token,
                                   .last = token - 1,
                                   .term = mine });
}

/* Another term has the lease there, and we are in the queue (or not: HELD). */
static void vote_against(enum tn_votes_kind kind, unsigned server, enum tn_answer answer, bool sure)
{
    say(kind, server,
        &(struct tn_votes_reply) { .outcome = TN_VOTES_ANSWERED,
                                   .answer = answer,
                                   .held = true,
                                   .confirmed = sure,
                                   .token = 7,
                                   .last = 6,
                                   .term = others });
}

static void renew_at(unsigned server, uint64_t digest)
{
    say(waiting(TN_VOTES_OPEN, server) != NULL ? TN_VOTES_OPEN : TN_VOTES_RENEW, server,
        &(struct tn_votes_reply) {
            .outcome = TN_VOTES_ANSWERED, .answer = TN_ANSWER_OK, .digest = digest });
}

static void set_up(unsigned servers)
{
    memset(under_way, 0, sizeof under_way);
    memset(sent, 0, sizeof sent);
    memset(&told, 0, sizeof told);
    memset(&session, 0, sizeof session);
    memset(&claim, 0, sizeof claim);
    no_memory = false;
    tn_votes_init(&votes, &host, NULL, servers, 1);
    tn_votes_session_add(&votes, &session, TN_SEC(10));
    CHECK(tn_votes_renew(&session, TN_SEC(1), true, 1, &job));
    for (unsigned i = 0; i < servers; i++)
        renew_at(i, 0);
    CHECK_EQ_U64(told.dones, 1);
    tn_votes_claim_add(&session, &claim, 0, &mine);
}

static void acquire(bool wait)
{
    CHECK(tn_votes_acquire(&claim, votes.now, wait, &job));
}

/* Three servers, and all have voted and confirmed. */
static void lead(void)
{
    set_up(3);
    acquire(true);
    for (unsigned i = 0; i < 3; i++)
        vote_for(TN_VOTES_ASK, i, 4 + i);
    for (unsigned i = 0; i < 3; i++)
        say_plainly(TN_VOTES_CONFIRM, i, TN_ANSWER_OK);
    CHECK(claim.state == TN_VOTES_HELD);
}

/* --- Votes ------------------------------------------------------------------------------------ */

TEST(a_majority_of_votes_is_confirmed_before_the_term_is_held)
{
    set_up(3);
    acquire(true);
    vote_for(TN_VOTES_ASK, 0, 4);
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 0);
    vote_for(TN_VOTES_ASK, 2, 9);
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 2);
    CHECK_EQ_U64(claim.token, 9); /* The highest of the votes. */
    say_plainly(TN_VOTES_CONFIRM, 0, TN_ANSWER_OK);
    CHECK_EQ_U64(told.dones, 1);
    say_plainly(TN_VOTES_CONFIRM, 2, TN_ANSWER_OK);
    CHECK_EQ_U64(told.dones, 2);
    CHECK(told.result.answer == TN_ANSWER_GRANTED && told.result.claim == &claim);
    CHECK(claim.state == TN_VOTES_HELD);
    vote_for(TN_VOTES_ASK, 1, 5); /* A late vote is confirmed with the same token. */
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 3);
    CHECK_EQ_U64(claim.token, 9);
}

TEST(a_server_that_did_not_take_the_renewal_does_not_hold_the_term)
{
    set_up(3);
    session.good = 1 << 0;
    acquire(true);
    for (unsigned i = 0; i < 3; i++)
        vote_for(TN_VOTES_ASK, i, 4);
    for (unsigned i = 0; i < 3; i++)
        say_plainly(TN_VOTES_CONFIRM, i, TN_ANSWER_OK);
    CHECK(told.result.answer == TN_ANSWER_QUEUED);
    CHECK(claim.state == TN_VOTES_CONFIRMING);
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &job));
    renew_at(0, 5);
    renew_at(1, 5);
    CHECK_EQ_U64(told.grants, 1); /* The renewal decided. */
    CHECK(claim.state == TN_VOTES_HELD);
}

TEST(a_refused_claim_that_does_not_wait_gives_back_all_it_may_have)
{
    set_up(5);
    acquire(false);
    vote_for(TN_VOTES_ASK, 0, 4);
    vote_against(TN_VOTES_ASK, 1, TN_ANSWER_HELD, true);
    vote_against(TN_VOTES_ASK, 2, TN_ANSWER_HELD, true);
    vote_against(TN_VOTES_ASK, 3, TN_ANSWER_HELD, true);
    CHECK(told.result.answer == TN_ANSWER_HELD);
    CHECK_EQ_I64(told.result.record.server, 1);
    CHECK_EQ_U64(told.result.record.token, 7);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 1);
    vote_for(TN_VOTES_ASK, 4, 8); /* A vote that comes after the refusal goes back, too. */
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 2);
    CHECK_EQ_U64(told.forgotten, 0);
    say_plainly(TN_VOTES_YIELD, 0, TN_ANSWER_RELEASED);
    say_nothing(TN_VOTES_YIELD, 4);
    CHECK_EQ_U64(told.forgotten, 0); /* Still owed to server 4, which is told with a renewal. */
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &job));
    renew_at(4, 0);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 3);
    say_plainly(TN_VOTES_YIELD, 4, TN_ANSWER_RELEASED);
    CHECK_EQ_U64(told.forgotten, 1);
}

TEST(an_unknown_vote_goes_back_after_a_refusal)
{
    set_up(3);
    acquire(false);
    vote_against(TN_VOTES_ASK, 1, TN_ANSWER_HELD, true);
    say_nothing(TN_VOTES_ASK, 0);
    vote_against(TN_VOTES_ASK, 2, TN_ANSWER_HELD, true);
    CHECK(told.result.answer == TN_ANSWER_HELD);
    CHECK(waiting(TN_VOTES_YIELD, 0) != NULL);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 1);
}

TEST(an_acquire_that_a_minority_answers_has_failed)
{
    set_up(3);
    acquire(true);
    vote_for(TN_VOTES_ASK, 0, 4);
    say_nothing(TN_VOTES_ASK, 1);
    say_nothing(TN_VOTES_ASK, 2);
    CHECK(told.result.failed);
    CHECK(told.result.round != NULL);
    CHECK(claim.state == TN_VOTES_WAITING);
    acquire(true); /* Asked again: the vote is there still, and is one vote. */
    vote_for(TN_VOTES_ASK, 0, 4);
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 0);
}

TEST(a_final_answer_of_a_majority_ends_the_claim)
{
    static const enum tn_answer finals[] = { TN_ANSWER_GONE, TN_ANSWER_STALE, TN_ANSWER_FULL };

    for (unsigned i = 0; i < 3; i++) {
        set_up(3);
        acquire(true);
        vote_for(TN_VOTES_ASK, 0, 4);
        say_plainly(TN_VOTES_ASK, 1, finals[i]);
        say_plainly(TN_VOTES_ASK, 2, finals[i]);
        CHECK(told.result.answer == finals[i]);
        CHECK(claim.state == TN_VOTES_ENDED);
        CHECK(waiting(TN_VOTES_WITHDRAW, 0) != NULL);
    }
}

TEST(votes_that_moved_on_before_they_were_confirmed_are_asked_for_again)
{
    set_up(3);
    acquire(true);
    for (unsigned try = 0; try < 5; try++) {
        for (unsigned i = 0; i < 3; i++)
            vote_for(TN_VOTES_ASK, i, 4);
        CHECK_EQ_U64(told.dones, 1);
        for (unsigned i = 0; i < 3; i++)
            say_plainly(TN_VOTES_CONFIRM, i, TN_ANSWER_STALE);
    }
    CHECK(told.result.failed); /* Not for ever. */
    CHECK(claim.state == TN_VOTES_WAITING);
    CHECK_EQ_U64(sent[TN_VOTES_ASK], 15);
}

TEST(an_acquire_that_is_said_again_overtakes_the_one_before)
{
    set_up(3);
    acquire(true);
    CHECK(tn_votes_acquire(&claim, votes.now, true, &other_job));
    CHECK(told.job == &job && told.result.failed && told.result.round == NULL);
    vote_for(TN_VOTES_ASK, 0, 4);
    vote_for(TN_VOTES_ASK, 1, 4);
    say_plainly(TN_VOTES_CONFIRM, 0, TN_ANSWER_OK);
    say_plainly(TN_VOTES_CONFIRM, 1, TN_ANSWER_OK);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_GRANTED);
}

/* --- Votes that split ------------------------------------------------------------------------- */

static void split(void)
{
    set_up(3);
    acquire(true);
    vote_for(TN_VOTES_ASK, 0, 4);
    vote_against(TN_VOTES_ASK, 1, TN_ANSWER_QUEUED, false);
    vote_against(TN_VOTES_ASK, 2, TN_ANSWER_QUEUED, false);
    CHECK(told.result.answer == TN_ANSWER_QUEUED);
    CHECK(tn_votes_wake_at(&votes) < TN_NEVER);
    tn_votes_tick(&votes, tn_votes_wake_at(&votes) - 1);
    CHECK_EQ_U64(sent[TN_VOTES_READ], 0);
    tn_votes_tick(&votes, tn_votes_wake_at(&votes));
    CHECK_EQ_U64(sent[TN_VOTES_READ], 3);
    CHECK_EQ_I64(tn_votes_wake_at(&votes), TN_NEVER);
}

TEST(too_few_votes_make_way_for_the_term_that_has_the_most)
{
    split();
    vote_for(TN_VOTES_READ, 0, 4);
    vote_against(TN_VOTES_READ, 1, TN_ANSWER_HELD, false);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 0);
    vote_against(TN_VOTES_READ, 2, TN_ANSWER_HELD, false);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 1);
    CHECK_EQ_U64(sent[TN_VOTES_ASK], 4); /* And it queues there again. */
    CHECK_EQ_U64(claim.voted, 0);
    vote_against(TN_VOTES_ASK, 0, TN_ANSWER_QUEUED, false);
    tn_votes_hear_vote(&claim, votes.now, 1, 8); /* Its turn comes at one server after the other. */
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 0);
    tn_votes_hear_vote(&claim, votes.now, 2, 9);
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 2);
    say_plainly(TN_VOTES_CONFIRM, 1, TN_ANSWER_OK);
    say_plainly(TN_VOTES_CONFIRM, 2, TN_ANSWER_OK);
    CHECK_EQ_U64(told.grants, 1);
    CHECK_EQ_U64(claim.token, 9);
}

TEST(the_term_with_the_most_votes_asks_for_the_rest)
{
    split();
    vote_for(TN_VOTES_READ, 0, 4);
    say_plainly(TN_VOTES_READ, 1, TN_ANSWER_FREE);
    vote_for(TN_VOTES_READ, 2, 4); /* The word of that vote was lost. */
    CHECK_EQ_U64(sent[TN_VOTES_RECLAIM], 2);
    vote_for(TN_VOTES_RECLAIM, 2, 5);
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 2);
    CHECK_EQ_U64(claim.token, 5);
}

/* A server has confirmed a higher token of another term since it gave its vote: it refuses the
 * token, and the vote stands. */
TEST(a_waiting_claim_whose_token_was_refused_is_confirmed_with_a_higher_one)
{
    set_up(3);
    acquire(true);
    for (unsigned i = 0; i < 3; i++)
        vote_against(TN_VOTES_ASK, i, TN_ANSWER_QUEUED, false);
    tn_votes_hear_vote(&claim, votes.now, 0, 4);
    tn_votes_hear_vote(&claim, votes.now, 1, 5);
    say_plainly(TN_VOTES_CONFIRM, 0, TN_ANSWER_OK);
    say_plainly(TN_VOTES_CONFIRM, 1, TN_ANSWER_STALE);
    CHECK(claim.state == TN_VOTES_WAITING);
    for (unsigned turns = 0; turns < 3 && claim.state != TN_VOTES_CONFIRMING; turns++) {
        CHECK(tn_votes_wake_at(&votes) < TN_NEVER);
        tn_votes_tick(&votes, tn_votes_wake_at(&votes));
        for (unsigned i = 0; i < 2; i++)
            vote_for(TN_VOTES_READ, i, 5 + 4 * i);
        vote_against(TN_VOTES_READ, 2, TN_ANSWER_HELD, false);
        if (waiting(TN_VOTES_RECLAIM, 0) != NULL)
            vote_for(TN_VOTES_RECLAIM, 0, 5);
        vote_for(TN_VOTES_RECLAIM, 1, 9);
        vote_against(TN_VOTES_RECLAIM, 2, TN_ANSWER_QUEUED, false);
    }
    CHECK(claim.state == TN_VOTES_CONFIRMING);
    CHECK_EQ_U64(claim.token, 9);
    say_plainly(TN_VOTES_CONFIRM, 0, TN_ANSWER_OK);
    say_plainly(TN_VOTES_CONFIRM, 1, TN_ANSWER_OK);
    CHECK_EQ_U64(told.grants, 1);
}

TEST(a_claim_to_which_most_servers_say_stale_asks_them_anew)
{
    set_up(3);
    acquire(true);
    vote_against(TN_VOTES_ASK, 0, TN_ANSWER_QUEUED, false);
    vote_against(TN_VOTES_ASK, 1, TN_ANSWER_QUEUED, false);
    vote_against(TN_VOTES_ASK, 2, TN_ANSWER_QUEUED, false);
    claim.out = 1 << 0 | 1 << 1;
    CHECK(tn_votes_acquire(&claim, votes.now, true, &job));
    say_plainly(TN_VOTES_ASK, 0, TN_ANSWER_STALE);
    vote_against(TN_VOTES_ASK, 1, TN_ANSWER_QUEUED, false);
    vote_against(TN_VOTES_ASK, 2, TN_ANSWER_QUEUED, false);
    CHECK_EQ_U64(claim.out, 1 << 0); /* Enough queues are left. */
    CHECK_EQ_I64(tn_votes_wake_at(&votes), TN_NEVER);
}

/* --- Renewals --------------------------------------------------------------------------------- */

TEST(a_renewal_counts_only_with_a_majority_that_has_the_votes)
{
    lead();
    claim.sure = 1 << 0 | 1 << 1; /* Server 2 has not confirmed. */
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &other_job));
    renew_at(0, 5);
    renew_at(2, 5);
    CHECK(told.job != &other_job); /* A majority, but not one with a majority of the votes. */
    renew_at(1, 5);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_OK);
    CHECK_EQ_U64(session.good, 7);
}

TEST(servers_that_do_not_agree_on_the_leases_are_no_majority)
{
    lead();
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &other_job));
    renew_at(0, 5);
    renew_at(1, 6);
    CHECK(told.job != &other_job);
    say_nothing(TN_VOTES_RENEW, 2);
    CHECK(told.job == &other_job && told.result.failed);
    CHECK_EQ_U64(sent[TN_VOTES_RECLAIM], 1); /* The one that differs is asked what it has. */
}

TEST(a_server_without_the_session_gets_it_and_is_asked_for_the_votes)
{
    lead();
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &job));
    say_plainly(TN_VOTES_RENEW, 2, TN_ANSWER_GONE);
    CHECK_EQ_U64(claim.sure, 3);
    CHECK_EQ_U64(told.revocations, 0);
    renew_at(0, 5);
    renew_at(1, 5);
    CHECK(told.result.answer == TN_ANSWER_OK && !told.result.failed);
    unsigned opened = sent[TN_VOTES_OPEN];
    CHECK(tn_votes_renew(&session, votes.now, false, 3, &job));
    CHECK_EQ_U64(sent[TN_VOTES_OPEN], opened + 1);
    renew_at(2, 0);
    CHECK_EQ_U64(sent[TN_VOTES_RECLAIM], 1);
    vote_for(TN_VOTES_RECLAIM, 2, 1);
    CHECK_EQ_U64(sent[TN_VOTES_CONFIRM], 4); /* With the term's token, not with its own. */
    CHECK_EQ_U64(claim.token, 5);
}

TEST(a_term_whose_majority_is_gone_is_over_before_a_renewal_counts)
{
    lead();
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &other_job));
    say_plainly(TN_VOTES_RENEW, 2, TN_ANSWER_GONE);
    CHECK_EQ_U64(told.revocations, 0);
    say_plainly(TN_VOTES_RENEW, 1, TN_ANSWER_GONE);
    CHECK_EQ_U64(told.revocations, 1);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_GONE);
    renew_at(0, 5);
    CHECK(session.over);
}

TEST(a_stale_renewal_is_stale_once_a_majority_says_so)
{
    lead();
    CHECK(tn_votes_renew(&session, votes.now, false, 1, &other_job));
    say_plainly(TN_VOTES_RENEW, 0, TN_ANSWER_STALE);
    CHECK(told.job != &other_job);
    say_plainly(TN_VOTES_RENEW, 1, TN_ANSWER_STALE);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_STALE);
}

TEST(a_session_of_another_process_is_renewed_but_never_opened)
{
    struct tn_votes_session adopted = { .next = NULL };

    set_up(3);
    tn_votes_session_add(&votes, &adopted, 0);
    unsigned opened = sent[TN_VOTES_OPEN];
    CHECK(tn_votes_renew(&adopted, votes.now, false, 0, &job));
    say_plainly(TN_VOTES_RENEW, 0, TN_ANSWER_GONE);
    renew_at(1, 0);
    renew_at(2, 0);
    CHECK(told.result.answer == TN_ANSWER_OK);
    CHECK(tn_votes_renew(&adopted, votes.now, false, 0, &job));
    CHECK_EQ_U64(sent[TN_VOTES_OPEN], opened);
    CHECK(tn_votes_end_session(&adopted, votes.now, &job));
    say_plainly(TN_VOTES_CLOSE, 0, TN_ANSWER_GONE);
    say_plainly(TN_VOTES_CLOSE, 1, TN_ANSWER_OK);
    CHECK(told.result.answer == TN_ANSWER_OK);
}

/* --- The end ---------------------------------------------------------------------------------- */

TEST(a_release_counts_with_a_majority_and_is_owed_to_the_rest)
{
    lead();
    CHECK(tn_votes_release(&session, &claim, votes.now, claim.token, &other_job));
    say_plainly(TN_VOTES_RELEASE, 0, TN_ANSWER_RELEASED);
    CHECK(told.job != &other_job);
    say_plainly(TN_VOTES_RELEASE, 1, TN_ANSWER_RELEASED);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_RELEASED);
    CHECK(tn_votes_acquire(&claim, votes.now, true, &job)); /* Delayed: the term is over. */
    CHECK(told.job == &job && told.result.answer == TN_ANSWER_STALE);
    say_nothing(TN_VOTES_RELEASE, 2);
    CHECK_EQ_U64(claim.owed, 1 << 2);
    CHECK_EQ_U64(told.forgotten, 0);
    CHECK(tn_votes_renew(&session, votes.now, false, 2, &job));
    renew_at(2, 0);
    say_plainly(TN_VOTES_WITHDRAW, 2, TN_ANSWER_RELEASED);
    CHECK_EQ_U64(told.forgotten, 1);
}

TEST(a_vote_with_another_token_counts_as_given_back_to_its_own_claim_only)
{
    lead();
    CHECK(tn_votes_release(&session, &claim, votes.now, claim.token, &other_job));
    say_plainly(TN_VOTES_RELEASE, 0, TN_ANSWER_RELEASED);
    say_plainly(TN_VOTES_RELEASE, 1, TN_ANSWER_STALE);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_RELEASED);
    CHECK_EQ_U64(sent[TN_VOTES_WITHDRAW], 1);

    static const enum tn_answer answers[] = { TN_ANSWER_GONE, TN_ANSWER_STALE, TN_ANSWER_DENIED };
    for (unsigned i = 0; i < 3; i++) {
        set_up(3);
        CHECK(tn_votes_release(&session, NULL, votes.now, 5, &other_job));
        say_plainly(TN_VOTES_RELEASE, 0, answers[i]);
        say_plainly(TN_VOTES_RELEASE, 1, answers[i]);
        CHECK(told.job == &other_job && told.result.answer == answers[i]);
    }
    set_up(3);
    CHECK(tn_votes_release(&session, &claim, votes.now, 99, &other_job)); /* Not its token. */
    for (unsigned i = 0; i < 3; i++)
        say_nothing(TN_VOTES_RELEASE, i);
    CHECK(told.job == &other_job && told.result.failed);
}

TEST(a_revocation_at_one_server_is_one)
{
    lead();
    tn_votes_hear_revoked(&claim, votes.now);
    CHECK_EQ_U64(told.revocations, 1);
    CHECK(!claim.led);
    CHECK(tn_votes_release(&session, &claim, votes.now, claim.token, &job));
    tn_votes_hear_revoked(&claim, votes.now); /* Late. */
    CHECK_EQ_U64(told.revocations, 1);
}

TEST(news_of_a_vote_for_a_claim_that_is_over_gives_it_back)
{
    lead();
    CHECK(tn_votes_release(&session, &claim, votes.now, claim.token, &job));
    tn_votes_hear_vote(&claim, votes.now, 1, 12);
    CHECK_EQ_U64(sent[TN_VOTES_WITHDRAW], 1);
    for (unsigned i = 0; i < 3; i++)
        say_plainly(TN_VOTES_RELEASE, i, TN_ANSWER_RELEASED);
    CHECK(claim.state == TN_VOTES_ENDED);
    tn_votes_hear_vote(&claim, votes.now, 1, 13);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 1);
}

TEST(the_end_of_a_session_ends_its_claims_and_leaves_nothing_behind)
{
    set_up(3);
    acquire(true);
    CHECK(tn_votes_end_session(&session, votes.now, &other_job));
    CHECK(told.job == &job && told.result.answer == TN_ANSWER_GONE);
    CHECK_EQ_U64(told.forgotten, 0); /* Answers are still to come. */
    for (unsigned i = 0; i < 3; i++)
        vote_for(TN_VOTES_ASK, i, 4);
    CHECK_EQ_U64(told.forgotten, 1);
    CHECK_EQ_U64(sent[TN_VOTES_YIELD], 0); /* It goes with the session. */
    for (unsigned i = 0; i < 3; i++)
        say_nothing(TN_VOTES_CLOSE, i);
    CHECK(told.job == &other_job && told.result.failed);
    CHECK_EQ_U64(told.sessions, 1);
}

TEST(without_memory_or_after_the_end_nothing_is_begun)
{
    set_up(3);
    no_memory = true;
    CHECK(!tn_votes_acquire(&claim, votes.now, true, &job));
    CHECK_EQ_U64(told.forgotten, 1);
    CHECK(!tn_votes_read(&votes, votes.now, &job));
    no_memory = false;
    tn_votes_close(&votes);
    CHECK(!tn_votes_revoke(&votes, votes.now, &job));
    CHECK_EQ_U64(told.dones, 1);
}

/* --- Names ------------------------------------------------------------------------------------ */

TEST(a_name_is_held_by_whom_a_majority_has_confirmed)
{
    set_up(3);
    CHECK(tn_votes_read(&votes, votes.now, &other_job));
    vote_against(TN_VOTES_READ, 0, TN_ANSWER_HELD, true);
    CHECK(told.job != &other_job);
    vote_against(TN_VOTES_READ, 1, TN_ANSWER_HELD, true);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_HELD);
    say_nothing(TN_VOTES_READ, 2);

    CHECK(tn_votes_read(&votes, votes.now, &job)); /* Votes that nobody has confirmed. */
    vote_against(TN_VOTES_READ, 0, TN_ANSWER_HELD, false);
    vote_against(TN_VOTES_READ, 1, TN_ANSWER_HELD, true);
    CHECK(told.job != &job);
    vote_for(TN_VOTES_READ, 2, 3);
    CHECK(told.job == &job && told.result.answer == TN_ANSWER_FREE);
    CHECK_EQ_U64(told.result.record.token, 6); /* What a majority has reached. */

    CHECK(tn_votes_read(&votes, votes.now, &other_job));
    vote_against(TN_VOTES_READ, 0, TN_ANSWER_HELD, true);
    say_nothing(TN_VOTES_READ, 1);
    say_nothing(TN_VOTES_READ, 2);
    CHECK(told.job == &other_job && told.result.failed);
}

TEST(a_term_of_our_own_that_was_confirmed_unheard_is_told_to_nobody)
{
    struct tn_votes_reply found = { .outcome = TN_VOTES_ANSWERED,
                                    .answer = TN_ANSWER_HELD,
                                    .held = true,
                                    .confirmed = true,
                                    .token = 9,
                                    .last = 6,
                                    .term = mine };

    set_up(3);
    acquire(true);
    vote_for(TN_VOTES_ASK, 0, 9);
    vote_for(TN_VOTES_ASK, 1, 9);
    CHECK(tn_votes_read(&votes, votes.now, &other_job));
    say(TN_VOTES_READ, 0, &found);
    say(TN_VOTES_READ, 1, &found);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_FREE);
    CHECK_EQ_U64(told.result.record.token, 6);
    say_plainly(TN_VOTES_CONFIRM, 0, TN_ANSWER_OK);
    say_plainly(TN_VOTES_CONFIRM, 1, TN_ANSWER_OK);
    CHECK(tn_votes_read(&votes, votes.now, &other_job));
    say_nothing(TN_VOTES_READ, 2); /* Of the read before. */
    say(TN_VOTES_READ, 0, &found);
    say(TN_VOTES_READ, 1, &found);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_HELD);
}

TEST(a_revocation_counts_with_a_majority)
{
    set_up(3);
    CHECK(tn_votes_revoke(&votes, votes.now, &other_job));
    say_plainly(TN_VOTES_REVOKE, 0, TN_ANSWER_OK);
    say_plainly(TN_VOTES_REVOKE, 1, TN_ANSWER_OK);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_OK);
    say_nothing(TN_VOTES_REVOKE, 2);
    CHECK(tn_votes_revoke(&votes, votes.now, &job));
    say_nothing(TN_VOTES_REVOKE, 0);
    say_plainly(TN_VOTES_REVOKE, 1, TN_ANSWER_STALE);
    say_plainly(TN_VOTES_REVOKE, 2, TN_ANSWER_OK);
    CHECK(told.job == &job && told.result.failed);
}

TEST(a_revocation_that_one_server_took_counts_when_the_others_have_the_release)
{
    set_up(3);
    CHECK(tn_votes_revoke(&votes, votes.now, &job));
    say_plainly(TN_VOTES_REVOKE, 1, TN_ANSWER_OK);
    say_plainly(TN_VOTES_REVOKE, 0, TN_ANSWER_STALE);
    say_plainly(TN_VOTES_REVOKE, 2, TN_ANSWER_STALE);
    CHECK(told.job == &job && told.result.answer == TN_ANSWER_OK && !told.result.failed);
    CHECK(tn_votes_revoke(&votes, votes.now, &other_job));
    say_plainly(TN_VOTES_REVOKE, 0, TN_ANSWER_STALE);
    say_plainly(TN_VOTES_REVOKE, 2, TN_ANSWER_STALE);
    CHECK(told.job == &other_job && told.result.answer == TN_ANSWER_STALE);
    say_plainly(TN_VOTES_REVOKE, 1, TN_ANSWER_OK); /* Too late. */
    CHECK(told.result.answer == TN_ANSWER_STALE);
}
