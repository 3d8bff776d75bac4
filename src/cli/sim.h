/* sim.h - what `tenure sim` was asked for, and how its results are shown; private to sim*.c. */
#ifndef TN_CLI_SIM_H
#define TN_CLI_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "core/agent.h"
#include "sim/fleet.h"
#include "sim/run.h"
#include "sim/script.h"

/* Within so many seeds each planted bug must break its promise. Most need fewer than a hundred. */
#define TN_SIM_PLANT_SEEDS 20000

/* --hosts, and what goes with it. */
struct tn_sim_fleet {
    uint64_t hosts, processes, candidates;
    tenure_ns ttl, upstream_ttl, rtt, span, crash_every;
};

enum {
    TN_SIM_HOSTS,
    TN_SIM_PROCESSES,
    TN_SIM_CANDIDATES,
    TN_SIM_TTL,
    TN_SIM_UPSTREAM_TTL,
    TN_SIM_RTT,
    TN_SIM_SPAN,
    TN_SIM_CRASH,
    TN_SIM_FLEET_OPTIONS
};

struct tn_sim_options {
    struct tn_sim_fleet fleet;
    const char *fleet_option; /* One of those that need --hosts; NULL: none was given. */
    uint64_t seeds, from, seed;
    uint32_t threads;
    const char *scenario, *plant, *script;
    bool as_script, seeds_given, seed_given, trace, list, plants, json;
};

/* sim_fleet.c: --hosts. */
void tn_sim_fleet_options(struct tn_sim_fleet *fleet, struct tn_option ret_list[]);
/* -1, or the exit status. */
int tn_sim_fleet_check(struct tn_sim_fleet *fleet);
int tn_sim_fleet_run(const struct tn_sim_fleet *fleet, uint64_t seed, bool json);

/* sim_text.c: for people. */
void tn_sim_text_totals(const struct tn_sim_options *asked, const struct sim_totals *totals);
void tn_sim_text_seed(const struct tn_sim_options *asked, const struct sim_world *world);
void tn_sim_text_scenario(const struct sim_scenario *scenario, const struct sim_world *world,
                          bool came_true);
void tn_sim_text_plant(const struct sim_plant *plant, const struct sim_totals *totals);
void tn_sim_list(bool json);
/* The command that shows a violation again. */
void tn_sim_replay(const struct tn_sim_options *asked, uint64_t seed, char *buf, size_t size);

/* sim_json.c: for scripts. */
void tn_sim_json_totals(const struct tn_sim_options *asked, const struct sim_totals *totals);
void tn_sim_json_seed(const struct tn_sim_options *asked, const struct sim_world *world);
void tn_sim_json_scenario(const struct sim_scenario *scenario, const struct sim_world *world,
                          bool came_true);
void tn_sim_json_script(const struct sim_world *world);
void tn_sim_json_plant(const struct sim_plant *plant, const struct sim_totals *totals, bool first);

#endif
