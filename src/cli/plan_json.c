/* plan_json.c - `tenure plan --json`: one object on one line, integers wherever they are exact.
 *
 * Spans are nanoseconds ("_ns") and rates parts per million ("_ppm"), so that a program gets the
 * very numbers that were compared. A bound too long to count is 9223372036854775807. */
#include "cli/plan.h"

#include <inttypes.h>

static void print_span(const char *name, tenure_ns ns)
{
    printf("\"%s_ns\":%" PRId64 ",", name, ns);
}

static void print_inputs(const struct tn_plan *plan)
{
    print_span("ttl", plan->ttl);
    print_span("renew_every", plan->renew_every);
    print_span("attempt_timeout", plan->attempt_timeout);
    print_span("backoff", plan->backoff);
    print_span("rtt", plan->rtt);
    print_span("pause", plan->pause);
    print_span("grace", plan->grace);
    print_span("kill_bound", plan->kill_bound);
    print_span("poll_every", plan->poll_every);
    print_span("fence_raise", plan->fence_raise);
    print_span("late", tn_plan_late(plan));
    print_span("hold_off", plan->hold_off);
    print_span("asked", tn_plan_asked(plan));
    printf("\"rho_ppm\":%" PRIu32 ",\"jitter_ppm\":%" PRIu32 ",", plan->rho_holder_ppm,
           plan->jitter_ppm);
}

static void print_answer(const struct tn_plan_answer *answer)
{
    print_span("valid_for", answer->valid_for);
    print_span("margin", answer->margin);
    print_span("margin_least", answer->margin_least);
    print_span("stop_at", answer->stop_at);
    print_span("kill_at", answer->kill_at);
    print_span("p1_left", answer->p1_left);
    print_span("p1_right", answer->p1_right);
    print_span("p8_left", answer->p8_left);
    print_span("p8_right", answer->p8_right);
    printf("\"tolerated\":%" PRId64 ",", answer->tolerated);
    print_span("failover_crash", answer->failover_crash_real);
    print_span("failover_resign", answer->failover_resign);
}

void tn_plan_print_json(const struct tn_plan_report *report)
{
    static const char *const breaks[] = {
        [TN_PLAN_SAFE] = "null",
        [TN_PLAN_BREAKS_P1] = "\"P1\"",
        [TN_PLAN_BREAKS_P8] = "\"P8\"",
    };
    tenure_ns renew_every = report->plan.renew_every;

    printf("{\"safe\":%s,\"breaks\":%s,\"mend\":[",
           report->verdict == TN_PLAN_SAFE ? "true" : "false", breaks[report->verdict]);
    /* Options and values are our own words: nothing in them needs escaping. */
    for (size_t i = 0; i < report->change_count; i++)
        printf("%s{\"option\":\"%s\",\"value\":\"%s\"}", i > 0 ? "," : "",
               report->changes[i].option, report->changes[i].value);
    printf("],");
    print_inputs(&report->plan);
    print_answer(&report->answer);
    if (report->soft > 0) {
        print_span("soft_limit", report->soft);
        print_span("failover_soft", tn_plan_soft_failover(&report->plan, report->soft));
    }
    printf("\"processes\":%" PRIu64 ",\"leases\":%" PRIu64 ",", report->processes, report->leases);
    printf("\"load_shared_per_s\":%.3f,\"load_unshared_per_s\":%.3f",
           tn_plan_load(report->processes, renew_every),
           tn_plan_load(report->processes * report->leases, renew_every));
    if (report->hosts > 0)
        printf(",\"hosts\":%" PRIu64 ",\"load_agents_per_s\":%.3f", report->hosts,
               tn_plan_agents_load(report->hosts));
    puts("}");
}
