/* hosts_world.c - a two-level world is made, lives and ends. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/hosts.h"

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

static void pick_world(struct host_world *hosts)
{
    static const int64_t ttls[] = { 4, 6, 10, 15, 30, 60 };
    struct sim_world *world = hosts->world;
    tenure_ns ttl = TN_SEC(ttls[tn_prng_below(&world->prng, 6)]);
    uint32_t rho = (uint32_t)tn_prng_range(&world->prng, 1000, 100000);

    world->config.rho_ppm = rho;
    hosts->delay = sim_between(world, ttl / 2000, ttl / 100);
    pick_plan(world, ttl, hosts->delay, rho, &hosts->up, &hosts->up_claim);
    pick_plan(world, ttl / 2, hosts->delay / 4, rho, &hosts->local, &hosts->local_claim);
    hosts->fault_every = sim_between(world, ttl / 2, 2 * ttl);
    hosts->drop_ppm = (uint32_t)tn_prng_range(&world->prng, 0, 200000);
    hosts->unread_ppm = (uint32_t)tn_prng_range(&world->prng, 0, TN_PPM);
    hosts->host_count = (uint32_t)tn_prng_range(&world->prng, 2, HOSTS_MAX);
    hosts->process_count = (uint32_t)tn_prng_range(&world->prng, 1, HOST_PROCESSES);
    hosts->store_count = (uint32_t)tn_prng_range(&world->prng, 1, HOST_STORES);
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
    free(hosts);
    world->hosts = NULL;
}

void sim_hosts_run(struct sim_world *world)
{
    struct host_world *hosts = get_hosts(world);
    struct host_world fresh = { .world = world,
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
    while (!hosts->over && world->violation.promise == NULL && sim_host_first(hosts, &event)) {
        TN_ASSERT(event.at >= world->now);
        world->now = event.at;
        world->stats.events++;
        sim_host_handle(hosts, &event);
    }
}
