/* plan_test.c - the arithmetic of P1, P7 and P8: known answers, then random plans checked against
 * the inequalities as they are written in plan.h, in 128 bits and without any rounding. */
#include "tests/harness/test.h"

#include "base/prng.h"
#include "core/plan.h"

__extension__ typedef __int128 wide;

enum { ROUNDS = 20000 };

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* P1 without division: (D + slack) * (1 + rho_store) <= TTL * (1 - rho_holder). */
static bool p1_exact(const struct tn_plan *plan, tenure_ns ttl, tenure_ns valid_for)
{
    wide left = (wide)(valid_for + plan->slack) * (TN_PPM + (int64_t)plan->rho_store_ppm);
    wide right = (wide)ttl * (TN_PPM - (int64_t)plan->rho_holder_ppm);
    return left <= right;
}

static tenure_ns random_span(struct tn_prng *prng, tenure_ns least, tenure_ns most)
{
    /* Half of the draws in whole milliseconds, as people write them; half with every digit. */
    tenure_ns span = tn_prng_range(prng, least, most);
    if (tn_prng_ppm(prng, TN_PPM / 2))
        span = max64(least, span / TN_MS(1) * TN_MS(1));
    return span;
}

/* Any TTL, and each other knob turned in half of the plans. Mostly plausible, so that both verdicts
 * and all the near misses occur. */
static struct tn_plan random_plan(struct tn_prng *prng)
{
    bool huge = tn_prng_ppm(prng, TN_PPM / 4);
    tenure_ns ttl = random_span(prng, TN_TTL_MIN, huge ? TN_TTL_MAX : TN_SEC(60));
    struct tn_plan plan;

    tn_plan_init(&plan, ttl);
    if (tn_prng_ppm(prng, TN_PPM / 2))
        tn_plan_turn(&plan, TN_KNOB_RENEW, random_span(prng, 1, ttl - 1));
    if (tn_prng_ppm(prng, TN_PPM / 2))
        tn_plan_turn(&plan, TN_KNOB_GRACE, random_span(prng, 0, ttl));
    if (tn_prng_ppm(prng, TN_PPM / 2))
        tn_plan_turn(&plan, TN_KNOB_PAUSE, random_span(prng, 0, ttl / 4));
    if (tn_prng_ppm(prng, TN_PPM / 2))
        tn_plan_turn(&plan, TN_KNOB_RTT, random_span(prng, 0, ttl / 4));
    if (tn_prng_ppm(prng, TN_PPM / 2))
        tn_plan_turn(&plan, TN_KNOB_RHO, tn_prng_range(prng, 0, huge ? TN_PPM - 1 : TN_PPM / 4));
    return plan;
}

TEST(defaults_are_the_documented_ones)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    CHECK_EQ_I64(plan.renew_every, TN_SEC(5));
    CHECK_EQ_I64(plan.attempt_timeout, TN_MS(1250));
    CHECK_EQ_I64(plan.backoff, TN_US(312500));
    CHECK_EQ_I64(plan.grace, TN_SEC(3));
    CHECK_EQ_I64(plan.kill_bound, TN_MS(750));
    CHECK_EQ_I64(plan.poll_every, TN_SEC(5));
    CHECK_EQ_U64(plan.rho_holder_ppm, 100000);
    CHECK_EQ_U64(plan.rho_store_ppm, 100000);

    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    CHECK_EQ_I64(answer.valid_for, INT64_C(12272727272)); /* 15 s * 0.9 / 1.1, cut off. */
    CHECK_EQ_I64(answer.margin, INT64_C(2727272728));
    CHECK_EQ_I64(answer.margin_least, answer.margin);
    CHECK_EQ_I64(answer.kill_at, INT64_C(11522727272));
    CHECK_EQ_I64(answer.stop_at, INT64_C(8522727272));
    CHECK_EQ_I64(answer.p1_left, INT64_C(13636363636));
    CHECK_EQ_I64(answer.p1_right, INT64_C(13636363636));
    CHECK_EQ_I64(answer.p8_left, TN_US(6662500));
    CHECK_EQ_I64(answer.p8_right, answer.stop_at);
    CHECK_EQ_I64(answer.tolerated, 2);
}

TEST(defaults_are_safe_for_every_ttl)
{
    struct tn_prng prng;
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_prng_seed(&prng, 1);
    for (int i = 0; i < ROUNDS; i++) {
        tn_plan_init(&plan, tn_prng_range(&prng, TN_TTL_MIN, i % 2 ? TN_SEC(60) : TN_TTL_MAX));
        CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    }
    tn_plan_init(&plan, TN_TTL_MIN);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    tn_plan_init(&plan, TN_TTL_MAX);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
}

TEST(init_refuses_a_ttl_out_of_range)
{
    struct tn_plan plan;

    CHECK_ASSERTS(tn_plan_init(&plan, TN_TTL_MIN - 1));
    CHECK_ASSERTS(tn_plan_init(&plan, TN_TTL_MAX + 1));
    tn_plan_init(&plan, TN_TTL_MIN);
    CHECK_ASSERTS(tn_plan_turn(&plan, TN_KNOB_COUNT, 1));
    CHECK_ASSERTS(tn_plan_turn(&plan, TN_KNOB_GRACE, -1));
    CHECK_ASSERTS(tn_plan_turn(&plan, TN_KNOB_RHO, TN_PPM));
    CHECK_ASSERTS((void)tn_plan_knob(&plan, TN_KNOB_COUNT));
}

TEST(a_turned_knob_stays_and_the_others_follow_the_ttl)
{
    struct tn_plan plan;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_turn(&plan, TN_KNOB_RENEW, TN_SEC(4));
    tn_plan_turn(&plan, TN_KNOB_TTL, TN_SEC(60));
    CHECK_EQ_I64(plan.renew_every, TN_SEC(4));
    CHECK_EQ_I64(plan.attempt_timeout, TN_SEC(1));
    CHECK_EQ_I64(plan.backoff, TN_MS(250));
    CHECK_EQ_I64(plan.grace, TN_SEC(5));
    CHECK_EQ_I64(plan.kill_bound, TN_SEC(1));
    CHECK_EQ_I64(plan.poll_every, TN_SEC(20));

    /* A slow network lengthens the attempts. */
    tn_plan_turn(&plan, TN_KNOB_RTT, TN_SEC(2));
    CHECK_EQ_I64(plan.attempt_timeout, TN_SEC(2));
    CHECK_EQ_I64(plan.fence_raise, TN_SEC(2));

    for (enum tn_plan_knob knob = 0; knob < TN_KNOB_COUNT; knob++) {
        tn_plan_turn(&plan, knob, 1000 + (int64_t)knob);
        CHECK_EQ_I64(tn_plan_knob(&plan, knob), 1000 + (int64_t)knob);
    }
}

TEST(p1_is_exact_and_as_tight_as_a_nanosecond_allows)
{
    struct tn_prng prng;

    tn_prng_seed(&prng, 2);
    for (int i = 0; i < ROUNDS; i++) {
        struct tn_plan plan = random_plan(&prng);
        plan.slack = tn_prng_range(&prng, 0, plan.ttl / 8);
        tenure_ns valid_for = tn_plan_valid_for(&plan, plan.ttl);
        CHECK(valid_for >= 0);
        CHECK(valid_for <= plan.ttl);
        /* Nothing left is no term at all, and breaks nothing. */
        if (valid_for > 0)
            CHECK(p1_exact(&plan, plan.ttl, valid_for));
        /* Rounding gives away no more than two nanoseconds. */
        CHECK(!p1_exact(&plan, plan.ttl, valid_for + 2));
    }
}

TEST(slack_shortens_the_deadline)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    plan.slack = TN_SEC(1);
    CHECK_EQ_I64(tn_plan_valid_for(&plan, plan.ttl), INT64_C(11272727272));
    plan.slack = TN_SEC(14);
    CHECK_EQ_I64(tn_plan_valid_for(&plan, plan.ttl), 0);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P8);
    CHECK_EQ_I64(answer.margin_least, plan.ttl);
}

TEST(p8_is_exact)
{
    struct tn_prng prng;
    unsigned safe = 0;

    tn_prng_seed(&prng, 3);
    for (int i = 0; i < ROUNDS; i++) {
        struct tn_plan plan = random_plan(&prng);
        struct tn_plan_answer answer;
        enum tn_plan_verdict verdict = tn_plan_judge(&plan, &answer);
        tenure_ns attempt = plan.attempt_timeout + plan.backoff;
        tenure_ns right = answer.valid_for - plan.kill_bound - plan.grace;
        tenure_ns left = plan.renew_every + plan.pause;

        CHECK_EQ_I64(answer.p8_left, left + attempt);
        CHECK_EQ_I64(answer.p8_right, right);
        CHECK_EQ_I64(answer.kill_at - answer.stop_at, plan.grace);
        CHECK_EQ_I64(answer.valid_for - answer.kill_at, plan.kill_bound);
        CHECK((verdict == TN_PLAN_SAFE) == (answer.p8_left <= answer.p8_right));
        CHECK((answer.tolerated >= 1) == (answer.p8_left <= answer.p8_right));
        if (verdict != TN_PLAN_SAFE)
            continue;
        safe++;
        /* k failures fit, k + 1 do not. */
        CHECK((wide)answer.tolerated * attempt + left <= right);
        CHECK((wide)(answer.tolerated + 1) * attempt + left > right);
    }
    /* Neither verdict is rare, or the loop above has proved little. */
    CHECK(safe > ROUNDS / 10);
    CHECK(safe < ROUNDS / 10 * 9);
}

TEST(p8_holds_with_equality)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_judge(&plan, &answer);
    tn_plan_turn(&plan, TN_KNOB_PAUSE, plan.pause + answer.p8_right - answer.p8_left);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    CHECK_EQ_I64(answer.tolerated, 1);
    tn_plan_turn(&plan, TN_KNOB_PAUSE, plan.pause + 1);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P8);
    CHECK_EQ_I64(answer.tolerated, 0);
}

TEST(an_insisted_margin_can_break_p1)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_turn(&plan, TN_KNOB_MARGIN, INT64_C(2727272728));
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    CHECK_EQ_I64(answer.valid_for, INT64_C(12272727272));
    tn_plan_turn(&plan, TN_KNOB_MARGIN, INT64_C(2727272727));
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P1);
    CHECK_EQ_I64(answer.valid_for, INT64_C(12272727273));
    CHECK_EQ_I64(answer.margin_least, INT64_C(2727272728));
    /* More margin than TTL leaves nothing, which is safe and useless. */
    tn_plan_turn(&plan, TN_KNOB_MARGIN, TN_SEC(20));
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P8);
    CHECK_EQ_I64(answer.valid_for, 0);
}

TEST(deadline_moves_the_right_way_with_every_knob)
{
    struct tn_prng prng;

    tn_prng_seed(&prng, 4);
    for (int i = 0; i < ROUNDS; i++) {
        struct tn_plan plan = random_plan(&prng);
        struct tn_plan other = plan;
        tenure_ns ttl = random_span(&prng, 1, TN_TTL_MAX - 1);
        tenure_ns now = tn_plan_valid_for(&plan, ttl);

        CHECK(tn_plan_valid_for(&plan, ttl + 1) >= now);
        if (plan.rho_holder_ppm > 0) {
            tn_plan_turn(&other, TN_KNOB_RHO, plan.rho_holder_ppm - 1);
            CHECK(tn_plan_valid_for(&other, ttl) >= now);
        }
        other = plan;
        other.slack++;
        CHECK(tn_plan_valid_for(&other, ttl) <= now);
    }
}

TEST(observer_waits_the_whole_ttl)
{
    CHECK_EQ_I64(tn_plan_observe_for(TN_SEC(15)), TN_SEC(15));
}

TEST(crash_bound_adds_up)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    plan.slop = TN_SEC(3);
    tn_plan_judge(&plan, &answer);
    /* (15 + 3) / 0.9 + 5 * 1.1 / 0.9, each rounded up, + 2 * 0.1 + 0.1 */
    CHECK_EQ_I64(answer.failover_crash_real, TN_SEC(20) + INT64_C(6111111112) + TN_MS(300));
}

TEST(timing_follows_the_granted_ttl)
{
    struct tn_plan plan;
    struct tn_timing timing;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_timing(&plan, TN_SEC(15), &timing);
    CHECK_EQ_I64(timing.ttl, TN_SEC(15));
    CHECK_EQ_I64(timing.valid_for, INT64_C(12272727272));
    CHECK_EQ_I64(timing.renew_every, TN_SEC(5));
    CHECK_EQ_I64(timing.attempt_timeout, TN_MS(1250));
    CHECK_EQ_I64(timing.backoff, TN_US(312500));
    CHECK_EQ_U64(timing.jitter_ppm, plan.jitter_ppm);

    /* Shorter, then longer than asked for. */
    tn_plan_timing(&plan, TN_SEC(6), &timing);
    CHECK_EQ_I64(timing.ttl, TN_SEC(6));
    CHECK_EQ_I64(timing.valid_for, INT64_C(4909090908));
    CHECK_EQ_I64(timing.renew_every, TN_SEC(2));
    CHECK_EQ_I64(timing.attempt_timeout, TN_MS(500));
    tn_plan_timing(&plan, TN_SEC(60), &timing);
    CHECK_EQ_I64(timing.renew_every, TN_SEC(20));

    /* A chosen interval stays while it fits, and gives way to a TTL cut short. */
    tn_plan_turn(&plan, TN_KNOB_RENEW, TN_SEC(4));
    tn_plan_timing(&plan, TN_SEC(12), &timing);
    CHECK_EQ_I64(timing.renew_every, TN_SEC(4));
    tn_plan_timing(&plan, TN_SEC(6), &timing);
    CHECK_EQ_I64(timing.renew_every, TN_SEC(2));
    CHECK_ASSERTS(tn_plan_timing(&plan, 0, &timing));
}

TEST(p1_numbers_agree_with_the_verdict)
{
    struct tn_prng prng;

    tn_prng_seed(&prng, 5);
    for (int i = 0; i < ROUNDS; i++) {
        struct tn_plan plan = random_plan(&prng);
        struct tn_plan_answer answer;

        tn_plan_judge(&plan, &answer);
        /* Half of the plans insist on a margin next to the least one. */
        if (tn_prng_ppm(&prng, TN_PPM / 2)) {
            tenure_ns margin = answer.margin_least + tn_prng_range(&prng, -2, 2);
            tn_plan_turn(&plan, TN_KNOB_MARGIN, max64(margin, 0));
        }
        bool breaks = tn_plan_judge(&plan, &answer) == TN_PLAN_BREAKS_P1;
        CHECK_EQ_I64(breaks, answer.p1_left > answer.p1_right);
        CHECK_EQ_I64(breaks, answer.margin < answer.margin_least);
    }
}

TEST(wild_clocks_do_not_overflow_the_bounds)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_TTL_MAX);
    tn_plan_turn(&plan, TN_KNOB_RHO, TN_PPM - 10);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P8);
    CHECK_EQ_I64(answer.failover_crash_real, TN_NEVER); /* Each term fits, their sum does not. */
    tn_plan_turn(&plan, TN_KNOB_RHO, TN_PPM - 1);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P8);
    CHECK_EQ_I64(answer.failover_crash_real, TN_NEVER);
    tn_plan_turn(&plan, TN_KNOB_MARGIN, 0);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P1);
    CHECK_EQ_I64(answer.p1_left, TN_NEVER);
    CHECK(answer.p1_right < TN_NEVER);
}

TEST(an_attempt_takes_time)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_turn(&plan, TN_KNOB_RTT, 0);
    tn_plan_turn(&plan, TN_KNOB_RENEW, 3);
    CHECK_EQ_I64(plan.attempt_timeout, 1);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    CHECK(answer.p8_left <= answer.p8_right);
}

TEST(a_margin_never_lengthens_the_deadline_past_p1)
{
    struct tn_prng prng;
    struct tn_plan plan;
    struct tn_timing timing;

    /* Enough for the TTL asked for; the store grants four times that (etcd has a least TTL). */
    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_turn(&plan, TN_KNOB_MARGIN, TN_SEC(3));
    tn_plan_timing(&plan, TN_SEC(15), &timing);
    CHECK_EQ_I64(timing.valid_for, TN_SEC(12));
    tn_plan_timing(&plan, TN_SEC(60), &timing);
    CHECK_EQ_I64(timing.valid_for, INT64_C(49090909090));
    /* And a shorter one keeps the margin, up to all of it. */
    tn_plan_timing(&plan, TN_SEC(6), &timing);
    CHECK_EQ_I64(timing.valid_for, TN_SEC(3));
    tn_plan_timing(&plan, TN_SEC(2), &timing);
    CHECK_EQ_I64(timing.valid_for, 0);

    tn_prng_seed(&prng, 6);
    for (int i = 0; i < ROUNDS; i++) {
        tenure_ns granted = random_span(&prng, 1, TN_TTL_MAX);
        plan = random_plan(&prng);
        tn_plan_turn(&plan, TN_KNOB_MARGIN, random_span(&prng, 0, plan.ttl));
        tn_plan_timing(&plan, granted, &timing);
        CHECK(p1_exact(&plan, granted, timing.valid_for));
        CHECK(timing.valid_for <= max64(granted - plan.margin, 0));
    }
}

TEST(a_chosen_interval_is_kept_unless_the_ttl_is_cut_short)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;
    struct tn_timing timing;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_turn(&plan, TN_KNOB_GRACE, TN_SEC(1));
    tn_plan_turn(&plan, TN_KNOB_RENEW, TN_SEC(6));
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    tn_plan_timing(&plan, TN_SEC(15), &timing);
    CHECK_EQ_I64(timing.renew_every, TN_SEC(6));
    tn_plan_timing(&plan, TN_SEC(16), &timing);
    CHECK_EQ_I64(timing.renew_every, TN_SEC(6));
    tn_plan_timing(&plan, TN_SEC(15) - 3, &timing);
    CHECK_EQ_I64(timing.renew_every, TN_SEC(5) - 1);
}

static bool safe_at(const struct tn_plan *plan, enum tn_plan_knob knob, int64_t value)
{
    struct tn_plan turned = *plan;
    struct tn_plan_answer answer;

    tn_plan_turn(&turned, knob, value);
    return tn_plan_judge(&turned, &answer) == TN_PLAN_SAFE;
}

/* The ends of the range in which a knob is looked for. */
static int64_t lowest(enum tn_plan_knob knob)
{
    return knob == TN_KNOB_TTL ? TN_TTL_MIN : knob == TN_KNOB_RENEW ? TN_MS(1) : 0;
}

static int64_t highest(const struct tn_plan *plan, enum tn_plan_knob knob)
{
    if (knob == TN_KNOB_RHO)
        return TN_PPM - 1;
    return knob == TN_KNOB_TTL ? TN_TTL_MAX : plan->ttl;
}

/* Whether @value is the nearest that helps: one unit short of it does not, nor does anything drawn
 * from in between. */
static bool is_nearest(const struct tn_plan *plan, enum tn_plan_knob knob, int64_t value,
                       struct tn_prng *prng)
{
    int64_t unit = knob == TN_KNOB_RHO ? 1000 : TN_MS(1);
    int64_t present = tn_plan_knob(plan, knob);
    bool up = value > present;
    int64_t near = up                       ? max64(value - unit, present)
                   : value + unit < present ? value + unit
                                            : present;

    if (value % unit != 0 || value == present || !safe_at(plan, knob, value))
        return false;
    if (safe_at(plan, knob, near))
        return false;
    for (int i = 0; i < 20; i++) {
        int64_t middle =
            up ? tn_prng_range(prng, present, near) : tn_prng_range(prng, near, present);
        if (safe_at(plan, knob, middle))
            return false;
    }
    return true;
}

/* Whether any value helps, by drawing some, rough and fine. */
static bool any_helps(const struct tn_plan *plan, enum tn_plan_knob knob, struct tn_prng *prng)
{
    int64_t unit = knob == TN_KNOB_RHO ? 1000 : TN_MS(1);
    for (int i = 0; i < 100; i++) {
        int64_t top = i % 2 ? highest(plan, knob) : tn_plan_knob(plan, knob);
        int64_t value = tn_prng_range(prng, lowest(knob), max64(top, lowest(knob)));
        value = max64(value / unit * unit, lowest(knob));
        if (safe_at(plan, knob, value))
            return true;
    }
    return false;
}

TEST(mend_is_safe_and_nearest)
{
    struct tn_prng prng;
    unsigned mended[TN_KNOB_COUNT] = { 0 };

    tn_prng_seed(&prng, 7);
    for (int i = 0; i < ROUNDS / 4; i++) {
        struct tn_plan plan = random_plan(&prng);
        struct tn_plan_answer answer;

        tn_plan_judge(&plan, &answer);
        if (tn_prng_ppm(&prng, TN_PPM / 2)) {
            tenure_ns most = tn_prng_ppm(&prng, TN_PPM / 2) ? plan.ttl : answer.margin_least;
            tn_plan_turn(&plan, TN_KNOB_MARGIN, random_span(&prng, most / 2, most));
        }
        if (tn_plan_judge(&plan, &answer) == TN_PLAN_SAFE)
            continue;
        for (enum tn_plan_knob knob = 0; knob < TN_KNOB_COUNT; knob++) {
            int64_t value = -7;
            if (knob == TN_KNOB_MARGIN && plan.margin < 0)
                continue;
            if (tn_plan_mend(&plan, knob, &value)) {
                mended[knob]++;
                CHECK(is_nearest(&plan, knob, value, &prng));
            } else {
                CHECK_EQ_I64(value, -7);
                CHECK(!any_helps(&plan, knob, &prng));
            }
        }
    }
    for (enum tn_plan_knob knob = 0; knob < TN_KNOB_COUNT; knob++)
        CHECK(mended[knob] > 10);
}

TEST(mend_of_a_safe_plan_changes_nothing)
{
    struct tn_plan plan;
    int64_t value = 0;

    tn_plan_init(&plan, TN_SEC(15) + 7);
    for (enum tn_plan_knob knob = 0; knob < TN_KNOB_MARGIN; knob++) {
        CHECK(tn_plan_mend(&plan, knob, &value));
        CHECK_EQ_I64(value, tn_plan_knob(&plan, knob));
    }
}

TEST(mend_moves_a_margin_both_ways_and_shortens_a_ttl)
{
    struct tn_plan plan;
    int64_t value = 0;

    /* Too small for P1: more margin, or less TTL for the same margin. */
    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_turn(&plan, TN_KNOB_MARGIN, TN_SEC(2));
    CHECK(tn_plan_mend(&plan, TN_KNOB_MARGIN, &value));
    CHECK_EQ_I64(value, TN_MS(2728));
    CHECK(tn_plan_mend(&plan, TN_KNOB_TTL, &value));
    CHECK_EQ_I64(value, TN_SEC(11));
    CHECK(!tn_plan_mend(&plan, TN_KNOB_RENEW, &value));
    CHECK(!tn_plan_mend(&plan, TN_KNOB_GRACE, &value));

    /* Too large for P8: less margin, or more TTL. */
    tn_plan_turn(&plan, TN_KNOB_MARGIN, TN_SEC(10));
    CHECK(tn_plan_mend(&plan, TN_KNOB_MARGIN, &value));
    CHECK_EQ_I64(value, TN_MS(4587));
    CHECK(tn_plan_mend(&plan, TN_KNOB_TTL, &value));

    /* Nothing to be had: the work takes longer to stop than any deadline of this TTL. */
    tn_plan_turn(&plan, TN_KNOB_GRACE, TN_SEC(14));
    CHECK(!tn_plan_mend(&plan, TN_KNOB_MARGIN, &value));
    CHECK(!tn_plan_mend(&plan, TN_KNOB_RENEW, &value));
}

TEST(resign_bound_counts_a_kill_on_a_slow_clock)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;

    tn_plan_init(&plan, TN_SEC(15));
    tn_plan_judge(&plan, &answer);
    /* (3 + 0.75) / 0.9, rounded up, + 3 * 0.1 + 0.1 */
    CHECK_EQ_I64(answer.failover_resign, INT64_C(4166666667) + TN_MS(400));
    tn_plan_init(&plan, TN_TTL_MAX);
    tn_plan_turn(&plan, TN_KNOB_GRACE, TN_TTL_MAX);
    tn_plan_turn(&plan, TN_KNOB_RHO, TN_PPM - 1);
    tn_plan_judge(&plan, &answer);
    CHECK_EQ_I64(answer.failover_resign, TN_NEVER);
}

/* A session that ends early, as with the node of its Consul agent, frees its names after the
 * lock-delay, however long its TTL is. */
TEST(no_deadline_counts_with_more_than_the_lock_delay)
{
    struct tn_plan plan;
    struct tn_plan_answer answer;
    int64_t value;

    tn_plan_init(&plan, TN_SEC(120));
    tenure_ns alone = tn_plan_valid_for(&plan, TN_SEC(120));
    plan.delay_most = TN_SEC(60);
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P1);
    CHECK(answer.p1_left > answer.p1_right);
    CHECK(tn_plan_valid_for(&plan, TN_SEC(120)) < alone);
    CHECK_EQ_I64(tn_plan_valid_for(&plan, TN_SEC(120)), tn_plan_valid_for(&plan, TN_SEC(60)));
    CHECK(tn_plan_mend(&plan, TN_KNOB_TTL, &value));
    CHECK_EQ_I64(value, TN_SEC(60));
    tn_plan_turn(&plan, TN_KNOB_TTL, TN_SEC(60));
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_SAFE);
    plan.hold_off = TN_SEC(5); /* The lock-delay has no room for it. */
    CHECK_EQ_I64(tn_plan_judge(&plan, &answer), TN_PLAN_BREAKS_P1);
}
