/* claim_events_test.c - what a claim does on every event in every state, the events that it must
 * ignore among them. claim_script.h says how to read the rows. */
#include "tests/unit/claim_script.h"

#include <string.h>

struct row {
    struct tn_claim_event event;
    const char *expected; /* Actions, "; " and the state after them. */
};

#define EV(kind, ...)                          \
    {                                          \
        TN_CLAIM_EV_##kind, .gen = __VA_ARGS__ \
    }

static void check_rows(void (*reach)(void), const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char got[sizeof transcript + 32];
        struct tn_text text;

        reach();
        tn_text_init(&text, got, sizeof got);
        tn_text_add(&text, feed(1000, rows[i].event));
        tn_text_addf(&text, "; %s", in_state());
        if (strcmp(got, rows[i].expected) != 0)
            tn_test_fail(__FILE__, __LINE__, "row %zu: \"%s\" and \"%s\"", i, got,
                         rows[i].expected);
    }
}

#define CHECK_ROWS(reach, rows)                                \
    do {                                                       \
        check_rows(reach, rows, sizeof rows / sizeof rows[0]); \
    } while (0)

TEST(events_while_idle)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; watching" },
        { EV(CAMPAIGN, 0), "acquire g1; acquiring" },
        { EV(RESIGN, 0), "; watching" },
        { EV(READY, 0), "; watching" },
        { EV(NOT_READY, 0), "; watching" },
        { EV(DRAINED, 0), "; watching" },
        { EV(CHECK_IN, 0), "; watching" },
        { EV(SESSION_LIVE, 0), "; watching" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "release g1 t5; releasing" },
        { EV(GRANTED, 2, 5), "; watching" },
        { EV(QUEUED, 1), "; watching" },
        { EV(HELD, 1), "; watching" },
        { EV(FAILED, 1), "; watching" },
        { EV(OBSERVED, 0, 5, true), "leader t5 holds; watching" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone; watching" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; watching" },
        { EV(RELEASED, 1), "; watching" },
        { EV(REVOKED, 0, 5), "; watching" },
        { EV(REVOKED, 0, 0), "; watching" },
        { EV(RAISED, 0, 5), "; watching" },
        { EV(STALE, 0, 5), "; watching" },
    };
    CHECK_ROWS(reach_idle, rows);
}

TEST(events_while_waiting_outside_the_queue)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; watching" },
        { EV(CAMPAIGN, 0), "acquire g1; acquiring" },
        { EV(RESIGN, 0), "; watching" },
        { EV(READY, 0), "acquire g1; acquiring" },
        { EV(NOT_READY, 0), "; watching" },
        { EV(DRAINED, 0), "; watching" },
        { EV(CHECK_IN, 0), "; watching" },
        { EV(SESSION_LIVE, 0), "acquire g1; acquiring" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "won t5; holding" },
        { EV(GRANTED, 0, 4), "release g0 t4; watching" },
        { EV(QUEUED, 1), "; watching" },
        { EV(HELD, 1), "; watching" },
        { EV(FAILED, 1), "; watching" },
        { EV(OBSERVED, 0, 5, true), "leader t5 holds; watching" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone, acquire g1; acquiring" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds, won t5; holding" },
        { EV(RELEASED, 1), "; watching" },
        { EV(REVOKED, 0, 5), "; watching" },
        { EV(RAISED, 0, 5), "; watching" },
        { EV(STALE, 0, 5), "; watching" },
    };
    CHECK_ROWS(reach_waiting, rows);
}

TEST(events_while_queued)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; watching" },
        { EV(CAMPAIGN, 0), "; watching" },
        { EV(RESIGN, 0), "release g1 t0; releasing" },
        { EV(READY, 0), "; watching" },
        { EV(NOT_READY, 0), "release g1 t0; releasing" },
        { EV(DRAINED, 0), "; watching" },
        { EV(CHECK_IN, 0), "; watching" },
        { EV(SESSION_LIVE, 0), "; watching" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "won t5; holding" },
        { EV(QUEUED, 1), "; watching" },
        { EV(HELD, 1), "; watching" },
        { EV(FAILED, 1), "; watching" },
        { EV(OBSERVED, 0, 5, true), "leader t5 holds; watching" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone; watching" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds, won t5; holding" },
        { EV(RELEASED, 1), "; watching" },
        { EV(REVOKED, 0, 5), "; watching" },
        { EV(RAISED, 0, 5), "; watching" },
        { EV(STALE, 0, 5), "; watching" },
    };
    CHECK_ROWS(reach_queued, rows);
}

TEST(events_while_acquiring)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; acquiring" },
        { EV(CAMPAIGN, 0), "; acquiring" },
        { EV(RESIGN, 0), "release g1 t0; releasing" },
        { EV(READY, 0), "; acquiring" },
        { EV(NOT_READY, 0), "release g1 t0; releasing" },
        { EV(DRAINED, 0), "; acquiring" },
        { EV(CHECK_IN, 0), "; acquiring" },
        { EV(SESSION_LIVE, 0), "; acquiring" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "won t5; holding" },
        { EV(GRANTED, 0, 5), "release g0 t5; acquiring" },
        { EV(GRANTED, 2, 5), "; acquiring" },
        { EV(QUEUED, 1), "; watching" },
        { EV(QUEUED, 0), "; acquiring" },
        { EV(HELD, 1), "; watching" },
        { EV(HELD, 0), "; acquiring" },
        { EV(FAILED, 1), "; acquiring" },
        { EV(OBSERVED, 0, 5, true), "leader t5 holds; acquiring" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone; acquiring" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds, won t5; holding" },
        { EV(OBSERVED, 0, 5, true, true), "leader t5 holds, release g0 t5; acquiring" },
        { EV(RELEASED, 1), "; acquiring" },
        { EV(REVOKED, 0, 5), "; acquiring" },
        { EV(RAISED, 0, 5), "; acquiring" },
        { EV(STALE, 0, 5), "; acquiring" },
    };
    CHECK_ROWS(reach_acquiring, rows);
}

TEST(events_while_raising)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; raising" },
        { EV(CAMPAIGN, 0), "; raising" },
        { EV(RESIGN, 0), "release g1 t5; releasing" },
        { EV(READY, 0), "; raising" },
        { EV(NOT_READY, 0), "release g1 t5; releasing" },
        { EV(DRAINED, 0), "; raising" },
        { EV(CHECK_IN, 0), "; raising" },
        { EV(SESSION_LIVE, 0), "; raising" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "; raising" },
        { EV(GRANTED, 1, 6), "; raising" },
        { EV(GRANTED, 0, 4), "release g0 t4; raising" },
        { EV(QUEUED, 1), "; raising" },
        { EV(HELD, 1), "; raising" },
        { EV(FAILED, 1), "; raising" },
        { EV(OBSERVED, 0, 4, true), "leader t4 holds; raising" },
        { EV(OBSERVED, 0, 5, false),
          "leader t5 gone, refused t5 revoked, release g1 t5; releasing" },
        { EV(OBSERVED, 0, 6, true),
          "leader t6 holds, refused t5 revoked, release g1 t5; releasing" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; raising" },
        { EV(RELEASED, 1), "; raising" },
        { EV(REVOKED, 0, 5), "refused t5 revoked, release g1 t5; releasing" },
        { EV(REVOKED, 0, 4), "; raising" },
        { EV(RAISED, 0, 5), "won t5; holding" },
        { EV(RAISED, 0, 4), "; raising" },
        { EV(STALE, 0, 6), "refused t5 token-regressed, release g1 t5; releasing" },
        { EV(STALE, 0, 5), "; raising" },
    };
    CHECK_ROWS(reach_raising, rows);
}

TEST(events_while_holding)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; holding" },
        { EV(CAMPAIGN, 0), "; holding" },
        { EV(RESIGN, 0), "drain t5; draining" },
        { EV(READY, 0), "; holding" },
        { EV(NOT_READY, 0), "; holding" },
        { EV(DRAINED, 0), "lost t5 released, release g1 t5; releasing" },
        { EV(CHECK_IN, 0), "; holding" },
        { EV(SESSION_LIVE, 0), "; holding" },
        { EV(SESSION_LOST, 0), "lost t5 none; draining" },
        { EV(GRANTED, 1, 5), "; holding" },
        { EV(GRANTED, 1, 6), "; holding" },
        { EV(GRANTED, 0, 6), "release g0 t6; holding" },
        { EV(QUEUED, 1), "; holding" },
        { EV(HELD, 1), "; holding" },
        { EV(FAILED, 1), "; holding" },
        { EV(OBSERVED, 0, 4, true), "leader t4 holds; holding" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone, lost t5 revoked; draining" },
        { EV(OBSERVED, 0, 6, true), "leader t6 holds, lost t5 revoked; draining" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; holding" },
        { EV(RELEASED, 1), "; holding" },
        { EV(REVOKED, 0, 5), "lost t5 revoked; draining" },
        { EV(REVOKED, 0, 4), "; holding" },
        { EV(REVOKED, 0, 0), "; holding" },
        { EV(RAISED, 0, 5), "; holding" },
        { EV(STALE, 0, 6), "; holding" },
    };
    CHECK_ROWS(reach_holding, rows);
}

TEST(events_while_draining_after_a_resignation)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; draining" },
        { EV(CAMPAIGN, 0), "; draining" },
        { EV(RESIGN, 0), "; draining" },
        { EV(READY, 0), "; draining" },
        { EV(NOT_READY, 0), "; draining" },
        { EV(DRAINED, 0), "lost t5 released, release g1 t5; releasing" },
        { EV(CHECK_IN, 0), "; draining" },
        { EV(SESSION_LIVE, 0), "; draining" },
        { EV(SESSION_LOST, 0), "lost t5 none; draining" },
        { EV(GRANTED, 1, 5), "; draining" },
        { EV(QUEUED, 1), "; draining" },
        { EV(HELD, 1), "; draining" },
        { EV(FAILED, 1), "; draining" },
        { EV(OBSERVED, 0, 6, true), "leader t6 holds, lost t5 revoked; draining" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; draining" },
        { EV(RELEASED, 1), "; draining" },
        { EV(REVOKED, 0, 5), "lost t5 revoked; draining" },
        { EV(RAISED, 0, 5), "; draining" },
        { EV(STALE, 0, 6), "; draining" },
    };
    CHECK_ROWS(reach_resigned, rows);
}

TEST(events_while_draining_after_a_revocation)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; draining" },
        { EV(CAMPAIGN, 0), "; draining" },
        { EV(RESIGN, 0), "; draining" },
        { EV(READY, 0), "; draining" },
        { EV(NOT_READY, 0), "; draining" },
        { EV(DRAINED, 0), "release g1 t5; releasing" },
        { EV(CHECK_IN, 0), "; draining" },
        { EV(SESSION_LIVE, 0), "; draining" },
        { EV(SESSION_LOST, 0), "; draining" },
        { EV(GRANTED, 1, 5), "; draining" },
        { EV(QUEUED, 1), "; draining" },
        { EV(HELD, 1), "; draining" },
        { EV(FAILED, 1), "; draining" },
        { EV(OBSERVED, 0, 6, true), "leader t6 holds; draining" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone; draining" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; draining" },
        { EV(RELEASED, 1), "; draining" },
        { EV(REVOKED, 0, 5), "; draining" },
        { EV(RAISED, 0, 5), "; draining" },
        { EV(STALE, 0, 6), "; draining" },
    };
    CHECK_ROWS(reach_revoked, rows);
}

TEST(events_while_draining_with_nothing_left_to_release)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; draining" },
        { EV(CAMPAIGN, 0), "; draining" },
        { EV(RESIGN, 0), "; draining" },
        { EV(READY, 0), "; draining" },
        { EV(DRAINED, 0), "; watching" },
        { EV(SESSION_LIVE, 0), "; draining" },
        { EV(SESSION_LOST, 0), "; draining" },
        { EV(GRANTED, 1, 5), "; draining" }, /* P5: the work of that very term still runs. */
        { EV(GRANTED, 2, 5), "; draining" },
        { EV(QUEUED, 2), "; draining" },
        { EV(HELD, 2), "; draining" },
        { EV(FAILED, 2), "; draining" },
        { EV(OBSERVED, 0, 6, false), "leader t6 gone; draining" },
        { EV(RELEASED, 2), "; draining" },
        { EV(REVOKED, 0, 5), "; draining" },
    };
    CHECK_ROWS(reach_adrift, rows);
}

TEST(events_while_releasing)
{
    static const struct row rows[] = {
        { EV(TICK, 0), "; releasing" },
        { EV(CAMPAIGN, 0), "; releasing" },
        { EV(RESIGN, 0), "; releasing" },
        { EV(READY, 0), "; releasing" },
        { EV(NOT_READY, 0), "; releasing" },
        { EV(DRAINED, 0), "; releasing" },
        { EV(CHECK_IN, 0), "; releasing" },
        { EV(SESSION_LIVE, 0), "; releasing" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "; releasing" },
        { EV(GRANTED, 1, 6), "; releasing" },
        { EV(GRANTED, 0, 4), "release g0 t4; releasing" },
        { EV(QUEUED, 1), "; releasing" },
        { EV(HELD, 1), "; releasing" },
        { EV(FAILED, 1), "; releasing" },
        { EV(OBSERVED, 0, 5, false), "leader t5 gone; releasing" },
        { EV(OBSERVED, 0, 6, true), "leader t6 holds; releasing" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; releasing" },
        { EV(RELEASED, 1), "; watching" },
        { EV(RELEASED, 0), "; releasing" },
        { EV(RELEASED, 2), "; releasing" },
        { EV(REVOKED, 0, 5), "; releasing" },
        { EV(RAISED, 0, 5), "; releasing" },
        { EV(STALE, 0, 6), "; releasing" },
    };
    CHECK_ROWS(reach_releasing, rows);
}

TEST(events_while_withdrawing_from_the_queue)
{
    static const struct row rows[] = {
        { EV(CAMPAIGN, 0), "; releasing" },
        { EV(SESSION_LOST, 0), "; watching" },
        { EV(GRANTED, 1, 5), "; releasing" },
        { EV(QUEUED, 1), "; releasing" },
        { EV(HELD, 1), "; releasing" },
        { EV(FAILED, 1), "; releasing" },
        { EV(OBSERVED, 1, 5, true, true), "leader t5 holds; releasing" },
        { EV(RELEASED, 1), "; watching" },
        { EV(REVOKED, 0, 5), "; releasing" },
    };
    CHECK_ROWS(reach_withdrawing, rows);
}
