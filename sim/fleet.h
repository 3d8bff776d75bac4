/* fleet.h - thousands of hosts for a stretch of time: what the store above them sees, with an agent
 * (core/agent.h) on each host and without.
 *
 * Every process wants one name, and a name is wanted by several processes on different hosts. The
 * store, the agents' tables, the agents and the processes are the code that runs in production;
 * clocks, network and crashes are simulated. Nothing is lost or late: hosts.h is for that. The
 * numbers are counted at the store. P1, P2, P7 and N1 are checked as it goes.
 *
 * Threads: any number of fleets, each in one thread. Memory: about 2 kB a process, from malloc, and
 * given back at the end. The same configuration gives the same result on every machine. */
#ifndef TN_SIM_FLEET_H
#define TN_SIM_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "core/plan.h"

#define SIM_FLEET_MOST 200000 /* Processes in all. */
/* A process that was killed is started again after this. */
#define SIM_FLEET_RESTART TN_SEC(5)

struct sim_fleet_config {
    uint32_t hosts;
    uint32_t processes;  /* Per host; at most SIM_FLEET_MOST in all. */
    uint32_t candidates; /* Processes that want one name; at most one on each host. */
    bool agents;
    tenure_ns ttl;          /* Of a process's session; its plan must be safe (core/plan.h). */
    tenure_ns upstream_ttl; /* Of an agent's session; the same. */
    tenure_ns rtt;          /* To the store, on average. */
    tenure_ns span;         /* Counted for so long, once every name is led. */
    tenure_ns crash_every;  /* A process is killed this often; 0: none is. */
    uint64_t seed;
};

/* Requests that a store or an agent has received. */
struct sim_fleet_load {
    uint64_t opens, renewals, acquires, releases, others;
    uint64_t pushes; /* Sent unasked: grants to those in line, revocations. */
    uint64_t most;   /* Requests in one second, at most. */
    tenure_ns span;
};

struct sim_fleet_result {
    uint32_t names;
    uint32_t sessions;           /* At the store when the counting began. */
    tenure_ns led_after;         /* From the first start of a process until every name was led. */
    struct sim_fleet_load start; /* At the store, until then. */
    struct sim_fleet_load store; /* At the store, while it was counted. */
    struct sim_fleet_load local; /* At the agents, in the same time. */
    uint64_t crashes;            /* Of these some had no term, and the others ... */
    uint64_t failovers;          /* ... another process succeeded, after so long: */
    tenure_ns failover_median, failover_p99, failover_most;
    uint64_t lost;       /* Terms that ended although their process was not killed. */
    uint64_t events;     /* Messages and timers. */
    const char *promise; /* The first one that was broken, or NULL; and how. */
    char broken[160];
};

/* The plan of a session of @ttl, whose requests may take half as long again as @rtt. */
void sim_fleet_plan(tenure_ns ttl, tenure_ns rtt, struct tn_plan *ret_plan);

uint64_t sim_fleet_requests(const struct sim_fleet_load *load);

/* Returns false when there is not enough memory. */
bool sim_fleet_run(const struct sim_fleet_config *config, struct sim_fleet_result *ret_result);

#endif
