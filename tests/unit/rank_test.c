/* rank_test.c - who stays out of the line for a higher priority, who shows itself, who yields. */
#include "core/rank.h"

#include "core/note.h"
#include "core/plan.h"
#include "tests/harness/test.h"

#define STEP TN_SEC(1)
#define SETTLE TN_MS(100)

TEST(a_lower_one_stays_out_for_a_step)
{
    struct tn_rank rank = { .level = 2 };

    tn_rank_hear(&rank, 1000, 5, true, 7, STEP);
    CHECK(tn_rank_bars(&rank, 1000));
    CHECK(tn_rank_bars(&rank, 1000 + STEP - 1));
    CHECK(!tn_rank_bars(&rank, 1000 + STEP));
    CHECK_EQ_I64(tn_rank_wake_at(&rank, 1000 + SETTLE, SETTLE), 1000 + STEP);
    /* The same again, or one that came before it, drives nobody out. */
    tn_rank_hear(&rank, 1000 + STEP, 5, true, 7, STEP);
    tn_rank_hear(&rank, 1000 + STEP, 5, true, 6, STEP);
    CHECK(!tn_rank_bars(&rank, 1000 + STEP));
    /* Another one does. */
    tn_rank_hear(&rank, 1000 + STEP, 5, true, 8, STEP);
    CHECK(tn_rank_bars(&rank, 1000 + STEP));
}

TEST(nobody_stays_out_for_an_equal_or_a_lower_one)
{
    struct tn_rank rank = { .level = 5, .yields = true };

    tn_rank_hear(&rank, 1000, 5, true, 7, STEP);
    tn_rank_hear(&rank, 1000, 1, true, 8, STEP);
    CHECK(!tn_rank_bars(&rank, 1000));
    CHECK(!tn_rank_asks(&rank, 1000 + SETTLE, SETTLE));
    CHECK_EQ_I64(tn_rank_wake_at(&rank, 1000, SETTLE), TN_NEVER);
}

TEST(a_leader_yields_once_to_each_that_comes)
{
    struct tn_rank rank = { .level = 2, .yields = true };

    tn_rank_hear(&rank, 1000, 9, true, 3, STEP);
    CHECK(!tn_rank_asks(&rank, 1000, SETTLE));
    CHECK_EQ_I64(tn_rank_wake_at(&rank, 1000, SETTLE), 1000 + SETTLE);
    CHECK(tn_rank_asks(&rank, 1000 + SETTLE, SETTLE));
    rank.fresh = false; /* It has. */
    CHECK(!tn_rank_asks(&rank, 1000 + SETTLE, SETTLE));
    tn_rank_hear(&rank, 2000, 9, false, 3, STEP);
    tn_rank_hear(&rank, 3000, 9, true, 4, STEP);
    CHECK(tn_rank_asks(&rank, 3000 + SETTLE, SETTLE));
    rank.chosen = true; /* An operator wants this term. */
    CHECK(!tn_rank_asks(&rank, 3000 + SETTLE, SETTLE));
    rank.chosen = false;
    tn_rank_hear(&rank, 4000, 9, false, 4, STEP);
    CHECK(!tn_rank_asks(&rank, 4000 + SETTLE, SETTLE));
    rank.yields = false;
    tn_rank_hear(&rank, 5000, 9, true, 5, STEP);
    CHECK(!tn_rank_asks(&rank, 5000 + SETTLE, SETTLE));
}

TEST(whoever_was_asked_to_hand_over_hides_while_the_next_one_leads)
{
    struct tn_rank rank = { .level = 9 };

    CHECK(tn_rank_announces(&rank, 0));
    tn_rank_stood_back(&rank, 7);
    CHECK(!tn_rank_announces(&rank, 0));
    tn_rank_see(&rank, false, 7);
    tn_rank_see(&rank, true, 8);
    CHECK(!tn_rank_announces(&rank, 0));
    tn_rank_see(&rank, true, 8);
    CHECK(!tn_rank_announces(&rank, 0));
    tn_rank_see(&rank, true, 9);
    CHECK(tn_rank_announces(&rank, 0));
    /* The vacancy behind it does as well. */
    tn_rank_stood_back(&rank, 10);
    tn_rank_see(&rank, true, 11);
    tn_rank_see(&rank, false, 11);
    CHECK(tn_rank_announces(&rank, 0));
    /* Who yields comes back as soon as it can. */
    rank.gave_way = true;
    tn_rank_stood_back(&rank, 12);
    CHECK(tn_rank_announces(&rank, 0));
}

TEST(one_that_cannot_lead_hides_for_twice_as_long_each_time)
{
    struct tn_rank rank = { .level = 9 };

    tn_rank_refused(&rank, 0, STEP);
    CHECK_EQ_I64(rank.hidden_until, STEP);
    CHECK(!tn_rank_announces(&rank, STEP - 1));
    CHECK(tn_rank_announces(&rank, STEP));
    CHECK_EQ_I64(tn_rank_wake_at(&rank, 0, SETTLE), STEP);
    tn_rank_refused(&rank, 0, STEP);
    CHECK_EQ_I64(rank.hidden_until, 2 * STEP);
    for (int i = 0; i < 100; i++)
        tn_rank_refused(&rank, 0, STEP);
    CHECK_EQ_I64(rank.hidden_until, 1024 * STEP);
}

TEST(a_chosen_one_does_not_stay_out)
{
    struct tn_note_times times = { .settle = SETTLE, .back = STEP };
    struct tn_rank rank = { .level = 1, .yields = true };
    struct tn_notes notes = { .rank = &rank };
    struct tn_note chosen = { .kind = TN_NOTE_HANDOVER,
                              .directed = true,
                              .chosen = true,
                              .token = 7,
                              .number = 1,
                              .lasts = TN_SEC(10) };

    tn_rank_hear(&rank, 1000, 9, true, 3, STEP);
    CHECK(tn_notes_bar(&notes, 1000));
    tn_notes_hear(&notes, 1000, &chosen);
    CHECK(!tn_notes_bar(&notes, 1000));
    tn_notes_won(&notes, 1000, 8, &times);
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(20), 8, &times), TN_NOTE_NONE);
    tn_notes_won(&notes, TN_SEC(20), 9, &times); /* A term of its own, later. */
    CHECK_EQ_I64(tn_notes_ask(&notes, TN_SEC(20), 9, &times), TN_NOTE_YIELD);
}

/* --- The hold-off (G1) ------------------------------------------------------------------------ */

TEST(a_hold_off_changes_the_stores_ttl_and_nothing_else)
{
    struct tn_plan plain, held;
    struct tn_plan_answer a, b;
    struct tn_timing timing;

    tn_plan_init(&plain, TN_SEC(15));
    held = plain;
    held.hold_off = TN_SEC(10);
    CHECK_EQ_I64(tn_plan_asked(&plain), TN_SEC(15));
    /* 15 + 10 * 1.1 / 0.9 */
    CHECK_EQ_I64(tn_plan_asked(&held) / TN_MS(1), 27222);
    CHECK_EQ_I64(tn_plan_judge(&plain, &a), TN_PLAN_SAFE);
    CHECK_EQ_I64(tn_plan_judge(&held, &b), TN_PLAN_SAFE);
    CHECK_EQ_I64(a.valid_for / 10, b.valid_for / 10); /* But for the roundings. */
    CHECK_EQ_I64(a.tolerated, b.tolerated);
    CHECK(b.failover_crash_real > a.failover_crash_real + TN_SEC(12));
    CHECK_EQ_I64(a.failover_resign, b.failover_resign);
    /* D and the hold-off fit into what the store keeps, by the slowest and the fastest clock. */
    CHECK(b.p1_left <= b.p1_right);
    tn_plan_timing(&held, tn_plan_asked(&held), &timing);
    CHECK_EQ_I64(timing.renew_every, plain.renew_every);
    CHECK_EQ_I64(timing.valid_for, b.valid_for);
    /* A store that agrees to less leaves no term at all rather than no hold-off. */
    tn_plan_timing(&held, TN_SEC(10), &timing);
    CHECK_EQ_I64(timing.valid_for, 0);
}
