/* scenario.c - stories that a person can follow line by line, on the same world as the seeds.
 *
 * Three candidates, one name, TTL 15 s, nothing random: only the script breaks things. Each story
 * ends by itself, and says whether it came true. */
#include <string.h>

#include "base/assert.h"
#include "sim/world.h"

enum { A, B, C };

static void narrate(struct sim_world *world, const char *text)
{
    sim_trace_other(world, "--", "%s", text);
}

static void later(struct sim_world *world, tenure_ns in)
{
    struct sim_event next = { .kind = SIM_EV_STEP };
    sim_at(world, world->now + in, &next);
}

static void end(struct sim_world *world)
{
    world->ended = true;
}

/* Start @count candidates one after the other, so that the first leads and the others queue in
 * turn. */
static void start(struct sim_world *world, uint32_t count, tenure_ns next_in)
{
    for (uint32_t i = 0; i < count; i++) {
        struct sim_event up = { .kind = SIM_EV_NODE_UP, .node = i };
        sim_at(world, world->now + (tenure_ns)i * TN_MS(100), &up);
    }
    later(world, next_in);
}

static bool second_term(const struct sim_world *world)
{
    return world->stats.terms == 2 && world->leader[0] != SIM_NOBODY && world->leader[0] != A;
}

/* --- renew ------------------------------------------------------------------------------------ */

static void renew_step(struct sim_world *world, uint32_t step)
{
    if (step == 0)
        start(world, 2, TN_SEC(18));
    else
        end(world);
}

static bool first_term_only(const struct sim_world *world)
{
    return world->stats.terms == 1 && world->stats.losses == 0 && world->leader[0] == A;
}

/* --- crash ------------------------------------------------------------------------------------ */

static void crash_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        start(world, 3, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "a crashes; its renewals stop, the store waits out the TTL");
        sim_node_crash(world, A);
        later(world, TN_SEC(15));
    } else {
        end(world);
    }
}

/* --- pause-and-fence -------------------------------------------------------------------------- */

static void pause_step(struct sim_world *world, uint32_t step)
{
    struct sim_event write = { .kind = SIM_EV_WRITE, .node = A, .token = 1 };
    if (step == 0) {
        start(world, 3, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "a looks at its token, and is stopped before it can write");
        sim_node_pause(world, A, world->now + TN_SEC(20), false);
        later(world, TN_SEC(20));
    } else if (step == 2) {
        narrate(world, "a wakes and finishes the write that it had begun");
        sim_send(world, &write);
        later(world, TN_SEC(1));
    } else {
        end(world);
    }
}

static bool old_write_refused(const struct sim_world *world)
{
    return second_term(world) && world->receivers[0].refused == 1 &&
           world->receivers[0].harmed == 0;
}

/* --- partition, one-way-cut ------------------------------------------------------------------- */

static void partition_step(struct sim_world *world, uint32_t step)
{
    struct sim_node *a = &world->nodes[A];
    if (step == 0) {
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "the link between a and the store is cut both ways");
        a->cut_to_until = a->cut_from_until = world->now + TN_SEC(20);
        later(world, TN_SEC(20));
    } else if (step == 2) {
        narrate(world, "the link is mended");
        later(world, TN_SEC(6));
    } else {
        end(world);
    }
}

static void one_way_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "the store hears a, but a does not hear the store");
        world->nodes[A].cut_from_until = world->now + TN_SEC(40);
        later(world, TN_SEC(40));
    } else {
        end(world);
    }
}

/* --- handover --------------------------------------------------------------------------------- */

static void handover_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "a is asked to step down, as on every deployment");
        (void)sim_node_tell(world, A, 0, TN_CLAIM_EV_RESIGN);
        later(world, TN_SEC(3));
    } else {
        end(world);
    }
}

static bool handed_over_at_once(const struct sim_world *world)
{
    return second_term(world) && world->gap[0] <= 5 * world->config.delay;
}

/* --- slow-start ------------------------------------------------------------------------------- */

static void slow_start_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        start(world, 3, TN_MS(150));
    } else if (step == 1) {
        narrate(world, "b is up but still warming its caches: not ready");
        (void)sim_node_tell(world, B, 0, TN_CLAIM_EV_NOT_READY);
        later(world, TN_SEC(7));
    } else if (step == 2) {
        narrate(world, "a crashes");
        sim_node_crash(world, A);
        later(world, TN_SEC(16));
    } else if (step == 3) {
        narrate(world, "b is warm");
        (void)sim_node_tell(world, B, 0, TN_CLAIM_EV_READY);
        later(world, TN_SEC(1));
    } else {
        end(world);
    }
}

static bool the_ready_one_leads(const struct sim_world *world)
{
    return second_term(world) && world->leader[0] == C;
}

/* --- store-restart, restored-backup ----------------------------------------------------------- */

static void store_restart_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        sim_store_crash(world, world->now + TN_SEC(6));
        later(world, TN_SEC(16));
    } else {
        end(world);
    }
}

static void restored_step(struct sim_world *world, uint32_t step)
{
    switch (step) {
    case 0:
        start(world, 3, TN_SEC(2));
        break;
    case 1:
        narrate(world, "a backup of the store is made");
        sim_store_backup(world);
        (void)sim_node_tell(world, A, 0, TN_CLAIM_EV_RESIGN);
        later(world, TN_SEC(4));
        break;
    case 2:
        (void)sim_node_tell(world, world->leader[0], 0, TN_CLAIM_EV_RESIGN);
        later(world, TN_SEC(4));
        break;
    case 3:
        for (uint32_t i = 0; i < world->config.nodes; i++)
            (void)sim_node_tell(world, i, 0, TN_CLAIM_EV_CAMPAIGN);
        sim_store_restore(world);
        later(world, TN_SEC(12));
        break;
    default:
        end(world);
    }
}

static void restored_set_up(struct sim_config *config)
{
    config->style = SIM_WATCH; /* Everyone has seen every token. */
}

static bool nobody_led_with_an_old_token(const struct sim_world *world)
{
    uint32_t leader = world->leader[0];
    return world->stats.refusals > 0 && leader != SIM_NOBODY &&
           world->nodes[leader].seats[0].app.token > 3;
}

/* --- duplicate-id ----------------------------------------------------------------------------- */

static void twins_set_up(struct sim_config *config)
{
    config->nodes = 2;
    config->twins = true;
}

static void twins_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        narrate(world, "two processes were started with the same --id");
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "the first one crashes");
        sim_node_crash(world, A);
        later(world, TN_SEC(15));
    } else {
        end(world);
    }
}

/* --- herd ------------------------------------------------------------------------------------- */

static void herd_set_up(struct sim_config *config)
{
    config->nodes = SIM_NODES_MAX;
    config->session_limit = 2 * SIM_NODES_MAX;
    config->waiter_limit = 2 * SIM_NODES_MAX;
}

static void herd_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        narrate(world, "a thousand candidates start together");
        for (uint32_t i = 0; i < world->config.nodes; i++)
            sim_node_boot(world, i);
        later(world, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "the leader resigns; one candidate is woken, not a thousand");
        (void)sim_node_tell(world, world->leader[0], 0, TN_CLAIM_EV_RESIGN);
        later(world, TN_SEC(1));
    } else {
        end(world);
    }
}

static bool one_was_woken(const struct sim_world *world)
{
    return world->stats.terms == 2 && world->stats.losses == 1 &&
           world->gap[0] <= 5 * world->config.delay;
}

/* --- drift ------------------------------------------------------------------------------------ */

static void drift_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        narrate(world,
                "a's clock is 10 % slow and the store's 10 % fast: the worst that rho allows");
        sim_clock_set_rate(&world->nodes[A].clock, world->now, TN_PPM - TN_PPM / 10);
        sim_clock_set_rate(&world->store.clock, world->now, TN_PPM + TN_PPM / 10);
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        narrate(world, "a's renewals stop getting through");
        world->nodes[A].cut_to_until = world->now + TN_SEC(30);
        later(world, TN_SEC(14));
    } else {
        end(world);
    }
}

/* The margin is used up to the last bit, and is enough. */
static bool gap_is_thin(const struct sim_world *world)
{
    return second_term(world) && world->gap[0] > 0 && world->gap[0] < TN_MS(100);
}

/* --- suspend ---------------------------------------------------------------------------------- */

static void suspend_step(struct sim_world *world, uint32_t step)
{
    if (step == 0) {
        start(world, 2, TN_SEC(7));
    } else if (step == 1) {
        narrate(world,
                "the lid of a's machine is closed: process and timers sleep, BOOTTIME counts");
        sim_node_pause(world, A, world->now + TN_SEC(25), true);
        later(world, TN_SEC(25));
    } else if (step == 2) {
        narrate(world, "the lid is opened");
        later(world, TN_SEC(1));
    } else {
        end(world);
    }
}

/* --- The list --------------------------------------------------------------------------------- */

static const struct sim_scenario scenarios[] = {
    { "renew", "a leader renews at a third of its TTL, a follower waits", NULL, renew_step,
      first_term_only, "One term, one token, one renewal every third of the TTL." },
    { "crash", "the leader crashes, the next in line takes over after the TTL", NULL, crash_step,
      second_term, "The store gave the lease away only when a could not believe in it any more." },
    { "pause-and-fence", "the old leader wakes up, its write is refused", NULL, pause_step,
      old_write_refused,
      "No clock helps a process that is stopped between check and write: "
      "the fence does." },
    { "partition", "the leader is cut off and steps down by its own clock", NULL, partition_step,
      second_term, "a stopped at its deadline, before the store could give the lease away." },
    { "one-way-cut", "the store hears the leader, the leader hears nothing", NULL, one_way_step,
      second_term, "Renewals that nobody confirms do not count: a stepped down." },
    { "handover", "resign, drain, release: the successor leads at once", NULL, handover_step,
      handed_over_at_once, "No TTL was waited for; the lease was free when the work had stopped." },
    { "slow-start", "a candidate that is not ready does not lead", NULL, slow_start_step,
      the_ready_one_leads, "b was first in line but not ready: c led, warm." },
    { "store-restart", "the store restarts within the TTL, the leader keeps its term", NULL,
      store_restart_step, first_term_only,
      "Grants are on disk, renewals are not: after a restart "
      "each session has a full TTL." },
    { "restored-backup", "the store goes back in time, nobody leads with an old token",
      restored_set_up, restored_step, nobody_led_with_an_old_token,
      "Each candidate remembers the highest token it saw and refuses to lead below it." },
    { "duplicate-id", "two processes with one identity, one leader", twins_set_up, twins_step,
      second_term, "An identity is a label. The secret of the session decides." },
    { "herd", "a thousand candidates, one wake-up", herd_set_up, herd_step, one_was_woken,
      "The queue is the store's: a vacancy wakes the first in line and nobody else." },
    { "drift", "clocks at the edge of rho, and still no overlap", NULL, drift_step, gap_is_thin,
      "D = TTL * (1 - rho) / (1 + rho): the margin is exactly what the clocks may take." },
    { "suspend", "a machine sleeps and wakes without becoming a second leader", NULL, suspend_step,
      second_term, "The first thing after the sleep is the deadline, not the work." },
};

const struct sim_scenario *sim_scenario_at(uint32_t index)
{
    return index < sizeof scenarios / sizeof scenarios[0] ? &scenarios[index] : NULL;
}

const struct sim_scenario *sim_scenario_find(const char *name)
{
    for (uint32_t i = 0; sim_scenario_at(i) != NULL; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    return NULL;
}

static void set_up(const struct sim_scenario *scenario, struct sim_config *ret_config)
{
    struct sim_config config = {
        .nodes = 3,
        .names = 1,
        .style = SIM_QUEUE,
        .fenced = true,
        .delay = TN_MS(5),
        .session_limit = 32,
        .lease_limit = 8,
        .waiter_limit = 32,
    };
    tn_plan_init(&config.plan, TN_SEC(15));
    config.rho_ppm = config.plan.rho_holder_ppm;
    config.claim = (struct tn_claim_config) {
        .attempt_timeout = config.plan.attempt_timeout,
        .backoff = config.plan.backoff,
        .poll_every = config.plan.poll_every,
        .drain_timeout = config.plan.grace,
        .raise_timeout = config.plan.ttl / 2,
        .jitter_ppm = config.plan.jitter_ppm,
        .fenced = true,
    };
    if (scenario->set_up != NULL)
        scenario->set_up(&config);
    *ret_config = config;
}

bool sim_scenario_run(struct sim_world *world, const struct sim_scenario *scenario)
{
    struct sim_event begin = { .kind = SIM_EV_STEP };
    struct sim_config config;

    set_up(scenario, &config);
    sim_world_reset(world, &config, 1);
    world->scenario = scenario;
    world->healed = true; /* Nothing is left to chance. */
    for (uint32_t i = 0; i < config.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        node->label = config.twins ? 0 : i;
        node->clock = (struct sim_clock) { .real_from = world->now,
                                           .local_from = TN_SEC(100 * (int64_t)(i + 1)),
                                           .rate_ppm = TN_PPM };
    }
    sim_at(world, world->now, &begin);
    sim_run_guarded(world);
    return world->violation.promise == NULL && scenario->came_true(world);
}
