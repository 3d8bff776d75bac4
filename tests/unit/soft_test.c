/* soft_test.c - the soft limit (F1): who may supersede a silent holder, when, and what is left of
 * the former. TTL 10 s, soft limit 4 s. */
#include "tests/unit/table_script.h"

static const char *soft_acquires(int64_t at_ms, int who, int term, int fences)
{
    struct tn_op op = op_by(TN_OP_ACQUIRE, who, term, "x");

    op.wait = true;
    op.soft = (struct tn_soft) { .limit = TN_SEC(4), .fences = secret_of(fences) };
    return feed(at_ms, op);
}

/* A has x since 100; its last renewal is of 100. B is in line with the same fences, C without. */
static void start_soft(void)
{
    start();
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(opens(0, 'C'), "ok");
    CHECK_STR(opens(100, 'A'), "ok");
    CHECK_STR(soft_acquires(100, 'A', 1, 'f'), "granted 1; x held 1");
}

TEST(a_silent_holder_is_superseded_behind_its_soft_limit)
{
    start_soft();
    CHECK_STR(soft_acquires(200, 'B', 1, 'f'), "queued");
    CHECK_STR(soft_acquires(4099, 'B', 1, 'f'), "queued");
    CHECK_STR(soft_acquires(4100, 'B', 1, 'f'), "granted 2; x held 2");
    CHECK_STR(soft_acquires(4200, 'B', 1, 'f'), "granted 2");
}

TEST(other_fences_and_none_wait_for_the_ttl)
{
    start_soft();
    CHECK_STR(soft_acquires(9000, 'B', 1, 'g'), "queued");
    CHECK_STR(acquires(9000, 'C', 1, "x"), "held 1");
    CHECK_STR(soft_acquires(10099, 'B', 1, 'g'), "gone");
    CHECK_STR(reads(10100, "x"), "free 1; x free 1");
}

TEST(a_holder_without_a_soft_limit_has_none)
{
    start();
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(acquires(0, 'A', 1, "x"), "granted 1; x held 1");
    CHECK_STR(soft_acquires(9000, 'B', 1, 'f'), "queued");
}

TEST(the_soft_limit_counts_from_the_last_renewal)
{
    start_soft();
    CHECK_STR(renews(4000, 'A', 0), "ok");
    CHECK_STR(soft_acquires(7999, 'B', 1, 'f'), "queued");
    CHECK_STR(soft_acquires(8000, 'B', 1, 'f'), "granted 2; x held 2");
}

TEST(a_superseded_session_is_gone_for_its_owner)
{
    start_soft();
    CHECK_STR(soft_acquires(5000, 'B', 1, 'f'), "granted 2; x held 2");
    CHECK_STR(renews(5001, 'A', 0), "gone");
    CHECK_STR(opens(5002, 'A'), "gone"); /* Also one that was sent long before. */
    CHECK_STR(releases(5003, 'A', 1, "x", 1), "gone");
}

TEST(behind_a_short_successor_the_former_keeps_its_time)
{
    start_soft();
    CHECK_STR(renews(3000, 'C', 0), "ok");
    CHECK_STR(soft_acquires(4100, 'B', 1, 'f'), "granted 2; x held 2");
    CHECK_STR(waits(4200, 'C', 1, "x"), "queued");
    CHECK_STR(releases(5000, 'B', 1, "x", 2), "released; x held 2");
    CHECK_STR(acquires(10099, 'C', 1, "x"), "held 2");
    CHECK_STR(reads(10100, "x"), "held 3; grant C1 x 3; x held 3");
}

TEST(who_has_the_same_fences_need_not_wait_for_that)
{
    start_soft();
    CHECK_STR(soft_acquires(4100, 'B', 1, 'f'), "granted 2; x held 2");
    CHECK_STR(releases(5000, 'B', 1, "x", 2), "released; x held 2");
    CHECK_STR(soft_acquires(5001, 'B', 2, 'f'), "granted 3; x held 3");
    CHECK_STR(releases(5002, 'B', 2, "x", 3), "released; x held 3");
    CHECK_STR(opens(5003, 'A'), "gone"); /* It rests under the same secret still. */
}

TEST(of_two_formers_the_one_with_more_time_counts)
{
    start_soft();
    CHECK_STR(renews(4000, 'B', 0), "ok");
    CHECK_STR(soft_acquires(4100, 'B', 1, 'f'), "granted 2; x held 2");
    CHECK_STR(opens(8000, 'D'), "ok");
    CHECK_STR(soft_acquires(8000, 'D', 1, 'f'),
              "granted 3; x held 3"); /* B's time is till 14000. */
    CHECK_STR(opens(8000, 'E'), "ok");
    CHECK_STR(releases(8500, 'D', 1, "x", 3), "released; x held 3");
    CHECK_STR(acquires(13999, 'E', 1, "x"), "held 3");
    CHECK_STR(reads(14000, "x"), "free 3; x free 3");
}

TEST(a_session_with_another_lease_is_not_superseded)
{
    start_soft();
    CHECK_STR(acquires(200, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(soft_acquires(9000, 'B', 1, 'f'), "queued");
}

TEST(what_falls_back_survives_a_restart)
{
    start_soft();
    CHECK_STR(soft_acquires(4100, 'B', 1, 'f'), "granted 2; x held 2");
    tn_table_restart(table, TN_MS(5000));
    CHECK_STR(releases(5000, 'B', 1, "x", 2), "released; x held 2");
    CHECK_STR(opens(5100, 'A'), "gone");
    CHECK_STR(opens(5100, 'D'), "ok");
    CHECK_STR(acquires(14999, 'D', 1, "x"), "held 2");
    CHECK_STR(acquires(15000, 'D', 1, "x"), "granted 3; x free 2; x held 3");
}
