/* phases.c - the life of a seed: a safety phase in which anything may break, then a liveness phase
 * in which everything works and someone must lead within P7's bound - after the chaos, after k
 * failed renewals (P8: the same one), after a crash, after a resignation. */
#include "base/assert.h"
#include "sim/script.h"
#include "sim/world.h"

enum phase {
    PHASE_SAFETY,
    PHASE_SETTLE,
    PHASE_KEEP,
    PHASE_CRASH,
    PHASE_BOOT,
    PHASE_RESIGN,
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
    if (config.sessions) /* It may live for two TTLs, and then a lock-delay follows. */
        config.plan.slop += config.plan.ttl + 2 * tn_rows_lock_delay(config.plan.ttl);
    config.atomic = tn_prng_ppm(&prng, TN_PPM / 2);
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

/* On top of P7's bound for a crash: a session whose opening backed off, an application that still
 * drains, a grant from the chaos that has to be given back first. */
static tenure_ns settle_bound(const struct sim_world *world)
{
    const struct tn_plan *plan = &world->config.plan;
    tenure_ns local = plan->renew_every + plan->grace + plan->poll_every + plan->backoff +
                      world->config.claim.raise_timeout;
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
    world->doomed_renewals = (uint32_t)bounds(world).tolerated;
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
    /* What the network had kept of it comes out late: its last renewal, once more. */
    struct sim_event late = { .kind = SIM_EV_REQUEST,
                              .op = TN_OP_RENEW,
                              .node = leader->index,
                              .incarnation = leader->incarnation,
                              .life = leader->candidate.life,
                              .seq = leader->candidate.session.answered };
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
    sim_node_boot(world, world->doomed_node);
    next_phase(world, 2 * world->config.plan.ttl);
}

static void resign_leader(struct sim_world *world)
{
    uint32_t leader = leader_of_first(world);
    sim_check_led(world, 0, "before the resignation");
    if (leader == SIM_NOBODY)
        return;
    (void)sim_node_tell(world, leader, 0, TN_CLAIM_EV_RESIGN);
    next_phase(world, bounds(world).failover_resign + split_bound(world));
}

/* A history is told with the numbers it was drawn from. */
static void tell_config(struct sim_world *world)
{
    static const char *const styles[] = { "queue", "watch", "observed", "rows", "votes", "line" };
    const struct sim_config *config = &world->config;
    sim_trace_other(world, "seed", "%llu: %u candidates, %u names, store style %s, %s",
                    (unsigned long long)world->seed, config->nodes, config->names,
                    config->sessions ? "rows with sessions"
                    : config->mints  ? "rows, minted tokens"
                                     : styles[config->style],
                    config->fenced ? "fenced" : "no fence");
    sim_trace_other(world, "seed", "TTL %lld ms, D %lld ms, renew every %lld ms, rho %u ppm",
                    (long long)(config->plan.ttl / TN_MS(1)),
                    (long long)(bounds(world).valid_for / TN_MS(1)),
                    (long long)(config->plan.renew_every / TN_MS(1)), config->rho_ppm);
    sim_trace_other(world, "seed", "drop %u, duplicate %u, delay %u ppm up to %lld ms",
                    config->drop_ppm, config->duplicate_ppm, config->delay_ppm,
                    (long long)(config->delay_most / TN_MS(1)));
}

static void begin(struct sim_world *world)
{
    tell_config(world);
    sim_faults_start(world);
    for (uint32_t i = 0; i < world->config.nodes; i++)
        sim_node_boot(world, i);
    next_phase(world, world->config.safety);
}

static void finish(struct sim_world *world)
{
    sim_check_led(world, 0, "after a resignation");
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
    case PHASE_END:
        finish(world);
        break;
    }
}
