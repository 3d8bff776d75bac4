/* row_feed.c - the change feed of a store of rows, and the connections that carry it.
 *
 * A node has one connection, on which the store shows every change in order: a Kubernetes watch or,
 * where the engine has sessions, Consul's blocking queries, which end by themselves when nothing
 * happens. What breaks: a lost message ends the connection, and the node may not notice; it goes on
 * behind what it has seen, without what happened in between, or with everything anew, perhaps from
 * a server that lags; and behind a restored backup it goes on from a version that is yet to come,
 * which is silence for ever. What the node does about it is decided in core/rows_name.h. */
#include <stdio.h>

#include "sim/rows.h"

enum feed_op { FEED_SHOWN, FEED_OPENED, FEED_ALIVE, FEED_CUT };

/* --- The store's side ------------------------------------------------------------------------- */

static bool is_served(const struct sim_node *node)
{
    return node->up && node->feed.served != 0 && node->feed.served_to == node->incarnation &&
           !node->feed.silent;
}

static void send_feed(struct sim_world *world, const struct sim_node *node, struct sim_event *event)
{
    event->kind = SIM_EV_ROW_SHOWN;
    event->node = node->index;
    event->incarnation = node->feed.served_to;
    event->id = node->feed.served;
    sim_send(world, event);
}

/* @number: of the change; the row has none if it was deleted. */
static struct sim_event row_event(const struct sim_world *world, uint32_t name, uint64_t number)
{
    const struct sim_row *row = &world->store.rows[name];

    return (struct sim_event) { .op = FEED_SHOWN,
                                .name = name,
                                .epoch = world->store.epoch[name],
                                .row = row->row,
                                .version = number,
                                .stale = row->version == 0 };
}

void sim_feed_show(struct sim_world *world, uint32_t name)
{
    for (uint32_t i = 0; world->config.feeds && i < world->config.nodes; i++) {
        struct sim_event event = row_event(world, name, world->store.versions);
        if (is_served(&world->nodes[i]))
            send_feed(world, &world->nodes[i], &event);
    }
}

/* Everything behind @position; @lags: as a server shows it that has not caught up. */
static void show_all(struct sim_world *world, const struct sim_node *node, uint64_t position,
                     bool lags)
{
    for (uint32_t i = 0; i < world->config.names; i++) {
        const struct sim_row *row = &world->store.rows[i];
        struct sim_event event = row_event(world, i, row->version);
        if (row->version == 0 || row->version <= position)
            continue;
        if (lags && row->version_before != 0) {
            event.row = row->before;
            event.version = row->version_before;
            sim_fired(world, SIM_FAULT_FEED_OLD);
        }
        send_feed(world, node, &event);
    }
}

static void open_feed(struct sim_world *world, const struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];
    bool resumes = event->version != 0 && sim_chance(world, TN_PPM * 3 / 4); /* Else too old. */
    bool lags = !world->healed && !resumes && sim_chance(world, TN_PPM / 4);
    struct sim_event opened = { .op = FEED_OPENED, .seq = world->store.restores };

    node->feed.served = event->id;
    node->feed.served_to = event->incarnation;
    node->feed.silent = false;
    send_feed(world, node, &opened);
    if (resumes && event->seq != world->store.restores) {
        node->feed.silent = true;
        sim_fired(world, SIM_FAULT_FEED_AHEAD);
    } else if (node->feed.served != 0) { /* Or the word that it is open was lost. */
        show_all(world, node, resumes ? event->version : 0, lags);
    }
}

/* A blocking query has ended without a change; or its index is gone, and the next begins anew. */
static void answer_query(struct sim_world *world, const struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];
    struct sim_event reply = { .op = FEED_ALIVE };

    if (event->id != node->feed.served || node->feed.silent) {
        reply.op = FEED_CUT;
        node->feed.served = event->id;
        node->feed.served_to = event->incarnation;
    }
    send_feed(world, node, &reply);
}

void sim_feed_serve(struct sim_world *world, const struct sim_event *event)
{
    if (event->op == FEED_ALIVE)
        answer_query(world, event);
    else
        open_feed(world, event);
}

void sim_feed_late(struct sim_world *world, uint32_t name, tenure_ns in)
{
    const struct sim_row *row = &world->store.rows[name];

    for (uint32_t i = 0; i < world->config.nodes && row->version_before != 0; i++) {
        const struct sim_node *node = &world->nodes[i];
        struct sim_event event = row_event(world, name, row->version_before);
        event.kind = SIM_EV_ROW_SHOWN;
        event.row = row->before;
        event.stale = false;
        event.node = i;
        event.incarnation = node->feed.served_to;
        event.id = node->feed.served;
        if (is_served(node))
            sim_at(world, world->now + in, &event);
    }
}

void sim_feed_cut(struct sim_world *world, uint32_t index)
{
    struct sim_node *node = &world->nodes[index];
    tenure_ns within = world->config.plan.ttl * (world->config.sessions ? 1 : 2);
    struct sim_event cut = { .kind = SIM_EV_ROW_SHOWN,
                             .op = FEED_CUT,
                             .node = index,
                             .incarnation = node->feed.served_to,
                             .id = node->feed.served,
                             .order = world->order + 1 };

    if (node->feed.served == 0)
        return;
    sim_fired(world, SIM_FAULT_FEED_CUT);
    if (world->healed || sim_chance(world, TN_PPM * 2 / 3))
        sim_at(world, world->now + sim_between(world, 0, within), &cut);
    else
        sim_fired(world, SIM_FAULT_FEED_SILENT); /* Nobody notices. */
    node->feed.served = 0;
}

void sim_feed_cut_all(struct sim_world *world)
{
    for (uint32_t i = 0; world->config.feeds && i < world->config.nodes; i++)
        sim_feed_cut(world, i);
}

tenure_ns sim_feed_in_order(struct sim_world *world, const struct sim_event *event, tenure_ns at)
{
    tenure_ns *last = &world->nodes[event->node].feed.last_at;

    *last = at > *last ? at : *last;
    return *last;
}

/* --- The node's side -------------------------------------------------------------------------- */

tenure_ns sim_feed_trust(const struct sim_world *world)
{
    return world->config.plan.ttl / 2 + 2 * world->config.plan.attempt_timeout;
}

static tenure_ns feed_lag(const struct sim_world *world)
{
    return world->config.plan.attempt_timeout;
}

void sim_feed_boot(struct sim_node *node)
{
    uint64_t number = node->feed.number;

    node->feed = (struct sim_feed) { .number = number, .ask_at = node->clock.last };
}

static void ask(struct sim_world *world, struct sim_node *node, enum feed_op op)
{
    struct sim_event event = { .kind = SIM_EV_ROW_WATCH,
                               .op = (uint8_t)op,
                               .node = node->index,
                               .incarnation = node->incarnation,
                               .id = node->feed.number,
                               .seq = node->feed.restores,
                               .version = node->feed.position };

    node->feed.ask_at = node->clock.last + world->config.plan.attempt_timeout;
    sim_send(world, &event);
}

/* It begins anew after a while, behind what it has shown or, without a position, with all. */
static void lose(const struct sim_world *world, struct sim_node *node, struct tn_rows_name *names)
{
    for (uint32_t i = 0; i < world->config.names; i++)
        tn_rows_name_feed_lost(&names[i]);
    node->feed.open = false;
    node->feed.ask_at = node->clock.last + world->config.plan.backoff;
}

bool sim_feed_hear(struct sim_world *world, struct sim_node *node, struct tn_rows_name *names,
                   const struct sim_event *event)
{
    struct sim_feed *feed = &node->feed;
    bool changed = event->op == FEED_SHOWN;

    if (event->id != feed->number || (!feed->open && event->op != FEED_OPENED))
        return false; /* Of an earlier connection, or one that was given up. */
    if (event->op == FEED_CUT) {
        if (world->config.sessions)
            feed->position = 0;
        lose(world, node, names);
        return false;
    }
    if (event->op == FEED_OPENED) {
        feed->open = true;
        feed->restores = event->seq;
    }
    if (event->op == FEED_ALIVE)
        for (uint32_t i = 0; i < world->config.names; i++)
            tn_rows_name_feed_alive(&names[i], node->clock.last);
    if (changed && event->version > feed->position)
        feed->position = event->version;
    feed->asked = false;
    feed->ask_at = TN_NEVER;
    if (world->config.sessions)
        feed->ask_at = node->clock.last + world->config.plan.ttl / 2;
    return changed;
}

void sim_feed_tick(struct sim_world *world, struct sim_node *node, struct tn_rows_name *names)
{
    struct sim_feed *feed = &node->feed;
    bool behind = false;

    for (uint32_t i = 0; i < world->config.names; i++)
        behind = behind || (feed->open &&
                            tn_rows_name_is_behind(&names[i], node->clock.last, feed_lag(world)));
    if (behind) {
        feed->position = 0;
        lose(world, node, names);
    }
    if (node->clock.last < feed->ask_at)
        return;
    if (feed->open && !feed->asked) { /* A blocking query ends without news. */
        feed->asked = true;
        ask(world, node, FEED_ALIVE);
        return;
    }
    if (feed->open) /* Without an answer. */
        lose(world, node, names);
    feed->number++;
    feed->asked = false;
    ask(world, node, FEED_OPENED);
}

tenure_ns sim_feed_wake_at(const struct sim_world *world, const struct sim_node *node,
                           const struct tn_rows_name *names)
{
    tenure_ns at = node->feed.ask_at;

    for (uint32_t i = 0; node->feed.open && i < world->config.names; i++)
        if (tn_rows_name_behind_at(&names[i], feed_lag(world)) < at)
            at = tn_rows_name_behind_at(&names[i], feed_lag(world));
    return at;
}
