/* scenario.c - stories that a person can follow line by line, on the same world as the seeds.
 *
 * Three candidates, one name, TTL 15 s, nothing random: only the script breaks things. Each story
 * ends by itself, and says whether it came true. */
#include <string.h>

#include "base/assert.h"
#include "sim/run.h"
#include "sim/script.h"

enum { A, B, C };

static bool first_term_only(const struct sim_world *world)
{
    return world->stats.terms == 1 && world->stats.losses == 0 && world->leader[0] == A;
}

static bool second_term(const struct sim_world *world)
{
    return world->stats.terms == 2 && world->leader[0] != SIM_NOBODY && world->leader[0] != A;
}

static bool old_write_refused(const struct sim_world *world)
{
    return second_term(world) && world->receivers[0].refused == 1 &&
           world->receivers[0].harmed == 0;
}

static bool handed_over_at_once(const struct sim_world *world)
{
    return second_term(world) && world->gap[0] <= 5 * world->config.delay;
}

static bool the_ready_one_leads(const struct sim_world *world)
{
    return second_term(world) && world->leader[0] == C;
}

static bool nobody_led_with_an_old_token(const struct sim_world *world)
{
    uint32_t leader = world->leader[0];
    return world->stats.refusals > 0 && leader != SIM_NOBODY &&
           world->nodes[leader].seats[0].app.token > 3;
}

static bool one_was_woken(const struct sim_world *world)
{
    return world->stats.terms == 2 && world->stats.losses == 1 &&
           world->gap[0] <= 5 * world->config.delay;
}

/* The margin is used up to the last bit, and is enough. */
static bool gap_is_thin(const struct sim_world *world)
{
    return second_term(world) && world->gap[0] > 0 && world->gap[0] < TN_MS(100);
}

static const struct sim_scenario scenarios[] = {
    { "renew", "a leader renews at a third of its TTL, a follower waits", "nodes=2+end=18000",
      first_term_only, "One term, one token, one renewal every third of the TTL." },
    { "crash", "the leader crashes, the next in line takes over after the TTL",
      "7000:crash:a=a crashes; its renewals stop, the store waits out the TTL+end=22000",
      second_term, "The store gave the lease away only when a could not believe in it any more." },
    { "pause-and-fence", "the old leader wakes up, its write is refused",
      "7000:freeze:a:20000=a looks at its token, and is stopped before it can write+end=28000",
      old_write_refused,
      "No clock helps a process that is stopped between check and write: "
      "the fence does." },
    { "partition", "the leader is cut off and steps down by its own clock",
      "nodes=2+7000:cut:a:20000=the link between a and the store is cut both ways"
      "+27000:say=the link is mended+end=33000",
      second_term, "a stopped at its deadline, before the store could give the lease away." },
    { "one-way-cut", "the store hears the leader, the leader hears nothing",
      "nodes=2+7000:cutfrom:a:40000=the store hears a, but a does not hear the store+end=47000",
      second_term, "Renewals that nobody confirms do not count: a stepped down." },
    { "handover", "resign, drain, release: the successor leads at once",
      "nodes=2+7000:resign:a=a is asked to step down, as on every deployment+end=10000",
      handed_over_at_once, "No TTL was waited for; the lease was free when the work had stopped." },
    { "slow-start", "a candidate that is not ready does not lead",
      "150:unready:b=b is up but still warming its caches: not ready+7150:crash:a=a crashes"
      "+23150:ready:b=b is warm+end=24150",
      the_ready_one_leads, "b was first in line but not ready: c led, warm." },
    { "store-restart", "the store restarts within the TTL, the leader keeps its term",
      "nodes=2+7000:restart:6000+end=23000", first_term_only,
      "Grants are on disk, renewals are not: after a restart "
      "each session has a full TTL." },
    { "restored-backup", "the store goes back in time, nobody leads with an old token",
      "style=watch+2000:backup+2000:resign:a=+6000:resign:leader=+10000:campaign:all="
      "+10000:restore+end=22000",
      nobody_led_with_an_old_token,
      "Each candidate remembers the highest token it saw and refuses to lead below it." },
    { "duplicate-id", "two processes with one identity, one leader",
      "nodes=2+twins=on+0:say=two processes were started with the same --id"
      "+7000:crash:a=the first one crashes+end=22000",
      second_term, "An identity is a label. The secret of the session decides." },
    { "herd", "a thousand candidates, one wake-up",
      "nodes=1000+stagger=0+0:say=a thousand candidates start together"
      "+7000:resign:leader=the leader resigns; one candidate is woken, not a thousand+end=8000",
      one_was_woken,
      "The queue is the store's: a vacancy wakes the first in line and nobody else." },
    { "drift", "clocks at the edge of rho, and still no overlap",
      "nodes=2+0:rate:a:-100000=a's clock is 10 % slow and the store's 10 % fast: "
      "the worst that rho allows+0:rate:store:100000="
      "+7000:cutto:a:30000=a's renewals stop getting through+end=21000",
      gap_is_thin,
      "D = TTL * (1 - rho) / (1 + rho): the margin is exactly what the clocks may take." },
    { "suspend", "a machine sleeps and wakes without becoming a second leader",
      "nodes=2+7000:suspend:a:25000=the lid of a's machine is closed: "
      "process and timers sleep, BOOTTIME counts+32000:say=the lid is opened+end=33000",
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

bool sim_scenario_run(struct sim_world *world, const struct sim_scenario *scenario,
                      struct sim_script *script)
{
    char buf[200];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = sim_script_parse(scenario->script, script, &error);
    TN_ASSERT(rc == 0);
    sim_script_open(world, script);
    sim_run_guarded(world, TN_NEVER);
    return world->violation.promise == NULL && scenario->came_true(world);
}
