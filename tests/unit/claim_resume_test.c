/* claim_resume_test.c - a claim that goes on where a process before it was; claim_script.h says how
 * to read the transcripts. */
#include "tests/unit/claim_script.h"

/* The term of generation 4 with token 7; or generation 4 with nothing that is known. */
static void resume(uint64_t token)
{
    start();
    tn_session_init(&session, &plan, 1, 1);
    tn_claim_resume(&claim, 4, token);
    CHECK_STR(hears(100, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_EQ_I64(wakes_at(), -1);
    session_lives(200, 1);
}

TEST(a_term_goes_on_when_the_store_confirms_its_token)
{
    resume(7);
    CHECK_STR(hears(200, TN_CLAIM_EV_SESSION_LIVE), "acquire g4");
    CHECK_STR(tick(1200), "acquire g4");
    CHECK_STR(about(1300, TN_CLAIM_EV_FAILED, 4), "");
    CHECK_STR(tick(1550), "acquire g4");
    CHECK_STR(granted(1600, 4, 7), "won t7");
    CHECK_STR(granted(1700, 4, 7), "");
    CHECK_EQ_U64(token_at(1700), 7);
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(1800, TN_CLAIM_EV_DRAINED), "lost t7 released, release g4 t7");
}

TEST(a_term_that_was_over_in_between_is_lost_and_given_back_when_the_work_has_stopped)
{
    resume(7);
    CHECK_STR(hears(200, TN_CLAIM_EV_SESSION_LIVE), "acquire g4");
    CHECK_STR(granted(300, 4, 9), "lost t7 expired");
    CHECK_EQ_U64(token_at(300), 0);
    CHECK_STR(hears(400, TN_CLAIM_EV_DRAINED), "release g4 t9");

    resume(7);
    CHECK_STR(hears(200, TN_CLAIM_EV_SESSION_LIVE), "acquire g4");
    CHECK_STR(about(300, TN_CLAIM_EV_QUEUED, 4), "lost t7 expired");
    CHECK_STR(hears(400, TN_CLAIM_EV_DRAINED), "release g4 t0");

    resume(7);
    CHECK_STR(hears(200, TN_CLAIM_EV_SESSION_LIVE), "acquire g4");
    CHECK_STR(about(300, TN_CLAIM_EV_HELD, 4), "lost t7 expired");
}

TEST(a_term_whose_session_is_gone_is_lost)
{
    resume(7);
    session_feed(300, (struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
    CHECK_STR(hears(300, TN_CLAIM_EV_SESSION_LOST), "lost t7 expired");
    CHECK_STR(in_state(), "draining");
}

TEST(a_term_whose_work_ends_before_the_store_answers_is_given_back)
{
    resume(7);
    CHECK_STR(hears(200, TN_CLAIM_EV_SESSION_LIVE), "acquire g4");
    CHECK_STR(hears(300, TN_CLAIM_EV_DRAINED), "lost t7 released, release g4 t7");
    CHECK_STR(granted(400, 4, 7), "");
    CHECK_STR(in_state(), "releasing");
}

TEST(what_nobody_works_with_is_given_back_once_the_session_lives)
{
    resume(0);
    CHECK_STR(granted(200, 4, 7), ""); /* Word of the grant comes first. */
    CHECK_STR(hears(200, TN_CLAIM_EV_RESIGN), "");
    CHECK_STR(hears(250, TN_CLAIM_EV_SESSION_LIVE), "release g4 t0");
    CHECK_STR(about(300, TN_CLAIM_EV_RELEASED, 4), "");
    CHECK_STR(in_state(), "watching");
    CHECK_STR(granted(400, 4, 8), "release g4 t8"); /* What was on its way arrives late. */
}

TEST(a_session_that_lives_already_is_used_at_once)
{
    start();
    tn_claim_resume(&claim, 4, 7);
    CHECK_STR(hears(100, TN_CLAIM_EV_CAMPAIGN), "acquire g4");
    CHECK_STR(granted(200, 4, 7), "won t7");
    tn_claim_init(&claim, &config, &session, 1);
    tn_claim_resume(&claim, 4, 0);
    CHECK_STR(hears(300, TN_CLAIM_EV_CAMPAIGN), "release g4 t0");
}
