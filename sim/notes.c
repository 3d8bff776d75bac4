/* notes.c - the operator of the world: notes that ask for a hand-over, a stand-down, a drain.
 *
 * Where notes are kept is not simulated: to a candidate a note is word from the store, which the
 * network may lose, double and delay like any other, and which says itself how long it lasts. */
#include "base/assert.h"
#include "sim/check.h"

/* Word of the note that stands now, or of its end, to one node. */
static void tell_note(struct sim_world *world, uint32_t name, uint32_t node)
{
    const struct sim_note *note = &world->notes[name];
    bool lasts = world->now < note->over_at;
    struct sim_event event = {
        .kind = SIM_EV_NOTE,
        .op = (uint8_t)(lasts ? note->kind : TN_NOTE_NONE),
        .node = node,
        .name = name,
        .incarnation = world->nodes[node].incarnation,
        .holder = note->to,
        .token = note->token,
        .seq = note->number,
        .ttl = lasts ? note->over_at - world->now : 0,
    };

    if (note->number == 0 || (note->kind == TN_NOTE_DRAIN && note->to != node))
        return;
    sim_send(world, &event);
}

static void tell_all(struct sim_world *world, uint32_t name)
{
    for (uint32_t i = 0; i < world->config.nodes; i++)
        tell_note(world, name, i);
}

void sim_notes_tell(struct sim_world *world, uint32_t node)
{
    for (uint32_t i = 0; i < world->config.names; i++)
        tell_note(world, i, node);
}

void sim_note_post(struct sim_world *world, uint32_t name, enum tn_note_kind kind, uint32_t to,
                   tenure_ns lasts)
{
    struct sim_note *note = &world->notes[name];
    uint32_t leader = world->leader[name];
    uint64_t token = leader != SIM_NOBODY ? sim_node_token(world, &world->nodes[leader], name) : 0;

    if (kind == TN_NOTE_HANDOVER && token == 0)
        return; /* There is no term to end. */
    if (kind == TN_NOTE_DRAIN && to == SIM_NOBODY)
        return;
    *note = (struct sim_note) { .kind = kind,
                                .token = token,
                                .to = to,
                                .number = ++world->note_numbers,
                                .over_at = world->now + lasts };
    if (kind == TN_NOTE_HANDOVER)
        world->asked[name][world->asked_count[name]++ % SIM_ASKED] = token;
    else
        world->stood_down[name] = true;
    sim_trace_other(world, "operator", "%s %s for %lld ms",
                    kind == TN_NOTE_HANDOVER     ? "asks for a hand-over of"
                    : kind == TN_NOTE_STAND_DOWN ? "lets nobody lead"
                                                 : "drains a candidate of",
                    sim_name(name), (long long)(lasts / TN_MS(1)));
    tell_all(world, name);
}

void sim_note_end(struct sim_world *world, uint32_t name)
{
    if (world->now >= world->notes[name].over_at)
        return;
    world->notes[name].over_at = world->now;
    tell_all(world, name);
}

void sim_note_hear(struct sim_node *node, const struct sim_event *event)
{
    struct tn_note note = {
        .kind = (uint8_t)event->op, .token = event->token, .number = event->seq, .lasts = event->ttl
    };

    if (note.kind == TN_NOTE_HANDOVER) {
        note.directed = event->holder != SIM_NOBODY;
        note.chosen = note.directed && event->holder == node->index;
    }
    tn_candidate_noted(&node->candidate, node->clock.last, &node->seats[event->name].seat,
                       TN_NOTE_OF_NAME, &note);
}

/* H1: only the term that was named ends for a hand-over. */
void sim_check_asked(struct sim_world *world, const struct sim_node *node, uint32_t name,
                     const struct tn_claim_action *action)
{
    if (action->note == TN_NOTE_YIELD) {
        sim_check_yield(world, node, name);
        return;
    }
    for (uint32_t i = 0; i < SIM_ASKED; i++)
        if (world->asked[name][i] == action->token)
            return;
    if (action->note != TN_NOTE_HANDOVER && world->stood_down[name])
        return;
    sim_violate(world, "H1", "node %u steps down from token %llu of %s, and nobody asked for it",
                node->index, (unsigned long long)action->token, sim_name(name));
}
