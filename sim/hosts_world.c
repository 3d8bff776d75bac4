/* hosts_world.c - a two-level world is made, lives and ends. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/hosts.h"

/* --- The queue -------------------------------------------------------------------------------- */

void sim_host_at(struct host_world *hosts, tenure_ns at, const struct host_event *event)
{
    TN_ASSERT(hosts->event_count < HOST_EVENTS);
    struct host_event *slot = &hosts->events[hosts->event_count++];
    *slot = *event;
    slot->at = at;
    slot->order = ++hosts->order;
}

static uint32_t find_first(const struct host_world *hosts)
{
    uint32_t first = 0;

    TN_ASSERT(hosts->event_count > 0);
    for (uint32_t i = 1; i < hosts->event_count; i++) {
        const struct host_event *event = &hosts->events[i];
        if (event->at < hosts->events[first].at ||
            (event->at == hosts->events[first].at && event->order < hosts->events[first].order))
            first = i;
    }
    return first;
}

tenure_ns sim_host_first_at(const struct host_world *hosts)
{
    return hosts->events[find_first(hosts)].at;
}

void sim_host_first(struct host_world *hosts, struct host_event *ret_event)
{
    uint32_t first = find_first(hosts);

    *ret_event = hosts->events[first];
    hosts->events[first] = hosts->events[--hosts->event_count];
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static void pick_plan(struct sim_world *world, tenure_ns ttl, tenure_ns delay, uint32_t rho,
                      struct tn_plan *ret_plan, struct tn_claim_config *ret_claim)
{
    (void)world;
    tn_plan_init(ret_plan, ttl);
    tn_plan_turn(ret_plan, TN_KNOB_RTT, 2 * delay + delay / 2);
    tn_plan_turn(ret_plan, TN_KNOB_PAUSE, ttl / 100);
    tn_plan_turn(ret_plan, TN_KNOB_RHO, rho);
    *ret_claim = (struct tn_claim_config) { .attempt_timeout = ret_plan->attempt_timeout,
                                            .backoff = ret_plan->backoff,
                                            .poll_every = ret_plan->poll_every,
                                            .drain_timeout = ret_plan->ttl,
                                            .raise_timeout = ret_plan->ttl / 2,
                                            .notes = { .settle = TN_MS(1), .back = TN_MS(1) },
                                            .jitter_ppm = ret_plan->jitter_ppm };
}

static struct sim_clock pick_clock(struct sim_world *world)
{
    return (struct sim_clock) { .real_from = world->now,
                                .local_from = sim_between(world, TN_SEC(1), TN_SEC(100000)),
                                .rate_ppm = sim_pick_rate(world) };
}

static void open_tables(struct host_world *hosts)
{
    struct tn_table_limits limits = { .sessions = 1024,
                                      .leases = HOST_NAMES + 1,
                                      .waiters = 256,
                                      .text_bytes = 65536,
                                      .hash_key = { hosts->world->seed, 2 } };

    for (uint32_t i = 0; i < hosts->store_count; i++) {
        memset(hosts->stores[i].block, 0, hosts->store_size);
        hosts->stores[i].table = tn_table_init(hosts->stores[i].block, &limits);
    }
}

/* --- A one-level world as the store ----------------------------------------------------------- */

static void told(void *arg, uint32_t node, uint32_t name, uint64_t token)
{
    struct host_world *hosts = arg;

    sim_host_news(hosts, sim_host_arm(hosts, node, 0), name,
                  token != 0 ? TN_AGENT_EV_WON : TN_AGENT_EV_LOST, token);
}

/* As a seed's, without what an agent has no part in: fences, work loops, operators' notes,
 * priorities; and without a memory that goes back, with which no promise holds. */
static void pick_config(struct host_world *hosts, struct sim_config *ret_config)
{
    struct sim_config *config = ret_config;

    do {
        sim_config_of_seed(tn_prng_next(&hosts->world->prng), config);
    } while (config->plan.ttl < TN_SEC(4) || config->nodes > 5 || config->names > 3);
    config->nodes = hosts->host_count;
    config->names = HOST_NAMES;
    config->fenced = config->claim.fenced = false;
    config->claim.stall_after = config->claim.soft = config->plan.hold_off = 0;
    config->alike = 0;
    config->notes = config->ranked = config->yields = config->twins = config->restores = false;
    config->lease_limit = HOST_NAMES + 1;
    config->session_limit = config->style == SIM_OBSERVED ? 300 : 64;
    config->waiter_limit = 64;
}

static void open_upstream(struct host_world *hosts)
{
    struct sim_world *world = hosts->world, *upstream = hosts->kept;
    struct sim_config config;

    pick_config(hosts, &config);
    if (upstream == NULL)
        upstream = hosts->kept = calloc(1, sizeof *upstream);
    TN_ASSERT(upstream != NULL);
    sim_world_reset(upstream, &config, tn_prng_next(&world->prng));
    hosts->below = (struct sim_below) { told, hosts };
    upstream->below = &hosts->below;
    upstream->listener = world->listener;
    upstream->store.clock.rate_ppm = sim_pick_rate(upstream);
    for (uint32_t i = 0; i < config.nodes; i++) {
        upstream->nodes[i].clock = pick_clock(upstream);
        upstream->nodes[i].label = i;
    }
    hosts->upstream = upstream;
    hosts->up = config.plan;
    hosts->delay = config.delay;
    hosts->store_count = 1;
    world->config.rho_ppm = config.rho_ppm;
}

/* --- The world -------------------------------------------------------------------------------- */

static void pick_numbers(struct host_world *hosts)
{
    static const int64_t ttls[] = { 4, 6, 10, 15, 30, 60 };
    struct sim_world *world = hosts->world;
    tenure_ns ttl = TN_SEC(ttls[tn_prng_below(&world->prng, 6)]);

    hosts->host_count = (uint32_t)tn_prng_range(&world->prng, 2, HOSTS_MAX);
    hosts->process_count = (uint32_t)tn_prng_range(&world->prng, 1, HOST_PROCESSES);
    hosts->store_count = (uint32_t)tn_prng_range(&world->prng, 1, HOST_STORES);
    hosts->drop_ppm = (uint32_t)tn_prng_range(&world->prng, 0, 200000);
    hosts->unread_ppm = (uint32_t)tn_prng_range(&world->prng, 0, TN_PPM);
    if (sim_chance(world, TN_PPM / 2)) {
        open_upstream(hosts);
        return;
    }
    world->config.rho_ppm = (uint32_t)tn_prng_range(&world->prng, 1000, 100000);
    hosts->delay = sim_between(world, ttl / 2000, ttl / 100);
    pick_plan(world, ttl, hosts->delay, world->config.rho_ppm, &hosts->up, &hosts->up_claim);
}

static void pick_world(struct host_world *hosts)
{
    struct sim_world *world = hosts->world;

    pick_numbers(hosts);
    tenure_ns ttl = hosts->up.ttl;
    pick_plan(world, ttl / 2, hosts->delay / 4, world->config.rho_ppm, &hosts->local,
              &hosts->local_claim);
    hosts->fault_every = sim_between(world, ttl / 2, 2 * ttl);
    hosts->party_count = hosts->host_count * (hosts->store_count + hosts->process_count);
    for (uint32_t i = 0; i < hosts->store_count; i++)
        hosts->stores[i].clock = pick_clock(world);
    for (uint32_t i = 0; i < hosts->host_count; i++)
        hosts->agents[i].clock = pick_clock(world);
    for (uint32_t i = 0; i < hosts->party_count; i++)
        hosts->parties[i] = (struct host_party) {
            .hosts = hosts,
            .index = i,
            .host = i % hosts->host_count,
            .store = i < hosts->host_count * hosts->store_count ? i / hosts->host_count : 0,
            .is_agent = i < hosts->host_count * hosts->store_count
        };
}

/* Memory is kept from one seed to the next. */
static struct host_world *get_hosts(struct sim_world *world)
{
    struct tn_table_limits store = {
        .sessions = 1024, .leases = HOST_NAMES + 1, .waiters = 256, .text_bytes = 65536
    };
    struct tn_table_limits agent = { .sessions = 64,
                                     .leases = HOST_NAMES + 1,
                                     .waiters = 64,
                                     .text_bytes = 4096,
                                     .upstream = true };
    struct host_world *hosts = world->hosts;

    if (hosts != NULL)
        return hosts;
    hosts = calloc(1, sizeof *hosts);
    TN_ASSERT(hosts != NULL);
    hosts->store_size = tn_table_size(&store);
    hosts->agent_size = tn_table_size(&agent);
    for (uint32_t i = 0; i < HOST_STORES; i++) {
        hosts->stores[i].block = malloc(hosts->store_size);
        TN_ASSERT(hosts->stores[i].block != NULL);
    }
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        hosts->agents[i].block = malloc(hosts->agent_size);
        TN_ASSERT(hosts->agents[i].block != NULL);
    }
    world->hosts = hosts;
    return hosts;
}

void sim_hosts_free(struct sim_world *world)
{
    struct host_world *hosts = world->hosts;

    if (hosts == NULL)
        return;
    for (uint32_t i = 0; i < HOSTS_MAX; i++)
        free(hosts->agents[i].block);
    for (uint32_t i = 0; i < HOST_STORES; i++)
        free(hosts->stores[i].block);
    if (hosts->kept != NULL)
        sim_world_free(hosts->kept);
    free(hosts->kept);
    free(hosts);
    world->hosts = NULL;
}

/* The one-level world's next event, if that is due before the first of this one. */
static bool upstream_goes_on(struct host_world *hosts)
{
    struct sim_world *upstream = hosts->upstream;
    tenure_ns at = upstream != NULL ? sim_world_next_at(upstream) : TN_NEVER;

    if (at == TN_NEVER || at > sim_host_first_at(hosts))
        return false;
    hosts->world->now = at;
    sim_world_run(upstream, at);
    sim_host_heard(hosts);
    return true;
}

static void go_on(struct host_world *hosts)
{
    struct sim_world *world = hosts->world;
    struct host_event event;

    if (!upstream_goes_on(hosts)) {
        sim_host_first(hosts, &event);
        TN_ASSERT(event.at >= world->now);
        world->now = event.at;
        if (hosts->upstream != NULL)
            sim_world_run(hosts->upstream, event.at);
        sim_host_handle(hosts, &event);
    }
    world->stats.events++;
    if (hosts->upstream != NULL && world->violation.promise == NULL)
        world->violation = hosts->upstream->violation;
}

void sim_hosts_run(struct sim_world *world)
{
    struct host_world *hosts = get_hosts(world);
    struct host_world fresh = { .world = world,
                                .kept = hosts->kept,
                                .store_size = hosts->store_size,
                                .agent_size = hosts->agent_size };
    struct host_event event = { .kind = HOST_PHASE };

    for (uint32_t i = 0; i < HOSTS_MAX; i++)
        fresh.agents[i].block = hosts->agents[i].block;
    for (uint32_t i = 0; i < HOST_STORES; i++)
        fresh.stores[i].block = hosts->stores[i].block;
    *hosts = fresh;
    tn_prng_seed(&world->prng, world->seed ^ 0x686f737473);
    world->now = TN_SEC(1);
    pick_world(hosts);
    open_tables(hosts);
    sim_host_at(hosts, world->now, &event);
    while (!hosts->over && world->violation.promise == NULL && hosts->event_count > 0)
        go_on(hosts);
}
