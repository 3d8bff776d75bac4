/* network.c - messages: dropped, delayed, doubled, overtaken, cut off one way or both. */
#include "sim/rows.h"
#include "sim/script.h"
#include "sim/votes.h"

static bool is_for_store(const struct sim_event *event)
{
    return event->kind < SIM_EV_REPLY;
}

static bool is_from_store(const struct sim_event *event)
{
    return event->kind >= SIM_EV_REPLY && event->kind < SIM_EV_WRITE;
}

/* To or from one server of several, on a connection that keeps the order. */
static bool is_vote(const struct sim_event *event)
{
    return event->kind == SIM_EV_VOTE || event->kind == SIM_EV_VOTE_REPLY ||
           event->kind == SIM_EV_VOTE_NEWS;
}

/* A change feed is such a connection, too, and a lost message ends it. */
static bool is_feed(const struct sim_event *event)
{
    return event->kind == SIM_EV_ROW_SHOWN;
}

/* The store did it, and the one who asked will not hear of it. */
static void note_lost_reply(struct sim_world *world, const struct sim_event *event)
{
    if (event->kind == SIM_EV_REPLY && event->op != TN_OP_READ &&
        (event->answer == TN_ANSWER_OK || event->answer == TN_ANSWER_GRANTED ||
         event->answer == TN_ANSWER_RELEASED))
        sim_fired(world, SIM_FAULT_UNKNOWN_OUTCOME);
    if (event->kind == SIM_EV_VOTE_REPLY && event->op != TN_VOTES_READ &&
        event->answer == TN_ANSWER_GRANTED)
        sim_fired(world, SIM_FAULT_UNKNOWN_OUTCOME);
    if ((event->kind == SIM_EV_ROW_PUT_DONE && event->answer == TN_ROWS_WRITTEN) ||
        (event->kind == SIM_EV_LINE_DONE && event->op == TN_LINE_CREATE))
        sim_fired(world, SIM_FAULT_UNKNOWN_OUTCOME);
}

/* P8's test: the network swallows so many renewals of one node, and nothing else. */
static bool is_doomed(struct sim_world *world, const struct sim_event *event)
{
    if (!is_for_store(event) || event->node != world->doomed_node)
        return false;
    if (event->kind == SIM_EV_VOTE && event->op <= TN_VOTES_RENEW && event->seq != 0 &&
        event->seq == world->doomed_seq)
        return true; /* The same renewal, at another server. */
    if (event->op != TN_OP_RENEW || world->doomed_renewals == 0)
        return false;
    world->doomed_seq = event->seq;
    world->doomed_renewals--;
    return true;
}

static bool is_lost(struct sim_world *world, const struct sim_event *event)
{
    const struct sim_node *node = &world->nodes[event->node];
    if (is_doomed(world, event))
        return true;
    if (world->script != NULL && sim_script_loses(world->script, world->sent)) {
        note_lost_reply(world, event);
        return true;
    }
    if ((is_for_store(event) && world->now < node->cut_to_until) ||
        (is_from_store(event) && world->now < node->cut_from_until)) {
        note_lost_reply(world, event);
        return true;
    }
    if (is_vote(event) && sim_voters_lose(world, event)) {
        note_lost_reply(world, event);
        return true;
    }
    if (!world->healed && sim_chance(world, world->config.drop_ppm)) {
        sim_fired(world, SIM_FAULT_DROP);
        note_lost_reply(world, event);
        return true;
    }
    return false;
}

static tenure_ns travel_time(struct sim_world *world, const struct sim_event *event)
{
    const struct sim_config *config = &world->config;
    /* Behind a late message on a connection all that follow are late. */
    uint32_t delay_ppm =
        is_vote(event) || is_feed(event) ? config->delay_ppm / 8 : config->delay_ppm;
    if (!world->healed && sim_chance(world, delay_ppm)) {
        sim_fired(world, SIM_FAULT_DELAY);
        return sim_between(world, config->delay, config->delay_most);
    }
    if (world->script != NULL)
        return config->delay; /* A story has round numbers. */
    return sim_between(world, config->delay / 8, config->delay);
}

static void tell_sent(const struct sim_world *world, const struct sim_event *event, tenure_ns at)
{
    const struct sim_listener *listener = world->listener;
    if (listener != NULL && listener->message != NULL)
        listener->message(listener->arg, world, event, world->sent, at);
}

/* Like etcd's, whose events and confirmed renewals come on one connection, in order. */
static tenure_ns behind_news(struct sim_world *world, const struct sim_event *event, tenure_ns at)
{
    struct sim_node *node = &world->nodes[event->node];
    bool renewal = event->kind == SIM_EV_REPLY && event->op == TN_OP_RENEW;

    if (event->kind != SIM_EV_LINE_NEWS && !renewal)
        return at;
    if (at < node->news_at)
        at = node->news_at;
    if (event->kind == SIM_EV_LINE_NEWS)
        node->news_at = at;
    return at;
}

void sim_send(struct sim_world *world, struct sim_event *event)
{
    event->order = world->order + 1;
    world->sent++;
    if (is_lost(world, event)) {
        tell_sent(world, event, TN_NEVER);
        if (is_feed(event))
            sim_feed_cut(world, event->node);
        return;
    }
    tenure_ns at = world->now + travel_time(world, event);
    if (is_vote(event))
        at = sim_voters_in_order(world, event, at);
    if (is_feed(event))
        at = sim_feed_in_order(world, event, at);
    if (world->config.style == SIM_LINE && world->config.atomic)
        at = behind_news(world, event, at);
    tell_sent(world, event, at);
    sim_at(world, at, event);
    if (!world->healed && !is_vote(event) && !is_feed(event) &&
        sim_chance(world, world->config.duplicate_ppm)) {
        sim_fired(world, SIM_FAULT_DUPLICATE);
        sim_at(world, world->now + travel_time(world, event), event);
    }
}

void sim_arrived(struct sim_world *world, const struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];
    uint64_t *last = is_for_store(event) ? &node->last_to_store : &node->last_from_store;
    if ((!is_for_store(event) && !is_from_store(event)) || is_vote(event) || is_feed(event))
        return;
    if (event->order < *last)
        sim_fired(world, SIM_FAULT_REORDER);
    else
        *last = event->order;
}
