/* line_revoke_test.c - which step follows which, to every end. */
#include "core/line_revoke.h"

#include "tests/harness/test.h"

static struct tn_line_revoke begin(bool moved, bool bound, uint64_t asked)
{
    struct tn_line_leader leader = { .there = true, .moved = moved, .bound = bound, .token = 7 };
    struct tn_line_revoke revoke;

    tn_line_revoke_start(&revoke, &leader, asked);
    return revoke;
}

static void goes(struct tn_line_revoke *revoke, bool yes, enum tn_line_revoke_step step)
{
    tn_line_revoke_went(revoke, yes);
    CHECK_EQ_I64(revoke->step, step);
}

static void ends(const struct tn_line_revoke *revoke, enum tn_answer answer)
{
    CHECK_EQ_I64(revoke->step, TN_LINE_REVOKE_DONE);
    CHECK_EQ_I64(revoke->answer, answer);
}

TEST(a_term_is_held_off_for_the_ttl_of_its_lease)
{
    struct tn_line_revoke revoke = begin(false, true, 7);

    CHECK_EQ_I64(revoke.step, TN_LINE_REVOKE_MEASURE);
    goes(&revoke, true, TN_LINE_REVOKE_OPEN);
    goes(&revoke, true, TN_LINE_REVOKE_MOVE);
    goes(&revoke, true, TN_LINE_REVOKE_KEEP);
    tn_line_revoke_went(&revoke, true);
    ends(&revoke, TN_ANSWER_OK);
}

TEST(a_second_lease_that_is_there_counts_anew_before_the_move)
{
    struct tn_line_revoke revoke = begin(false, true, 0);

    goes(&revoke, true, TN_LINE_REVOKE_OPEN);
    goes(&revoke, false, TN_LINE_REVOKE_RENEW);
    goes(&revoke, false, TN_LINE_REVOKE_OPEN); /* It has just ended. */
    goes(&revoke, false, TN_LINE_REVOKE_RENEW);
    goes(&revoke, true, TN_LINE_REVOKE_MOVE);
    goes(&revoke, true, TN_LINE_REVOKE_KEEP);
    tn_line_revoke_went(&revoke, false); /* Moved it is. */
    ends(&revoke, TN_ANSWER_OK);
}

TEST(a_term_that_is_over_is_not_revoked)
{
    struct tn_line_leader nobody = { 0 };
    struct tn_line_revoke revoke;

    tn_line_revoke_start(&revoke, &nobody, 0);
    ends(&revoke, TN_ANSWER_STALE);
    revoke = begin(false, true, 6);
    ends(&revoke, TN_ANSWER_STALE);
    revoke = begin(false, true, 0);
    tn_line_revoke_went(&revoke, false);
    ends(&revoke, TN_ANSWER_STALE);
    revoke = begin(false, false, 0); /* A key that is bound to no lease. */
    CHECK_EQ_I64(revoke.step, TN_LINE_REVOKE_OPEN);
    goes(&revoke, true, TN_LINE_REVOKE_MOVE);
    tn_line_revoke_went(&revoke, false); /* It was given back meanwhile. */
    ends(&revoke, TN_ANSWER_STALE);
}

TEST(a_revocation_is_said_again)
{
    struct tn_line_revoke revoke = begin(true, true, 7);

    ends(&revoke, TN_ANSWER_OK);
}
