/* faults.c - what breaks, at random, while the safety phase lasts. */
#include "base/assert.h"
#include "sim/line.h"
#include "sim/rows.h"
#include "sim/votes.h"

void sim_fired(struct sim_world *world, enum sim_fault fault)
{
    world->stats.faults[fault]++;
}

const char *sim_fault_text(enum sim_fault fault)
{
#define TEXT(symbol, text) [SIM_FAULT_##symbol] = text,
    static const char *const texts[] = { SIM_FAULTS(TEXT) };
#undef TEXT
    TN_ASSERT(fault < SIM_FAULT_COUNT);
    return texts[fault];
}

enum { CUT_AGAIN = 1 }; /* A fault that an earlier one has planned. */

/* A span from a twentieth of the TTL to @most TTLs. */
static tenure_ns span(struct sim_world *world, int64_t most)
{
    tenure_ns ttl = world->config.plan.ttl;
    return sim_between(world, ttl / 20, most * ttl);
}

static uint32_t pick_name(struct sim_world *world)
{
    return (uint32_t)tn_prng_below(&world->prng, world->config.names);
}

/* The leader of some name half of the time: that is where faults hurt. */
static uint32_t pick_node(struct sim_world *world)
{
    uint32_t leader = world->leader[pick_name(world)];
    if (leader != SIM_NOBODY && sim_chance(world, TN_PPM / 2))
        return leader;
    return (uint32_t)tn_prng_below(&world->prng, world->config.nodes);
}

static void stop_node(struct sim_world *world, bool suspend)
{
    uint32_t node = pick_node(world);
    sim_trace_node(world, &world->nodes[node],
                   suspend ? "is suspended with its machine" : "is stopped");
    sim_node_pause(world, node, world->now + span(world, 3), suspend);
    sim_fired(world, suspend ? SIM_FAULT_SUSPEND : SIM_FAULT_PAUSE);
}

static void pause_node(struct sim_world *world)
{
    stop_node(world, false);
}

static void suspend_node(struct sim_world *world)
{
    stop_node(world, true);
}

static void crash_node(struct sim_world *world)
{
    struct sim_event up = { .kind = SIM_EV_NODE_UP, .node = pick_node(world) };
    if (!world->nodes[up.node].up)
        return;
    sim_trace_node(world, &world->nodes[up.node], "crashes");
    sim_node_crash(world, up.node);
    sim_at(world, world->now + span(world, 2), &up);
    sim_fired(world, SIM_FAULT_CRASH);
}

static void cut_link(struct sim_world *world)
{
    struct sim_node *node = &world->nodes[pick_node(world)];
    tenure_ns until = world->now + span(world, 3);
    uint64_t ways = tn_prng_below(&world->prng, 3);
    if (ways != 1)
        node->cut_to_until = until;
    if (ways != 2)
        node->cut_from_until = until;
    sim_trace_node(world, node, "is cut off %s the store",
                   ways == 0 ? "from and to" : (ways == 1 ? "from" : "on the way to"));
    sim_fired(world, ways == 0 ? SIM_FAULT_CUT_BOTH : SIM_FAULT_CUT_ONE_WAY);
}

/* Rates at the edge of what the plan allows are the interesting ones. */
int64_t sim_pick_rate(struct sim_world *world)
{
    int64_t rho = world->config.rho_ppm;
    uint64_t edge = tn_prng_below(&world->prng, 4);
    if (edge == 0)
        return TN_PPM - rho;
    if (edge == 1)
        return TN_PPM + rho;
    return TN_PPM + tn_prng_range(&world->prng, -rho, rho);
}

static void change_rate(struct sim_world *world)
{
    struct sim_node *node = &world->nodes[pick_node(world)];
    if (sim_chance(world, TN_PPM / 3)) {
        sim_clock_set_rate(&world->store.clock, world->now, sim_pick_rate(world));
        world->store.timer_at = TN_NEVER;
        sim_store_schedule(world);
    } else {
        sim_clock_set_rate(&node->clock, world->now, sim_pick_rate(world));
        node->timer_at = TN_NEVER;
        if (node->up)
            sim_node_schedule(world, node);
    }
    sim_fired(world, SIM_FAULT_CLOCK_RATE);
}

static void step_wall_clock(struct sim_world *world)
{
    struct sim_node *node = &world->nodes[pick_node(world)];
    node->clock.wall_offset += sim_between(world, -TN_SEC(3600), TN_SEC(600));
    sim_trace_node(world, node, "has its wall clock stepped");
    node->timer_at = TN_NEVER;
    if (node->up)
        sim_node_schedule(world, node);
    sim_fired(world, SIM_FAULT_WALL_STEP);
}

static void crash_store(struct sim_world *world)
{
    if (!world->store.up || world->config.style == SIM_VOTES)
        return;
    sim_store_crash(world, world->now + span(world, 2));
    sim_fired(world, SIM_FAULT_STORE_RESTART);
}

static void pause_store(struct sim_world *world)
{
    if (world->config.style == SIM_VOTES)
        return;
    world->store.paused_until = world->now + span(world, 1);
    sim_trace_other(world, "store", "is stopped");
    sim_fired(world, SIM_FAULT_STORE_PAUSE);
}

static void back_up_or_restore(struct sim_world *world)
{
    if (!world->config.restores || !world->store.up || world->config.style == SIM_VOTES)
        return;
    if (!world->store.has_backup || sim_chance(world, TN_PPM * 2 / 3)) {
        sim_store_backup(world);
        return;
    }
    sim_store_restore(world);
    sim_fired(world, SIM_FAULT_STORE_RESTORE);
}

static bool store_answers(const struct sim_world *world)
{
    return world->store.up && world->now >= world->store.paused_until;
}

/* All leases of a process revoked at once, and word of it gets through only once: there is more to
 * tell than fits into one reply. */
static void revoke_behind_cut(struct sim_world *world)
{
    tenure_ns ttl = world->config.plan.ttl;
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        struct sim_event cut = { .kind = SIM_EV_FAULT, .op = CUT_AGAIN, .node = i };
        world->nodes[i].cut_from_until = world->now + ttl / 4;
        if (world->leader[0] == i)
            sim_at(world, world->now + ttl / 4 + ttl / 8, &cut);
    }
    for (uint32_t i = 0; i < world->config.names; i++)
        sim_store_operator(world, TN_OP_REVOKE, i, 0);
}

static void revoke(struct sim_world *world)
{
    if (!store_answers(world))
        return;
    if (world->config.names == SIM_NAMES_MAX && world->config.style < SIM_OBSERVED) {
        revoke_behind_cut(world);
        return;
    }
    if (sim_chance(world, TN_PPM / 2)) {
        sim_store_operator(world, TN_OP_REVOKE, pick_name(world), 0);
        return;
    }
    for (uint32_t i = 0; i < world->config.names; i++)
        sim_store_operator(world, TN_OP_REVOKE, i, 0);
}

static void forget(struct sim_world *world)
{
    if (store_answers(world) && world->config.style == SIM_ROWS)
        sim_rows_touch(world, pick_name(world));
    else if (store_answers(world) && world->config.style == SIM_LINE)
        sim_line_kill(world, pick_name(world));
    else if (store_answers(world) && world->config.style < SIM_OBSERVED)
        sim_store_forget_names(world);
}

static void resign(struct sim_world *world)
{
    uint32_t name = pick_name(world);
    if (world->leader[name] == SIM_NOBODY)
        return;
    if (sim_node_tell(world, world->leader[name], name, TN_CLAIM_EV_RESIGN))
        sim_fired(world, SIM_FAULT_RESIGN);
}

static void unready(struct sim_world *world)
{
    uint32_t node = pick_node(world);
    uint32_t name = pick_name(world);
    if (sim_node_tell(world, node, name, TN_CLAIM_EV_NOT_READY))
        sim_fired(world, SIM_FAULT_NOT_READY);
}

static void stall(struct sim_world *world)
{
    uint32_t name = pick_name(world);
    uint32_t leader = world->leader[name];
    if (leader == SIM_NOBODY || world->config.claim.stall_after == 0)
        return;
    world->nodes[leader].seats[name].app.stalled = true;
    sim_fired(world, SIM_FAULT_STALL);
}

static void fence_down(struct sim_world *world)
{
    if (world->config.fenced)
        world->receivers[pick_name(world)].down_until = world->now + span(world, 2);
}

static void cut_ttl(struct sim_world *world)
{
    tenure_ns *most = &world->store.ttl_most;
    *most = *most == TN_NEVER ? tn_plan_asked(&world->config.plan) - world->config.plan.ttl / 2
                              : TN_NEVER;
}

/* An operator asks for something, and half of the time is gone before it takes that back. */
static void leave_note(struct sim_world *world)
{
    static const enum tn_note_kind kinds[] = { TN_NOTE_HANDOVER, TN_NOTE_HANDOVER,
                                               TN_NOTE_STAND_DOWN, TN_NOTE_DRAIN };
    uint32_t name = pick_name(world);
    enum tn_note_kind kind = kinds[tn_prng_below(&world->prng, 4)];
    uint32_t to = (uint32_t)tn_prng_below(&world->prng, world->config.nodes);

    if (kind != TN_NOTE_DRAIN && sim_chance(world, TN_PPM / 2))
        to = SIM_NOBODY;
    if (world->now < world->notes[name].over_at)
        sim_note_end(world, name);
    else
        sim_note_post(world, name, kind, to, span(world, SIM_NOTE_TTLS));
    sim_fired(world, SIM_FAULT_NOTE);
}

/* Who rested or was not ready comes back, one at a time. */
static void come_back(struct sim_world *world)
{
    uint32_t node = pick_node(world);
    uint32_t name = pick_name(world);
    (void)sim_node_tell(world, node, name, TN_CLAIM_EV_READY);
    (void)sim_node_tell(world, node, name, TN_CLAIM_EV_CAMPAIGN);
}

void sim_fault_event(struct sim_world *world, const struct sim_event *event)
{
    static void (*const kinds[])(struct sim_world *) = {
        pause_node,   pause_node,
        suspend_node, crash_node,
        crash_node,   cut_link,
        cut_link,     change_rate,
        change_rate,  resign,
        come_back,    come_back,
        crash_store,  pause_store,
        revoke,       forget,
        unready,      stall,
        fence_down,   step_wall_clock,
        cut_ttl,      back_up_or_restore,
        leave_note,   leave_note,
    };
    /* The last two only where operators leave notes: so the other worlds stay as they were. */
    size_t count = sizeof kinds / sizeof kinds[0] - (world->config.notes ? 0 : 2);
    struct sim_event next = { .kind = SIM_EV_FAULT };
    if (world->healed)
        return;
    if (event->op == CUT_AGAIN) {
        world->nodes[event->node].cut_from_until = world->now + 2 * world->config.plan.ttl;
        return;
    }
    if (world->config.style == SIM_VOTES && sim_chance(world, TN_PPM / 2))
        sim_voters_fault(world);
    else
        kinds[tn_prng_below(&world->prng, count)](world);
    sim_at(world, world->now + sim_between(world, 0, 2 * world->config.fault_every), &next);
}

/* What breaks above agents, which break by themselves (hosts_faults.c). */
void sim_fault_upstream(struct sim_world *world)
{
    static void (*const kinds[])(struct sim_world *) = {
        cut_link, cut_link, change_rate, crash_store, pause_store, revoke, forget, cut_ttl,
    };

    if (world->config.style == SIM_VOTES && sim_chance(world, TN_PPM / 2))
        sim_voters_fault(world);
    else
        kinds[tn_prng_below(&world->prng, sizeof kinds / sizeof kinds[0])](world);
}

void sim_faults_start(struct sim_world *world)
{
    struct sim_event next = { .kind = SIM_EV_FAULT };
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        struct sim_clock *clock = &world->nodes[i].clock;
        clock->real_from = world->now;
        clock->local_from = sim_between(world, TN_SEC(1), TN_SEC(1000000));
        clock->rate_ppm = sim_pick_rate(world);
        world->nodes[i].label = i;
    }
    world->store.clock.rate_ppm = sim_pick_rate(world);
    if (world->config.twins) {
        world->nodes[world->config.nodes - 1].label = world->config.nodes - 2;
        sim_fired(world, SIM_FAULT_DUPLICATE_ID);
    }
    if (world->config.nodes >= 100)
        sim_fired(world, SIM_FAULT_HERD);
    sim_at(world, world->now + sim_between(world, 0, 2 * world->config.fault_every), &next);
}

/* Everything works from now on: links, processes, the store; the operator has done his part. */
void sim_heal(struct sim_world *world)
{
    world->healed = true;
    sim_hurry(world, world->now + world->config.delay,
              world->now + world->config.claim.drain_timeout);
    world->store.paused_until = 0;
    world->store.ttl_most = TN_NEVER;
    if (!world->store.up)
        sim_store_event(world, &(struct sim_event) { .kind = SIM_EV_STORE_UP });
    if (world->config.style == SIM_VOTES)
        sim_voters_heal(world);
    sim_store_operator(world, TN_OP_RAISE, 0, world->store.highest_token);
    for (uint32_t i = 0; i < world->config.names; i++)
        world->receivers[i].down_until = 0;
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        node->cut_to_until = 0;
        node->cut_from_until = 0;
        if (!node->up) {
            if (world->below == NULL) /* Agents are started from there. */
                sim_node_boot(world, i);
            continue;
        }
        node->paused_until = 0;
        node->timer_at = TN_NEVER;
        sim_ranks_tell(world, i); /* Who watches looks again by itself, too. */
        for (uint32_t j = 0; j < world->config.names && world->below == NULL; j++) {
            node->seats[j].app.stalled = false;
            (void)sim_node_tell(world, i, j, TN_CLAIM_EV_READY);
            (void)sim_node_tell(world, i, j, TN_CLAIM_EV_CAMPAIGN);
        }
        sim_node_schedule(world, node);
    }
}
