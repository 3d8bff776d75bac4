/* session_test.c - the life of a session, as transcripts: one event in, its actions out as text.
 *
 * Timing of every test unless it says otherwise: TTL 12 s, margin 2 s, perfect clocks, so
 * D = 10 s; R = 4 s, To = 1 s, b = 250 ms, no jitter. All times are in milliseconds. */
#include "tests/harness/test.h"

#include "base/text.h"
#include "core/session.h"

static struct tn_plan plan;
static struct tn_session session;
static char transcript[256];

static void start(void)
{
    tn_plan_init(&plan, TN_SEC(12));
    plan.margin = TN_SEC(2);
    plan.rho_holder_ppm = 0;
    plan.rho_store_ppm = 0;
    plan.jitter_ppm = 0;
    tn_session_init(&session, &plan, 1, 1);
}

static const char *state_text(enum tn_session_state state)
{
    static const char *const texts[TN_SESSION_STATE_COUNT] = { "closed", "opening", "live",
                                                               "jeopardy", "lost" };
    return texts[state];
}

static const char *in_state(void)
{
    return state_text(session.state);
}

static void add_action(struct tn_text *text, const struct tn_session_action *action)
{
    static const char *const verbs[] = { "open", "renew", "close" };

    if (action->kind == TN_SESSION_DO_TELL)
        tn_text_addf(text, "%s>%s", state_text(action->from), state_text(action->state));
    else if (action->kind == TN_SESSION_DO_CLOSE)
        tn_text_add(text, verbs[action->kind]);
    else
        tn_text_addf(text, "%s %u", verbs[action->kind], (unsigned)action->seq);
}

static const char *feed(int64_t at_ms, struct tn_session_event event)
{
    struct tn_session_actions actions;
    struct tn_text text;

    tn_session_step(&session, TN_MS(at_ms), &event, &actions);
    tn_text_init(&text, transcript, sizeof transcript);
    for (uint32_t i = 0; i < actions.count; i++) {
        tn_text_add(&text, i > 0 ? ", " : "");
        add_action(&text, &actions.list[i]);
    }
    return tn_text_str(&text);
}

static const char *tick(int64_t at_ms)
{
    return feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
}

static const char *opens(int64_t at_ms)
{
    return feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_OPEN });
}

static const char *agrees(int64_t at_ms, uint64_t seq, tenure_ns ttl)
{
    return feed(at_ms,
                (struct tn_session_event) { .kind = TN_SESSION_EV_OK, .seq = seq, .ttl = ttl });
}

static const char *ok(int64_t at_ms, uint64_t seq)
{
    return agrees(at_ms, seq, plan.ttl);
}

static const char *ok_but_more(int64_t at_ms, uint64_t seq)
{
    return feed(at_ms, (struct tn_session_event) {
                           .kind = TN_SESSION_EV_OK, .seq = seq, .ttl = plan.ttl, .more = true });
}

static const char *fails(int64_t at_ms, uint64_t seq)
{
    return feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_FAIL, .seq = seq });
}

static const char *gone(int64_t at_ms)
{
    return feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
}

static const char *closes(int64_t at_ms)
{
    return feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_CLOSE });
}

/* -1: never. */
static int64_t wakes_at(void)
{
    tenure_ns at = tn_session_wake_at(&session);
    return at == TN_NEVER ? -1 : at / TN_MS(1);
}

static int64_t deadline(void)
{
    return tn_session_deadline(&session) / TN_MS(1);
}

static bool valid(int64_t at_ms)
{
    return tn_session_valid(&session, TN_MS(at_ms));
}

/* Opened at 0, live since 300, good until 10000. */
static void start_live(void)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(300, 1), "opening>live");
}

/* As above; the renewal of 4000 is overdue since 5000. */
static void start_in_jeopardy(void)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(tick(5000), "live>jeopardy");
}

/* --- Opening ---------------------------------------------------------------------------------- */

TEST(nothing_happens_before_it_is_opened)
{
    start();
    CHECK_STR(tick(10), "");
    CHECK_STR(ok(20, 1), "");
    CHECK_STR(fails(30, 1), "");
    CHECK_STR(gone(40), "");
    CHECK_STR(closes(50), "");
    CHECK_STR(in_state(), "closed");
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_EQ_I64(deadline(), 0);
    CHECK(!valid(60));
}

TEST(opening_sends_at_once_and_is_not_valid_yet)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(in_state(), "opening");
    CHECK_EQ_I64(wakes_at(), 1000);
    CHECK_EQ_I64(deadline(), 0);
    CHECK(!valid(0));
    CHECK_STR(tick(999), "");
}

TEST(the_reply_makes_it_live_until_d_after_the_send)
{
    start_live();
    CHECK_STR(in_state(), "live");
    CHECK_EQ_I64(deadline(), 10000);
    CHECK_EQ_I64(wakes_at(), 4000);
    CHECK(valid(300));
    CHECK(tn_session_valid(&session, TN_MS(10000) - 1));
    CHECK(!valid(10000));
}

TEST(an_unanswered_opening_is_repeated)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(tick(1000), "");
    CHECK_EQ_I64(wakes_at(), 1500);
    CHECK_STR(tick(1500), "open 2");
    CHECK_STR(ok(1600, 1), "opening>live");
    CHECK_EQ_I64(deadline(), 10000);
}

TEST(retries_of_an_opening_back_off_up_to_the_renewal_interval)
{
    static const int64_t waits[] = { 500, 1000, 2000, 4000, 4000, 4000, 4000, 4000, 4000, 4000 };
    int64_t now = 0;
    uint64_t seq = 1;

    start();
    CHECK_STR(opens(now), "open 1");
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        CHECK_STR(fails(now, seq), "");
        CHECK_EQ_I64(wakes_at() - now, waits[i]);
        now += waits[i];
        CHECK(tick(now)[0] == 'o');
        seq++;
    }
}

TEST(success_ends_the_backing_off)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(fails(0, 1), "");
    CHECK_STR(tick(500), "open 2");
    CHECK_STR(fails(500, 2), "");
    CHECK_STR(tick(1500), "open 3");
    CHECK_STR(ok(1500, 3), "opening>live");
    CHECK_EQ_U64(session.failures, 0);
}

TEST(an_opening_reply_of_no_use_any_more_opens_again_at_once)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(10000, 1), "open 2");
    CHECK_STR(in_state(), "opening");
    CHECK(!valid(10000));
    CHECK_STR(ok(10100, 2), "opening>live");
    CHECK_EQ_I64(deadline(), 20000);
}

TEST(an_opening_may_be_answered_that_the_session_is_gone)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(gone(100), "opening>lost");
    CHECK_STR(tn_reason_text(session.reason), "expired");
    CHECK_EQ_I64(wakes_at(), -1);
}

TEST(an_opening_may_be_closed)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(closes(100), "close, opening>closed");
    CHECK_STR(ok(200, 1), "");
    CHECK_STR(in_state(), "closed");
    CHECK_EQ_I64(wakes_at(), -1);
}

/* --- Renewing --------------------------------------------------------------------------------- */

TEST(a_renewal_goes_out_one_interval_after_the_send_of_the_last)
{
    start_live();
    CHECK_STR(tick(3999), "");
    CHECK_STR(tick(4000), "renew 2");
    CHECK_EQ_I64(wakes_at(), 5000);
    CHECK_STR(ok(4900, 2), "");
    CHECK_EQ_I64(deadline(), 14000);
    CHECK_EQ_I64(wakes_at(), 8000);
    CHECK_STR(tick(8000), "renew 3");
}

TEST(an_overdue_renewal_is_jeopardy_and_is_repeated_while_still_valid)
{
    start_in_jeopardy();
    CHECK(valid(5000));
    CHECK_EQ_I64(wakes_at(), 5250);
    CHECK_STR(tick(5249), "");
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(in_state(), "jeopardy");
    CHECK_EQ_I64(deadline(), 10000);
}

TEST(a_reply_ends_jeopardy)
{
    start_in_jeopardy();
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(ok(5300, 3), "jeopardy>live");
    CHECK_EQ_I64(deadline(), 15250);
    CHECK_EQ_I64(wakes_at(), 9250);
}

TEST(a_late_reply_extends_from_its_own_send_time)
{
    start_in_jeopardy();
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(ok(6000, 2), "jeopardy>live");
    CHECK_EQ_I64(deadline(), 14000);
    CHECK_EQ_I64(wakes_at(), 8000);
}

TEST(a_reply_later_than_the_interval_brings_the_next_renewal_at_once)
{
    start_in_jeopardy();
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(ok(8100, 2), "jeopardy>live, renew 4");
    CHECK_EQ_I64(deadline(), 14000);
}

TEST(an_older_reply_never_moves_the_deadline_back)
{
    start_in_jeopardy();
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(ok(5300, 3), "jeopardy>live");
    CHECK_STR(ok(5400, 2), "");
    CHECK_EQ_I64(deadline(), 15250);
    CHECK_STR(in_state(), "live");
}

TEST(a_refused_renewal_is_jeopardy_at_once)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(fails(4100, 2), "live>jeopardy");
    CHECK_EQ_I64(wakes_at(), 4350);
    CHECK_STR(tick(4350), "renew 3");
}

TEST(retries_of_a_renewal_keep_a_steady_pace)
{
    int64_t now = 4000;

    start_live();
    CHECK_STR(tick(now), "renew 2");
    for (uint64_t seq = 2; seq < 20; seq++) {
        CHECK_STR(fails(now, seq), seq == 2 ? "live>jeopardy" : "");
        CHECK_EQ_I64(wakes_at(), now + 250);
        now += 250;
        CHECK(tick(now)[0] == 'r');
    }
}

TEST(the_failure_of_an_older_attempt_says_nothing_about_the_newest)
{
    start_in_jeopardy();
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(fails(5300, 2), "");
    CHECK_EQ_I64(wakes_at(), 6250);
}

TEST(a_failure_counts_once)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(fails(4100, 2), "live>jeopardy");
    CHECK_STR(fails(4200, 2), "");
    CHECK_EQ_I64(wakes_at(), 4350);
    CHECK_EQ_U64(session.failures, 1);
}

TEST(a_failure_told_after_the_attempt_was_given_up_is_ignored)
{
    start_in_jeopardy();
    CHECK_STR(fails(5100, 2), "");
    CHECK_EQ_I64(wakes_at(), 5250);
}

TEST(a_failure_while_nothing_is_on_its_way_is_ignored)
{
    start_live();
    CHECK_STR(fails(500, 1), "");
    CHECK_STR(in_state(), "live");
    CHECK_EQ_I64(wakes_at(), 4000);
}

TEST(a_duplicate_reply_changes_nothing)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(ok(4100, 2), "");
    CHECK_STR(ok(4200, 2), "");
    CHECK_STR(ok(4300, 1), "");
    CHECK_EQ_I64(deadline(), 14000);
    CHECK_EQ_I64(wakes_at(), 8000);
}

TEST(replies_to_what_was_never_asked_change_nothing)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(ok(4100, 0), "");
    CHECK_STR(ok(4100, 3), "");
    CHECK_STR(ok(4100, 2 + TN_SESSION_ATTEMPTS), "");
    CHECK_STR(ok(4100, UINT64_MAX), "");
    CHECK_STR(fails(4100, 0), "");
    CHECK_STR(fails(4100, 3), "");
    CHECK_EQ_I64(deadline(), 10000);
    CHECK_EQ_I64(wakes_at(), 5000);
}

TEST(an_attempt_older_than_the_last_eight_is_forgotten)
{
    int64_t now = 0;

    start();
    CHECK_STR(opens(now), "open 1");
    for (uint64_t seq = 1; seq <= TN_SESSION_ATTEMPTS; seq++) {
        CHECK_STR(fails(now, seq), "");
        now = wakes_at();
        CHECK(tick(now)[0] == 'o');
    }
    CHECK_STR(ok(now, 1), "");
    CHECK_STR(in_state(), "opening");
    CHECK_STR(ok(now, 2), "open 10");
    CHECK_STR(ok(now, 9), "opening>live");
    CHECK_EQ_I64(deadline(), now + 10000);
}

TEST(a_pause_that_ends_before_the_deadline_costs_nothing)
{
    start_live();
    CHECK_STR(tick(9999), "renew 2");
    CHECK(valid(9999));
    CHECK_STR(in_state(), "live");
}

TEST(a_pause_over_a_renewal_is_jeopardy_then_a_retry)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(tick(9000), "live>jeopardy");
    CHECK_STR(tick(9250), "renew 3");
}

/* --- The end ---------------------------------------------------------------------------------- */

TEST(at_the_deadline_it_is_lost_whatever_woke_it)
{
    static const struct tn_session_event events[] = {
        { .kind = TN_SESSION_EV_TICK },
        { .kind = TN_SESSION_EV_OK, .seq = 2, .ttl = TN_SEC(12) },
        { .kind = TN_SESSION_EV_OK, .seq = 2, .ttl = TN_SEC(12), .more = true },
        { .kind = TN_SESSION_EV_FAIL, .seq = 2 },
        { .kind = TN_SESSION_EV_GONE },
        { .kind = TN_SESSION_EV_CLOSE },
    };

    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        start_live();
        CHECK_STR(tick(9999), "renew 2");
        CHECK_STR(feed(10000, events[i]), "live>lost");
        CHECK_STR(tn_reason_text(session.reason), "expired");
        CHECK_EQ_I64(wakes_at(), -1);
        CHECK(!valid(10000));
    }
}

TEST(jeopardy_ends_at_the_deadline_as_well)
{
    start_in_jeopardy();
    CHECK_STR(tick(9999), "renew 3");
    CHECK_EQ_I64(wakes_at(), 10000);
    CHECK_STR(ok(10000, 3), "jeopardy>lost");
    CHECK_STR(tn_reason_text(session.reason), "expired");
}

TEST(lost_is_latched)
{
    start_live();
    CHECK_STR(tick(9999), "renew 2");
    CHECK_STR(tick(10000), "live>lost");
    CHECK_STR(ok(10001, 2), "");
    CHECK_STR(ok_but_more(10002, 2), "");
    CHECK_STR(fails(10003, 2), "");
    CHECK_STR(gone(10004), "");
    CHECK_STR(closes(10005), "");
    CHECK_STR(tick(99999), "");
    CHECK_STR(in_state(), "lost");
    CHECK_EQ_I64(deadline(), 10000);
    CHECK(!valid(0));
}

TEST(the_store_may_say_that_a_live_session_is_gone)
{
    start_live();
    CHECK_STR(gone(400), "live>lost");
    CHECK_STR(tn_reason_text(session.reason), "expired");
    CHECK(!valid(400));
    CHECK_EQ_I64(wakes_at(), -1);
}

TEST(the_store_may_say_so_in_jeopardy)
{
    start_in_jeopardy();
    CHECK_STR(gone(5100), "jeopardy>lost");
    CHECK(!valid(5100));
}

TEST(closing_ends_a_live_session_at_once)
{
    start_live();
    CHECK_STR(closes(400), "close, live>closed");
    CHECK_STR(tn_reason_text(session.reason), "closed");
    CHECK(!valid(400));
    CHECK_EQ_I64(deadline(), 0);
    CHECK_EQ_I64(wakes_at(), -1);
    CHECK_STR(tick(4000), "");
    CHECK_STR(ok(4000, 1), "");
    CHECK_STR(gone(4000), "");
    CHECK_STR(closes(4000), "");
}

TEST(closing_ends_jeopardy_too)
{
    start_in_jeopardy();
    CHECK_STR(closes(5100), "close, jeopardy>closed");
    CHECK_STR(ok(5200, 2), "");
    CHECK(!valid(5200));
}

TEST(another_life_starts_with_init_and_knows_no_old_reply)
{
    start_live();
    CHECK_STR(gone(400), "live>lost");
    tn_session_init(&session, &plan, 2, 1);
    CHECK_EQ_U64(session.life, 2);
    CHECK_STR(ok(500, 1), "");
    CHECK_STR(opens(500), "open 1");
    CHECK_STR(ok(600, 1), "opening>live");
    CHECK_EQ_I64(deadline(), 10500);
}

/* --- What the store agreed to ----------------------------------------------------------------- */

TEST(a_ttl_cut_short_by_the_store_shortens_everything)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(agrees(100, 1, TN_SEC(6)), "opening>live");
    CHECK_EQ_I64(deadline(), 4000);
    CHECK_EQ_I64(wakes_at(), 2000);
    CHECK_STR(tick(2000), "renew 2");
    CHECK_EQ_I64(wakes_at(), 2500);
    CHECK_STR(tick(2500), "live>jeopardy");
    CHECK_EQ_I64(wakes_at(), 2625);
}

TEST(a_longer_ttl_lengthens_the_deadline)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(agrees(100, 1, TN_SEC(24)), "opening>live");
    CHECK_EQ_I64(deadline(), 22000);
}

TEST(a_ttl_too_short_to_be_of_any_use_never_goes_live)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(agrees(100, 1, TN_SEC(2)), "");
    CHECK_STR(in_state(), "opening");
    CHECK(!valid(100));
    CHECK_EQ_I64(wakes_at(), 666);
}

TEST(the_deadline_keeps_the_margin_that_the_clock_rates_demand)
{
    tn_plan_init(&plan, TN_SEC(15));
    tn_session_init(&session, &plan, 1, 1);
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(100, 1), "opening>live");
    CHECK_EQ_I64(deadline(), 12272); /* 15 s * 0.9 / 1.1 */
}

TEST(more_extends_nothing_and_asks_again_at_once)
{
    start_live();
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(ok_but_more(4100, 2), "renew 3");
    CHECK_EQ_I64(deadline(), 10000);
    CHECK_EQ_I64(wakes_at(), 5100);
    CHECK_STR(ok(4200, 3), "");
    CHECK_EQ_I64(deadline(), 14100);
}

TEST(more_does_not_end_jeopardy)
{
    start_in_jeopardy();
    CHECK_STR(ok_but_more(5100, 2), "renew 3");
    CHECK_STR(in_state(), "jeopardy");
    CHECK_STR(ok(5200, 3), "jeopardy>live");
}

TEST(more_may_answer_an_opening)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok_but_more(100, 1), "open 2");
    CHECK_STR(in_state(), "opening");
    CHECK_STR(ok(200, 2), "opening>live");
    CHECK_EQ_I64(deadline(), 10100);
}

TEST(a_session_told_of_more_for_ever_is_lost_at_its_deadline)
{
    int64_t now = 4000;
    uint64_t seq = 2;

    start_live();
    CHECK_STR(tick(now), "renew 2");
    for (; now < 9900; now += 100)
        CHECK(ok_but_more(now, seq++)[0] == 'r');
    CHECK_STR(ok_but_more(10000, seq), "live>lost");
}

/* --- Jitter, and our own bugs ----------------------------------------------------------------- */

TEST(jitter_makes_renewals_earlier_by_up_to_its_share_and_never_later)
{
    tenure_ns earliest = TN_NEVER;
    tenure_ns latest = 0;

    for (uint64_t seed = 0; seed < 500; seed++) {
        start();
        plan.jitter_ppm = TN_PPM / 10;
        tn_session_init(&session, &plan, 1, seed);
        CHECK_STR(opens(0), "open 1");
        CHECK_STR(ok(300, 1), "opening>live");
        tenure_ns at = tn_session_wake_at(&session);
        CHECK(at >= TN_MS(3600) && at <= TN_MS(4000));
        earliest = at < earliest ? at : earliest;
        latest = at > latest ? at : latest;
    }
    CHECK(earliest < TN_MS(3610));
    CHECK(latest > TN_MS(3990));
}

TEST(the_same_seed_gives_the_same_life)
{
    tenure_ns first;

    start();
    plan.jitter_ppm = TN_PPM / 10;
    tn_session_init(&session, &plan, 1, 77);
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(300, 1), "opening>live");
    first = tn_session_wake_at(&session);
    tn_session_init(&session, &plan, 2, 77);
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(300, 1), "opening>live");
    CHECK_EQ_I64(tn_session_wake_at(&session), first);
}

TEST(time_going_back_is_our_bug)
{
    start_live();
    CHECK_ASSERTS((void)tick(299));
    CHECK_STR(tick(300), "");
}

TEST(opening_twice_is_our_bug)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_ASSERTS((void)opens(1));
}

TEST(opening_what_is_lost_or_closed_is_our_bug)
{
    start_live();
    CHECK_STR(gone(400), "live>lost");
    CHECK_ASSERTS((void)opens(500));
    start_live();
    CHECK_STR(closes(400), "close, live>closed");
    CHECK_ASSERTS((void)opens(500));
}

TEST(life_zero_is_our_bug)
{
    start();
    CHECK_ASSERTS(tn_session_init(&session, &plan, 0, 1));
}

TEST(a_ttl_of_nothing_is_our_bug)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_ASSERTS((void)agrees(100, 1, 0));
}

TEST(every_reason_has_a_text)
{
    CHECK_STR(tn_reason_text(TN_REASON_NONE), "none");
    CHECK_STR(tn_reason_text(TN_REASON_EXPIRED), "expired");
    CHECK_STR(tn_reason_text(TN_REASON_REVOKED), "revoked");
    CHECK_STR(tn_reason_text(TN_REASON_RELEASED), "released");
    CHECK_STR(tn_reason_text(TN_REASON_STALLED), "stalled");
    CHECK_STR(tn_reason_text(TN_REASON_TOKEN_REGRESSED), "token-regressed");
    CHECK_STR(tn_reason_text(TN_REASON_FENCE), "fence-failed");
    CHECK_STR(tn_reason_text(TN_REASON_CLOSED), "closed");
    CHECK_STR(tn_reason_text(TN_REASON_NOTE_ASKED), "asked");
    CHECK_ASSERTS((void)tn_reason_text((enum tn_reason)(TN_REASON_NOTE_ASKED + 1)));
}

TEST(a_ttl_that_the_store_shortens_takes_back_what_was_promised_on_the_longer_one)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(100, 1), "opening>live");
    CHECK_EQ_I64(tn_session_deadline(&session), TN_MS(10000));
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(agrees(4100, 2, TN_SEC(3)), "");
    CHECK_EQ_I64(tn_session_deadline(&session), TN_MS(5000)); /* 4 s + 3 s - 2 s of margin. */
}

TEST(a_late_answer_with_the_longer_ttl_promises_nothing)
{
    start();
    CHECK_STR(opens(0), "open 1");
    CHECK_STR(ok(100, 1), "opening>live");
    CHECK_STR(tick(4000), "renew 2");
    CHECK_STR(tick(5000), "live>jeopardy");
    CHECK_STR(tick(5250), "renew 3");
    CHECK_STR(agrees(5300, 3, TN_SEC(6)), "jeopardy>live");
    CHECK_EQ_I64(tn_session_deadline(&session), TN_MS(9250));
    CHECK_STR(ok(5400, 2), ""); /* Says 12 s, but was asked before. */
    CHECK_EQ_I64(tn_session_deadline(&session), TN_MS(9250));
}
