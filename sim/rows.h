/* rows.h - SIM_ROWS: a store of versioned rows, and the recipe of core/rows.h in each node. */
#ifndef TN_SIM_ROWS_H
#define TN_SIM_ROWS_H

#include "sim/world.h"

/* --- rows.c --- */
void sim_rows_init(struct sim_world *world);
/* The node's side: a process that has just started; a request of its candidate; an answer of the
 * store; time. */
void sim_rows_boot(struct sim_world *world, struct sim_node *node);
void sim_rows_request(struct sim_world *world, struct sim_node *node,
                      const struct tn_request *request);
void sim_rows_answer(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
bool sim_rows_is_stray(const struct sim_world *world, const struct sim_node *node, uint32_t name,
                       const struct tn_row *row);
void sim_rows_tick(struct sim_world *world, struct sim_node *node);
tenure_ns sim_rows_wake_at(const struct sim_world *world, const struct sim_node *node);
/* The store's side. */
void sim_rows_serve(struct sim_world *world, const struct sim_event *event);
void sim_rows_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name,
                       uint64_t token);
/* Without the chance that it is a deletion. */
void sim_rows_revoke(struct sim_world *world, uint32_t name);
void sim_rows_touch(struct sim_world *world, uint32_t name);
/* The number that a version, or the name of a session, is. */
uint64_t sim_rows_number(const char *text);
void sim_rows_write(struct sim_world *world, uint32_t name, const struct tn_row *next);

/* --- row_sessions.c --- */
void sim_row_sessions_init(struct sim_world *world);
void sim_row_sessions_backup(struct sim_world *world);
/* The store is up again, and every session has its time again. */
void sim_row_sessions_restart(struct sim_world *world, bool restored);
void sim_row_sessions_expire(struct sim_world *world);
void sim_row_sessions_serve(struct sim_world *world, const struct sim_event *event);
/* Whether the engine's sessions let a write through: WRITTEN, or why not. */
enum tn_rows_outcome sim_row_sessions_refuse(struct sim_world *world,
                                             const struct sim_event *event);
/* The session that holds @name ends before its time, as when its agent dies; false: nobody has it.
 */
bool sim_row_sessions_lose(struct sim_world *world, uint32_t name);

/* --- row_feed.c --- */
/* The store's side: a row was written; a node opens its feed; connections that end. */
void sim_feed_show(struct sim_world *world, uint32_t name);
/* What it was before comes once more, @in from now, as from a server that lags. */
void sim_feed_late(struct sim_world *world, uint32_t name, tenure_ns in);
void sim_feed_serve(struct sim_world *world, const struct sim_event *event);
void sim_feed_cut(struct sim_world *world, uint32_t index);
void sim_feed_cut_all(struct sim_world *world);
tenure_ns sim_feed_in_order(struct sim_world *world, const struct sim_event *event, tenure_ns at);
/* The node's side. How long a feed is trusted that says nothing, where rows change seldom. */
tenure_ns sim_feed_trust(const struct sim_world *world);
void sim_feed_boot(struct sim_node *node);
/* Whether the event shows a row, for tn_rows_name_saw. */
bool sim_feed_hear(struct sim_world *world, struct sim_node *node, struct tn_rows_name *names,
                   const struct sim_event *event);
void sim_feed_tick(struct sim_world *world, struct sim_node *node, struct tn_rows_name *names);
tenure_ns sim_feed_wake_at(const struct sim_world *world, const struct sim_node *node,
                           const struct tn_rows_name *names);

#endif
