/* plan_advice.c - what to do when many processes, or many renewals, weigh on one store.
 *
 * Renewals are the one cost that never ends, so they decide how many processes a store can carry.
 * Three things help, cheapest first: share a session, renew less often, use more than one store. */
#include "cli/plan.h"

#include <inttypes.h>

/* Renewals per second that any store carries with ease: a tenth of what the slowest one measured
 * does on two cores (etcd and PostgreSQL renew about 10,000 a second there, ZooKeeper 40,000, Redis
 * 50,000). The rest is for elections, for watches, and for the hour when all come back at once. */
#define LOAD_EASY 1000.0

/* Sessions of one store beyond which memory and restarts are felt, however rarely they renew: etcd
 * and ZooKeeper hold 100,000 leases in 300 to 600 MiB. */
#define SESSIONS_EASY UINT64_C(100000)

/* TTLs that people choose. */
static const tenure_ns ladder[] = {
    TN_SEC(30),   TN_SEC(60),   TN_SEC(120),   TN_SEC(300),       TN_SEC(600),       TN_SEC(1800),
    TN_SEC(3600), TN_SEC(7200), TN_SEC(21600), TN_SEC(12 * 3600), TN_SEC(24 * 3600),
};

enum { LADDER = sizeof ladder / sizeof ladder[0], ROWS_MAX = 3 };

/* The plan with another TTL and the interval that goes with it; false unless that renews less often
 * and is safe. */
static bool relax(const struct tn_plan *plan, tenure_ns ttl, struct tn_plan *ret_relaxed,
                  struct tn_plan_answer *ret_answer)
{
    *ret_relaxed = *plan;
    tn_plan_turn(ret_relaxed, TN_KNOB_TTL, ttl);
    tn_plan_turn(ret_relaxed, TN_KNOB_RENEW, ttl / 3);
    return ret_relaxed->renew_every > plan->renew_every &&
           tn_plan_judge(ret_relaxed, ret_answer) == TN_PLAN_SAFE;
}

static void print_relaxed(const struct tn_plan *plan, const struct tn_plan_answer *answer,
                          double load, bool renew_is_set)
{
    char ttl[TN_DURATION_TEXT];
    char renew[TN_DURATION_TEXT];
    char failover[TN_DURATION_TEXT];
    char text[TN_LOAD_TEXT];
    /* Up to the next second; finer is noise here. */
    tenure_ns bound = answer->failover_crash_real / TN_SEC(1) * TN_SEC(1) + TN_SEC(1);

    tn_cli_duration(renew, plan->renew_every);
    printf("      --ttl %s%s%s: %s, failover within %s after a crash\n",
           tn_cli_duration(ttl, plan->ttl), renew_is_set ? " --renew " : "",
           renew_is_set ? renew : "", tn_plan_load_text(text, load),
           tn_cli_duration(failover, bound));
}

/* A few longer TTLs and what each buys, up to the first that makes the load easy. */
static void advise_ttl(const struct tn_plan_report *report)
{
    const struct tn_plan *plan = &report->plan;
    int rows = 0;

    /* The present TTL comes first: the interval alone may be too short for it. */
    for (size_t i = 0; i <= LADDER; i++) {
        tenure_ns ttl = i == 0 ? plan->ttl : ladder[i - 1];
        struct tn_plan relaxed;
        struct tn_plan_answer answer;

        if ((i > 0 && ttl <= plan->ttl) || !relax(plan, ttl, &relaxed, &answer))
            continue;
        double load = tn_plan_load(report->processes, relaxed.renew_every);
        bool easy = load <= LOAD_EASY;
        /* The first steps show the price; of the rest only the goal matters. */
        if (rows >= ROWS_MAX - 1 && !easy && i < LADDER)
            continue;
        if (rows++ == 0)
            printf("  - lengthen the TTL, if the failover may take that long:\n");
        print_relaxed(&relaxed, &answer, load, plan->set & 1U << TN_KNOB_RENEW);
        if (easy)
            break;
    }
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static void advise_shards(const struct tn_plan_report *report, double shared)
{
    uint64_t by_load = (uint64_t)(shared / LOAD_EASY) + 1;
    uint64_t shards = divide_up(report->processes, SESSIONS_EASY);
    char text[TN_LOAD_TEXT];

    if (shared <= LOAD_EASY * (double)(by_load - 1))
        by_load--;
    shards = by_load > shards ? by_load : shards;
    if (shards > report->processes)
        shards = report->processes;
    if (shards < 2) {
        printf(
            "  - shard by failure domain (rack, zone, region) before it grows further: one store\n"
            "      carries this, but its outage stops everyone\n");
        return;
    }
    printf("  - shard by failure domain (rack, zone, region): %" PRIu64 " stores with %" PRIu64
           " processes each\n      bear %s each, and the outage of one stops only its own\n",
           shards, divide_up(report->processes, shards),
           tn_plan_load_text(text, shared / (double)shards));
}

void tn_plan_print_advice(const struct tn_plan_report *report)
{
    tenure_ns renew_every = report->plan.renew_every;
    double shared = tn_plan_load(report->processes, renew_every);
    double unshared = tn_plan_load(report->processes * report->leases, renew_every);
    char text[2][TN_LOAD_TEXT];

    if (shared < LOAD_EASY && unshared < LOAD_EASY && report->processes < SESSIONS_EASY)
        return;
    printf("\n%sFrom %.0f renewals a second or %" PRIu64 " processes on; cheapest first:%s\n",
           tn_cli_colour(TN_YELLOW), LOAD_EASY, SESSIONS_EASY, tn_cli_colour(TN_PLAIN));
    if (report->leases > 1)
        printf("  - share one session per process: %s instead of %s\n",
               tn_plan_load_text(text[0], shared), tn_plan_load_text(text[1], unshared));
    else
        printf("  - share one session per process: more leases then cost no more renewals\n");
    if (report->hosts > 0)
        printf("  - run an agent on each host (tenured --upstream): %s instead of %s\n",
               tn_plan_load_text(text[0], tn_plan_agents_load(report->hosts)),
               tn_plan_load_text(text[1], shared));
    else
        printf("  - run an agent on each host (tenured --upstream): one session a host; --hosts "
               "counts it\n      with 50 processes on each host: %s\n",
               tn_plan_load_text(text[0], tn_plan_agents_load(divide_up(report->processes, 50))));
    if (shared >= LOAD_EASY)
        advise_ttl(report);
    if (shared >= LOAD_EASY || report->processes >= SESSIONS_EASY)
        advise_shards(report, shared);
}
