/* fleet_run.c - a fleet is made, starts, is counted, and ends.
 *
 * All hosts start within one TTL, each with its processes within a second. When every name is led
 * and another TTL of each level is over, the counting begins. */
#include <stdlib.h>

#include "base/assert.h"
#include "sim/fleet_world.h"

/* --- Making it -------------------------------------------------------------------------------- */

/* As runtime/driver.c has it with a store that queues and tells. */
#define QUEUE_POLL TN_SEC(600)

void sim_fleet_plan(tenure_ns ttl, tenure_ns rtt, struct tn_plan *ret_plan)
{
    tenure_ns longest = rtt + rtt / 2;

    tn_plan_init(ret_plan, ttl);
    if (longest > ret_plan->rtt)
        tn_plan_turn(ret_plan, TN_KNOB_RTT, longest);
}

static void make_plan(const struct fleet *fleet, tenure_ns ttl, struct tn_plan *ret_plan,
                      struct tn_claim_config *ret_claim)
{
    sim_fleet_plan(ttl, fleet->config.rtt, ret_plan);
    *ret_claim = (struct tn_claim_config) { .attempt_timeout = ret_plan->attempt_timeout,
                                            .backoff = ret_plan->backoff,
                                            .poll_every = ret_plan->poll_every,
                                            .queue_poll = QUEUE_POLL,
                                            .drain_timeout = ret_plan->grace,
                                            .raise_timeout = ret_plan->fence_raise,
                                            .notes = { .settle = TN_MS(1), .back = TN_MS(1) },
                                            .jitter_ppm = ret_plan->jitter_ppm };
}

/* Clocks as NTP keeps them. */
static struct sim_clock pick_clock(struct fleet *fleet)
{
    return (
        struct sim_clock) { .local_from = tn_prng_range(&fleet->prng, TN_SEC(1), TN_SEC(100000)),
                            .rate_ppm = tn_prng_range(&fleet->prng, TN_PPM - 100, TN_PPM + 100) };
}

static struct tn_table *open_table(struct fleet *fleet, struct tn_table_limits *limits)
{
    limits->text_bytes = 4096 + 32 * limits->leases;
    limits->hash_key = (struct tn_hash_key) { fleet->config.seed, 1 };
    void *block = calloc(1, tn_table_size(limits));
    return block != NULL ? tn_table_init(block, limits) : NULL;
}

static bool open_host(struct fleet *fleet, uint32_t index)
{
    uint32_t processes = fleet->config.processes;
    struct fleet_host *host = &fleet->hosts[index];
    struct tn_table_limits limits = { .sessions = 4 * processes + 16,
                                      .leases = processes + 1,
                                      .waiters = 4 * processes + 16,
                                      .upstream = true };

    host->clock = pick_clock(fleet);
    fleet->parties[index] =
        (struct fleet_party) { .fleet = fleet, .host = index, .is_agent = true };
    for (uint32_t i = 0; i < processes; i++)
        *sim_fleet_process(fleet, index, i) = (struct fleet_party) {
            .fleet = fleet, .host = index, .seats = &fleet->seats[index * processes + i]
        };
    if (!fleet->config.agents)
        return true;
    fleet->parties[index].seats = &fleet->seats[(fleet->config.hosts + index) * processes];
    host->names = &fleet->agent_names[index * processes];
    host->table = open_table(fleet, &limits);
    return host->table != NULL;
}

static bool open_fleet(struct fleet *fleet)
{
    const struct sim_fleet_config *config = &fleet->config;
    uint32_t all = config->hosts * config->processes;
    struct tn_table_limits limits = { .sessions = 4 * all + 64, .waiters = 4 * all + 64 };

    fleet->party_count = config->hosts + all;
    fleet->name_count = (all + config->candidates - 1) / config->candidates;
    fleet->unled = fleet->result->names = fleet->name_count;
    limits.leases = fleet->name_count + 1;
    fleet->parties = calloc(fleet->party_count, sizeof *fleet->parties);
    fleet->hosts = calloc(config->hosts, sizeof *fleet->hosts);
    fleet->names = calloc(fleet->name_count, sizeof *fleet->names);
    fleet->seats = calloc(config->agents ? 2 * (size_t)all : all, sizeof *fleet->seats);
    fleet->agent_names = calloc(all, sizeof *fleet->agent_names);
    fleet->store = open_table(fleet, &limits);
    if (fleet->parties == NULL || fleet->hosts == NULL || fleet->names == NULL ||
        fleet->seats == NULL || fleet->agent_names == NULL || fleet->store == NULL)
        return false;
    fleet->store_clock = pick_clock(fleet);
    fleet->store_timer_at = TN_NEVER;
    make_plan(fleet, config->ttl, &fleet->plan, &fleet->claim);
    make_plan(fleet, config->upstream_ttl, &fleet->agent_plan, &fleet->agent_claim);
    for (uint32_t i = 0; i < config->hosts; i++)
        if (!open_host(fleet, i))
            return false;
    return true;
}

static void close_fleet(struct fleet *fleet)
{
    for (uint32_t i = 0; fleet->hosts != NULL && i < fleet->config.hosts; i++)
        free(fleet->hosts[i].table);
    free(fleet->store);
    free(fleet->agent_names);
    free(fleet->seats);
    free(fleet->names);
    free(fleet->hosts);
    free(fleet->parties);
    free(fleet->dues);
    free(fleet->messages);
    free(fleet->spare);
    free(fleet->news);
    free(fleet->samples);
}

/* --- Its life --------------------------------------------------------------------------------- */

static tenure_ns longer(tenure_ns a, tenure_ns b)
{
    return a > b ? a : b;
}

/* P7, with a process that has to be started again first, when no other one wants the name. */
static tenure_ns failover_bound(const struct fleet *fleet)
{
    struct tn_plan_answer local, agent = { 0 };

    (void)tn_plan_judge(&fleet->plan, &local);
    if (fleet->config.agents)
        (void)tn_plan_judge(&fleet->agent_plan, &agent);
    return longer(local.failover_crash_real, agent.failover_crash_real) + SIM_FLEET_RESTART;
}

/* Up to @until, or until every name is led and nobody is dead. */
static bool run_until_led(struct fleet *fleet, tenure_ns until)
{
    while ((fleet->unled > 0 || fleet->dead > 0) && fleet->now < until)
        if (!sim_fleet_to(fleet, fleet->now + TN_MS(1)))
            return false;
    if (fleet->unled > 0 || fleet->dead > 0)
        sim_fleet_broken(fleet, "P7", "%u names are led by nobody", fleet->unled + fleet->dead);
    return fleet->result->promise == NULL;
}

static void count_in(struct fleet *fleet, struct sim_fleet_load *store,
                     struct sim_fleet_load *local)
{
    fleet->store_load = store;
    fleet->local_load = local;
    fleet->in_second = 0;
}

static void start_host(struct fleet *fleet, uint32_t host)
{
    tenure_ns at = fleet->now + tn_prng_range(&fleet->prng, 0, fleet->config.ttl);

    if (fleet->config.agents)
        sim_fleet_at(fleet, at, FLEET_BOOT, host, 0);
    for (uint32_t i = 0; i < fleet->config.processes; i++) {
        const struct fleet_party *process = sim_fleet_process(fleet, host, i);
        sim_fleet_at(fleet, at + tn_prng_range(&fleet->prng, 0, TN_SEC(1)), FLEET_BOOT,
                     (uint32_t)(process - fleet->parties), 0);
    }
}

static bool start_all(struct fleet *fleet)
{
    struct sim_fleet_result *result = fleet->result;

    count_in(fleet, &result->start, &fleet->uncounted);
    fleet->now = TN_SEC(1);
    for (uint32_t i = 0; i < fleet->config.hosts; i++)
        start_host(fleet, i);
    if (!run_until_led(fleet, fleet->now + fleet->config.ttl + TN_SEC(1) + failover_bound(fleet)))
        return false;
    result->led_after = result->start.span = fleet->now - TN_SEC(1);
    count_in(fleet, &fleet->uncounted, &fleet->uncounted); /* Until all are in line, too. */
    return sim_fleet_to(fleet, fleet->now + fleet->config.ttl +
                                   longer(fleet->config.ttl, fleet->config.upstream_ttl));
}

static bool count_span(struct fleet *fleet)
{
    const struct sim_fleet_config *config = &fleet->config;
    struct sim_fleet_result *result = fleet->result;
    struct tn_table_counts counts;

    tn_table_count(fleet->store, &counts);
    result->sessions = counts.sessions;
    count_in(fleet, &result->store, &result->local);
    result->store.span = result->local.span = config->span;
    fleet->crashing = config->crash_every > 0;
    if (fleet->crashing)
        sim_fleet_at(fleet, fleet->now + config->crash_every, FLEET_CRASH, 0, 0);
    if (!sim_fleet_to(fleet, fleet->now + config->span))
        return false;
    fleet->crashing = false;
    count_in(fleet, &fleet->uncounted, &fleet->uncounted);
    return run_until_led(fleet, fleet->now + failover_bound(fleet));
}

static int compare_spans(const void *a, const void *b)
{
    tenure_ns x = *(const tenure_ns *)a, y = *(const tenure_ns *)b;

    return (x > y) - (x < y);
}

static void sum_up(struct fleet *fleet)
{
    struct sim_fleet_result *result = fleet->result;
    uint32_t count = fleet->sample_count;

    result->failovers = count;
    if (count == 0)
        return;
    qsort(fleet->samples, count, sizeof *fleet->samples, compare_spans);
    result->failover_median = fleet->samples[(count - 1) / 2];
    result->failover_p99 = fleet->samples[(uint64_t)(count - 1) * 99 / 100];
    result->failover_most = fleet->samples[count - 1];
}

bool sim_fleet_run(const struct sim_fleet_config *config, struct sim_fleet_result *ret_result)
{
    struct fleet fleet = { .config = *config, .result = ret_result };

    TN_ASSERT(config->hosts > 0 && config->processes > 0 && config->candidates > 0);
    TN_ASSERT(config->candidates <= config->hosts);
    TN_ASSERT(config->processes <= SIM_FLEET_MOST / config->hosts);
    *ret_result = (struct sim_fleet_result) { 0 };
    tn_prng_seed(&fleet.prng, config->seed ^ 0x666c656574);
    if (open_fleet(&fleet) && start_all(&fleet))
        (void)count_span(&fleet);
    else
        fleet.no_memory = fleet.no_memory || ret_result->promise == NULL;
    sum_up(&fleet);
    close_fleet(&fleet);
    return !fleet.no_memory;
}
