/* plan.h - the arithmetic: every deadline and every bound of Tenure comes from this file.
 *
 * Clock model (docs/INVARIANTS.md): each clock runs within (1 - rho, 1 + rho) of real time. Offsets
 * and message delays are unbounded. From that alone follow two inequalities:
 *
 *   P1  (D + slack) / (1 - rho_holder)  <=  TTL / (1 + rho_store)
 *       left: the longest real time a holder can believe in one renewal; right: the shortest after
 *       which the store can give the lease away. No network term: D counts from the send.
 *   P8  R + k * (To + b) + pause  <=  D - K - G
 *       left: how late the (k+1)-th attempt can be; right: when the work must begin to stop.
 *
 * Integers only (nanoseconds and parts per million), so that every compiler gives the same answer.
 * Each rounding is to the safe side, and a bound too long to count is TN_NEVER. */
#ifndef TN_CORE_PLAN_H
#define TN_CORE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"

#define TN_PPM 1000000
#define TN_TTL_MIN TN_SEC(1)
#define TN_TTL_MAX TN_SEC(24 * 3600)

/* The inputs. tn_plan_init fills all from the TTL; callers then turn the knobs they know. */
struct tn_plan {
    tenure_ns ttl;
    tenure_ns renew_every;     /* R: the longest time between the sends of two renewals. */
    tenure_ns attempt_timeout; /* To: an unanswered attempt counts as failed after this. */
    tenure_ns backoff;         /* b: the longest pause before the next attempt. */
    tenure_ns rtt;             /* Network bound: request, store and reply together. */
    tenure_ns pause;           /* A process pause that must not cost the term. */
    tenure_ns grace;           /* G: from SIGTERM to SIGKILL, or the time to drain. */
    tenure_ns kill_bound;      /* K: from SIGKILL until the process tree is reaped. */
    tenure_ns slack;           /* What the store may expire early by, on its own clock. */
    tenure_ns slop;            /* What the store may expire late by, on its own clock; */
    uint32_t slop_ttls;        /* further whole TTLs of the same kind; */
    tenure_ns delay_most;      /* and one more TTL, but at most this long, of a lock-delay. P1: no
                                  deadline counts with a longer TTL. 0: no lock-delay. */
    tenure_ns hold_off;        /* G1: least real time between a deadline and the next grant. */
    tenure_ns poll_every;      /* Backstop poll of a follower whose wake-up got lost. */
    tenure_ns fence_raise;     /* Time to raise the fences before "won". */
    tenure_ns margin;          /* TTL - D when the caller insists on one; negative: derived. */
    uint32_t rho_holder_ppm;
    uint32_t rho_store_ppm;
    uint32_t jitter_ppm; /* Renewals come up to this share earlier than R, never later. */
    uint32_t set;        /* One bit per knob the caller has set; the others follow from the TTL. */
};

/* What follows from the inputs. */
struct tn_plan_answer {
    tenure_ns valid_for;    /* D: a renewal is good for this long after its send. */
    tenure_ns margin;       /* TTL - D. */
    tenure_ns margin_least; /* The smallest margin that keeps P1. */
    tenure_ns stop_at;      /* D - K - G: SIGTERM, or the request to drain. */
    tenure_ns kill_at;      /* D - K: SIGKILL. */
    tenure_ns p1_left, p1_right;
    tenure_ns p8_left, p8_right; /* With k = 1, the least that is accepted. */
    int64_t tolerated;           /* k: failed attempts that do not cost the term. */
    /* The parts of P7 that stretch with a slow clock, in real time. */
    tenure_ns expiry_real;         /* Until the store gives up on a silent session. */
    tenure_ns poll_real;           /* Until a follower whose wake-up got lost looks by itself. */
    tenure_ns stop_real;           /* Until the work has stopped: G + K. */
    tenure_ns failover_crash_real; /* P7, real time, after a crash. */
    tenure_ns failover_resign;     /* P7, real time, after a resign. */
};

enum tn_plan_verdict { TN_PLAN_SAFE, TN_PLAN_BREAKS_P1, TN_PLAN_BREAKS_P8 };

/* The one number a user may change to mend a plan. */
enum tn_plan_knob {
    TN_KNOB_TTL, /* In nanoseconds, but TN_KNOB_RHO in parts per million. */
    TN_KNOB_RENEW,
    TN_KNOB_GRACE,
    TN_KNOB_PAUSE,
    TN_KNOB_RTT,
    TN_KNOB_RHO,
    TN_KNOB_MARGIN,
    TN_KNOB_COUNT
};

/* What a session needs to run: the timing of one agreed TTL. */
struct tn_timing {
    tenure_ns ttl;
    tenure_ns valid_for;
    tenure_ns renew_every;
    tenure_ns attempt_timeout;
    tenure_ns backoff;
    uint32_t jitter_ppm;
};

/* Fill @ret_plan with the defaults for @ttl (TN_TTL_MIN to TN_TTL_MAX). */
void tn_plan_init(struct tn_plan *ret_plan, tenure_ns ttl);

/* Set one knob; what was never set is derived again. */
void tn_plan_turn(struct tn_plan *plan, enum tn_plan_knob knob, int64_t value);
int64_t tn_plan_knob(const struct tn_plan *plan, enum tn_plan_knob knob);

/* D for a TTL of the store: the one place from which every holder's deadline comes. Zero when
 * nothing is left; never longer than P1 allows, also with a margin that is too small for @ttl. */
tenure_ns tn_plan_valid_for(const struct tn_plan *plan, tenure_ns ttl);

/* How long an observer must see a record unchanged, on its own clock, before it may take over. */
tenure_ns tn_plan_observe_for(tenure_ns ttl);

/* The TTL to ask the store for: the plan's, and behind it room for the hold-off on whatever clock.
 * A session whose store agreed to it has the same D as without a hold-off. */
tenure_ns tn_plan_asked(const struct tn_plan *plan);

/* How much later than its TTL the store may give a silent session's leases away, in all. */
tenure_ns tn_plan_late(const struct tn_plan *plan);

/* F1: the shortest soft limit with which one failed renewal does not cost the term, on the store's
 * clock; and P7 with a soft limit, for a successor with the same fences. */
tenure_ns tn_plan_soft_least(const struct tn_plan *plan);
tenure_ns tn_plan_soft_failover(const struct tn_plan *plan, tenure_ns soft);

/* Judge the plan; @ret_answer is filled whatever the verdict. */
enum tn_plan_verdict tn_plan_judge(const struct tn_plan *plan, struct tn_plan_answer *ret_answer);

/* The value of @knob nearest to the present one with which the plan is safe, all else unchanged.
 * In nanoseconds, or ppm for TN_KNOB_RHO. False when no value of that knob helps. */
bool tn_plan_mend(const struct tn_plan *plan, enum tn_plan_knob knob, int64_t *ret_value);

/* @span, shortened at random by up to @jitter_ppm of it: earlier is always safe, later is not. */
tenure_ns tn_plan_jittered(struct tn_prng *prng, tenure_ns span, uint32_t jitter_ppm);

/* The timing for the TTL that the store agreed to, which may differ from tn_plan_asked. */
void tn_plan_timing(const struct tn_plan *plan, tenure_ns ttl, struct tn_timing *ret_timing);

#endif
