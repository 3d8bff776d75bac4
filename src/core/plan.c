/* plan.c - the arithmetic of plan.h.
 *
 * Happy path: init, turn the knobs the user gave, judge. A plan that breaks an inequality is not an
 * error of this file: it is a verdict, with the numbers to print and, through mend, the smallest
 * change of one knob that makes it safe. */
#include "core/plan.h"

#include <stddef.h>

#include "base/assert.h"
#include "core/plant.h"

/* ns * num / den rounded down, without a product that overflows: den and num are at most
 * 2 * TN_PPM, so the remainder's product fits easily. Division of __int128 is avoided for
 * WebAssembly's sake. */
static tenure_ns scale_down(tenure_ns ns, int64_t num, int64_t den)
{
    TN_ASSERT(ns >= 0);
    TN_ASSERT(den > 0);
    return ns / den * num + ns % den * num / den;
}

/* The sum of two spans, or TN_NEVER: with rho close to 1 a bound exceeds what 64 bits can count. */
static tenure_ns sum(tenure_ns a, tenure_ns b)
{
    TN_ASSERT(a >= 0);
    TN_ASSERT(b >= 0);
    return a > TN_NEVER - b ? TN_NEVER : a + b;
}

static tenure_ns scale_up(tenure_ns ns, int64_t num, int64_t den)
{
    TN_ASSERT(ns >= 0);
    TN_ASSERT(den > 0);
    if (ns / den > TN_NEVER / num)
        return TN_NEVER;
    return sum(ns / den * num, (ns % den * num + den - 1) / den);
}

static tenure_ns least(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

static tenure_ns most(tenure_ns a, tenure_ns b)
{
    return a > b ? a : b;
}

static bool is_set(const struct tn_plan *plan, enum tn_plan_knob knob)
{
    return plan->set & 1U << knob;
}

/* Everything the caller did not set follows from the TTL. A third for R leaves room for two failed
 * attempts at the default rho; a fifth of grace keeps short TTLs usable. */
static void derive(struct tn_plan *plan)
{
    if (!is_set(plan, TN_KNOB_RENEW))
        plan->renew_every = plan->ttl / 3;
    if (!is_set(plan, TN_KNOB_GRACE))
        plan->grace = least(TN_SEC(5), plan->ttl / 5);
    plan->kill_bound = least(TN_SEC(1), plan->ttl / 20);
    plan->attempt_timeout = most(most(plan->renew_every / 4, plan->rtt), 1);
    plan->backoff = plan->attempt_timeout / 4;
    plan->poll_every = plan->ttl / 3;
    plan->fence_raise = plan->rtt;
}

void tn_plan_init(struct tn_plan *ret_plan, tenure_ns ttl)
{
    TN_ASSERT(ttl >= TN_TTL_MIN);
    TN_ASSERT(ttl <= TN_TTL_MAX);
    *ret_plan = (struct tn_plan) {
        .ttl = ttl,
        .rtt = TN_MS(100),
        .pause = TN_MS(100),
        .margin = -1,
        .rho_holder_ppm = TN_PPM / 10,
        .rho_store_ppm = TN_PPM / 10,
        .jitter_ppm = TN_PPM / 10,
    };
    derive(ret_plan);
}

void tn_plan_turn(struct tn_plan *plan, enum tn_plan_knob knob, int64_t value)
{
    TN_ASSERT(knob < TN_KNOB_COUNT);
    TN_ASSERT(value >= 0);
    plan->set |= 1U << knob;
    switch (knob) {
    case TN_KNOB_TTL:
        plan->ttl = value;
        break;
    case TN_KNOB_RENEW:
        plan->renew_every = value;
        break;
    case TN_KNOB_GRACE:
        plan->grace = value;
        break;
    case TN_KNOB_PAUSE:
        plan->pause = value;
        break;
    case TN_KNOB_RTT:
        plan->rtt = value;
        break;
    case TN_KNOB_MARGIN:
        plan->margin = value;
        break;
    case TN_KNOB_RHO:
    case TN_KNOB_COUNT:
    default:
        TN_ASSERT(value < TN_PPM);
        plan->rho_holder_ppm = (uint32_t)value;
        plan->rho_store_ppm = (uint32_t)value;
        break;
    }
    derive(plan);
}

int64_t tn_plan_knob(const struct tn_plan *plan, enum tn_plan_knob knob)
{
    const int64_t values[TN_KNOB_COUNT] = {
        [TN_KNOB_TTL] = plan->ttl,
        [TN_KNOB_RENEW] = plan->renew_every,
        [TN_KNOB_GRACE] = plan->grace,
        [TN_KNOB_PAUSE] = plan->pause,
        [TN_KNOB_RTT] = plan->rtt,
        [TN_KNOB_RHO] = plan->rho_holder_ppm,
        [TN_KNOB_MARGIN] = most(plan->margin, 0),
    };
    TN_ASSERT(knob < TN_KNOB_COUNT);
    return values[knob];
}

/* What the hold-off adds to the store's TTL, so that nothing of D is lost by it. */
static tenure_ns hold_off_asked(const struct tn_plan *plan)
{
    return scale_up(plan->hold_off, TN_PPM + (int64_t)plan->rho_store_ppm,
                    TN_PPM - (int64_t)plan->rho_holder_ppm);
}

tenure_ns tn_plan_asked(const struct tn_plan *plan)
{
    return sum(plan->ttl, hold_off_asked(plan));
}

/* The right side of P1: the shortest real time after which the store can give the lease away. */
static tenure_ns kept_for_least(const struct tn_plan *plan, tenure_ns ttl)
{
    return scale_down(ttl, TN_PPM, TN_PPM + (int64_t)plan->rho_store_ppm);
}

/* A session of an engine with a lock-delay may end early, with its node or by an operator. Its
 * names are then kept from others for the lock-delay alone, so no deadline may count with more. */
static tenure_ns kept_at_least(const struct tn_plan *plan, tenure_ns ttl)
{
    return plan->delay_most > 0 ? least(ttl, plan->delay_most) : ttl;
}

/* P1 solved for D. Rounding down and subtracting the slack both shorten D: the safe side. The two
 * roundings are those of the two sides of P1, so that the numbers shown agree with the verdict. */
static tenure_ns valid_for_most(const struct tn_plan *plan, tenure_ns ttl)
{
    if (TN_PLANT(NO_MARGIN))
        return ttl;
    return scale_down(kept_for_least(plan, ttl), TN_PPM - (int64_t)plan->rho_holder_ppm, TN_PPM) -
           plan->slack - (TN_PLANT(NO_HOLD_OFF) ? 0 : plan->hold_off);
}

/* A margin that was enough for the TTL asked for is not enough for a longer one that was granted,
 * so it can only shorten what P1 allows. */
tenure_ns tn_plan_valid_for(const struct tn_plan *plan, tenure_ns ttl)
{
    tenure_ns valid_for = valid_for_most(plan, kept_at_least(plan, ttl));
    if (plan->margin >= 0)
        valid_for = least(valid_for, ttl - hold_off_asked(plan) - plan->margin);
    return most(valid_for, 0);
}

/* The observer's clock may be the fast one and the holder's the slow one; the same bound as for a
 * store's own clock, so the record's TTL is enough. */
tenure_ns tn_plan_observe_for(tenure_ns ttl)
{
    return ttl;
}

tenure_ns tn_plan_late(const struct tn_plan *plan)
{
    tenure_ns asked = tn_plan_asked(plan);

    return plan->slop + (tenure_ns)plan->slop_ttls * asked + least(asked, plan->delay_most);
}

/* P7: the store may run slow, and so may the follower that polls and the holder that stops. Work
 * that ignores SIGTERM is killed, so stopping takes up to G + K. */
static void bound_failover(const struct tn_plan *plan, struct tn_plan_answer *answer)
{
    int64_t slowest_holder = TN_PPM - (int64_t)plan->rho_holder_ppm;
    int64_t slowest_store = TN_PPM - (int64_t)plan->rho_store_ppm;

    answer->expiry_real = scale_up(tn_plan_asked(plan) + tn_plan_late(plan), TN_PPM, slowest_store);
    answer->poll_real =
        scale_up(plan->poll_every, TN_PPM + (int64_t)plan->jitter_ppm, slowest_holder);
    answer->stop_real = scale_up(plan->grace + plan->kill_bound, TN_PPM, slowest_holder);
    answer->failover_crash_real =
        sum(sum(answer->expiry_real, answer->poll_real), 2 * plan->rtt + plan->fence_raise);
    answer->failover_resign = sum(answer->stop_real, 3 * plan->rtt + plan->fence_raise);
}

/* As in P8, but a renewal counts when it takes effect, and on the store's clock. */
tenure_ns tn_plan_soft_least(const struct tn_plan *plan)
{
    tenure_ns sent =
        scale_up(plan->renew_every + plan->attempt_timeout + plan->backoff + plan->pause, TN_PPM,
                 TN_PPM - (int64_t)plan->rho_holder_ppm);

    return scale_up(sum(sent, plan->rtt), TN_PPM + (int64_t)plan->rho_store_ppm, TN_PPM);
}

/* Whoever waits asks four times within the limit (claim.c). */
tenure_ns tn_plan_soft_failover(const struct tn_plan *plan, tenure_ns soft)
{
    tenure_ns silent = scale_up(soft, TN_PPM, TN_PPM - (int64_t)plan->rho_store_ppm);
    tenure_ns asked = scale_up(soft / 4, TN_PPM, TN_PPM - (int64_t)plan->rho_holder_ppm);

    return sum(sum(silent, asked), 2 * plan->rtt + plan->fence_raise);
}

enum tn_plan_verdict tn_plan_judge(const struct tn_plan *plan, struct tn_plan_answer *ret_answer)
{
    struct tn_plan_answer answer = { 0 };
    tenure_ns attempt = plan->attempt_timeout + plan->backoff;
    tenure_ns asked = tn_plan_asked(plan), kept = kept_at_least(plan, asked);
    tenure_ns best = most(valid_for_most(plan, kept), 0);

    TN_ASSERT(attempt > 0);
    /* What the margin or the TTL asks for, even if P1 forbids it: the verdict is about that. */
    answer.valid_for = plan->margin >= 0 ? most(plan->ttl - plan->margin, 0)
                                         : most(valid_for_most(plan, asked), 0);
    answer.margin = plan->ttl - answer.valid_for;
    answer.margin_least = plan->ttl - best;
    answer.kill_at = answer.valid_for - plan->kill_bound;
    answer.stop_at = answer.kill_at - plan->grace;
    answer.p1_left = scale_up(answer.valid_for + plan->slack + plan->hold_off, TN_PPM,
                              TN_PPM - (int64_t)plan->rho_holder_ppm);
    answer.p1_right = kept_for_least(plan, kept);
    answer.p8_left = plan->renew_every + attempt + plan->pause;
    answer.p8_right = answer.stop_at;
    if (answer.stop_at > plan->renew_every + plan->pause)
        answer.tolerated = (answer.stop_at - plan->renew_every - plan->pause) / attempt;
    bound_failover(plan, &answer);

    *ret_answer = answer;
    if (answer.valid_for > best)
        return TN_PLAN_BREAKS_P1;
    if (answer.tolerated < 1)
        return TN_PLAN_BREAKS_P8;
    return TN_PLAN_SAFE;
}

static enum tn_plan_verdict judge_with(const struct tn_plan *plan, enum tn_plan_knob knob,
                                       int64_t value, struct tn_plan_answer *ret_answer)
{
    struct tn_plan turned = *plan;
    tn_plan_turn(&turned, knob, value);
    return tn_plan_judge(&turned, ret_answer);
}

/* Whether the one inequality @broken holds with the knob at @value, whatever the other says. */
static bool holds_with(const struct tn_plan *plan, enum tn_plan_knob knob, int64_t value,
                       enum tn_plan_verdict broken)
{
    struct tn_plan_answer answer;
    enum tn_plan_verdict verdict = judge_with(plan, knob, value, &answer);
    return broken == TN_PLAN_BREAKS_P1 ? verdict != TN_PLAN_BREAKS_P1 : answer.tolerated >= 1;
}

/* How far the knob may go in the direction that helps against @broken. Less of everything helps,
 * with two exceptions: a longer TTL helps P8, but hurts P1 once a margin is insisted on; a larger
 * margin helps P1 and hurts P8. */
static int64_t mend_limit(const struct tn_plan *plan, enum tn_plan_knob knob,
                          enum tn_plan_verdict broken)
{
    if (knob == TN_KNOB_TTL)
        return broken == TN_PLAN_BREAKS_P8 ? TN_TTL_MAX : TN_TTL_MIN;
    if (knob == TN_KNOB_MARGIN)
        return broken == TN_PLAN_BREAKS_P1 ? plan->ttl : 0;
    return knob == TN_KNOB_RENEW ? TN_MS(1) : 0;
}

bool tn_plan_mend(const struct tn_plan *plan, enum tn_plan_knob knob, int64_t *ret_value)
{
    struct tn_plan_answer answer;
    enum tn_plan_verdict broken = tn_plan_judge(plan, &answer);
    int64_t present = tn_plan_knob(plan, knob);
    int64_t limit = mend_limit(plan, knob, broken);
    /* Whole milliseconds, or 1000 ppm of rho: people do not tune finer. */
    int64_t unit = knob == TN_KNOB_RHO ? TN_PPM / 1000 : TN_MS(1);
    int64_t good = limit / unit;
    /* Of the two whole units around the present value, the one that is no better than it. */
    int64_t bad = limit > present ? present / unit : (present + unit - 1) / unit;

    if (broken == TN_PLAN_SAFE) {
        *ret_value = present;
        return true;
    }
    if (!holds_with(plan, knob, good * unit, broken))
        return false;
    /* One inequality is monotone in each knob, so bisect between where it holds and where it does
     * not. For P8 and the TTL: R, To, b, K and G grow no faster than the TTL, and pause not at
     * all, so the share of the TTL that is left over only grows with it. */
    while (good - bad > 1 || bad - good > 1) {
        int64_t middle = bad + (good - bad) / 2;
        if (holds_with(plan, knob, middle * unit, broken))
            good = middle;
        else
            bad = middle;
    }
    /* Here the other inequality is as well off as it can be on this side. */
    if (judge_with(plan, knob, good * unit, &answer) != TN_PLAN_SAFE)
        return false;
    *ret_value = good * unit;
    return true;
}

void tn_plan_timing(const struct tn_plan *plan, tenure_ns ttl, struct tn_timing *ret_timing)
{
    struct tn_plan agreed = *plan;
    TN_ASSERT(ttl > 0);
    if (TN_PLANT(SHORT_GRANT))
        ttl = tn_plan_asked(plan);
    agreed.ttl = most(ttl - hold_off_asked(plan), 1); /* What is left to the term. */
    if (agreed.ttl < plan->ttl && agreed.renew_every > agreed.ttl / 3)
        agreed.set &= ~(1U << TN_KNOB_RENEW); /* The store cut the TTL short: renew faster. */
    derive(&agreed);
    *ret_timing = (struct tn_timing) {
        .ttl = ttl,
        .valid_for = tn_plan_valid_for(&agreed, ttl),
        .renew_every = agreed.renew_every,
        .attempt_timeout = agreed.attempt_timeout,
        .backoff = agreed.backoff,
        .jitter_ppm = agreed.jitter_ppm,
    };
}

tenure_ns tn_plan_jittered(struct tn_prng *prng, tenure_ns span, uint32_t jitter_ppm)
{
    tenure_ns most_off = scale_down(span, jitter_ppm, TN_PPM);
    TN_ASSERT(jitter_ppm <= TN_PPM);
    return span - tn_prng_range(prng, 0, most_off);
}
