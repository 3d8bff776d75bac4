/* hosts_faults.c - what breaks in the two-level world, and the life of such a world: anything may
 * break; then nothing does, and every name must be led; then the leader's process is killed, and
 * another must lead as soon as after a resignation, because its agent notices. */
#include "base/assert.h"
#include "sim/check.h"
#include "sim/hosts.h"

enum host_phase { PHASE_SAFETY, PHASE_HEAL, PHASE_DEAD, PHASE_BACK, PHASE_KILL, PHASE_END };

/* --- Faults ----------------------------------------------------------------------------------- */

static uint32_t leader_of(const struct host_world *hosts, uint32_t name)
{
    for (uint32_t i = 0; i < hosts->party_count; i++)
        if (!hosts->parties[i].is_agent && sim_host_token(hosts, i, name) != 0)
            return i;
    return SIM_NOBODY;
}

static uint32_t pick_name(struct host_world *hosts)
{
    return (uint32_t)tn_prng_below(&hosts->world->prng, HOST_NAMES);
}

/* A leader half of the time, or its agent: that is where faults hurt. */
static uint32_t pick_process(struct host_world *hosts)
{
    uint32_t leader = leader_of(hosts, pick_name(hosts));
    uint32_t agents = hosts->host_count * hosts->store_count;
    uint32_t processes = hosts->party_count - agents;

    if (leader != SIM_NOBODY && sim_chance(hosts->world, TN_PPM / 2))
        return leader;
    return agents + (uint32_t)tn_prng_below(&hosts->world->prng, processes);
}

static tenure_ns pick_span(struct host_world *hosts)
{
    return hosts->world->now + sim_between(hosts->world, hosts->up.ttl / 50, 2 * hosts->up.ttl);
}

/* An agent's node stands still with it. */
static void stop_party(struct host_world *hosts, uint32_t party, tenure_ns until, bool suspend)
{
    hosts->parties[party].stopped_until = until;
    if (hosts->parties[party].is_agent && hosts->upstream != NULL) {
        hosts->upstream->nodes[party].paused_until = 0; /* The newest counts, as here. */
        sim_node_pause(hosts->upstream, party, until, suspend);
    }
}

static void stop(struct host_world *hosts, uint32_t party)
{
    tenure_ns until = pick_span(hosts);

    sim_host_tell(hosts, party, "is stopped");
    stop_party(hosts, party, until, false);
    for (uint32_t i = 0; i < hosts->store_count && hosts->parties[party].is_agent; i++)
        sim_host_arm(hosts, party, i)->stopped_until = until;
    sim_fired(hosts->world, SIM_FAULT_PAUSE);
}

static void kill_party(struct host_world *hosts, uint32_t party, tenure_ns back_at)
{
    struct host_event boot = { .kind = HOST_BOOT, .party = party };

    sim_host_crash(hosts, party);
    sim_host_at(hosts, back_at, &boot);
    sim_fired(hosts->world, SIM_FAULT_CRASH);
}

static void kill_host(struct host_world *hosts, uint32_t host)
{
    tenure_ns back_at = pick_span(hosts);

    for (uint32_t i = 0; i < hosts->party_count; i++)
        if (hosts->parties[i].host == host)
            kill_party(hosts, i, back_at);
}

static void suspend_host(struct host_world *hosts, uint32_t host)
{
    tenure_ns until = pick_span(hosts);

    sim_host_tell(hosts, host, "and all on its host are suspended");
    for (uint32_t i = 0; i < hosts->party_count; i++)
        if (hosts->parties[i].host == host)
            stop_party(hosts, i, until, true);
    sim_fired(hosts->world, SIM_FAULT_SUSPEND);
}

/* Of two stores mostly one is hurt at a time. */
static uint32_t pick_store(struct host_world *hosts)
{
    return hosts->store_count > 1 ? (uint32_t)tn_prng_below(&hosts->world->prng, 2) : 0;
}

static void restart_store(struct host_world *hosts, uint32_t index)
{
    const struct tn_op tick = { .kind = TN_OP_TICK };
    struct host_store *store = &hosts->stores[index];

    sim_trace_other(hosts->world, "store", "%u restarts", index);
    tn_table_restart(store->table, sim_clock_local(&store->clock, hosts->world->now));
    sim_host_store_step(hosts, index, &tick);
    sim_fired(hosts->world, SIM_FAULT_STORE_RESTART);
}

static void revoke(struct host_world *hosts)
{
    static const uint32_t lens[HOST_NAMES] = { 6, 6 };
    uint32_t name = pick_name(hosts);
    struct tn_op op = { .kind = TN_OP_REVOKE, .name = sim_name(name), .name_len = lens[name] };

    sim_trace_other(hosts->world, "store", "an operator revokes %s", sim_name(name));
    sim_host_store_step(hosts, sim_host_store_of(hosts, name), &op);
    sim_fired(hosts->world, SIM_FAULT_REVOKE);
}

static void cut(struct host_world *hosts, uint32_t host, uint32_t store)
{
    sim_host_tell(hosts, host, store > 0 ? "is cut off from store 1" : "is cut off from store 0");
    hosts->agents[host].cut_until[store] = pick_span(hosts);
    sim_fired(hosts->world, SIM_FAULT_CUT_BOTH);
}

static void stop_store(struct host_world *hosts, uint32_t store)
{
    sim_trace_other(hosts->world, "store", "%u is stopped", store);
    hosts->stores[store].stopped_until = pick_span(hosts);
    sim_fired(hosts->world, SIM_FAULT_STORE_PAUSE);
}

static void resign(struct host_world *hosts, uint32_t party)
{
    if (!hosts->parties[party].up || hosts->parties[party].stopped_until > hosts->world->now)
        return;
    sim_host_resign(hosts, party, pick_name(hosts));
    sim_fired(hosts->world, SIM_FAULT_RESIGN);
}

/* Of the store, or of the way there. */
static void hurt_upstream(struct host_world *hosts, uint32_t host)
{
    if (hosts->upstream != NULL) {
        sim_fault_upstream(hosts->upstream);
        return;
    }
    switch (tn_prng_below(&hosts->world->prng, 4)) {
    case 0:
        restart_store(hosts, pick_store(hosts));
        break;
    case 1:
        revoke(hosts);
        break;
    case 2:
        cut(hosts, host, pick_store(hosts));
        break;
    default:
        stop_store(hosts, pick_store(hosts));
    }
}

void sim_host_fault(struct host_world *hosts)
{
    struct host_event next = { .kind = HOST_FAULT };
    uint32_t process = pick_process(hosts);
    uint32_t host = hosts->parties[process].host;

    if (hosts->healed)
        return;
    switch (tn_prng_below(&hosts->world->prng, 11)) {
    case 0:
        stop(hosts, process);
        break;
    case 1:
        stop(hosts, host);
        break;
    case 2:
        kill_party(hosts, process, pick_span(hosts));
        break;
    case 3:
        kill_party(hosts, host, pick_span(hosts));
        break;
    case 4:
        kill_host(hosts, host);
        break;
    case 5:
        suspend_host(hosts, host);
        break;
    case 6:
        resign(hosts, process);
        break;
    default:
        hurt_upstream(hosts, host);
    }
    sim_host_at(hosts, hosts->world->now + sim_between(hosts->world, 1, 2 * hosts->fault_every),
                &next);
}

/* --- The life of this world ------------------------------------------------------------------- */

static tenure_ns crash_bound(const struct tn_plan *plan)
{
    struct tn_plan_answer answer;

    (void)tn_plan_judge(plan, &answer);
    return answer.failover_crash_real;
}

/* Where servers vote, the votes may split, as phases.c has it. */
static tenure_ns split_bound(const struct host_world *hosts)
{
    bool votes = hosts->upstream != NULL && hosts->upstream->config.style == SIM_VOTES;

    return votes ? 6 * hosts->host_count * hosts->up.rtt : 0;
}

/* Messages that were late arrive, sessions of the dead run out at both levels. */
static tenure_ns settle_bound(const struct host_world *hosts)
{
    return 3 * hosts->up.ttl + 2 * crash_bound(&hosts->up) + 2 * crash_bound(&hosts->local) +
           split_bound(hosts);
}

static void check_led(struct host_world *hosts, const char *when)
{
    for (uint32_t name = 0; name < HOST_NAMES; name++)
        if (leader_of(hosts, name) == SIM_NOBODY)
            sim_violate(hosts->world, "P7", "nobody leads %s %s", sim_name(name), when);
}

static void heal(struct host_world *hosts)
{
    sim_trace_other(hosts->world, "world", "all is mended");
    hosts->healed = true;
    if (hosts->upstream != NULL)
        sim_heal(hosts->upstream);
    for (uint32_t i = 0; i < hosts->store_count; i++)
        hosts->stores[i].stopped_until = 0;
    for (uint32_t i = 0; i < hosts->party_count; i++)
        hosts->parties[i].stopped_until = 0;
    for (uint32_t i = 0; i < hosts->event_count; i++) /* What is late comes soon. */
        if (hosts->events[i].at > hosts->world->now + hosts->up.ttl &&
            hosts->events[i].kind < HOST_TIMER)
            hosts->events[i].at = hosts->world->now + hosts->up.ttl;
    for (uint32_t i = 0; i < hosts->party_count; i++)
        sim_host_boot(hosts, i);
}

/* N3: one of two stores is stopped for so long that nothing of it can be left. */
static tenure_ns kill_store(struct host_world *hosts)
{
    tenure_ns dead = hosts->store_count > 1 ? 2 * hosts->up.ttl : 0;

    check_led(hosts, "after everything was mended");
    for (uint32_t name = 0; name < HOST_NAMES; name++) {
        hosts->led[name].party = leader_of(hosts, name);
        if (hosts->led[name].party != SIM_NOBODY)
            hosts->led[name].token = sim_host_token(hosts, hosts->led[name].party, name);
    }
    if (dead > 0) {
        sim_trace_other(hosts->world, "store", "1 is dead");
        hosts->stores[1].stopped_until = hosts->world->now + dead;
    }
    return dead;
}

/* Whoever led names of the other store leads them still, with the same token. */
static tenure_ns revive_store(struct host_world *hosts)
{
    for (uint32_t name = 0; hosts->store_count > 1 && name < HOST_NAMES; name++) {
        uint32_t leader = leader_of(hosts, name);
        if (sim_host_store_of(hosts, name) == 1 && leader != SIM_NOBODY)
            sim_violate(hosts->world, "N1", "process %u leads %s above a store that is dead",
                        leader, sim_name(name));
        if (sim_host_store_of(hosts, name) == 0 &&
            (leader != hosts->led[name].party ||
             sim_host_token(hosts, leader, name) != hosts->led[name].token))
            sim_violate(hosts->world, "N3", "process %u lost %s, whose store is well",
                        hosts->led[name].party, sim_name(name));
    }
    return hosts->store_count > 1 ? settle_bound(hosts) : 0;
}

/* With no process left on its host, the agent gives its names back all the same. */
static void kill_leader(struct host_world *hosts)
{
    uint32_t leader = leader_of(hosts, 0);

    check_led(hosts, "after everything was mended");
    if (leader != SIM_NOBODY)
        sim_host_crash(hosts, leader);
}

/* The line upstream is told at once, the next agent's too: no TTL is waited for. */
static tenure_ns death_bound(const struct host_world *hosts)
{
    struct tn_plan_answer answer;

    (void)tn_plan_judge(&hosts->up, &answer);
    return answer.failover_resign - hosts->up.grace + 10 * hosts->delay + split_bound(hosts);
}

void sim_host_phase(struct host_world *hosts)
{
    struct host_event next = { .kind = HOST_PHASE };
    struct host_event fault = { .kind = HOST_FAULT };
    tenure_ns in = 0;

    switch ((enum host_phase)hosts->phase++) {
    case PHASE_SAFETY:
        sim_trace_other(hosts->world, "hosts", "%u hosts, %u processes each, TTL %lld and %lld ms",
                        hosts->host_count, hosts->process_count,
                        (long long)(hosts->up.ttl / TN_MS(1)),
                        (long long)(hosts->local.ttl / TN_MS(1)));
        if (hosts->upstream != NULL)
            sim_tell_config(hosts->upstream);
        for (uint32_t i = 0; i < hosts->party_count; i++)
            sim_host_boot(hosts, i);
        sim_host_at(hosts, hosts->world->now + hosts->fault_every, &fault);
        in = sim_between(hosts->world, 15 * hosts->up.ttl, 30 * hosts->up.ttl);
        break;
    case PHASE_HEAL:
        heal(hosts);
        in = settle_bound(hosts);
        break;
    case PHASE_DEAD:
        in = kill_store(hosts);
        break;
    case PHASE_BACK:
        in = revive_store(hosts);
        break;
    case PHASE_KILL:
        kill_leader(hosts);
        in = death_bound(hosts);
        break;
    case PHASE_END:
        check_led(hosts, "after its leader's process was killed");
        hosts->over = true;
        return;
    }
    sim_host_at(hosts, hosts->world->now + in, &next);
}
