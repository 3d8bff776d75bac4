/* hosts.c - the two-level world: each host has an agent (core/agent.h) and some processes, which
 * know nothing but their agent; the agents know nothing but the store, or the two stores.
 *
 * All on one host read one clock. What is between a process and its agent is a socket: it loses
 * nothing but with the end of either, yet what is in it may wait for long. What is between an agent
 * and the store is the network.
 *
 * Checked at every step of a process: P1 among all processes of all hosts, P2 in the order in which
 * they lead, and N1 against the deadlines that the agent really had. */
#include "sim/hosts.h"
#include "sim/check.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* --- Who is who ------------------------------------------------------------------------------- */

tenure_ns sim_host_now(const struct host_world *hosts, const struct host_party *party)
{
    return sim_clock_local(sim_host_clock(hosts, party->host), hosts->world->now);
}

const struct sim_clock *sim_host_clock(const struct host_world *hosts, uint32_t host)
{
    return hosts->upstream != NULL ? &hosts->upstream->nodes[host].clock
                                   : &hosts->agents[host].clock;
}

const struct tn_candidate *sim_host_candidate(const struct host_world *hosts,
                                              const struct host_party *party)
{
    bool is_node = party->is_agent && hosts->upstream != NULL;

    return is_node ? &hosts->upstream->nodes[party->host].candidate : &party->candidate;
}

uint64_t sim_host_won(const struct host_world *hosts, const struct host_party *party, uint32_t name)
{
    bool is_node = party->is_agent && hosts->upstream != NULL;
    const struct tn_seat *seat =
        is_node ? &hosts->upstream->nodes[party->host].seats[name].seat : &party->seats[name];

    return tn_candidate_token(sim_host_candidate(hosts, party), seat, sim_host_now(hosts, party));
}

void sim_host_tell(struct host_world *hosts, uint32_t party, const char *what)
{
    const struct host_party *one = &hosts->parties[party];
    char who[16];

    if (one->is_agent)
        (void)snprintf(who, sizeof who, "agent%u", one->host);
    else
        (void)snprintf(who, sizeof who, "%u/%u", one->host, party);
    sim_trace_other(hosts->world, who, "%s", what);
}

static uint32_t name_of(const struct host_party *party, const struct tn_seat *seat)
{
    return seat != NULL ? (uint32_t)(seat - party->seats) : 0;
}

uint32_t sim_host_store_of(const struct host_world *hosts, uint32_t name)
{
    return name % hosts->store_count;
}

struct host_party *sim_host_arm(struct host_world *hosts, uint32_t host, uint32_t store)
{
    return &hosts->parties[store * hosts->host_count + host];
}

struct host_secret_fields {
    uint32_t party, incarnation;
    uint64_t number;
};

struct tn_secret sim_host_secret(uint32_t party, uint32_t incarnation, uint64_t number)
{
    struct host_secret_fields fields = { party + 1, incarnation, number };
    struct tn_secret secret;

    memcpy(&secret, &fields, sizeof secret);
    return secret;
}

static struct host_secret_fields read_secret(const struct tn_secret *secret)
{
    struct host_secret_fields fields;

    memcpy(&fields, secret, sizeof fields);
    fields.party--;
    return fields;
}

uint64_t sim_host_token(const struct host_world *hosts, uint32_t party, uint32_t name)
{
    const struct host_party *one = &hosts->parties[party];

    if (!one->up || !one->told_won[name])
        return 0;
    return sim_host_won(hosts, one, name);
}

/* --- Messages --------------------------------------------------------------------------------- */

/* @event goes to or from the store for an agent, to or from the agent for a process. */
static void send_event(struct host_world *hosts, struct host_event *event)
{
    struct sim_world *world = hosts->world;
    const struct host_party *party = &hosts->parties[event->party];
    tenure_ns late = 0;

    if (!hosts->healed && sim_chance(world, 20000))
        late = sim_between(world, 0, hosts->up.ttl);
    if (!party->is_agent) {
        sim_host_at(hosts, world->now + sim_between(world, 1, hosts->delay / 10) + late, event);
        return;
    }
    if (!hosts->healed && (sim_chance(world, hosts->drop_ppm) ||
                           world->now < hosts->agents[party->host].cut_until[party->store]))
        return;
    if (!hosts->healed && sim_chance(world, 20000)) /* Twice. */
        sim_host_at(hosts, world->now + sim_between(world, 1, hosts->up.ttl), event);
    sim_host_at(hosts, world->now + sim_between(world, 1, hosts->delay) + late, event);
}

/* Before it is sent. */
static void note_in_ledger(struct host_agent *agent, uint32_t store, const struct host_event *event)
{
    const struct tn_request *request = &event->request;

    if (request->kind == TN_OP_OPEN)
        agent->ledger.life[store] = request->life;
    if (request->kind != TN_OP_ACQUIRE || agent->ledger.gen[event->name] == request->gen)
        return;
    agent->ledger.gen[event->name] = request->gen;
    agent->ledger.token[event->name] = 0;
}

static void send(void *arg, const struct tn_request *request)
{
    struct host_party *party = arg;
    struct host_world *hosts = party->hosts;
    struct host_event event = { .kind = HOST_REQUEST,
                                .party = party->index,
                                .incarnation = party->incarnation,
                                .identity = party->identity,
                                .name = name_of(party, request->seat),
                                .request = *request };

    if (party->is_agent)
        note_in_ledger(&hosts->agents[party->host], party->store, &event);
    else
        event.served_by = hosts->parties[party->host].incarnation;
    send_event(hosts, &event);
}

/* --- What a process hears --------------------------------------------------------------------- */

static void drain(struct host_world *hosts, struct host_party *party, uint32_t name)
{
    struct host_event event = {
        .kind = HOST_DRAINED, .party = party->index, .incarnation = party->incarnation, .name = name
    };

    if (party->draining[name])
        return;
    party->draining[name] = true;
    sim_host_at(hosts, hosts->world->now + sim_between(hosts->world, 1, hosts->local.grace / 2),
                &event);
}

static void process_won(struct host_world *hosts, struct host_party *party, uint32_t name,
                        uint64_t token)
{
    char text[80];

    (void)snprintf(text, sizeof text, "leads %s with token %llu", sim_name(name),
                   (unsigned long long)token);
    sim_host_tell(hosts, party->index, text);
    hosts->world->stats.terms++;
    party->told_won[name] = true;
    if (hosts->upstream != NULL)
        party->epoch[name] = hosts->upstream->nodes[party->host].seats[name].app.epoch;
    if (token <= hosts->won[name] && party->epoch[name] == hosts->won_in[name])
        sim_violate(hosts->world, "P2", "process %u leads %s with token %llu behind %llu",
                    party->index, sim_name(name), (unsigned long long)token,
                    (unsigned long long)hosts->won[name]);
    hosts->won[name] = token;
    hosts->won_in[name] = party->epoch[name];
}

static void tell(void *arg, struct tn_seat *seat, const struct tn_claim_action *action)
{
    struct host_party *party = arg;
    struct host_world *hosts = party->hosts;
    uint32_t name = name_of(party, seat);
    bool won = action->kind == TN_CLAIM_DO_WON;
    bool over = action->kind == TN_CLAIM_DO_LOST;

    if (!won && !over && action->kind != TN_CLAIM_DO_DRAIN)
        return;
    if (party->is_agent && won)
        hosts->agents[party->host].ledger.token[name] = action->token;
    if (party->is_agent) {
        sim_host_news(hosts, party, name, won ? TN_AGENT_EV_WON : TN_AGENT_EV_LOST, action->token);
    } else if (won) {
        process_won(hosts, party, name, action->token);
    } else {
        if (over) {
            hosts->world->stats.losses++;
            party->told_won[name] = false;
            sim_host_tell(hosts, party->index, tn_reason_text(action->reason));
        }
        drain(hosts, party, name);
    }
}

static void tell_session(void *arg, const struct tn_session_action *action)
{
    (void)arg;
    (void)action;
}

static const struct tn_candidate_host party_host = { send, tell, tell_session };

/* --- Tables: the store's and the agents' ------------------------------------------------------ */

static uint32_t lease_name(const struct tn_table *table, uint32_t lease)
{
    struct tn_lease_view view;
    uint32_t name = 0;

    tn_table_lease(table, lease, &view);
    while (strlen(sim_name(name)) != view.name_len ||
           memcmp(sim_name(name), view.name, view.name_len) != 0)
        name++;
    return name;
}

/* Pushes to parties, and looks for the agent; @agent NULL: the store's. @asked: the reply tells. */
static void pass_on(struct host_world *hosts, const struct tn_table *table,
                    const struct host_party *agent, const struct tn_result *result, bool asked)
{
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        bool push =
            notice->kind == TN_NOTICE_GRANTED || (notice->kind == TN_NOTICE_REVOKED && !asked);
        uint32_t name = notice->kind != TN_NOTICE_ENDED ? lease_name(table, notice->lease) : 0;
        if (push) {
            struct host_secret_fields who = read_secret(&notice->session);
            struct host_event event = { .kind = notice->kind == TN_NOTICE_GRANTED ? HOST_GRANTED
                                                                                  : HOST_REVOKED,
                                        .party = who.party,
                                        .identity = who.incarnation,
                                        .name = name,
                                        .life = who.number,
                                        .gen = read_secret(&notice->term).number >> 8,
                                        .token = notice->token };
            send_event(hosts, &event);
        }
        if (agent != NULL && (notice->kind == TN_NOTICE_LINE ||
                              (notice->kind == TN_NOTICE_CHANGED && !notice->held)))
            sim_host_news(hosts, agent, name, TN_AGENT_EV_LOOK, 0);
    }
}

static tenure_ns store_now(const struct host_world *hosts, uint32_t store)
{
    return sim_clock_local(&hosts->stores[store].clock, hosts->world->now);
}

static void schedule_store(struct host_world *hosts, uint32_t index)
{
    struct host_store *store = &hosts->stores[index];
    tenure_ns at = tn_table_wake_at(store->table);
    struct host_event event = { .kind = HOST_STORE_TIMER, .store = index };

    if (at == TN_NEVER)
        return;
    at = sim_clock_real(&store->clock, at);
    at = at > hosts->world->now ? at : hosts->world->now;
    if (at == store->timer_at)
        return;
    store->timer_at = at;
    event.id = ++store->timer_id;
    sim_host_at(hosts, at, &event);
}

void sim_host_store_step(struct host_world *hosts, uint32_t store, const struct tn_op *op)
{
    struct tn_result result;

    tn_table_step(hosts->stores[store].table, store_now(hosts, store), op, &result);
    pass_on(hosts, hosts->stores[store].table, NULL, &result, false);
    schedule_store(hosts, store);
}

void sim_host_agent_step(struct host_world *hosts, const struct host_party *party,
                         const struct tn_op *op, struct tn_result *ret_result)
{
    struct host_agent *agent = &hosts->agents[party->host];

    tn_table_step(agent->table, sim_host_now(hosts, party), op, ret_result);
    pass_on(hosts, agent->table, party, ret_result,
            op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW);
}

/* The record as it is, seen by @event's party. */
static struct tn_record read_record(const struct tn_table *table, const struct host_event *event,
                                    uint32_t lease)
{
    struct tn_record record = { 0 };
    struct tn_lease_view view;

    if (lease == 0)
        return record;
    tn_table_lease(table, lease, &view);
    record.token = view.token;
    record.held = view.session != NULL;
    if (!record.held)
        return record;
    struct host_secret_fields who = read_secret(view.session);
    record.beat = view.beat;
    record.ttl = view.ttl;
    record.mine = who.party == event->party && who.incarnation == event->identity &&
                  who.number == event->request.life;
    record.gen = record.mine ? read_secret(view.term).number >> 8 : 0;
    return record;
}

struct tn_op sim_host_op(const struct host_event *event)
{
    const struct tn_request *request = &event->request;
    const char *name = sim_name(event->name);

    return (struct tn_op) {
        .kind = request->kind,
        .wait = request->wait,
        .session = sim_host_secret(event->party, event->identity, request->life),
        .term = sim_host_secret(event->party, event->identity, request->gen << 8 | event->name),
        .name = name,
        .name_len = (uint32_t)strlen(name),
        .seq = request->seq,
        .token = request->token,
        .seen = request->seen,
        .ttl = request->ttl,
    };
}

void sim_host_reply(struct host_world *hosts, const struct tn_table *table,
                    const struct host_event *event, const struct tn_result *result, tenure_ns ttl)
{
    struct host_event answer = *event;

    answer.kind = HOST_REPLY;
    answer.revoked_count = 0;
    answer.response = (struct tn_response) { .answer = result->answer,
                                             .failed = result->answer == TN_ANSWER_OK && ttl == 0,
                                             .record = read_record(table, event, result->lease),
                                             .ttl = ttl,
                                             .seen = result->seen,
                                             .held = result->held,
                                             .more = result->more };
    for (uint32_t i = 0; i < result->count; i++)
        if (result->list[i].kind == TN_NOTICE_REVOKED)
            answer.revoked[answer.revoked_count++] =
                (struct sim_revoked) { result->list[i].token,
                                       lease_name(table, result->list[i].lease) };
    if (event->request.kind == TN_OP_CLOSE)
        return;
    if (answer.response.failed)
        answer.revoked_count = 0;
    send_event(hosts, &answer);
}

static void store_serve(struct host_world *hosts, const struct host_event *event)
{
    uint32_t store = hosts->parties[event->party].store;
    struct tn_table *table = hosts->stores[store].table;
    struct tn_op op = sim_host_op(event);
    struct tn_result result;

    tn_table_step(table, store_now(hosts, store), &op, &result);
    pass_on(hosts, table, NULL, &result, op.kind == TN_OP_OPEN || op.kind == TN_OP_RENEW);
    sim_host_reply(hosts, table, event, &result, result.ttl);
    schedule_store(hosts, store);
}

void sim_host_wish(struct host_world *hosts, struct host_party *party, uint32_t name,
                   enum tn_claim_event_kind what)
{
    if (party->is_agent && hosts->upstream != NULL) {
        if (what == TN_CLAIM_EV_DRAINED)
            sim_node_drained(hosts->upstream, party->host, name);
        else
            (void)sim_node_tell(hosts->upstream, party->host, name, what);
        return;
    }
    tn_candidate_wish(&party->candidate, sim_host_now(hosts, party), &party->seats[name], what);
}

/* --- Life and death --------------------------------------------------------------------------- */

static void schedule(struct host_world *hosts, struct host_party *party)
{
    struct host_event event = { .kind = HOST_TIMER,
                                .party = party->index,
                                .incarnation = party->incarnation };
    const struct host_agent *agent = &hosts->agents[party->host];
    bool is_node = party->is_agent && hosts->upstream != NULL;
    tenure_ns at = is_node ? TN_NEVER : tn_candidate_wake_at(&party->candidate);

    if (party->is_agent && tn_table_wake_at(agent->table) < at)
        at = tn_table_wake_at(agent->table);
    if (at == TN_NEVER)
        return;
    at = sim_clock_real(sim_host_clock(hosts, party->host), at);
    at = at > hosts->world->now ? at : hosts->world->now;
    if (at == party->timer_at)
        return;
    party->timer_at = at;
    event.id = ++party->timer_id;
    sim_host_at(hosts, at, &event);
}

static void start(struct host_world *hosts, struct host_party *party)
{
    party->up = true;
    party->identity = ++party->incarnation;
    party->stopped_until = party->timer_at = 0;
    memset(party->told_won, 0, sizeof party->told_won);
    memset(party->draining, 0, sizeof party->draining);
    if (party->store == 0)
        sim_host_tell(hosts, party->index, "starts");
    if (party->is_agent && hosts->upstream != NULL) {
        sim_node_boot(hosts->upstream, party->host);
        return;
    }
    tn_candidate_init(&party->candidate, party->is_agent ? &hosts->up : &hosts->local,
                      party->is_agent ? &hosts->up_claim : &hosts->local_claim, true, &party_host,
                      party, tn_prng_next(&hosts->world->prng));
    for (uint32_t i = 0; i < HOST_NAMES; i++)
        tn_candidate_add(&party->candidate, &party->seats[i], NULL);
}

void sim_host_boot(struct host_world *hosts, uint32_t index)
{
    struct host_party *party = &hosts->parties[index];
    uint32_t stores = party->is_agent ? hosts->store_count : 1;

    if (party->is_agent)
        party = sim_host_arm(hosts, party->host, 0);
    if (party->up)
        return;
    start(hosts, party);
    for (uint32_t i = 1; i < stores; i++)
        start(hosts, sim_host_arm(hosts, party->host, i));
    if (party->is_agent)
        sim_host_agent_boot(hosts, party);
    for (uint32_t i = 0; i < stores; i++) {
        struct host_party *one = party->is_agent ? sim_host_arm(hosts, party->host, i) : party;
        if (!party->is_agent || hosts->upstream == NULL)
            tn_candidate_open(&one->candidate, sim_host_now(hosts, one));
        schedule(hosts, one);
    }
    for (uint32_t i = 0; i < HOST_NAMES && !party->is_agent; i++)
        sim_host_wish(hosts, party, i, TN_CLAIM_EV_CAMPAIGN);
    schedule(hosts, party);
}

void sim_host_crash(struct host_world *hosts, uint32_t index)
{
    struct host_party *party = &hosts->parties[index];
    struct host_event death = { .kind = HOST_DEATH,
                                .party = index,
                                .incarnation = party->incarnation,
                                .life = party->candidate.life };

    if (!party->up)
        return;
    sim_host_tell(hosts, index, "is killed");
    party->up = false;
    for (uint32_t i = 0; i < hosts->store_count && party->is_agent; i++)
        sim_host_arm(hosts, party->host, i)->up = false;
    if (party->is_agent && hosts->upstream != NULL)
        sim_node_crash(hosts->upstream, party->host);
    if (!party->is_agent)
        send_event(hosts, &death);
}

/* --- Checks ----------------------------------------------------------------------------------- */

/* Of different epochs, or of votes that were lost: somebody changed the store's memory (A2). */
static bool is_excused(const struct host_world *hosts, const struct host_party *a,
                       const struct host_party *b, uint32_t name)
{
    return hosts->upstream != NULL && (a->epoch[name] != b->epoch[name] ||
                                       hosts->world->now < hosts->upstream->store.doubt_until);
}

static void check_process(struct host_world *hosts, const struct host_party *party)
{
    tenure_ns deadline = tn_session_deadline(&party->candidate.session);
    const struct host_agent *agent = &hosts->agents[party->host];

    for (uint32_t name = 0; name < HOST_NAMES; name++) {
        tenure_ns proven = agent->proven[sim_host_store_of(hosts, name)];
        if (sim_host_token(hosts, party->index, name) == 0)
            continue;
        if (deadline > proven)
            sim_violate(hosts->world, "N1", "process %u leads %s for %lld ms longer than its agent",
                        party->index, sim_name(name), (long long)((deadline - proven) / TN_MS(1)));
        for (uint32_t i = 0; i < hosts->party_count; i++)
            if (i != party->index && !hosts->parties[i].is_agent &&
                sim_host_token(hosts, i, name) != 0 &&
                !is_excused(hosts, party, &hosts->parties[i], name))
                sim_violate(hosts->world, "P1", "processes %u and %u both lead %s", party->index, i,
                            sim_name(name));
    }
}

/* --- Events ----------------------------------------------------------------------------------- */

void sim_host_resign(struct host_world *hosts, uint32_t index, uint32_t name)
{
    struct host_party *party = &hosts->parties[index];

    sim_host_wish(hosts, party, name, TN_CLAIM_EV_RESIGN);
    drain(hosts, party, name);
    schedule(hosts, party);
}

static void drained(struct host_world *hosts, struct host_party *party, uint32_t name)
{
    party->draining[name] = false;
    if (sim_host_won(hosts, party, name) == 0)
        party->told_won[name] = false;
    sim_host_wish(hosts, party, name, TN_CLAIM_EV_DRAINED);
    sim_host_wish(hosts, party, name, TN_CLAIM_EV_CAMPAIGN);
}

static void hear_reply(struct host_party *party, tenure_ns now, const struct host_event *event)
{
    for (uint32_t i = 0; i < event->revoked_count; i++)
        tn_candidate_revoked(&party->candidate, now, &party->seats[event->revoked[i].name],
                             event->request.life, event->revoked[i].token);
    tn_candidate_answer(&party->candidate, now, &event->request, &event->response);
}

static void hear(struct host_world *hosts, struct host_party *party, const struct host_event *event)
{
    tenure_ns now = sim_host_now(hosts, party);
    struct tn_seat *seat = &party->seats[event->name];
    struct tn_result result;

    switch (event->kind) {
    case HOST_REPLY:
        hear_reply(party, now, event);
        break;
    case HOST_GRANTED:
        tn_candidate_granted(&party->candidate, now, seat, event->life, event->gen, event->token);
        break;
    case HOST_REVOKED:
        tn_candidate_revoked(&party->candidate, now, seat, event->life, event->token);
        break;
    case HOST_TIMER:
        if (!party->is_agent || hosts->upstream == NULL)
            tn_candidate_tick(&party->candidate, now);
        if (party->is_agent)
            sim_host_agent_step(hosts, party, &(struct tn_op) { .kind = TN_OP_TICK }, &result);
        break;
    default:
        TN_ASSERT(event->kind == HOST_DRAINED);
        drained(hosts, party, event->name);
    }
    if (!party->is_agent)
        check_process(hosts, party);
}

/* Who deals with the event; NULL: the store, or the world itself. */
static struct host_party *party_of(struct host_world *hosts, const struct host_event *event)
{
    struct host_party *party = &hosts->parties[event->party];

    if (event->kind >= HOST_BOOT || event->kind == HOST_STORE_TIMER)
        return NULL;
    if (event->kind != HOST_REQUEST && event->kind != HOST_DEATH)
        return party;
    return party->is_agent ? NULL : &hosts->parties[party->host];
}

/* True: it is not for now, or for nobody any more. */
static bool is_held_up(struct host_world *hosts, const struct host_party *party,
                       const struct host_event *event)
{
    bool at_store = event->kind == HOST_STORE_TIMER || event->kind == HOST_REQUEST;
    uint32_t store =
        event->kind == HOST_REQUEST ? hosts->parties[event->party].store : event->store;
    tenure_ns until = party != NULL ? party->stopped_until
                      : at_store    ? hosts->stores[store].stopped_until
                                    : 0;

    if (party != NULL && !party->up)
        return true;
    if (party != NULL && event->kind == HOST_REQUEST && event->served_by != party->incarnation)
        return true; /* The connection was to an agent that is gone. */
    bool push = event->kind == HOST_GRANTED || event->kind == HOST_REVOKED;
    if (push && event->identity != party->identity)
        return true;
    if (party != NULL && event->kind < HOST_BOOT && event->kind != HOST_REQUEST && !push &&
        event->kind != HOST_DEATH && event->incarnation != party->incarnation)
        return true;
    if (event->kind == HOST_REPLY && !party->is_agent &&
        event->served_by != hosts->parties[party->host].incarnation)
        return !hosts->parties[party->host].up && sim_chance(hosts->world, TN_PPM / 2);
    if (until > hosts->world->now)
        sim_host_at(hosts, until, event);
    return until > hosts->world->now;
}

void sim_host_handle(struct host_world *hosts, const struct host_event *event)
{
    struct host_party *party = party_of(hosts, event);
    const struct tn_op tick = { .kind = TN_OP_TICK };

    if (is_held_up(hosts, party, event) ||
        (event->kind == HOST_TIMER && event->id != party->timer_id))
        return;
    if (event->kind == HOST_TIMER)
        party->timer_at = 0;
    if (party != NULL && event->kind == HOST_REQUEST)
        sim_host_agent_serve(hosts, party, event);
    else if (party != NULL && event->kind == HOST_DEATH)
        sim_host_agent_bury(hosts, party, event);
    else if (party != NULL)
        hear(hosts, party, event);
    else if (event->kind == HOST_REQUEST)
        store_serve(hosts, event);
    else if (event->kind == HOST_STORE_TIMER && event->id == hosts->stores[event->store].timer_id) {
        hosts->stores[event->store].timer_at = 0;
        sim_host_store_step(hosts, event->store, &tick);
    } else if (event->kind == HOST_BOOT)
        sim_host_boot(hosts, event->party);
    else if (event->kind == HOST_FAULT)
        sim_host_fault(hosts);
    else if (event->kind == HOST_PHASE)
        sim_host_phase(hosts);
    if (party != NULL && party->is_agent)
        sim_host_agent_settle(hosts, party);
    for (uint32_t i = 0; party != NULL && party->is_agent && party->up && i < hosts->store_count;
         i++)
        schedule(hosts, sim_host_arm(hosts, party->host, i));
    if (party != NULL && party->up && !party->is_agent)
        schedule(hosts, party);
}

void sim_host_heard(struct host_world *hosts)
{
    for (uint32_t i = 0; i < hosts->host_count; i++) {
        struct host_party *agent = sim_host_arm(hosts, i, 0);
        if (!agent->up || agent->stopped_until > hosts->world->now)
            continue;
        sim_host_agent_settle(hosts, agent);
        schedule(hosts, agent);
    }
}
