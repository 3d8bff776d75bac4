/* line.h - SIM_LINE: a store of ordered keys, and the recipe of core/line.h in each node. */
#ifndef TN_SIM_LINE_H
#define TN_SIM_LINE_H

#include "sim/world.h"

/* --- line.c: the node's side, as for rows --- */
void sim_line_init(struct sim_world *world);
void sim_line_boot(struct sim_world *world, struct sim_node *node);
/* False: it is the store's to answer. */
bool sim_line_request(struct sim_world *world, struct sim_node *node,
                      const struct tn_request *request);
void sim_line_answer(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
void sim_line_news(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
/* False: the renewal does not count. */
bool sim_line_renewed(struct sim_world *world, struct sim_node *node,
                      const struct sim_event *event);
/* Whether the candidate may hear of the holder: a claim of its own tells of a grant by itself. */
bool sim_line_take(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
uint32_t sim_line_held(const struct sim_world *world, const struct sim_node *node);
void sim_line_tick(struct sim_world *world, struct sim_node *node);
tenure_ns sim_line_wake_at(const struct sim_world *world, const struct sim_node *node);

/* --- line_store.c --- */
void sim_line_serve(struct sim_world *world, const struct sim_event *event);
/* OPEN, RENEW, CLOSE and READ. */
void sim_line_session(struct sim_world *world, const struct sim_event *request);
void sim_line_expire(struct sim_world *world);
void sim_line_backup(struct sim_world *world);
void sim_line_restore(struct sim_world *world);
tenure_ns sim_line_expires_at(const struct sim_world *world);
struct sim_line *sim_line_of(struct sim_world *world, uint32_t name);
bool sim_line_is_alive(const struct sim_world *world, uint32_t node, uint64_t life);
struct sim_key *sim_line_find(struct sim_line *line, uint64_t order);
void sim_line_begin_change(struct sim_world *world, uint32_t name);
void sim_line_delete(struct sim_world *world, uint32_t name, struct sim_key *key);
/* @op: enum sim_line_news. */
void sim_line_push(struct sim_world *world, uint32_t name, uint8_t op, uint64_t order);

/* --- line_operator.c --- */
void sim_line_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name,
                       uint64_t token);
/* The next step of an operator. */
void sim_line_revoke(struct sim_world *world, const struct sim_event *event);
/* Keys whose hold-off is over; those that a session has moved, whatever is left of it. */
void sim_line_let_go(struct sim_world *world);
void sim_line_drop_moved(struct sim_world *world, uint32_t node, uint64_t life);
/* Somebody ends a session that is in the line. */
void sim_line_kill(struct sim_world *world, uint32_t name);
/* Its candidate leads by what a read or a watch has shown. */
void sim_line_adopted(struct sim_world *world, uint32_t name, uint64_t order);

#endif
