/* ranks.c - candidates of several priorities: the leases that say who waits, and H3.
 *
 * As with notes, where these leases are kept is not simulated: each has one holder at a time, and
 * word of it reaches the candidates through the network, late, doubled or never. */
#include "sim/check.h"

static bool announces(const struct sim_world *world, uint32_t node, uint32_t name)
{
    return world->nodes[node].up && tn_claim_announces(&world->nodes[node].seats[name].seat.claim);
}

static void tell_rank(struct sim_world *world, uint32_t name, uint32_t level, uint32_t node)
{
    const struct sim_standing *standing = &world->standings[name][level];
    struct sim_event event = {
        .kind = SIM_EV_NOTE,
        .op = TN_NOTE_YIELD,
        .node = node,
        .name = name,
        .incarnation = world->nodes[node].incarnation,
        .holder = level,
        .token = standing->held,
        .seq = standing->number,
    };

    if (standing->number > 0 && world->nodes[node].seats[name].rank.level < level)
        sim_send(world, &event);
}

static void tell_all(struct sim_world *world, uint32_t name, uint32_t level)
{
    for (uint32_t i = 0; i < world->config.nodes; i++)
        tell_rank(world, name, level, i);
}

void sim_ranks_tell(struct sim_world *world, uint32_t node)
{
    for (uint32_t i = 0; world->config.ranked && i < world->config.names; i++)
        for (uint32_t level = 1; level <= SIM_RANKS; level++)
            tell_rank(world, i, level, node);
}

/* The lease of @level is free: whoever waits for it has it. */
static void pass_on(struct sim_world *world, uint32_t name, uint32_t level)
{
    struct sim_standing *standing = &world->standings[name][level];

    standing->held = false;
    for (uint32_t i = 0; i < world->config.nodes && !standing->held; i++) {
        if (world->nodes[i].seats[name].rank.level != level || !announces(world, i, name))
            continue;
        standing->held = true;
        standing->node = i;
        standing->number++;
        standing->since = world->now;
    }
    tell_all(world, name, level);
}

void sim_ranks_settle(struct sim_world *world, uint32_t node)
{
    for (uint32_t i = 0; world->config.ranked && i < world->config.names; i++) {
        uint32_t level = world->nodes[node].seats[i].rank.level;
        const struct sim_standing *standing = &world->standings[i][level];

        if (standing->held ? standing->node == node && !announces(world, node, i)
                           : announces(world, node, i))
            pass_on(world, i, level);
    }
}

void sim_ranks_boot(struct sim_world *world, struct sim_node *node)
{
    for (uint32_t i = 0; world->config.ranked && i < world->config.names; i++) {
        struct sim_seat *seat = &node->seats[i];
        uint8_t level = (uint8_t)(1 + node->index % SIM_RANKS);

        seat->rank = (struct tn_rank) { .level = level, .yields = world->config.yields };
        seat->seat.claim.notes.rank = &seat->rank;
        if (world->standings[i][level].held && world->standings[i][level].node == node->index)
            pass_on(world, i, level); /* Of the process before, whose session is over. */
    }
}

void sim_rank_hear(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_seat *seat = &node->seats[event->name];

    tn_rank_hear(&seat->rank, node->clock.last, event->holder, event->token != 0, event->seq,
                 world->config.claim.notes.back);
    tn_candidate_noted(&node->candidate, node->clock.last, &seat->seat, TN_NOTE_OF_NAME, NULL);
}

void sim_ranks_scatter(struct sim_world *world)
{
    bool lost = world->config.ranked && world->config.style == SIM_QUEUE;

    for (uint32_t i = 0; lost && i < world->config.names; i++)
        for (uint32_t level = 1; level <= SIM_RANKS; level++)
            world->standings[i][level].since = TN_NEVER; /* Until somebody comes anew. */
}

void sim_check_yield(struct sim_world *world, const struct sim_node *node, uint32_t name)
{
    for (uint32_t level = node->seats[name].rank.level + 1; level <= SIM_RANKS; level++)
        if (world->config.yields && world->standings[name][level].number > 0)
            return;
    sim_violate(world, "H3", "node %u yields %s, and nobody higher waits", node->index,
                sim_name(name));
}

void sim_check_rank(struct sim_world *world, uint32_t leader, tenure_ns since, const char *when)
{
    if (!world->config.ranked || leader == SIM_NOBODY)
        return;
    const struct tn_rank *leads = &world->nodes[leader].seats[0].rank;
    for (uint32_t level = leads->level + 1U; level <= SIM_RANKS; level++) {
        const struct sim_standing *standing = &world->standings[0][level];
        /* An operator's hand-over goes first. */
        if (standing->held && standing->since <= since && !leads->chosen)
            sim_violate(world, "H3", "node %u leads %s, node %u is higher and waits", leader, when,
                        standing->node);
    }
}
