/* acts.c - what each act of a script does to the world, and how it is told. */
#include <stdio.h>

#include "base/assert.h"
#include "sim/script.h"

static const char *act_words(enum sim_act_kind kind)
{
#define WORDS(symbol, name, whom, number, words) words,
    static const char *const list[] = { SIM_ACTS(WORDS) };
#undef WORDS
    TN_ASSERT(kind < SIM_ACT_COUNT);
    return list[kind];
}

/* The unit depends on what the number means. */
static void number_text(const struct sim_act *act, char *buf, size_t size)
{
#define NUMBER(symbol, name, whom, number, words) number,
    static const enum sim_act_number list[] = { SIM_ACTS(NUMBER) };
#undef NUMBER
    enum sim_act_number number = list[act->kind];
    buf[0] = '\0';
    if (number == SIM_SPAN || number == SIM_STEP)
        (void)snprintf(buf, size, " %lld ms", (long long)(act->number / TN_MS(1)));
    else if (number == SIM_RATE)
        (void)snprintf(buf, size, " %lld ppm", (long long)act->number);
}

static void tell_act(struct sim_world *world, const struct sim_act *act, uint32_t node)
{
    const char *words = act_words(act->kind);
    char label[16] = "", number[32];

    if (act->text != NULL || words == NULL)
        return;
    if (act->who == SIM_WHO_STORE)
        (void)snprintf(label, sizeof label, "the store ");
    else if (node != SIM_NOBODY) {
        sim_trace_label(&world->nodes[node], label, sizeof label - 1);
        for (char *end = label;; end++) {
            if (*end != '\0')
                continue;
            end[0] = ' ';
            end[1] = '\0';
            break;
        }
    }
    number_text(act, number, sizeof number);
    sim_trace_other(world, "--", "%s%s%s", label, words, number);
}

/* --- Acts on a node --------------------------------------------------------------------------- */

static void stop(struct sim_world *world, struct sim_node *node, const struct sim_act *act)
{
    enum sim_stop how = act->kind == SIM_ACT_SUSPEND  ? SIM_SUSPENDED
                        : act->kind == SIM_ACT_FREEZE ? SIM_FROZEN
                                                      : SIM_PAUSED;
    if (how == SIM_FROZEN) {
        node->begun_token = sim_node_token(world, node, 0);
        node->begun_by = node->incarnation;
    }
    if (world->now >= node->paused_until || how == SIM_FROZEN)
        node->stopped = (uint8_t)how;
    sim_node_pause(world, node->index, world->now + act->number, how == SIM_SUSPENDED);
}

static void finish_write(struct sim_world *world, struct sim_node *node)
{
    struct sim_event write = { .kind = SIM_EV_WRITE,
                               .node = node->index,
                               .token = node->begun_token };
    if (node->begun_token != 0 && node->up && node->begun_by == node->incarnation)
        sim_send(world, &write);
    node->begun_token = 0;
}

static void cut(struct sim_world *world, struct sim_node *node, const struct sim_act *act)
{
    tenure_ns until = world->now + act->number;
    if (act->kind != SIM_ACT_CUT_FROM)
        node->cut_to_until = until;
    if (act->kind != SIM_ACT_CUT_TO)
        node->cut_from_until = until;
}

/* Its timer is set anew: it was set for the clock as it ran before. */
static void set_timer(struct sim_world *world, struct sim_node *node)
{
    node->timer_at = TN_NEVER;
    if (node->up)
        sim_node_schedule(world, node);
}

static void set_rate(struct sim_world *world, struct sim_clock *clock, int64_t ppm)
{
    int64_t bound = world->config.plan.rho_holder_ppm;
    sim_clock_set_rate(clock, world->now, TN_PPM + ppm);
    if (ppm > bound || ppm < -bound)
        world->clock_out_of_bounds = true;
}

static void wish(struct sim_world *world, uint32_t node, enum sim_act_kind kind)
{
    enum tn_claim_event_kind event = kind == SIM_ACT_RESIGN    ? TN_CLAIM_EV_RESIGN
                                     : kind == SIM_ACT_READY   ? TN_CLAIM_EV_READY
                                     : kind == SIM_ACT_UNREADY ? TN_CLAIM_EV_NOT_READY
                                                               : TN_CLAIM_EV_CAMPAIGN;
    (void)sim_node_tell(world, node, 0, event);
}

static void do_to_node(struct sim_world *world, const struct sim_act *act, uint32_t index)
{
    struct sim_node *node = &world->nodes[index];

    switch (act->kind) {
    case SIM_ACT_CRASH:
        sim_node_crash(world, index);
        break;
    case SIM_ACT_START:
        if (!node->up)
            sim_node_boot(world, index);
        break;
    case SIM_ACT_PAUSE:
    case SIM_ACT_FREEZE:
    case SIM_ACT_SUSPEND:
        stop(world, node, act);
        break;
    case SIM_ACT_FINISH:
        finish_write(world, node);
        break;
    case SIM_ACT_CUT:
    case SIM_ACT_CUT_TO:
    case SIM_ACT_CUT_FROM:
        cut(world, node, act);
        break;
    case SIM_ACT_MEND:
        node->cut_to_until = node->cut_from_until = world->now;
        break;
    case SIM_ACT_RATE:
        set_rate(world, &node->clock, act->number);
        set_timer(world, node);
        break;
    case SIM_ACT_WALL_STEP:
        node->clock.wall_offset += act->number;
        set_timer(world, node);
        break;
    default:
        wish(world, index, act->kind);
    }
}

/* --- Acts on the store, and on what is under way ---------------------------------------------- */

static void do_to_store(struct sim_world *world, const struct sim_act *act)
{
    struct sim_store *store = &world->store;

    switch (act->kind) {
    case SIM_ACT_RATE:
        set_rate(world, &store->clock, act->number);
        store->timer_at = TN_NEVER;
        sim_store_schedule(world);
        break;
    case SIM_ACT_RESTART:
        sim_store_crash(world, world->now + act->number);
        break;
    case SIM_ACT_HANG:
        store->paused_until = world->now + act->number;
        break;
    case SIM_ACT_REVOKE:
        if (store->up && world->now >= store->paused_until)
            sim_store_operator(world, TN_OP_REVOKE, 0, 0);
        break;
    case SIM_ACT_BACKUP:
        if (store->up)
            sim_store_backup(world);
        break;
    case SIM_ACT_RESTORE:
        if (store->up && store->has_backup)
            sim_store_restore(world);
        break;
    default: /* LOSE is looked up when the message is sent; SAY was told. */
        break;
    }
}

/* The one that was frozen as the leader is, by now, perhaps the leader of the past. */
static uint32_t find_frozen(const struct sim_world *world)
{
    for (uint32_t i = 0; i < world->config.nodes; i++)
        if (world->nodes[i].begun_token != 0 && world->now >= world->nodes[i].paused_until)
            return i;
    return SIM_NOBODY;
}

static uint32_t find_who(const struct sim_world *world, const struct sim_act *act)
{
    if (act->who != SIM_WHO_LEADER)
        return act->who;
    return act->kind == SIM_ACT_FINISH ? find_frozen(world) : world->leader[0];
}

void sim_act_do(struct sim_world *world, const struct sim_act *act)
{
    uint32_t who = find_who(world, act);

    if (act->text != NULL && act->text[0] != '\0')
        sim_trace_other(world, "--", "%s", act->text);
    if (act->who == SIM_WHO_ALL) {
        for (uint32_t i = 0; i < world->config.nodes; i++) {
            tell_act(world, act, i);
            do_to_node(world, act, i);
        }
        return;
    }
    if (act->who == SIM_WHO_LEADER && who == SIM_NOBODY)
        return; /* Nobody leads. */
    tell_act(world, act, who < world->config.nodes ? who : SIM_NOBODY);
    if (who < world->config.nodes)
        do_to_node(world, act, who);
    else
        do_to_store(world, act);
}
