/* receiver.c - the resource that the leader works on, one per name, with or without a fence.
 *
 * Check and effect are one step here. A receiver without a fence takes everything: then a write
 * from a leader of the past is harm done, which is counted, not a broken promise. */
#include "sim/check.h"

static bool admit(struct sim_receiver *receiver, uint64_t token)
{
    if (TN_PLANT(FENCE_BACKWARDS)) {
        bool fresh = token >= receiver->fence.highest;
        receiver->fence.highest = token;
        return fresh;
    }
    return tenure_fence_admit(&receiver->fence, token) == 0;
}

static void tell_write(const struct sim_world *world, const struct sim_event *event,
                       enum sim_verdict verdict)
{
    if (world->listener != NULL && world->listener->write != NULL)
        world->listener->write(world->listener->arg, world, event, verdict);
}

static void refuse(struct sim_world *world, struct sim_receiver *receiver,
                   const struct sim_event *event)
{
    tell_write(world, event, SIM_REFUSED);
    receiver->refused++;
    world->stats.refused_writes++;
    sim_trace_node(world, &world->nodes[event->node],
                   "write with token %llu REFUSED: the fence stands at %llu",
                   (unsigned long long)event->token, (unsigned long long)receiver->highest);
}

static void write_in(struct sim_world *world, struct sim_receiver *receiver,
                     const struct sim_event *event)
{
    bool stale = event->token < receiver->highest;

    world->stats.writes++;
    if (stale)
        sim_fired(world, SIM_FAULT_STALE_WRITE);
    if (world->config.fenced && !admit(receiver, event->token)) {
        refuse(world, receiver, event);
        return;
    }
    receiver->accepted++;
    tell_write(world, event, stale ? SIM_HARMFUL : SIM_TAKEN);
    if (world->config.fenced) {
        sim_check_accepted(world, event->name, event->token);
    } else if (stale) {
        receiver->harmed++;
        world->stats.harm++;
        sim_trace_node(world, &world->nodes[event->node],
                       "write with token %llu ACCEPTED after %llu: no fence, harm done",
                       (unsigned long long)event->token, (unsigned long long)receiver->highest);
    }
    if (!stale)
        receiver->highest = event->token;
}

static void raise_to(struct sim_world *world, struct sim_receiver *receiver,
                     const struct sim_event *event)
{
    struct sim_event reply = *event;
    reply.kind = SIM_EV_RAISED;
    reply.stale = tenure_fence_raise(&receiver->fence, event->token) != 0;
    reply.token = reply.stale ? receiver->fence.highest : event->token;
    if (!reply.stale)
        receiver->highest = event->token;
    sim_send(world, &reply);
}

void sim_receiver_event(struct sim_world *world, const struct sim_event *event)
{
    struct sim_receiver *receiver = &world->receivers[event->name];
    if (world->now < receiver->down_until) {
        struct sim_event reply = *event;
        sim_fired(world, SIM_FAULT_FENCE_DOWN);
        reply.kind = SIM_EV_RAISED;
        reply.answer = TN_ANSWER_FULL; /* Not now; sometimes it says so, sometimes it is silent. */
        if (event->kind == SIM_EV_RAISE && sim_chance(world, TN_PPM / 2))
            sim_send(world, &reply);
        return;
    }
    if (event->kind == SIM_EV_RAISE)
        raise_to(world, receiver, event);
    else
        write_in(world, receiver, event);
}
