/* votes.h - between voters.c, the servers of SIM_VOTES, and votes.c, their clients. */
#ifndef TN_SIM_VOTES_H
#define TN_SIM_VOTES_H

#include "sim/world.h"

/* What a server has on record of a name. */
struct sim_vote {
    uint64_t highest;            /* That was confirmed: no lower one is, nor the same for another */
    struct tn_secret highest_of; /* term. */
    struct tn_secret session, term;
    uint64_t token, last;
    bool held, sure;
};

struct sim_voter {
    struct tn_table *table;
    void *block;
    size_t size;
    struct sim_clock clock;
    struct sim_vote names[SIM_NAMES_MAX];
    uint64_t timer_id;
    tenure_ns timer_at, paused_until;
    bool up;
    uint32_t cut_to, cut_from; /* Nodes whose connection loses what goes to, or comes from, it, */
    tenure_ns cut_until;       /* until then. */
    tenure_ns last_to[SIM_VOTES_NODES], last_from[SIM_VOTES_NODES]; /* A connection has an order. */
};

#endif
