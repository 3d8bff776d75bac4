/* claim_test.c - one candidate's way through its terms, as transcripts; claim_script.h says how to
 * read them. */
#include "tests/unit/claim_script.h"

/* --- From wanting to leading ------------------------------------------------------------------ */

TEST(a_term_from_campaign_to_release)
{
    start();
    CHECK_STR(hears(100, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
    CHECK_STR(granted(200, 1, 5), "won t5");
    CHECK_EQ_U64(token_at(200), 5);
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(300, TN_CLAIM_EV_RESIGN), "drain t5");
    CHECK_EQ_U64(token_at(300), 5);
    CHECK_STR(hears(400, TN_CLAIM_EV_DRAINED), "lost t5 released, release g1 t5");
    CHECK_EQ_U64(token_at(400), 0);
    CHECK_STR(about(500, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(in_state(), "watching");
    CHECK_EQ_I64(wakes_at(), -1);
}

TEST(the_token_is_good_only_until_the_deadline)
{
    reach_holding();
    CHECK_EQ_U64(tn_claim_token(&claim, TN_SEC(50) - 1), 5);
    CHECK_EQ_U64(tn_claim_token(&claim, TN_SEC(50)), 0);
}

TEST(the_token_is_good_only_in_the_life_it_was_granted_in)
{
    reach_holding();
    session_lives(700, 2);
    CHECK_EQ_U64(token_at(700), 0);
}

TEST(nothing_is_asked_before_the_session_lives)
{
    start();
    tn_session_init(&session, &plan, 1, 1);
    CHECK_STR(hears(100, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_EQ_I64(wakes_at(), -1);
    session_lives(200, 1);
    CHECK_STR(hears(200, TN_CLAIM_EV_SESSION_LIVE), "acquire g1");
}

TEST(an_unanswered_acquire_is_repeated_under_the_same_generation)
{
    reach_acquiring();
    CHECK_EQ_I64(wakes_at(), 1500);
    CHECK_STR(tick(1499), "");
    CHECK_STR(tick(1500), "acquire g1");
    CHECK_EQ_I64(wakes_at(), 2500);
}

TEST(a_failed_acquire_is_repeated_after_the_backoff)
{
    reach_acquiring();
    CHECK_STR(about(600, TN_CLAIM_EV_FAILED, 1), "");
    CHECK_EQ_I64(wakes_at(), 850);
    CHECK_STR(tick(850), "acquire g1");
}

TEST(a_held_name_is_asked_for_again_at_every_poll)
{
    reach_waiting();
    CHECK_EQ_I64(wakes_at(), 3600);
    CHECK_STR(tick(3600), "acquire g1");
    CHECK_STR(about(3700, TN_CLAIM_EV_HELD, 1), "");
    CHECK_EQ_I64(wakes_at(), 6700);
}

TEST(a_queued_candidate_polls_too_in_case_the_wake_up_got_lost)
{
    reach_queued();
    CHECK_STR(tick(3600), "acquire g1");
    CHECK_STR(about(3700, TN_CLAIM_EV_QUEUED, 1), "");
    CHECK_STR(granted(3800, 1, 9), "won t9");
}

TEST(jitter_makes_polls_earlier_and_never_later)
{
    reach_acquiring();
    config.jitter_ppm = TN_PPM / 10;
    for (int i = 0; i < 100; i++) {
        CHECK_STR(about(600, TN_CLAIM_EV_HELD, 1), "");
        CHECK(wakes_at() >= 3300 && wakes_at() <= 3600);
        CHECK_STR(hears(600, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
    }
}

TEST(a_repeated_grant_is_told_once)
{
    reach_holding();
    CHECK_STR(granted(700, 1, 5), "");
    CHECK_STR(observed_mine(800, 1, 5), "leader t5 holds");
    CHECK_STR(in_state(), "holding");
}

TEST(a_grant_after_the_deadline_is_nobodys)
{
    reach_acquiring();
    CHECK_STR(granted(50000, 1, 5), "acquire g1");
    CHECK_EQ_U64(claim.token, 0);
    session_feed(50000, (struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    CHECK_STR(hears(50000, TN_CLAIM_EV_SESSION_LOST), "");
    CHECK_STR(in_state(), "watching");
}

/* --- Readiness and withdrawal ----------------------------------------------------------------- */

TEST(who_is_not_ready_does_not_acquire)
{
    start();
    CHECK_STR(hears(100, TN_CLAIM_EV_NOT_READY), "");
    CHECK_STR(hears(200, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_STR(observed(300, 4, false), "leader t4 gone");
    CHECK_STR(hears(400, TN_CLAIM_EV_SESSION_LIVE), "");
    CHECK_STR(hears(500, TN_CLAIM_EV_READY), "acquire g1");
}

TEST(a_leader_that_is_no_longer_ready_keeps_its_term_but_not_the_next)
{
    reach_holding();
    CHECK_STR(hears(700, TN_CLAIM_EV_NOT_READY), "");
    CHECK_EQ_U64(token_at(700), 5);
    CHECK_STR(hears(800, TN_CLAIM_EV_DRAINED), "lost t5 released, release g1 t5");
    CHECK_STR(about(900, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(1000, TN_CLAIM_EV_READY), "acquire g2");
}

TEST(a_poll_due_while_not_ready_asks_nothing_and_never_comes_again)
{
    reach_waiting();
    CHECK_STR(hears(700, TN_CLAIM_EV_NOT_READY), "");
    CHECK_STR(tick(3600), "");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(4000, TN_CLAIM_EV_READY), "acquire g1");
}

TEST(a_withdrawal_is_repeated_until_the_store_confirms_it)
{
    reach_withdrawing();
    CHECK_EQ_I64(wakes_at(), 1700);
    CHECK_STR(tick(1700), "release g1 t0");
    CHECK_STR(about(1800, TN_CLAIM_EV_FAILED, 1), "");
    CHECK_EQ_I64(wakes_at(), 2050);
    CHECK_STR(tick(2050), "release g1 t0");
    CHECK_STR(about(2100, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(in_state(), "watching");
}

TEST(who_comes_back_while_withdrawing_campaigns_under_a_new_generation)
{
    reach_withdrawing();
    CHECK_STR(hears(800, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_STR(about(900, TN_CLAIM_EV_RELEASED, 1), "acquire g2");
    CHECK_EQ_I64(wakes_at(), 1900);
}

TEST(a_stray_grant_of_a_withdrawn_generation_is_given_back)
{
    reach_acquiring();
    CHECK_STR(hears(600, TN_CLAIM_EV_RESIGN), "release g1 t0");
    CHECK_STR(about(700, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(granted(800, 1, 7), "release g1 t7");
    CHECK_STR(in_state(), "watching");
}

TEST(a_stray_grant_is_looked_for_after_an_acquire_was_withdrawn)
{
    reach_acquiring();
    CHECK_STR(hears(600, TN_CLAIM_EV_RESIGN), "release g1 t0");
    CHECK_STR(about(700, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(3700), "read");
    CHECK_STR(observed_mine(3800, 1, 7), "leader t7 holds, release g1 t7");
    CHECK_STR(tick(6700), "read");
}

TEST(a_stray_grant_is_looked_for_after_an_acquire_was_repeated)
{
    reach_acquiring();
    CHECK_STR(tick(1500), "acquire g1");
    CHECK_STR(about(1600, TN_CLAIM_EV_QUEUED, 1), "");
    CHECK_STR(hears(1700, TN_CLAIM_EV_RESIGN), "release g1 t0");
    CHECK_STR(about(1800, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(4800), "read");
}

TEST(a_candidate_does_not_wait_for_ever_behind_its_own_stray_grant)
{
    reach_acquiring();
    CHECK_STR(hears(600, TN_CLAIM_EV_RESIGN), "release g1 t0");
    CHECK_STR(about(700, TN_CLAIM_EV_RELEASED, 1), "");
    /* The withdrawn acquire arrives late and is granted; the reply is lost. */
    CHECK_STR(hears(800, TN_CLAIM_EV_CAMPAIGN), "acquire g2");
    CHECK_STR(about(900, TN_CLAIM_EV_QUEUED, 2), "");
    CHECK_STR(tick(3900), "acquire g2, read");
    CHECK_STR(about(3950, TN_CLAIM_EV_QUEUED, 2), "");
    CHECK_STR(observed_mine(4000, 1, 7), "leader t7 holds, release g1 t7");
    CHECK_STR(granted(4100, 2, 8), "won t8");
}

TEST(no_stray_grant_is_looked_for_in_another_life)
{
    reach_acquiring();
    CHECK_STR(hears(600, TN_CLAIM_EV_RESIGN), "release g1 t0");
    CHECK_STR(about(700, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(session_ends(800), "");
    session_lives(900, 2);
    CHECK_STR(hears(900, TN_CLAIM_EV_SESSION_LIVE), "");
    CHECK_STR(observed_mine(1000, 1, 7), "leader t7 holds");
    CHECK_EQ_I64(wakes_at(), -1);
}

/* --- Tokens and revocations ------------------------------------------------------------------- */

TEST(a_token_at_or_below_one_seen_before_is_refused)
{
    reach_waiting();
    CHECK_STR(observed(700, 8, true), "leader t8 holds");
    CHECK_STR(granted(800, 1, 8), "refused t8 token-regressed, release g1 t8");
    CHECK_STR(about(900, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_EQ_I64(wakes_at(), 3900);
    CHECK_STR(tick(3900), "acquire g2");
    CHECK_STR(granted(4000, 2, 7), "refused t7 token-regressed, release g2 t7");
    CHECK_STR(about(4100, TN_CLAIM_EV_RELEASED, 2), "");
    CHECK_STR(tick(7100), "acquire g3");
    CHECK_STR(granted(7200, 3, 9), "won t9");
}

TEST(its_own_last_token_is_a_token_seen_before)
{
    reach_holding();
    CHECK_STR(hears(700, TN_CLAIM_EV_DRAINED), "lost t5 released, release g1 t5");
    CHECK_STR(about(800, TN_CLAIM_EV_RELEASED, 1), "acquire g2");
    CHECK_STR(granted(900, 2, 5), "refused t5 token-regressed, release g2 t5");
}

TEST(a_revocation_that_overtakes_its_grant_is_remembered)
{
    reach_acquiring();
    CHECK_STR(token_is(600, TN_CLAIM_EV_REVOKED, 5), "");
    CHECK_STR(token_is(610, TN_CLAIM_EV_REVOKED, 4), "");
    CHECK_STR(granted(700, 1, 5), "refused t5 revoked, release g1 t5");
    CHECK_STR(about(800, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(3800), "acquire g2");
    CHECK_STR(granted(3900, 2, 6), "won t6");
}

TEST(a_revoked_leader_releases_only_after_its_work_has_stopped)
{
    reach_revoked();
    CHECK_EQ_U64(token_at(700), 0);
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(tick(40000), "");
    CHECK_STR(hears(40100, TN_CLAIM_EV_DRAINED), "release g1 t5");
    CHECK_STR(about(40200, TN_CLAIM_EV_RELEASED, 1), "acquire g2");
}

TEST(a_revoked_leader_stands_back_until_another_has_led_or_its_time_is_over)
{
    reach_holding();
    config.notes.back = TN_MS(5000);
    CHECK_STR(token_is(700, TN_CLAIM_EV_REVOKED, 5), "lost t5 revoked");
    CHECK_STR(hears(750, TN_CLAIM_EV_DRAINED), "release g1 t5");
    CHECK_STR(about(800, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(observed(900, 5, false), "leader t5 gone");
    CHECK_STR(tick(5799), "");
    CHECK_STR(tick(5800), "acquire g2");

    reach_holding();
    config.notes.back = TN_MS(5000);
    CHECK_STR(token_is(700, TN_CLAIM_EV_REVOKED, 5), "lost t5 revoked");
    CHECK_STR(hears(750, TN_CLAIM_EV_DRAINED), "release g1 t5");
    CHECK_STR(about(800, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(observed(900, 6, true), "leader t6 holds, acquire g2");
}

TEST(leaders_are_told_in_the_order_of_their_tokens_and_once)
{
    start();
    CHECK_STR(observed(100, 4, true), "leader t4 holds");
    CHECK_STR(observed(200, 4, true), "");
    CHECK_STR(observed(300, 4, false), "leader t4 gone");
    CHECK_STR(observed(400, 4, false), "");
    CHECK_STR(observed(500, 3, true), "");
    CHECK_STR(observed(600, 9, true), "leader t9 holds");
}

/* --- Fences ----------------------------------------------------------------------------------- */

TEST(the_fences_are_up_before_anyone_hears_of_the_term)
{
    reach_raising();
    CHECK_EQ_U64(token_at(600), 0);
    CHECK_EQ_I64(wakes_at(), 1600);
    CHECK_STR(token_is(700, TN_CLAIM_EV_RAISED, 5), "won t5");
    CHECK_EQ_U64(token_at(700), 5);
    CHECK_EQ_I64(wakes_at(), -1);
}

TEST(an_unanswered_raise_is_repeated_and_given_up_in_time)
{
    reach_raising();
    CHECK_STR(tick(1600), "raise t5");
    CHECK_STR(about(1700, TN_CLAIM_EV_FAILED, 1), "");
    CHECK_EQ_I64(wakes_at(), 1950);
    CHECK_STR(tick(1950), "raise t5");
    CHECK_STR(tick(2950), "raise t5");
    CHECK_EQ_I64(wakes_at(), 3100);
    CHECK_STR(tick(3100), "refused t5 fence-failed, release g1 t5");
    CHECK_STR(token_is(3200, TN_CLAIM_EV_RAISED, 5), "");
    CHECK_STR(about(3300, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(6300), "acquire g2");
    CHECK_STR(granted(6400, 2, 6), "raise t6");
}

TEST(a_fence_that_will_not_go_up_is_not_asked_again_for_this_grant)
{
    reach_raising();
    CHECK_STR(token_is(650, TN_CLAIM_EV_BARRED, 4), ""); /* Of a grant before. */
    CHECK_STR(token_is(700, TN_CLAIM_EV_BARRED, 5), "refused t5 fence-failed, release g1 t5");
    CHECK_STR(token_is(750, TN_CLAIM_EV_BARRED, 5), "");
    CHECK_STR(about(800, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(3800), "acquire g2");
}

TEST(a_fence_that_stands_higher_is_remembered_as_a_token_seen)
{
    reach_raising();
    CHECK_STR(token_is(700, TN_CLAIM_EV_STALE, 8), "refused t5 token-regressed, release g1 t5");
    CHECK_STR(about(800, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(3800), "acquire g2");
    CHECK_STR(granted(3900, 2, 8), "refused t8 token-regressed, release g2 t8");
}

TEST(fences_raised_after_the_deadline_win_nothing)
{
    reach_raising();
    claim.give_up_at = TN_NEVER;
    CHECK_STR(token_is(50000, TN_CLAIM_EV_RAISED, 5), "raise t5");
    CHECK_STR(in_state(), "raising");
}

TEST(giving_up_the_fences_does_not_disturb_a_release_on_its_way)
{
    reach_raising();
    CHECK_STR(hears(700, TN_CLAIM_EV_RESIGN), "release g1 t5");
    CHECK_EQ_I64(wakes_at(), 1700);
    CHECK_STR(tick(1700), "release g1 t5");
    CHECK_STR(tick(2700), "release g1 t5");
    CHECK_STR(tick(3100), "");
    CHECK_EQ_I64(wakes_at(), 3700);
}

/* --- Draining and stalls ---------------------------------------------------------------------- */

TEST(a_drain_that_takes_too_long_is_a_stall_released_at_the_frozen_deadline)
{
    reach_resigned();
    CHECK_EQ_I64(wakes_at(), 2700);
    CHECK_STR(tick(2700), "lost t5 stalled");
    CHECK_EQ_U64(token_at(2700), 0);
    CHECK_EQ_I64(wakes_at(), 50000);
    /* Renewals of the session go on; the end of this term does not move with them. */
    session_feed(20000, (struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    session_feed(
        20001, (struct tn_session_event) { .kind = TN_SESSION_EV_OK, .seq = 2, .ttl = TN_SEC(60) });
    CHECK_STR(tick(49999), "");
    CHECK_STR(tick(50000), "release g1 t5");
    CHECK_STR(about(50100, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(in_state(), "draining");
    CHECK_EQ_I64(wakes_at(), -1);
}

TEST(a_stalled_worker_keeps_the_claim_from_campaigning_until_it_has_stopped)
{
    reach_resigned();
    CHECK_STR(hears(800, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_STR(tick(2700), "lost t5 stalled");
    session_feed(20000, (struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    session_feed(
        20001, (struct tn_session_event) { .kind = TN_SESSION_EV_OK, .seq = 2, .ttl = TN_SEC(60) });
    CHECK_STR(tick(50000), "release g1 t5");
    CHECK_STR(about(50100, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(tick(60000), "");
    CHECK_STR(hears(60100, TN_CLAIM_EV_DRAINED), "acquire g3");
}

TEST(a_stalled_worker_may_stop_before_the_deadline_after_all)
{
    reach_resigned();
    CHECK_STR(tick(2700), "lost t5 stalled");
    CHECK_STR(hears(3000, TN_CLAIM_EV_DRAINED), "release g1 t5");
    CHECK_STR(about(3100, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(in_state(), "watching");
}

TEST(a_stalled_worker_may_stop_while_its_lease_is_on_its_way_back)
{
    reach_resigned();
    CHECK_STR(tick(2700), "lost t5 stalled");
    CHECK_STR(tick(50000), "release g1 t5");
    CHECK_STR(hears(50100, TN_CLAIM_EV_DRAINED), "");
    CHECK_STR(in_state(), "releasing");
    CHECK_STR(about(50200, TN_CLAIM_EV_RELEASED, 1), "");
    CHECK_STR(in_state(), "watching");
}

TEST(a_work_loop_that_checks_in_keeps_its_term)
{
    start();
    config.stall_after = TN_MS(1500);
    CHECK_STR(hears(500, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
    CHECK_STR(granted(600, 1, 5), "won t5");
    CHECK_EQ_I64(wakes_at(), 2100);
    CHECK_STR(hears(2000, TN_CLAIM_EV_CHECK_IN), "");
    CHECK_EQ_I64(wakes_at(), 3500);
    CHECK_STR(tick(3499), "");
    CHECK_STR(hears(3500, TN_CLAIM_EV_CHECK_IN), "lost t5 stalled");
    CHECK_EQ_I64(wakes_at(), 50000);
    CHECK_STR(hears(3600, TN_CLAIM_EV_CHECK_IN), "");
    CHECK_STR(hears(3700, TN_CLAIM_EV_DRAINED), "release g1 t5");
}

TEST(a_silent_work_loop_stalls_while_draining_too)
{
    start();
    config.stall_after = TN_MS(1500);
    CHECK_STR(hears(500, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
    CHECK_STR(granted(600, 1, 5), "won t5");
    CHECK_STR(hears(700, TN_CLAIM_EV_RESIGN), "drain t5");
    CHECK_EQ_I64(wakes_at(), 2100);
    CHECK_STR(tick(2100), "lost t5 stalled");
}

TEST(a_stall_noticed_after_the_deadline_is_released_at_once)
{
    start();
    config.stall_after = TN_MS(1500);
    CHECK_STR(hears(500, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
    CHECK_STR(granted(600, 1, 5), "won t5");
    CHECK_STR(tick(50000), "lost t5 stalled, release g1 t5");
}

TEST(work_that_ends_by_itself_gives_the_lease_back_and_campaigns_again)
{
    reach_holding();
    CHECK_STR(hears(700, TN_CLAIM_EV_DRAINED), "lost t5 released, release g1 t5");
    CHECK_STR(tick(1700), "release g1 t5");
    CHECK_STR(about(1800, TN_CLAIM_EV_RELEASED, 1), "acquire g2");
    CHECK_STR(granted(1900, 2, 6), "won t6");
}

/* --- The end of the session ------------------------------------------------------------------- */

TEST(a_lost_session_ends_the_term_with_its_own_reason)
{
    reach_holding();
    session_feed(700, (struct tn_session_event) { .kind = TN_SESSION_EV_CLOSE });
    CHECK_STR(hears(700, TN_CLAIM_EV_SESSION_LOST), "lost t5 closed");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(800, TN_CLAIM_EV_DRAINED), "");
    CHECK_STR(in_state(), "watching");
}

TEST(the_next_life_campaigns_again_once_the_work_has_stopped)
{
    reach_adrift();
    session_lives(800, 2);
    CHECK_STR(hears(800, TN_CLAIM_EV_SESSION_LIVE), "");
    CHECK_STR(granted(850, 1, 5), "release g1 t5");
    CHECK_STR(hears(900, TN_CLAIM_EV_DRAINED), "acquire g3");
    CHECK_STR(granted(1000, 3, 6), "won t6");
    CHECK_EQ_U64(token_at(1000), 6);
}

TEST(a_session_lost_while_raising_leaves_nothing_behind)
{
    reach_raising();
    CHECK_STR(session_ends(700), "");
    CHECK_STR(in_state(), "watching");
    CHECK_STR(token_is(800, TN_CLAIM_EV_RAISED, 5), "");
    session_lives(900, 2);
    CHECK_STR(hears(900, TN_CLAIM_EV_SESSION_LIVE), "acquire g2");
}

TEST(a_session_lost_while_a_stalled_lease_is_on_its_way_back)
{
    reach_resigned();
    CHECK_STR(tick(2700), "lost t5 stalled");
    CHECK_STR(tick(50000), "release g1 t5");
    CHECK_STR(session_ends(50000), "");
    CHECK_STR(in_state(), "draining");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(50100, TN_CLAIM_EV_DRAINED), "");
    CHECK_STR(in_state(), "watching");
}

TEST(a_session_lost_while_stalled_owes_nothing_any_more)
{
    reach_resigned();
    CHECK_STR(tick(2700), "lost t5 stalled");
    CHECK_STR(session_ends(2800), "");
    CHECK_STR(tick(50000), "");
    CHECK_STR(hears(50100, TN_CLAIM_EV_DRAINED), "");
    CHECK_STR(in_state(), "watching");
}

TEST(a_queued_place_is_gone_with_the_session)
{
    reach_queued();
    CHECK_STR(session_ends(700), "");
    session_lives(800, 2);
    CHECK_STR(hears(800, TN_CLAIM_EV_SESSION_LIVE), "acquire g2");
}

/* --- Stores that do not expire ---------------------------------------------------------------- */

static void start_observing(void)
{
    start();
    config.observed = true;
    CHECK_STR(hears(500, TN_CLAIM_EV_CAMPAIGN), "read");
    CHECK_STR(in_state(), "watching");
}

TEST(an_observer_reads_before_it_asks)
{
    start_observing();
    CHECK_EQ_I64(wakes_at(), 3500);
    CHECK_STR(observed(600, 4, true), "leader t4 holds");
    CHECK_STR(tick(3500), "read");
    CHECK_STR(observed(3600, 4, false), "leader t4 gone, acquire g1");
    CHECK_STR(granted(3700, 1, 5), "won t5");
}

TEST(an_observer_that_lost_the_race_goes_back_to_reading)
{
    start_observing();
    CHECK_STR(observed(600, 0, false), "acquire g1");
    CHECK_STR(about(700, TN_CLAIM_EV_HELD, 1), "");
    CHECK_STR(tick(3700), "read");
}

TEST(an_observer_that_is_queued_asks_again)
{
    start_observing();
    CHECK_STR(observed(600, 0, false), "acquire g1");
    CHECK_STR(about(700, TN_CLAIM_EV_QUEUED, 1), "");
    CHECK_STR(tick(3700), "acquire g1");
}

TEST(an_observer_that_is_not_ready_stops_reading)
{
    start_observing();
    CHECK_STR(hears(600, TN_CLAIM_EV_NOT_READY), "");
    CHECK_STR(tick(3500), "");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(hears(4000, TN_CLAIM_EV_READY), "read");
}

/* --- Our own bugs ----------------------------------------------------------------------------- */

TEST(time_going_back_in_a_claim_is_our_bug)
{
    reach_holding();
    CHECK_ASSERTS((void)tick(599));
}

TEST(a_grant_without_a_token_is_never_won)
{
    reach_acquiring();
    CHECK_STR(granted(600, 1, 0), "");
    CHECK_STR(in_state(), "acquiring");
}

TEST(a_claim_needs_a_timeout_and_a_poll)
{
    start();
    config.attempt_timeout = 0;
    CHECK_ASSERTS(tn_claim_init(&claim, &config, &session, 1));
    config.attempt_timeout = 1;
    config.poll_every = 0;
    CHECK_ASSERTS(tn_claim_init(&claim, &config, &session, 1));
}

TEST(an_unknown_event_is_our_bug)
{
    reach_holding();
    CHECK_ASSERTS((void)hears(700, (enum tn_claim_event_kind)(TN_CLAIM_EV_STALE + 1)));
}

TEST(a_move_that_the_picture_does_not_have_is_our_bug)
{
    reach_holding();
    claim.working = false;
    claim.state = TN_CLAIM_HOLDING;
    claim.token = 0;
    session_feed(700, (struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
    CHECK_ASSERTS((void)hears(700, TN_CLAIM_EV_SESSION_LOST));
}

TEST(a_vacancy_that_overtook_the_refusal_is_not_waited_for)
{
    reach_acquiring();
    CHECK_STR(observed(550, 4, false), "leader t4 gone");
    CHECK_STR(feed(600, (struct tn_claim_event) { .kind = TN_CLAIM_EV_HELD, .gen = 1, .token = 4 }),
              "acquire g1");
    CHECK_STR(feed(700, (struct tn_claim_event) { .kind = TN_CLAIM_EV_HELD, .gen = 1, .token = 5 }),
              "");
    CHECK_STR(in_state(), "watching");
}

static const char *reads(int64_t at_ms, uint64_t read, uint64_t token, bool held)
{
    return feed(at_ms,
                (struct tn_claim_event) {
                    .kind = TN_CLAIM_EV_OBSERVED, .token = token, .held = held, .read = read });
}

TEST(a_leader_in_doubt_looks_its_lease_up_and_goes_if_it_is_not_there)
{
    reach_holding(); /* Token 5. */
    CHECK_STR(hears(2000, TN_CLAIM_EV_DOUBT), "read");
    CHECK_STR(reads(2100, 1, 3, false), "leader t3 gone, lost t5 token-regressed");
    CHECK_STR(in_state(), "draining");
}

TEST(a_lower_token_that_nobody_asked_for_proves_nothing)
{
    reach_holding();
    CHECK_STR(reads(2100, 0, 3, true), "leader t3 holds");
    CHECK_STR(in_state(), "holding");
}

TEST(a_follower_has_no_doubts)
{
    reach_waiting();
    CHECK_STR(hears(700, TN_CLAIM_EV_DOUBT), "");
}

TEST(a_vacancy_of_another_age_is_asked_about_once)
{
    reach_acquiring();
    CHECK_STR(observed(550, 9, false), "leader t9 gone"); /* Before the store was restored. */
    CHECK_STR(feed(600, (struct tn_claim_event) { .kind = TN_CLAIM_EV_HELD, .gen = 1, .token = 2 }),
              "acquire g1");
    CHECK_STR(feed(700, (struct tn_claim_event) { .kind = TN_CLAIM_EV_HELD, .gen = 1, .token = 2 }),
              "");
    CHECK_STR(in_state(), "watching");
}
