/* run.c - one seed, and the planted bugs. */
#include <string.h>

#include "sim/world.h"

void sim_seed_open(struct sim_world *world, uint64_t seed)
{
    struct sim_config config;
    struct sim_event begin = { .kind = SIM_EV_STEP };
    sim_config_of_seed(seed, &config);
    sim_world_reset(world, &config, seed);
    sim_at(world, world->now, &begin);
}

void sim_run_seed(struct sim_world *world, uint64_t seed)
{
    sim_seed_open(world, seed);
    sim_run_guarded(world, TN_NEVER);
    world->stats.lease_us += (uint64_t)(world->now / 1000) * world->config.names;
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
