/* votes.h - SIM_VOTES: voters.c, several servers of which a majority decides, and votes.c, their
 * clients: the recipe of core/votes.h in each node. */
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

void sim_votes_init(struct sim_world *world);
void sim_votes_free(struct sim_world *world);
/* The node's side, as in rows.c. */
void sim_votes_boot(struct sim_world *world, struct sim_node *node);
void sim_votes_request(struct sim_world *world, struct sim_node *node,
                       const struct tn_request *request);
void sim_votes_answer(struct sim_world *world, struct sim_node *node,
                      const struct sim_event *event);
void sim_votes_tick(struct sim_world *world, struct sim_node *node);
tenure_ns sim_votes_wake_at(const struct sim_world *world, const struct sim_node *node);
/* The servers' side. */
void sim_voters_init(struct sim_world *world);
void sim_voters_free(struct sim_world *world);
void sim_voters_event(struct sim_world *world, const struct sim_event *event);
void sim_voters_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name,
                         uint64_t token);
void sim_voters_fault(struct sim_world *world);
void sim_voters_heal(struct sim_world *world);
/* The network between a node and a server: cut, or in order and not before @at. */
bool sim_voters_lose(const struct sim_world *world, const struct sim_event *event);
tenure_ns sim_voters_in_order(struct sim_world *world, const struct sim_event *event, tenure_ns at);

#endif
