/* fleet_life.c - the processes and agents of a fleet: they start, hear, lead, are killed; and what
 * is checked meanwhile. */
#include "base/assert.h"
#include "sim/fleet_world.h"

static uint32_t index_of(const struct fleet_party *party)
{
    return (uint32_t)(party - party->fleet->parties);
}

/* Of a seat, among the names of its host. */
static uint32_t seat_of(const struct fleet_party *party, const struct tn_seat *seat)
{
    const struct fleet *fleet = party->fleet;

    if (party->is_agent)
        return seat != NULL ? (uint32_t)(seat - party->seats) : 0;
    return (index_of(party) - fleet->config.hosts) % fleet->config.processes;
}

static uint64_t token_of(const struct fleet_party *party)
{
    if (!party->up || !party->leads)
        return 0;
    return tn_candidate_token(&party->candidate, &party->seats[0],
                              sim_fleet_now(party->fleet, party));
}

/* --- Checks ----------------------------------------------------------------------------------- */

static void check_alone(struct fleet *fleet, const struct fleet_party *party, uint32_t name)
{
    uint32_t hosts = fleet->config.hosts;

    for (uint32_t i = 0; i < fleet->config.candidates; i++) {
        uint32_t place = name * fleet->config.candidates + i;
        if (place >= hosts * fleet->config.processes)
            break;
        const struct fleet_party *other = sim_fleet_process(fleet, place % hosts, place / hosts);
        if (other != party && token_of(other) != 0)
            sim_fleet_broken(fleet, "P1", "processes %u and %u both lead job/%u", index_of(party),
                             index_of(other), name);
    }
}

static void check_nested(struct fleet *fleet, const struct fleet_party *party)
{
    tenure_ns deadline = tn_session_deadline(&party->candidate.session);

    if (fleet->config.agents && token_of(party) != 0 && deadline > fleet->hosts[party->host].proven)
        sim_fleet_broken(fleet, "N1", "process %u leads longer than its agent on host %u",
                         index_of(party), party->host);
}

/* --- What a candidate asks for and is told ---------------------------------------------------- */

static void send_request(void *arg, const struct tn_request *request)
{
    struct fleet_party *party = arg;
    struct fleet *fleet = party->fleet;
    struct fleet_message message = { .kind = FLEET_REQUEST,
                                     .party = index_of(party),
                                     .incarnation = party->incarnation,
                                     .name = sim_fleet_name(fleet, party->host,
                                                            seat_of(party, request->seat)),
                                     .request = *request };

    sim_fleet_send(fleet, &message);
}

static void note_failover(struct fleet *fleet, tenure_ns span)
{
    tenure_ns *samples = sim_fleet_grow(fleet, fleet->samples, fleet->sample_count,
                                        &fleet->sample_room, sizeof *fleet->samples);

    if (samples == NULL)
        return;
    fleet->samples = samples;
    fleet->samples[fleet->sample_count++] = span;
}

static void process_won(struct fleet *fleet, struct fleet_party *party, uint64_t token)
{
    uint32_t number = sim_fleet_name(fleet, party->host, seat_of(party, NULL));
    struct fleet_name *name = &fleet->names[number];

    if (token <= name->token)
        sim_fleet_broken(fleet, "P2", "job/%u is led with token %llu behind %llu", number,
                         (unsigned long long)token, (unsigned long long)name->token);
    party->leads = true;
    check_alone(fleet, party, number);
    fleet->unled -= name->token == 0;
    name->token = token;
    if (name->dead_at == 0)
        return;
    note_failover(fleet, fleet->now - name->dead_at);
    name->dead_at = 0;
    fleet->dead--;
}

static void hear_claim(void *arg, struct tn_seat *seat, const struct tn_claim_action *action)
{
    struct fleet_party *party = arg;
    struct fleet *fleet = party->fleet;
    bool won = action->kind == TN_CLAIM_DO_WON;

    if (!won && action->kind != TN_CLAIM_DO_LOST && action->kind != TN_CLAIM_DO_DRAIN)
        return;
    if (party->is_agent) {
        sim_fleet_news(fleet, seat_of(party, seat), won ? TN_AGENT_EV_WON : TN_AGENT_EV_LOST,
                       action->token);
        return;
    }
    if (won) {
        process_won(fleet, party, action->token);
        return;
    }
    fleet->result->lost += action->kind == TN_CLAIM_DO_LOST;
    party->stopping = true;
}

static void hear_session(void *arg, const struct tn_session_action *action)
{
    (void)arg;
    (void)action;
}

const struct tn_candidate_host sim_fleet_candidate = { send_request, hear_claim, hear_session };

/* --- Life ------------------------------------------------------------------------------------- */

static void schedule(struct fleet *fleet, struct fleet_party *party)
{
    const struct fleet_host *host = &fleet->hosts[party->host];
    tenure_ns at = tn_candidate_wake_at(&party->candidate);

    if (party->is_agent && tn_table_wake_at(host->table) < at)
        at = tn_table_wake_at(host->table);
    if (at == TN_NEVER)
        return;
    at = sim_clock_real(&host->clock, at);
    at = at > fleet->now ? at : fleet->now;
    if (at >= party->timer_at)
        return; /* That one sets the next. */
    party->timer_at = at;
    sim_fleet_at(fleet, at, FLEET_TIMER, index_of(party), ++party->timer);
}

void sim_fleet_after(struct fleet *fleet, struct fleet_party *party)
{
    if (!party->up)
        return;
    if (party->is_agent)
        sim_fleet_settle(fleet, party);
    if (party->stopping) { /* Its work ends at once, and it wants to lead again. */
        tenure_ns now = sim_fleet_now(fleet, party);
        party->stopping = party->leads = false;
        tn_candidate_wish(&party->candidate, now, &party->seats[0], TN_CLAIM_EV_DRAINED);
        tn_candidate_wish(&party->candidate, now, &party->seats[0], TN_CLAIM_EV_CAMPAIGN);
    }
    if (!party->is_agent)
        check_nested(fleet, party);
    schedule(fleet, party);
}

void sim_fleet_boot(struct fleet *fleet, struct fleet_party *party)
{
    tenure_ns now = sim_fleet_now(fleet, party);
    uint32_t seats = party->is_agent ? fleet->config.processes : 1;

    TN_ASSERT(!party->up);
    party->up = true;
    party->incarnation++;
    party->leads = party->stopping = false;
    party->timer_at = TN_NEVER;
    tn_candidate_init(&party->candidate, party->is_agent ? &fleet->agent_plan : &fleet->plan,
                      party->is_agent ? &fleet->agent_claim : &fleet->claim, true,
                      &sim_fleet_candidate, party, tn_prng_next(&fleet->prng));
    for (uint32_t i = 0; i < seats; i++)
        tn_candidate_add(&party->candidate, &party->seats[i], NULL);
    tn_candidate_open(&party->candidate, now);
    if (!party->is_agent)
        tn_candidate_wish(&party->candidate, now, &party->seats[0], TN_CLAIM_EV_CAMPAIGN);
    schedule(fleet, party);
}

static void kill_process(struct fleet *fleet, struct fleet_party *party)
{
    struct fleet_name *name =
        &fleet->names[sim_fleet_name(fleet, party->host, seat_of(party, NULL))];
    struct fleet_message death = { .kind = FLEET_DEATH,
                                   .party = index_of(party),
                                   .incarnation = party->incarnation,
                                   .life = party->candidate.life };

    if (token_of(party) != 0) {
        TN_ASSERT(name->dead_at == 0);
        name->dead_at = fleet->now;
        fleet->dead++;
    }
    fleet->result->crashes++;
    party->up = false;
    if (fleet->config.agents)
        sim_fleet_send(fleet, &death);
    sim_fleet_at(fleet, fleet->now + SIM_FLEET_RESTART, FLEET_BOOT, index_of(party), 0);
}

/* A process that is up, if one is found soon. */
static struct fleet_party *pick_victim(struct fleet *fleet)
{
    uint32_t agents = fleet->config.hosts, tries = 20;
    struct fleet_party *party;

    do {
        party = &fleet->parties[agents + tn_prng_below(&fleet->prng, fleet->party_count - agents)];
    } while (!party->up && --tries > 0);
    return party;
}

void sim_fleet_crash(struct fleet *fleet)
{
    if (!fleet->crashing)
        return;
    struct fleet_party *victim = pick_victim(fleet);
    if (victim->up)
        kill_process(fleet, victim);
    sim_fleet_at(fleet, fleet->now + fleet->config.crash_every, FLEET_CRASH, 0, 0);
}
