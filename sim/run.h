/* run.h - seeds: one of them, many on all cores, and the choice of a plant. */
#ifndef TN_SIM_RUN_H
#define TN_SIM_RUN_H

#include "sim/world.h"

/* --- guard.c --- */
/* Catch assertions from now on; before threads are started that run worlds. */
void sim_guard(void);
/* sim_world_run, and sim_hosts_run; an assertion that trips counts as a violation. */
void sim_run_guarded(struct sim_world *world, tenure_ns until);
void sim_hosts_run_guarded(struct sim_world *world);

/* --- run.c --- */
/* Prepare @world for a seed. */
void sim_seed_open(struct sim_world *world, uint64_t seed);
/* Simulate one seed in @world. */
void sim_run_seed(struct sim_world *world, uint64_t seed);

struct sim_plant {
    const char *name, *promise, *wrong;
};
/* Plant @index (1 .. count); NULL at the end. */
const struct sim_plant *sim_plant_at(uint32_t index);
uint32_t sim_plant_find(const char *name); /* 0: no such plant. */
/* Make the code make this mistake; false when this program was built without plants. */
bool sim_plant_set(uint32_t index);

/* --- crew.c --- */
struct sim_totals {
    struct sim_stats stats;
    uint64_t seeds;
    uint64_t violations;
    uint64_t first_seed; /* The lowest seed that broke a promise. */
    struct sim_violation first;
    double seconds;
};

/* Simulate seeds @from .. @from + @count - 1 on @threads threads, or until the promise @stop_at
 * (may be NULL) is broken; then only that violation is told of. @progress (may be NULL) is called
 * about ten times a second from the calling thread. */
void sim_run_many(uint64_t from, uint64_t count, uint32_t threads, const char *stop_at,
                  void (*progress)(uint64_t done, uint64_t count, void *arg), void *arg,
                  struct sim_totals *ret_totals);

#endif
