/* lease_table_test.c - the authority's rules, as transcripts; table_script.h says how to read
 * them. */
#include "tests/unit/table_script.h"

/* --- Sessions --------------------------------------------------------------------------------- */

TEST(a_session_opens_with_the_ttl_it_asked_for)
{
    start();
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_EQ_I64(result.ttl, TN_SEC(10));
    CHECK_EQ_I64(wakes_at(), 10000);
}

TEST(an_empty_table_has_nothing_to_wake_for)
{
    start();
    CHECK_STR(tick(1000), "ok");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_EQ_U64(tn_table_token(table), 0);
}

TEST(opening_again_renews)
{
    start();
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(9000, 'A'), "ok");
    CHECK_STR(tick(18999), "ok");
    CHECK_STR(renews(18999, 'A', 0), "ok");
}

TEST(a_renewal_keeps_the_session_a_full_ttl_from_its_arrival)
{
    start_held();
    CHECK_STR(renews(9999, 'A', 0), "ok");
    CHECK_EQ_I64(result.ttl, TN_SEC(10));
    CHECK_STR(tick(19998), "ok");
    CHECK_STR(reads(19998, "x"), "held 1");
    CHECK_STR(reads(19999, "x"), "free 1; x free 1");
}

TEST(the_timer_of_a_renewed_session_is_put_right_when_it_fires)
{
    start();
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(renews(4000, 'A', 0), "ok");
    CHECK_EQ_I64(wakes_at(), 10000);
    CHECK_STR(tick(10000), "ok");
    CHECK_EQ_I64(wakes_at(), 14000);
}

TEST(an_expired_session_never_comes_back)
{
    start_held();
    CHECK_STR(renews(10000, 'A', 0), "gone; x free 1");
    CHECK_STR(renews(10001, 'A', 0), "gone");
    CHECK_STR(acquires(10002, 'A', 1, "x"), "gone");
    CHECK_STR(releases(10003, 'A', 1, "x", 1), "gone");
    CHECK_STR(closes(10004, 'A'), "gone");
}

TEST(an_opening_that_comes_after_the_expiry_revives_nothing)
{
    start_held();
    CHECK_STR(opens(10000, 'A'), "gone; x free 1");
    CHECK_STR(opens(10001, 'A'), "ok");
    CHECK_STR(reads(10002, "x"), "free 1");
}

TEST(who_never_opened_is_gone)
{
    start();
    CHECK_STR(renews(0, 'Z', 0), "gone");
    CHECK_STR(acquires(0, 'Z', 1, "x"), "gone");
    CHECK_STR(releases(0, 'Z', 1, "x", 1), "gone");
    CHECK_STR(closes(0, 'Z'), "gone");
    CHECK_STR(reads(0, "x"), "free 0");
    CHECK_EQ_U64(result.lease, 0);
}

TEST(a_renewal_overtaken_by_a_newer_one_extends_nothing)
{
    struct tn_op late = op_by(TN_OP_RENEW, 'A', 0, "");

    start_held();
    CHECK_STR(renews(1000, 'A', 0), "ok");
    late.seq = seqs['A'] - 1;
    CHECK_STR(feed(5000, late), "stale");
    late.seq = seqs['A'];
    CHECK_STR(feed(5001, late), "stale");
    CHECK_EQ_I64(result.ttl, 0);
    CHECK_STR(renews(11000, 'A', 0), "gone; x free 1");
}

TEST(closing_frees_every_lease_at_once)
{
    start_held();
    CHECK_STR(acquires(200, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(waits(300, 'B', 1, "y"), "queued");
    CHECK_STR(closes(400, 'A'), "ok; x free 1; grant B1 y 3; y held 3");
    CHECK_STR(closes(500, 'A'), "gone");
}

TEST(a_label_is_shown_with_the_lease)
{
    struct tn_lease_view view;

    start_held();
    tn_table_lease(table, result.lease, &view);
    CHECK_EQ_U64(view.name_len, 1);
    CHECK_MEM(view.name, "x", 1);
    CHECK_EQ_U64(view.label_len, 6);
    CHECK_MEM(view.label, "host-1", 6);
    CHECK_EQ_U64(view.session->bytes[0], 'A');
    CHECK_EQ_U64(view.term->bytes[0], 1);
    CHECK_EQ_U64(view.token, 1);
    CHECK_EQ_U64(view.beat, 1);
    CHECK_EQ_I64(view.ttl, TN_SEC(10));
    CHECK_EQ_I64(view.remaining, TN_MS(9900));
    CHECK(!view.revoked);
    CHECK_STR(renews(200, 'A', 0), "ok");
    CHECK_STR(reads(300, "x"), "held 1");
    tn_table_lease(table, result.lease, &view);
    CHECK_EQ_U64(view.beat, 2);
    CHECK_EQ_I64(view.remaining, TN_MS(9900));
}

TEST(a_free_lease_shows_nobody)
{
    struct tn_lease_view view;

    start_held();
    CHECK_STR(releases(200, 'A', 1, "x", 1), "released; x free 1");
    tn_table_lease(table, result.lease, &view);
    CHECK(view.session == NULL);
    CHECK(view.term == NULL);
    CHECK_EQ_U64(view.token, 1);
    CHECK_EQ_I64(view.remaining, 0);
}

/* --- Acquiring, and the queue ----------------------------------------------------------------- */

TEST(an_acquire_may_be_repeated_and_starts_no_new_term)
{
    start_held();
    CHECK_STR(acquires(200, 'A', 1, "x"), "granted 1");
    CHECK_STR(waits(300, 'A', 1, "x"), "granted 1");
    CHECK_EQ_U64(tn_table_token(table), 1);
}

TEST(another_term_of_the_same_session_is_another_candidate)
{
    start_held();
    CHECK_STR(acquires(200, 'A', 2, "x"), "held 1");
    CHECK_STR(waits(300, 'A', 2, "x"), "queued");
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; grant A2 x 2; x held 2");
}

TEST(the_same_term_of_another_session_is_another_candidate)
{
    start_held();
    CHECK_STR(acquires(200, 'B', 1, "x"), "held 1");
}

TEST(a_vacancy_goes_to_the_first_in_the_queue)
{
    start_held();
    CHECK_STR(waits(200, 'C', 1, "x"), "queued");
    CHECK_STR(waits(300, 'B', 1, "x"), "queued");
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; grant C1 x 2; x held 2");
    CHECK_STR(releases(500, 'C', 1, "x", 2), "released; grant B1 x 3; x held 3");
    CHECK_STR(releases(600, 'B', 1, "x", 3), "released; x free 3");
}

TEST(a_waiter_that_asks_again_keeps_its_place)
{
    start_held();
    CHECK_STR(waits(200, 'C', 1, "x"), "queued");
    CHECK_STR(waits(300, 'B', 1, "x"), "queued");
    CHECK_STR(waits(400, 'C', 1, "x"), "queued");
    CHECK_STR(acquires(500, 'C', 1, "x"), "held 1");
    CHECK_STR(releases(600, 'A', 1, "x", 1), "released; grant C1 x 2; x held 2");
    CHECK_STR(releases(700, 'C', 1, "x", 2), "released; grant B1 x 3; x held 3");
    CHECK_STR(releases(800, 'B', 1, "x", 3), "released; x free 3");
}

TEST(a_waiter_found_through_its_own_short_queue_or_the_names_short_queue)
{
    start_held();
    CHECK_STR(acquires(100, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(waits(200, 'B', 1, "y"), "queued");
    CHECK_STR(waits(200, 'B', 2, "x"), "queued");
    CHECK_STR(waits(200, 'B', 3, "x"), "queued");
    CHECK_STR(waits(200, 'C', 1, "x"), "queued");
    /* B's third place in x is the third of B; C's is the fourth of x and the first of C. */
    CHECK_STR(releases(300, 'C', 1, "x", 0), "released");
    CHECK_STR(releases(300, 'B', 3, "x", 0), "released");
    CHECK_STR(releases(300, 'B', 1, "y", 0), "released");
    CHECK_STR(releases(300, 'B', 4, "x", 0), "released");
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; grant B2 x 3; x held 3");
    CHECK_STR(releases(500, 'B', 2, "x", 3), "released; x free 3");
    CHECK_STR(releases(600, 'A', 2, "y", 2), "released; y free 2");
}

TEST(what_a_session_has_and_waits_for_can_be_walked)
{
    struct tn_secret term;
    struct tn_lease_view view;

    start_held();
    CHECK_STR(waits(200, 'A', 3, "x"), "queued");
    tn_table_lease(table, result.lease, &view);
    uint32_t session = tn_table_session_of(table, view.session);
    CHECK_EQ_U64(tn_table_next_held(table, session, 0), result.lease);
    CHECK_EQ_U64(tn_table_next_held(table, session, result.lease), 0);
    uint32_t place = tn_table_next_place(table, session, 0);
    CHECK_EQ_U64(tn_table_place(table, place, &term), result.lease);
    CHECK_EQ_U64(term.bytes[0], 3);
    CHECK_EQ_U64(tn_table_next_place(table, session, place), 0);
}

TEST(waiters_whose_sessions_are_over_are_passed_by)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(waits(300, 'C', 1, "x"), "queued");
    CHECK_STR(renews(5000, 'A', 0), "ok");
    CHECK_STR(renews(5000, 'C', 0), "ok");
    CHECK_STR(releases(10000, 'A', 1, "x", 1), "released; grant C1 x 2; x held 2");
}

TEST(a_queue_of_the_dead_leaves_the_name_free)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(waits(300, 'C', 1, "x"), "queued");
    CHECK_STR(renews(5000, 'A', 0), "ok");
    CHECK_STR(releases(10000, 'A', 1, "x", 1), "released; x free 1");
}

TEST(a_closed_session_leaves_all_its_queues)
{
    start_held();
    CHECK_STR(acquires(100, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(waits(200, 'B', 2, "y"), "queued");
    CHECK_STR(waits(300, 'C', 1, "x"), "queued");
    CHECK_STR(closes(400, 'B'), "ok");
    CHECK_STR(releases(500, 'A', 1, "x", 1), "released; grant C1 x 3; x held 3");
    CHECK_STR(releases(500, 'A', 2, "y", 2), "released; y free 2");
}

TEST(who_asks_for_a_lease_that_is_over_gets_it_without_waiting_for_the_timer)
{
    start_held();
    CHECK_STR(renews(5000, 'B', 0), "ok");
    CHECK_STR(acquires(10000, 'B', 1, "x"), "granted 2; x free 1; x held 2");
}

TEST(the_queue_comes_first_when_a_lease_is_over)
{
    start_held();
    CHECK_STR(waits(200, 'C', 1, "x"), "queued");
    CHECK_STR(renews(5000, 'B', 0), "ok");
    CHECK_STR(renews(5000, 'C', 0), "ok");
    CHECK_STR(acquires(10000, 'B', 1, "x"), "held 2; grant C1 x 2; x held 2");
}

TEST(a_waiter_that_finds_its_turn_has_come_is_told_so)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(renews(5000, 'B', 0), "ok");
    CHECK_STR(waits(10000, 'B', 1, "x"), "granted 2; grant B1 x 2; x held 2");
}

TEST(names_are_compared_exactly)
{
    start_held();
    CHECK_STR(acquires(200, 'B', 1, "xx"), "granted 2; xx held 2");
    CHECK_STR(acquires(200, 'B', 2, "X"), "granted 3; X held 3");
    CHECK_STR(acquires(200, 'B', 3, "x/x"), "granted 4; x/x held 4");
    CHECK_STR(reads(300, "x"), "held 1");
}

/* --- Releasing -------------------------------------------------------------------------------- */

TEST(only_the_exact_session_term_and_token_can_release)
{
    start_held();
    CHECK_STR(releases(200, 'A', 1, "x", 2), "stale");
    CHECK_STR(releases(200, 'A', 2, "x", 1), "denied");
    CHECK_STR(releases(200, 'B', 1, "x", 1), "denied");
    CHECK_STR(releases(200, 'A', 1, "y", 1), "stale");
    CHECK_STR(reads(300, "x"), "held 1");
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; x free 1");
}

TEST(a_release_may_be_repeated)
{
    start_held();
    CHECK_STR(releases(200, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(releases(300, 'A', 1, "x", 1), "released");
    CHECK_STR(releases(400, 'B', 2, "x", 1), "stale");
    CHECK_STR(acquires(500, 'B', 1, "x"), "granted 2; x held 2");
    CHECK_STR(releases(600, 'A', 1, "x", 1), "stale");
    CHECK_STR(reads(700, "x"), "held 2");
}

TEST(token_zero_withdraws_whatever_the_term_has)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(releases(300, 'B', 1, "x", 0), "released");
    CHECK_STR(releases(300, 'B', 1, "x", 0), "released");
    CHECK_STR(releases(400, 'A', 2, "x", 0), "released");
    CHECK_STR(reads(500, "x"), "held 1");
    CHECK_STR(releases(600, 'A', 1, "x", 0), "released; x free 1");
    CHECK_STR(releases(700, 'A', 1, "nobody", 0), "released");
    CHECK_EQ_U64(result.lease, 0);
}

TEST(a_release_of_what_has_passed_on_meanwhile_changes_nothing)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(renews(5000, 'B', 0), "ok");
    CHECK_STR(renews(5000, 'C', 0), "ok");
    CHECK_STR(releases(10000, 'C', 1, "x", 1), "stale; grant B1 x 2; x held 2");
}

/* --- Revoking --------------------------------------------------------------------------------- */

TEST(a_revoked_holder_is_told_with_every_renewal_until_it_knows)
{
    struct tn_lease_view view;

    start_held();
    CHECK_STR(revokes(200, "x", 1), "ok; revoke A1 x 1 #1");
    CHECK_STR(renews(300, 'A', 0), "ok; revoke A1 x 1 #1");
    CHECK_EQ_U64(result.seen, 1);
    CHECK_STR(renews(400, 'A', 1), "ok");
    CHECK_EQ_U64(result.seen, 1);
    CHECK_STR(reads(500, "x"), "held 1");
    tn_table_lease(table, result.lease, &view);
    CHECK(view.revoked);
}

TEST(a_revoked_lease_passes_on_a_full_ttl_later_though_its_holder_renews)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(revokes(3000, "x", 0), "ok; revoke A1 x 1 #1");
    CHECK_STR(renews(9000, 'A', 1), "ok");
    CHECK_STR(renews(9000, 'B', 0), "ok");
    CHECK_STR(renews(9000, 'C', 0), "ok");
    CHECK_STR(tick(12999), "ok");
    CHECK_EQ_I64(wakes_at(), 13000);
    CHECK_STR(tick(13000), "ok; grant B1 x 2; x held 2");
    CHECK_STR(renews(13001, 'A', 1), "ok");
}

TEST(a_revoked_lease_is_let_go_by_whoever_asks_for_it_in_time)
{
    start_held();
    CHECK_STR(revokes(3000, "x", 0), "ok; revoke A1 x 1 #1");
    CHECK_STR(renews(9000, 'A', 1), "ok");
    CHECK_STR(renews(9000, 'B', 0), "ok");
    CHECK_STR(acquires(12999, 'B', 1, "x"), "held 1");
    CHECK_STR(acquires(13000, 'B', 1, "x"), "granted 2; x free 1; x held 2");
}

TEST(a_revoked_holder_that_releases_shortens_the_wait)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(revokes(300, "x", 1), "ok; revoke A1 x 1 #1");
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; grant B1 x 2; x held 2");
    CHECK_STR(renews(500, 'A', 0), "ok");
    CHECK_EQ_U64(result.seen, 1);
}

TEST(a_revoked_term_is_over_for_good)
{
    start_held();
    CHECK_STR(revokes(200, "x", 1), "ok; revoke A1 x 1 #1");
    CHECK_STR(acquires(300, 'A', 1, "x"), "held 1");
    CHECK_STR(waits(400, 'A', 2, "x"), "queued");
    CHECK_STR(releases(500, 'A', 1, "x", 0), "released; grant A2 x 2; x held 2");
}

TEST(revoking_twice_is_one_revocation)
{
    start_held();
    CHECK_STR(revokes(200, "x", 1), "ok; revoke A1 x 1 #1");
    CHECK_STR(revokes(300, "x", 1), "ok");
    CHECK_STR(renews(400, 'A', 0), "ok; revoke A1 x 1 #1");
}

TEST(only_what_is_current_can_be_revoked)
{
    start_held();
    CHECK_STR(revokes(200, "nobody", 0), "stale");
    CHECK_STR(revokes(200, "x", 2), "stale");
    CHECK_STR(releases(300, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(revokes(400, "x", 1), "stale");
    CHECK_STR(revokes(400, "x", 0), "stale");
}

TEST(a_revocation_meant_for_a_holder_that_is_over_spares_the_next)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(renews(5000, 'B', 0), "ok");
    CHECK_STR(revokes(10000, "x", 1), "stale; grant B1 x 2; x held 2");
}

TEST(a_revoked_lease_goes_with_its_session)
{
    start_held();
    CHECK_STR(revokes(9000, "x", 1), "ok; revoke A1 x 1 #1");
    CHECK_STR(tick(10000), "ok; x free 1");
}

static const char *const many[] = { "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9" };

static void hold_and_revoke(int count)
{
    start_three();
    for (int i = 0; i < count; i++)
        (void)acquires(100, 'A', i + 1, many[i]);
    for (int i = 0; i < count; i++) {
        (void)revokes(200, many[i], 0);
        CHECK(result.answer == TN_ANSWER_OK);
        CHECK_EQ_U64(result.count, 1);
        CHECK_EQ_U64(result.list[0].revocation, (uint64_t)i + 1);
    }
}

TEST(more_revocations_than_fit_are_told_in_several_renewals)
{
    hold_and_revoke(10);
    CHECK_STR(renews(300, 'A', 0),
              "ok; revoke A1 n0 1 #1; revoke A2 n1 2 #2; revoke A3 n2 3 #3; revoke A4 n3 4 #4; "
              "revoke A5 n4 5 #5; revoke A6 n5 6 #6; revoke A7 n6 7 #7; revoke A8 n7 8 #8; more");
    CHECK_EQ_U64(result.seen, 8);
    CHECK_STR(renews(400, 'A', 8), "ok; revoke A9 n8 9 #9; revoke A10 n9 10 #10");
    CHECK_EQ_U64(result.seen, 10);
    CHECK_STR(renews(500, 'A', 10), "ok");
}

TEST(as_many_revocations_as_fit_leave_no_more)
{
    hold_and_revoke(8);
    (void)renews(300, 'A', 0);
    CHECK_EQ_U64(result.count, 8);
    CHECK(!result.more);
    CHECK_EQ_U64(result.seen, 8);
}

TEST(revocations_are_told_oldest_first_whatever_was_acquired_first)
{
    start_held();
    CHECK_STR(acquires(100, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(revokes(200, "y", 0), "ok; revoke A2 y 2 #1");
    CHECK_STR(revokes(300, "x", 0), "ok; revoke A1 x 1 #2");
    CHECK_STR(renews(400, 'A', 0), "ok; revoke A2 y 2 #1; revoke A1 x 1 #2");
    CHECK_STR(renews(500, 'A', 1), "ok; revoke A1 x 1 #2");
}

TEST(an_opening_repeated_tells_of_revocations_too)
{
    start_held();
    CHECK_STR(revokes(200, "x", 0), "ok; revoke A1 x 1 #1");
    CHECK_STR(opens(300, 'A'), "ok; revoke A1 x 1 #1");
}

TEST(more_overdue_revocations_than_fit_are_worked_off_in_bounded_steps)
{
    int freed = 0;

    hold_and_revoke(10);
    CHECK_STR(renews(9000, 'A', 10), "ok");
    (void)tick(10200);
    CHECK(result.count < 10);
    for (int steps = 0; result.count > 0; steps++) {
        CHECK(steps < 10);
        freed += (int)result.count;
        CHECK(result.list[0].kind == TN_NOTICE_CHANGED);
        (void)tick(10200);
    }
    CHECK_EQ_I64(freed, 10);
    CHECK_EQ_I64(wakes_at(), 19000);
}

TEST(leftover_work_asks_to_be_stepped_at_once)
{
    hold_and_revoke(10);
    CHECK_STR(renews(9000, 'A', 10), "ok");
    (void)tick(10200);
    CHECK(wakes_at() <= 10200);
}

/* --- Many leases in one session --------------------------------------------------------------- */

static void hold_twenty(void)
{
    start_three();
    for (int i = 0; i < 20; i++) {
        char name[] = { 'n', (char)('a' + i), 0 };
        (void)acquires(100, 'A', i + 1, name);
        CHECK(result.answer == TN_ANSWER_GRANTED);
    }
}

TEST(the_end_of_a_session_with_many_leases_is_worked_off_in_bounded_steps)
{
    uint32_t freed = 0;
    int steps = 0;

    hold_twenty();
    (void)closes(200, 'A');
    for (; result.count > 0; steps++) {
        CHECK_EQ_I64(wakes_at(), steps < 2 ? 200 : 10000);
        freed += result.count;
        (void)tick(200);
    }
    CHECK_EQ_U64(freed, 20);
    CHECK_EQ_I64(steps, 3);
}

TEST(a_lease_not_reached_yet_is_let_go_when_asked_for)
{
    struct tn_lease_view view;

    hold_twenty();
    (void)closes(200, 'A');
    tn_table_lease(table, tn_table_next(table, 19), &view);
    CHECK_MEM(view.name, "nt", 2);
    CHECK_EQ_U64(view.session->bytes[0], 'A');
    CHECK_EQ_I64(view.remaining, 0);
    (void)acquires(200, 'B', 1, "nt");
    CHECK(result.answer == TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.token, 21);
}

TEST(a_session_that_is_being_worked_off_is_gone)
{
    hold_twenty();
    (void)closes(200, 'A');
    (void)opens(200, 'A');
    CHECK(result.answer == TN_ANSWER_GONE);
}

/* --- Restart, tokens, copies ------------------------------------------------------------------ */

TEST(a_restart_gives_each_session_a_full_ttl_again)
{
    start_held();
    CHECK_STR(tick(9000), "ok");
    tn_table_restart(table, TN_MS(500)); /* Another clock. */
    CHECK_EQ_I64(wakes_at(), 10500);
    CHECK_STR(reads(10499, "x"), "held 1");
    CHECK_STR(tick(10500), "ok; x free 1");
}

TEST(a_restart_revives_nobody)
{
    start_held();
    CHECK_STR(renews(5000, 'B', 0), "ok");
    CHECK_STR(renews(5000, 'C', 0), "ok");
    CHECK_STR(renews(10000, 'B', 0), "ok; x free 1");
    tn_table_restart(table, TN_MS(0));
    CHECK_STR(renews(0, 'A', 0), "gone");
    CHECK_STR(renews(0, 'B', 0), "ok");
}

TEST(what_was_over_before_a_restart_but_not_worked_off_stays_over)
{
    hold_twenty();
    (void)closes(200, 'A');
    tn_table_restart(table, TN_MS(50));
    CHECK_EQ_I64(wakes_at(), 50);
    (void)renews(50, 'A', 0);
    CHECK(result.answer == TN_ANSWER_GONE);
    while (result.count > 0)
        (void)tick(50);
    CHECK_STR(reads(50, "nt"), "free 20");
    CHECK_EQ_I64(wakes_at(), 10050);
}

TEST(what_expired_before_a_restart_but_was_not_worked_off_stays_over)
{
    hold_twenty();
    (void)tick(10000);
    CHECK_EQ_I64(wakes_at(), 10000);
    tn_table_restart(table, 0);
    (void)renews(0, 'A', 0);
    CHECK(result.answer == TN_ANSWER_GONE);
    (void)renews(0, 'B', 0);
    CHECK(result.answer == TN_ANSWER_GONE);
}

TEST(waiters_are_gone_after_a_restart)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(waits(200, 'C', 1, "x"), "queued");
    tn_table_restart(table, TN_MS(300));
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; x free 1");
}

TEST(the_first_renewal_after_a_restart_counts_whatever_its_number)
{
    struct tn_op old = op_by(TN_OP_RENEW, 'A', 0, "");

    start_held();
    CHECK_STR(renews(200, 'A', 0), "ok");
    tn_table_restart(table, TN_MS(300));
    old.seq = 1;
    CHECK_STR(feed(400, old), "ok");
    CHECK_STR(feed(500, old), "stale");
}

TEST(tokens_go_on_after_a_restart)
{
    start_held();
    CHECK_STR(releases(200, 'A', 1, "x", 1), "released; x free 1");
    tn_table_restart(table, 0);
    CHECK_STR(acquires(100, 'B', 1, "x"), "granted 2; x held 2");
}

TEST(the_hold_off_of_a_revocation_starts_again_with_a_restart)
{
    start_held();
    CHECK_STR(revokes(5000, "x", 0), "ok; revoke A1 x 1 #1");
    tn_table_restart(table, TN_MS(5000));
    CHECK_STR(renews(6000, 'A', 0), "ok; revoke A1 x 1 #1");
    CHECK_STR(reads(14999, "x"), "held 1");
    CHECK_STR(reads(15000, "x"), "free 1; x free 1");
}

TEST(a_raise_shuts_out_every_token_up_to_it)
{
    start_held();
    CHECK_STR(raises(200, 40), "ok");
    CHECK_STR(acquires(300, 'B', 1, "y"), "granted 41; y held 41");
    CHECK_STR(raises(400, 7), "ok");
    CHECK_EQ_U64(tn_table_token(table), 41);
}

TEST(a_table_out_of_tokens_stalls_and_repeats_none)
{
    start_three();
    CHECK_STR(raises(100, UINT64_MAX - 1), "ok");
    CHECK_STR(acquires(200, 'A', 1, "x"),
              "granted 18446744073709551615; x held 18446744073709551615");
    CHECK_STR(acquires(300, 'A', 1, "y"), "full");
    CHECK_STR(acquires(300, 'A', 1, "x"), "granted 18446744073709551615");
    CHECK_STR(releases(400, 'A', 1, "x", UINT64_MAX), "released; x free 18446744073709551615");
    CHECK_STR(acquires(500, 'A', 2, "x"), "full");
    CHECK_EQ_U64(tn_table_token(table), UINT64_MAX);
}

TEST(a_table_out_of_tokens_lets_its_waiters_go)
{
    start_held();
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    CHECK_STR(raises(300, UINT64_MAX), "ok");
    CHECK_STR(releases(400, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(waits(500, 'B', 1, "x"), "full");
}

/* --- Owners ----------------------------------------------------------------------------------- */

/* A and B are the sessions of owner 1, C of owner 2. */
static void start_owned(void)
{
    start_with((struct tn_table_limits) { .sessions = 8,
                                          .leases = 8,
                                          .waiters = 8,
                                          .text_bytes = 4096,
                                          .owners = 2,
                                          .hash_key = { 1, 2 } });
    for (int who = 'A'; who <= 'C'; who++) {
        struct tn_op op = open_of(who);
        op.owner = who == 'C' ? 2 : 1;
        CHECK_STR(feed(0, op), "ok");
    }
}

/* With at most two leases and places in line for the owner. */
static const char *takes(int64_t at_ms, int who, int term, const char *name, bool wait)
{
    struct tn_op op = op_by(TN_OP_ACQUIRE, who, term, name);

    op.wait = wait;
    op.owner = who == 'C' ? 2 : 1;
    op.owner_max = 2;
    return feed(at_ms, op);
}

TEST(an_owner_has_so_many_leases_and_another_has_its_own)
{
    start_owned();
    CHECK_STR(takes(100, 'A', 1, "x", false), "granted 1; x held 1");
    CHECK_STR(takes(200, 'B', 1, "y", false), "granted 2; y held 2");
    CHECK_STR(takes(300, 'A', 1, "z", false), "full");
    CHECK(result.owners);
    CHECK_STR(takes(300, 'B', 1, "z", true), "full");
    CHECK_EQ_U64(tn_table_next(table, 2), 0);               /* Not even the name is on record. */
    CHECK_STR(takes(400, 'A', 1, "x", false), "granted 1"); /* Said again: nothing more. */
    CHECK_STR(takes(500, 'C', 1, "z", false), "granted 3; z held 3");
    CHECK_STR(takes(600, 'C', 1, "x", true), "queued");
    CHECK_STR(takes(700, 'C', 1, "y", true), "full");
    CHECK(result.owners);
    CHECK_STR(takes(700, 'C', 1, "x", true), "queued");
    CHECK_STR(takes(700, 'C', 1, "y", false), "held 2");
    CHECK_STR(releases(800, 'A', 1, "x", 1), "released; grant C1 x 4; x held 4");
    CHECK_STR(takes(900, 'C', 1, "w", false), "full"); /* The place has become a lease. */
    CHECK_STR(takes(900, 'A', 2, "w", false), "granted 5; w held 5");
}

TEST(what_an_owner_had_counts_no_more_when_its_session_is_over)
{
    start_owned();
    CHECK_STR(takes(100, 'A', 1, "x", false), "granted 1; x held 1");
    CHECK_STR(takes(200, 'A', 1, "y", false), "granted 2; y held 2");
    CHECK_STR(takes(300, 'B', 1, "z", false), "full");
    CHECK_STR(closes(400, 'A'), "ok; x free 1; y free 2");
    CHECK_STR(takes(500, 'B', 1, "z", false), "granted 3; z held 3");
}

TEST(an_owner_has_so_many_sessions_and_opening_again_is_none)
{
    start_owned();
    struct tn_op op = open_of('D');
    op.owner = 1;
    op.owner_max = 2;
    CHECK_STR(feed(100, op), "full");
    CHECK(result.owners);
    op.owner = 2;
    CHECK_STR(feed(200, op), "ok");
    struct tn_op again = open_of('A');
    again.owner = 1;
    again.owner_max = 2;
    CHECK_STR(feed(300, again), "ok");
}

TEST(a_session_of_nobody_is_whose_next_word_it_is_with_all_it_has)
{
    start_owned();
    CHECK_STR(opens(0, 'D'), "ok");
    CHECK_STR(acquires(100, 'D', 1, "x"), "granted 1; x held 1");
    CHECK_STR(acquires(200, 'D', 1, "y"), "granted 2; y held 2");
    struct tn_op op = op_by(TN_OP_RENEW, 'D', 0, "");
    op.seq = ++seqs['D'];
    op.owner = 2;
    CHECK_STR(feed(300, op), "ok");
    CHECK_STR(takes(400, 'C', 1, "z", false), "full");
    CHECK_STR(takes(500, 'A', 1, "z", false), "granted 3; z held 3");
}

TEST(a_copy_of_the_block_is_a_table_of_its_own)
{
    static uint64_t copy[1 << 14];
    struct tn_table *original;

    start_held();
    CHECK(tn_table_size(&limits) <= sizeof copy);
    CHECK_STR(waits(200, 'B', 1, "x"), "queued");
    memcpy(copy, block, tn_table_size(&limits));
    original = table;
    table = (struct tn_table *)(void *)copy;
    CHECK_STR(releases(300, 'A', 1, "x", 1), "released; grant B1 x 2; x held 2");
    CHECK_STR(acquires(400, 'C', 1, "y"), "granted 3; y held 3");
    table = original;
    CHECK_STR(reads(400, "x"), "held 1");
    CHECK_STR(reads(400, "y"), "free 0");
    memset(block, 0xff, tn_table_size(&limits));
    table = (struct tn_table *)(void *)copy;
    CHECK_STR(reads(500, "x"), "held 2");
}

/* --- Stores that do not expire ---------------------------------------------------------------- */

static void start_observed(void)
{
    start();
    limits.observed = true;
    start_with(limits);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(acquires(100, 'A', 1, "x"), "granted 1; x held 1");
}

static const char *takes_over(int64_t at_ms, int who, const char *name, uint64_t token,
                              uint64_t beat)
{
    struct tn_op op = op_by(TN_OP_ACQUIRE, who, 1, name);
    op.evident = true;
    op.token = token;
    op.beat = beat;
    return feed(at_ms, op);
}

TEST(an_observed_table_expires_nobody_by_itself)
{
    start_observed();
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(tick(3600000), "ok");
    CHECK_STR(reads(3600000, "x"), "held 1");
    CHECK_STR(renews(3600000, 'A', 0), "ok");
}

TEST(evidence_that_matches_ends_the_silent_session_and_all_it_holds)
{
    start_observed();
    CHECK_STR(acquires(200, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(takes_over(20000, 'B', "x", 1, 1), "granted 3; x free 1; x held 3; y free 2");
    CHECK_STR(renews(20001, 'A', 0), "gone");
}

TEST(evidence_from_before_a_renewal_is_worth_nothing)
{
    start_observed();
    CHECK_STR(renews(5000, 'A', 0), "ok");
    CHECK_STR(takes_over(20000, 'B', "x", 1, 1), "held 1");
    CHECK_STR(renews(20001, 'A', 0), "ok");
}

TEST(evidence_about_an_older_term_is_worth_nothing)
{
    start_observed();
    CHECK_STR(releases(200, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(acquires(300, 'A', 2, "x"), "granted 2; x held 2");
    CHECK_STR(takes_over(20000, 'B', "x", 1, 1), "held 2");
}

TEST(evidence_about_a_free_name_is_not_needed)
{
    start_observed();
    CHECK_STR(releases(200, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(takes_over(300, 'B', "x", 1, 1), "granted 2; x held 2");
    CHECK_STR(renews(400, 'A', 0), "ok");
}

TEST(the_queue_comes_before_the_bringer_of_evidence)
{
    start_observed();
    CHECK_STR(opens(100, 'C'), "ok");
    CHECK_STR(waits(200, 'C', 1, "x"), "queued");
    CHECK_STR(takes_over(20000, 'B', "x", 1, 1), "held 2; grant C1 x 2; x held 2");
}

TEST(evidence_is_ignored_where_the_store_expires_by_itself)
{
    start_held();
    CHECK_STR(takes_over(200, 'B', "x", 1, 1), "held 1");
}

TEST(who_brings_evidence_is_no_witness_of_its_own_silence)
{
    struct tn_op other_term = op_by(TN_OP_ACQUIRE, 'A', 2, "x");

    start_observed();
    CHECK_STR(takes_over(20000, 'A', "x", 1, 1), "granted 1");
    other_term.evident = true;
    other_term.token = 1;
    other_term.beat = 1;
    CHECK_STR(feed(20000, other_term), "held 1");
    CHECK_STR(renews(20001, 'A', 0), "ok");
}

TEST(a_revocation_without_a_clock_frees_at_once)
{
    start_observed();
    CHECK_STR(revokes(200, "x", 1), "ok; x free 1");
    CHECK_STR(renews(300, 'A', 0), "ok");
}

TEST(a_restart_ends_no_observed_session)
{
    start_observed();
    tn_table_restart(table, TN_MS(50));
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(reads(3600000, "x"), "held 1");
    CHECK_STR(renews(3600000, 'A', 0), "ok");
}

/* --- What comes late, or from another time ---------------------------------------------------- */

TEST(an_acquire_that_arrives_after_its_release_does_not_start_the_term_again)
{
    start_held();
    CHECK_STR(releases(200, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(acquires(300, 'A', 1, "x"), "stale");
    CHECK_STR(acquires(400, 'A', 2, "x"), "granted 2; x held 2");
}

TEST(a_restored_table_tells_of_revocations_to_who_saw_more_than_it_knows)
{
    start_held();
    CHECK_STR(renews(200, 'A', 7), "ok"); /* Seven were seen before the backup was put back. */
    CHECK_STR(revokes(300, "x", 1), "ok; revoke A1 x 1 #8");
    CHECK_STR(renews(400, 'A', 7), "ok; revoke A1 x 1 #8");
    CHECK_STR(renews(500, 'A', 8), "ok");
}

/* --- Our own bugs ----------------------------------------------------------------------------- */

TEST(misuse_of_a_table_is_our_bug)
{
    struct tn_op op = { .kind = (enum tn_op_kind)(TN_OP_TICK + 1) };
    struct tn_lease_view view;

    start_held();
    CHECK_ASSERTS((void)tick(99));
    CHECK_ASSERTS((void)feed(100, op));
    CHECK_ASSERTS(tn_table_lease(table, 0, &view));
    CHECK_ASSERTS(tn_table_lease(table, 2, &view));
    op = open_of('D');
    op.ttl = 0;
    CHECK_ASSERTS((void)feed(100, op));
    op = open_of('A');
    op.seq = 0;
    CHECK_ASSERTS((void)feed(100, op));
}

/* --- Putting records back --------------------------------------------------------------------- */

static int put(int who, int term, const char *name, uint64_t token, bool revoked)
{
    struct tn_secret session = secret_of(who);
    struct tn_secret secret = op_by(TN_OP_ACQUIRE, who != 0 ? who : 'A', term, name).term;
    struct tn_lease_view view = { .name = name,
                                  .name_len = (uint32_t)strlen(name),
                                  .session = who != 0 ? &session : NULL,
                                  .term = &secret,
                                  .token = token,
                                  .revoked = revoked };
    return tn_table_put(table, &view);
}

TEST(a_lease_is_put_back_as_it_was_whoever_has_it_now)
{
    start();
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_EQ_I64(put('A', 1, "x", 7, false), 0);
    CHECK_EQ_I64(put('A', 2, "y", 5, true), 0);
    CHECK_EQ_I64(put(0, 3, "z", 9, true), 0);
    CHECK_EQ_I64(put('B', 4, "x", 8, false), 0);
    CHECK_EQ_U64(tn_table_token(table), 9);
    tn_table_restart(table, TN_MS(100));
    CHECK_STR(reads(100, "x"), "held 8");
    CHECK_STR(reads(100, "z"), "free 9");
    CHECK_STR(acquires(101, 'B', 4, "x"), "granted 8");
    CHECK_STR(acquires(101, 'A', 3, "z"), "stale");
    CHECK_STR(renews(5000, 'A', 0), "ok; revoke A2 y 5 #1");
    CHECK_STR(tick(10100), "ok; y free 5; x free 8");
}

TEST(a_lease_of_nobody_or_one_too_many_is_not_put_back)
{
    start_with((struct tn_table_limits) {
        .sessions = 2, .leases = 1, .waiters = 1, .text_bytes = 64, .hash_key = { 1, 2 } });
    CHECK_EQ_I64(put('A', 1, "x", 1, false), TENURE_E_NOT_HELD);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_EQ_I64(put('A', 1, "x", 1, false), 0);
    CHECK_EQ_I64(put('A', 1, "y", 2, false), TENURE_E_FULL);
    CHECK_EQ_U64(tn_table_token(table), 1);
}

TEST(sessions_are_listed_until_they_are_gone)
{
    struct tn_session_view view;
    struct tn_table_counts counts;

    start_held();
    uint32_t first = tn_table_next_session(table, 0);
    tn_table_session(table, first, &view);
    CHECK_EQ_U64(view.secret->bytes[0], 'A');
    CHECK_EQ_I64(view.ttl, TN_SEC(10));
    CHECK(!view.closed);
    tn_table_count(table, &counts);
    CHECK_EQ_U64(counts.leases, 1);
    uint32_t sessions = counts.sessions;
    CHECK_STR(closes(200, 'A'), "ok; x free 1");
    tn_table_count(table, &counts);
    CHECK_EQ_U64(counts.sessions, sessions - 1);
    uint32_t seen = 0;
    for (uint32_t i = 0; (i = tn_table_next_session(table, i)) != 0; seen++) {
        tn_table_session(table, i, &view);
        CHECK(view.secret->bytes[0] != 'A');
    }
    CHECK_EQ_U64(seen, sessions - 1);
}
