/* run.c - one seed, and the planted bugs. */
#include <string.h>

#include "sim/run.h"

void sim_seed_open(struct sim_world *world, uint64_t seed)
{
    struct sim_config config;
    struct sim_event begin = { .kind = SIM_EV_STEP };
    sim_config_of_seed(seed, &config);
    sim_world_reset(world, &config, seed);
    sim_at(world, world->now, &begin);
}

/* The two-level world of the same seed, for every fourth seed, so that ten thousand take no longer
 * than a minute. It is told only if it breaks a promise, and not counted: so the history of a seed
 * is that of its first world. */
static void run_hosts(struct sim_world *world)
{
    const struct sim_listener *listener = world->listener;
    struct sim_stats stats = world->stats;
    uint32_t rho_ppm = world->config.rho_ppm;
    tenure_ns now = world->now;

    world->listener = NULL;
    sim_hosts_run_guarded(world);
    world->listener = listener;
    world->stats = stats;
    if (world->violation.promise == NULL) {
        world->now = now;
    } else if (listener != NULL) {
        world->violation.promise = NULL;
        sim_hosts_run_guarded(world);
        world->stats = stats;
    }
    world->config.rho_ppm = rho_ppm;
}

void sim_run_seed(struct sim_world *world, uint64_t seed)
{
    sim_seed_open(world, seed);
    sim_run_guarded(world, TN_NEVER);
    world->stats.lease_us += (uint64_t)(world->now / 1000) * world->config.names;
    if (world->violation.promise == NULL && seed % 4 == 0)
        run_hosts(world);
}

/* --- Planted bugs ----------------------------------------------------------------------------- */

#ifdef TN_PLANTS
enum tn_plant tn_planted;
#endif

static const struct sim_plant plants[] = {
#define PLANT(symbol, name, promise, wrong) { name, promise, wrong },
    TN_PLANT_LIST(PLANT)
#undef PLANT
};

const struct sim_plant *sim_plant_at(uint32_t index)
{
    uint32_t count = sizeof plants / sizeof plants[0];
    return index >= 1 && index <= count ? &plants[index - 1] : NULL;
}

uint32_t sim_plant_find(const char *name)
{
    for (uint32_t i = 1; sim_plant_at(i) != NULL; i++)
        if (strcmp(sim_plant_at(i)->name, name) == 0)
            return i;
    return 0;
}

bool sim_plant_set(uint32_t index)
{
#ifdef TN_PLANTS
    tn_planted = (enum tn_plant)index;
    return true;
#else
    return index == 0;
#endif
}
