/* phases.c - the life of a seed: a safety phase in which anything may break, then a liveness phase
 * in which everything works and someone must lead within P7's bound - after the chaos, after k
 * failed renewals (P8: the same one), after a crash, after a resignation. */
#include "base/assert.h"
#include "sim/check.h"
#include "sim/rows.h"
#include "sim/script.h"

enum phase {
    PHASE_SAFETY,
    PHASE_SETTLE,
    PHASE_KEEP,
    PHASE_CRASH,
    PHASE_BOOT,
    PHASE_RESIGN,
    PHASE_AGAIN,
    PHASE_HANDOVER,
    PHASE_STAND_DOWN,
    PHASE_DOWN,
    PHASE_END
};

static void pick_timing(struct tn_prng *prng, struct sim_config *config)
{
    static const int64_t ttls[] = { 1, 2, 3, 5, 10, 15, 30, 60 };
    struct tn_plan_answer answer;
    struct tn_plan *plan = &config->plan;

    tn_plan_init(plan, TN_SEC(ttls[tn_prng_below(prng, 8)]));
    config->delay = tn_prng_range(prng, plan->ttl / 1000, plan->ttl / 80);
    tn_plan_turn(plan, TN_KNOB_RTT, 2 * config->delay + config->delay / 2);
    tn_plan_turn(plan, TN_KNOB_PAUSE, plan->ttl / 100);
    tn_plan_turn(plan, TN_KNOB_RHO, tn_prng_range(prng, 1000, 150000));
    if (tn_plan_judge(plan, &answer) != TN_PLAN_SAFE)
        tn_plan_turn(plan, TN_KNOB_RHO, TN_PPM / 20);
    TN_ASSERT(tn_plan_judge(plan, &answer) == TN_PLAN_SAFE);
    config->rho_ppm = plan->rho_holder_ppm;
    config->claim = (struct tn_claim_config) {
        .attempt_timeout = plan->attempt_timeout,
        .backoff = plan->backoff,
        .poll_every = plan->poll_every,
        .drain_timeout = plan->grace,
        .stall_after = tn_prng_ppm(prng, TN_PPM / 2) ? plan->ttl : 0,
        .raise_timeout = plan->ttl / 2,
        .notes = { .settle = 4 * plan->rtt, .back = 2 * plan->poll_every + 4 * plan->rtt },
        .jitter_ppm = plan->jitter_ppm,
    };
}

static void pick_faults(struct tn_prng *prng, struct sim_config *config)
{
    tenure_ns ttl = config->plan.ttl;
    config->safety = tn_prng_range(prng, 20 * ttl, 50 * ttl);
    config->fault_every = tn_prng_range(prng, ttl / 2, 3 * ttl);
    config->drop_ppm = (uint32_t)tn_prng_range(prng, 0, 300000);
    config->duplicate_ppm = (uint32_t)tn_prng_range(prng, 0, 100000);
    config->delay_ppm = (uint32_t)tn_prng_range(prng, 0, 200000);
    config->delay_most = tn_prng_range(prng, ttl / 4, 3 * ttl);
    config->restores = tn_prng_ppm(prng, TN_PPM / 4);
    config->twins = tn_prng_ppm(prng, TN_PPM / 5);
}

static void pick_limits(struct tn_prng *prng, struct sim_config *config)
{
    bool tight = tn_prng_ppm(prng, TN_PPM / 5);
    config->session_limit = tight ? config->nodes + 1 : 4 * config->nodes + 4;
    config->lease_limit = config->names + 1;
    config->waiter_limit = tight ? config->nodes : 4 * config->nodes * config->names;
    if (config->style == SIM_OBSERVED)
        config->session_limit = 300; /* Nobody tidies up silent sessions here. */
}

void sim_config_of_seed(uint64_t seed, struct sim_config *ret_config)
{
    struct sim_config config = { 0 };
    struct tn_prng prng;

    tn_prng_seed(&prng, seed ^ 0x7465); /* Not the stream that the world itself draws from. */
    pick_timing(&prng, &config);
    pick_faults(&prng, &config);
    config.nodes = (uint32_t)tn_prng_range(&prng, 2, 5);
    config.names = (uint32_t)tn_prng_range(&prng, 1, 3);
    config.style = (enum sim_style)tn_prng_below(&prng, SIM_STYLES);
    config.fenced = tn_prng_ppm(&prng, TN_PPM * 2 / 3);
    config.claim.fenced = config.fenced;
    config.claim.observed = config.style == SIM_OBSERVED;
    config.voters = config.style == SIM_VOTES ? 3 + 2 * (uint32_t)tn_prng_below(&prng, 3) : 0;
    if (tn_prng_below(&prng, 50) == 0) { /* One process with many names. */
        config.names = config.style == SIM_VOTES ? TN_TABLE_NOTICES : SIM_NAMES_MAX;
        config.nodes = 2;
        config.safety /= 2;
    } else if (tn_prng_below(&prng, 400) == 0) {
        config.names = 1;
        config.nodes = (uint32_t)tn_prng_range(&prng, 100, SIM_NODES_MAX);
        config.style = SIM_QUEUE;
        config.claim.observed = false;
        config.safety = 4 * config.plan.ttl;
    }
    pick_limits(&prng, &config);
    config.acquire_timeout = tn_prng_range(&prng, config.plan.attempt_timeout, config.plan.ttl);
    config.mints = config.style == SIM_ROWS && tn_prng_ppm(&prng, TN_PPM * 2 / 3);
    config.sessions = config.mints && tn_prng_ppm(&prng, TN_PPM / 2);
    config.atomic = tn_prng_ppm(&prng, TN_PPM / 2);
    config.notes = tn_prng_ppm(&prng, TN_PPM / 3);
    config.feeds = config.style == SIM_ROWS && tn_prng_ppm(&prng, TN_PPM * 2 / 3);
    if (config.feeds) /* What a feed goes on from may be gone then. */
        config.restores = config.restores || tn_prng_ppm(&prng, TN_PPM / 2);
    if (tn_prng_ppm(&prng, TN_PPM / 4))
        config.plan.hold_off = tn_prng_range(&prng, config.plan.ttl / 20, 2 * config.plan.ttl);
    if (config.sessions && tn_plan_asked(&config.plan) > TN_ROWS_DELAY_MOST)
        config.plan.hold_off = 0; /* A lock-delay has no room for it; the library refuses it. */
    /* The grants of a store that went back are refused until its counter has caught up. With the
     * delays of H3 that takes so long that no bound of P7 would say anything. */
    bool small = config.names <= SIM_RANKED_NAMES && config.nodes <= 5 && !config.restores;
    config.ranked = small && (config.style == SIM_QUEUE || config.style == SIM_LINE) &&
                    tn_prng_ppm(&prng, TN_PPM / 2);
    config.yields = config.ranked && tn_prng_ppm(&prng, TN_PPM / 2);
    tenure_ns asked = tn_plan_asked(&config.plan);
    if (config.sessions) /* It may live for two TTLs, and then a lock-delay follows. */
        config.plan.slop += asked + 2 * tn_rows_lock_delay(asked);
    tenure_ns least = tn_plan_soft_least(&config.plan);
    if (config.style <= SIM_WATCH && config.fenced && !config.ranked && config.plan.hold_off == 0 &&
        least < config.plan.ttl && tn_prng_ppm(&prng, TN_PPM / 2)) {
        config.claim.soft = tn_prng_range(&prng, least, config.plan.ttl - 1);
        config.alike = (uint32_t)tn_prng_range(&prng, 2, config.nodes);
    }
    *ret_config = config;
}

static void next_phase(struct sim_world *world, tenure_ns in)
{
    struct sim_event next = { .kind = SIM_EV_STEP };
    world->phase++;
    sim_at(world, world->now + in, &next);
}

static struct tn_plan_answer bounds(const struct sim_world *world)
{
    struct tn_plan_answer answer;
    (void)tn_plan_judge(&world->config.plan, &answer);
    return answer;
}

/* Where servers vote, the votes may split, and whoever has too few looks after three round trips
 * at most (votes.c): once for each candidate that has to make way, and once more to confirm. */
static tenure_ns split_bound(const struct sim_world *world)
{
    return world->config.style == SIM_VOTES ? 6 * world->config.nodes * world->config.plan.rtt : 0;
}

/* Until the others have left the line, the work has stopped and the chosen one leads. */
static tenure_ns handover_bound(const struct sim_world *world)
{
    const struct tn_claim_config *claim = &world->config.claim;
    tenure_ns local =
        claim->notes.settle + claim->poll_every + claim->raise_timeout + world->config.plan.slop;

    return bounds(world).failover_resign + local + local / 5 + 8 * world->config.plan.rtt +
           split_bound(world);
}

/* Until one that came or came back has its place, and with priorities leads. */
static tenure_ns return_bound(const struct sim_world *world)
{
    tenure_ns out = (SIM_RANKS + 1) * world->config.claim.notes.back;

    return 2 * world->config.plan.ttl +
           (world->config.ranked ? out + out / 5 + handover_bound(world) : 0);
}

/* On top of P7's bound for a crash: a session whose opening backed off, an application that still
 * drains, a grant from the chaos that has to be given back first. */
static tenure_ns settle_bound(const struct sim_world *world)
{
    const struct tn_plan *plan = &world->config.plan;
    tenure_ns local = plan->renew_every + plan->grace + plan->poll_every + plan->backoff +
                      world->config.claim.raise_timeout;
    /* A note counts from when it is heard of, and behind its end somebody may stand back. */
    if (world->config.notes)
        local += SIM_NOTE_TTLS * plan->ttl;
    local += world->config.claim.notes.back;
    if (world->config.ranked) /* Somebody stays out of the line; then a leader yields. */
        local += SIM_RANKS * world->config.claim.notes.back + handover_bound(world);
    return bounds(world).failover_crash_real + local + local / 5 + 8 * plan->rtt +
           split_bound(world);
}

static uint32_t leader_of_first(const struct sim_world *world)
{
    for (uint32_t i = 0; i < world->config.nodes; i++)
        if (sim_node_token(world, &world->nodes[i], 0) != 0)
            return i;
    return SIM_NOBODY;
}

static void check_all_led(struct sim_world *world, const char *when)
{
    for (uint32_t i = 0; i < world->config.names; i++) {
        sim_check_led(world, i, when);
        sim_check_one_leader(world, i);
    }
}

static void keep_through_failures(struct sim_world *world)
{
    check_all_led(world, "after everything was mended");
    world->doomed_node = leader_of_first(world);
    world->doomed_renewals = world->config.alike > 0 ? 1 : (uint32_t)bounds(world).tolerated;
    world->must_keep = world->doomed_node;
    next_phase(world, 2 * world->config.plan.ttl);
}

static void crash_leader(struct sim_world *world)
{
    world->must_keep = SIM_NOBODY;
    world->doomed_node = leader_of_first(world);
    world->doomed_renewals = 0;
    sim_check_led(world, 0, "after a few failed renewals");
    if (world->doomed_node == SIM_NOBODY)
        return;
    struct sim_node *leader = &world->nodes[world->doomed_node];
    sim_trace_node(world, leader, "crashes");
    sim_node_crash(world, world->doomed_node);
    world->ranks_at = world->now - 4 * world->config.claim.notes.back;
    /* What the network had kept of it comes out late: its last renewal, once more. */
    struct sim_event late = { .kind = SIM_EV_REQUEST,
                              .op = TN_OP_RENEW,
                              .node = leader->index,
                              .incarnation = leader->incarnation,
                              .life = leader->candidate.life,
                              .seq = leader->candidate.session.answered };
    if (world->config.feeds)
        sim_feed_late(world, 0, world->config.plan.ttl * 3 / 4);
    /* A late write of a row meets another version; a line's sessions are of a connection. */
    if (world->config.style < SIM_ROWS)
        sim_at(world, world->now + world->config.plan.ttl * 3 / 4, &late);
    /* Followers had a request on its way to the store, perhaps, that has to be made again. */
    next_phase(world, bounds(world).failover_crash_real + 2 * world->config.claim.backoff +
                          split_bound(world));
}

static void boot_again(struct sim_world *world)
{
    sim_check_led(world, 0, "after its leader crashed");
    sim_check_rank(world, leader_of_first(world), world->ranks_at, "after its leader crashed");
    sim_node_boot(world, world->doomed_node);
    next_phase(world, return_bound(world));
}

static void resign_leader(struct sim_world *world)
{
    uint32_t leader = leader_of_first(world);
    sim_check_led(world, 0, "before the resignation");
    if (world->config.yields)
        sim_check_rank(world, leader, world->now - return_bound(world) + world->config.plan.ttl,
                       "after a higher one came");
    world->ranks_at = world->now - 4 * world->config.claim.notes.back;
    if (leader == SIM_NOBODY)
        return;
    (void)sim_node_tell(world, leader, 0, TN_CLAIM_EV_RESIGN);
    next_phase(world, bounds(world).failover_resign + split_bound(world));
}

/* A history is told with the numbers it was drawn from. */
void sim_tell_config(struct sim_world *world)
{
    static const char *const styles[] = { "queue", "watch", "observed", "rows", "votes", "line" };
    const struct sim_config *config = &world->config;
    sim_trace_other(world, "seed", "%llu: %u candidates, %u names, store style %s%s, %s",
                    (unsigned long long)world->seed, config->nodes, config->names,
                    config->sessions ? "rows with sessions"
                    : config->mints  ? "rows, minted tokens"
                                     : styles[config->style],
                    config->feeds ? ", a change feed" : "", config->fenced ? "fenced" : "no fence");
    sim_trace_other(
        world, "seed", "TTL %lld ms, D %lld ms, renew every %lld ms, rho %u ppm, hold-off %lld ms",
        (long long)(config->plan.ttl / TN_MS(1)), (long long)(bounds(world).valid_for / TN_MS(1)),
        (long long)(config->plan.renew_every / TN_MS(1)), config->rho_ppm,
        (long long)(config->plan.hold_off / TN_MS(1)));
    sim_trace_other(world, "seed", "drop %u, duplicate %u, delay %u ppm up to %lld ms",
                    config->drop_ppm, config->duplicate_ppm, config->delay_ppm,
                    (long long)(config->delay_most / TN_MS(1)));
}

static void begin(struct sim_world *world)
{
    sim_tell_config(world);
    if (world->config.alike > 0)
        sim_trace_other(world, "seed", "soft limit %lld ms, %u candidates have the same fences",
                        (long long)(world->config.claim.soft / TN_MS(1)), world->config.alike);
    sim_faults_start(world);
    for (uint32_t i = 0; i < world->config.nodes; i++)
        sim_node_boot(world, i);
    next_phase(world, world->config.safety);
}

/* --- Operators: H2 ---------------------------------------------------------------------------- */

/* Everybody campaigns again, also whoever resigned. */
static void stand_again(struct sim_world *world)
{
    sim_check_led(world, 0, "after a resignation");
    sim_check_rank(world, leader_of_first(world), world->ranks_at, "after a resignation");
    for (uint32_t i = 0; i < world->config.nodes; i++)
        (void)sim_node_tell(world, i, 0, TN_CLAIM_EV_CAMPAIGN);
    next_phase(world, return_bound(world));
}

/* A store without a line, where the former holder could be the first to ask again, and which can
 * be told to revoke and not to delete. */
static bool is_revocable(const struct sim_world *world)
{
    return world->config.style == SIM_ROWS || world->config.style == SIM_WATCH;
}

/* The holder hears of it with its next renewal, at the latest. */
static void revoke_leader(struct sim_world *world)
{
    if (world->config.style == SIM_ROWS)
        sim_rows_revoke(world, 0);
    else
        sim_store_operator(world, TN_OP_REVOKE, 0, 0);
    next_phase(world, handover_bound(world) + world->config.plan.ttl);
}

static void hand_over(struct sim_world *world)
{
    uint32_t leader = leader_of_first(world);
    uint32_t nodes = world->config.nodes;

    sim_check_led(world, 0, "before the hand-over");
    if (leader == SIM_NOBODY)
        return;
    world->handed_by = leader;
    world->handed_to = SIM_NOBODY;
    if (is_revocable(world) && sim_chance(world, TN_PPM / 3)) {
        revoke_leader(world);
        return;
    }
    if (sim_chance(world, TN_PPM / 2)) /* Any but the leader. */
        world->handed_to = (leader + 1 + (uint32_t)tn_prng_below(&world->prng, nodes - 1)) % nodes;
    sim_note_post(world, 0, TN_NOTE_HANDOVER, world->handed_to, 4 * world->config.plan.ttl);
    next_phase(world, handover_bound(world));
}

static void check_handed_over(struct sim_world *world)
{
    uint32_t leader = leader_of_first(world);

    sim_check_led(world, 0, "after a hand-over");
    if (leader == world->handed_by)
        sim_violate(world, "H2", "node %u was asked to hand over or revoked, and leads", leader);
    else if (world->handed_to != SIM_NOBODY && leader != world->handed_to)
        sim_violate(world, "H2", "node %u was to lead, and node %u does", world->handed_to, leader);
}

static void stand_down(struct sim_world *world)
{
    tenure_ns bound = handover_bound(world);

    check_handed_over(world);
    sim_note_post(world, 0, TN_NOTE_STAND_DOWN, SIM_NOBODY, 2 * bound);
    next_phase(world, bound);
}

/* The operator is gone, and nobody tells that the note is over. */
static void check_down(struct sim_world *world)
{
    if (leader_of_first(world) != SIM_NOBODY)
        sim_violate(world, "H2", "node %u leads a name that stands down", leader_of_first(world));
    next_phase(world, settle_bound(world) + 2 * handover_bound(world));
}

static void finish(struct sim_world *world)
{
    sim_check_led(world, 0, "after a stand-down");
    world->ended = true;
}

void sim_phase_step(struct sim_world *world)
{
    if (world->script != NULL) {
        sim_script_step(world);
        return;
    }
    switch ((enum phase)world->phase) {
    case PHASE_SAFETY:
        begin(world);
        break;
    case PHASE_SETTLE:
        sim_heal(world);
        next_phase(world, settle_bound(world));
        break;
    case PHASE_KEEP:
        keep_through_failures(world);
        break;
    case PHASE_CRASH:
        crash_leader(world);
        break;
    case PHASE_BOOT:
        boot_again(world);
        break;
    case PHASE_RESIGN:
        resign_leader(world);
        break;
    case PHASE_AGAIN:
        stand_again(world);
        break;
    case PHASE_HANDOVER:
        hand_over(world);
        break;
    case PHASE_STAND_DOWN:
        stand_down(world);
        break;
    case PHASE_DOWN:
        check_down(world);
        break;
    case PHASE_END:
        finish(world);
        break;
    }
}
