/* check.h - what the checkers look at, each named after the event behind which it runs. */
#ifndef TN_SIM_CHECK_H
#define TN_SIM_CHECK_H

#include "sim/world.h"

void sim_violate(struct sim_world *world, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_check_won(struct sim_world *world, struct sim_node *node, uint32_t name, uint64_t token);
void sim_check_lost(struct sim_world *world, struct sim_node *node, uint32_t name, uint64_t token);
/* F1: @former was superseded by @by without having let go. */
void sim_check_superseded(struct sim_world *world, uint32_t name, const struct sim_waiter *former,
                          const struct sim_waiter *by);
/* F1: the session at the store was renewed. */
void sim_check_renewed(struct sim_world *world, uint32_t node, const struct sim_life *life);
void sim_check_extended(struct sim_world *world, struct sim_node *node);
void sim_check_gone(struct sim_world *world, struct sim_node *node);
void sim_check_node(struct sim_world *world, struct sim_node *node);
void sim_check_acquire(struct sim_world *world, struct sim_node *node, uint32_t name);
void sim_check_release(struct sim_world *world, struct sim_node *node, uint32_t name,
                       uint64_t token);
void sim_check_grant(struct sim_world *world, uint32_t name, const struct sim_waiter *to,
                     uint64_t token);
void sim_check_queued(struct sim_world *world, uint32_t name, const struct sim_waiter *waiter);
void sim_check_dequeued(struct sim_world *world, uint32_t name, const struct sim_waiter *waiter);
void sim_check_session_over(struct sim_world *world, uint32_t node, uint64_t life);
void sim_check_turn(struct sim_world *world, uint32_t name, const struct sim_waiter *waiter);
void sim_check_accepted(struct sim_world *world, uint32_t name, uint64_t token);
/* After everything was mended: epochs are no excuse any more. */
void sim_check_one_leader(struct sim_world *world, uint32_t name);
void sim_check_led(struct sim_world *world, uint32_t name, const char *when);

#endif
