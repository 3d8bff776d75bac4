/* fleet.c - a fleet's queue, its messages, and the store above it.
 *
 * A message takes about half a round trip to the store, and some 50 us to the agent of the same
 * host; between two ends messages arrive in turn. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/fleet_world.h"

#define SOCKET_DELAY TN_US(50)

/* --- Names ------------------------------------------------------------------------------------ */

uint32_t sim_fleet_name(const struct fleet *fleet, uint32_t host, uint32_t index)
{
    return (index * fleet->config.hosts + host) / fleet->config.candidates;
}

uint32_t sim_fleet_index(const struct fleet *fleet, uint32_t host, uint32_t name)
{
    uint32_t place = name * fleet->config.candidates;

    while (place % fleet->config.hosts != host)
        place++;
    return place / fleet->config.hosts;
}

const char *sim_fleet_text(struct fleet *fleet, uint32_t name)
{
    char *at = fleet->name_text + sizeof fleet->name_text - 1;

    *at = '\0';
    do {
        *--at = (char)('0' + name % 10);
        name /= 10;
    } while (name > 0);
    at -= sizeof "job/" - 1;
    memcpy(at, "job/", sizeof "job/" - 1);
    return at;
}

/* The name of @lease, which sim_fleet_text has made. */
static uint32_t name_of_lease(const struct tn_table *table, uint32_t lease)
{
    struct tn_lease_view view;
    uint32_t name = 0;

    tn_table_lease(table, lease, &view);
    for (uint32_t i = 4; i < view.name_len; i++)
        name = name * 10 + (uint32_t)(view.name[i] - '0');
    return name;
}

struct fleet_party *sim_fleet_process(struct fleet *fleet, uint32_t host, uint32_t index)
{
    return &fleet->parties[fleet->config.hosts + host * fleet->config.processes + index];
}

tenure_ns sim_fleet_now(const struct fleet *fleet, const struct fleet_party *party)
{
    return sim_clock_local(&fleet->hosts[party->host].clock, fleet->now);
}

void sim_fleet_broken(struct fleet *fleet, const char *promise, const char *format, ...)
{
    struct sim_fleet_result *result = fleet->result;
    va_list args;

    if (result->promise != NULL)
        return;
    result->promise = promise;
    va_start(args, format);
    (void)vsnprintf(result->broken, sizeof result->broken, format, args);
    va_end(args);
}

/* --- The queue -------------------------------------------------------------------------------- */

void *sim_fleet_grow(struct fleet *fleet, void *array, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return array;
    uint32_t wanted = *room > 0 ? 2 * *room : 64;
    void *grown = realloc(array, wanted * size);
    fleet->no_memory = fleet->no_memory || grown == NULL;
    if (grown != NULL)
        *room = wanted;
    return grown;
}

static bool is_before(const struct fleet_due *a, const struct fleet_due *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

/* A heap with four below each: fewer lines of cache than two. */
void sim_fleet_at(struct fleet *fleet, tenure_ns at, enum fleet_due_kind kind, uint32_t index,
                  uint64_t timer)
{
    const struct fleet_due due = { at, ++fleet->order, kind, index, timer };
    struct fleet_due *dues =
        sim_fleet_grow(fleet, fleet->dues, fleet->due_count, &fleet->due_room, sizeof *fleet->dues);
    if (dues == NULL)
        return;
    fleet->dues = dues;
    uint32_t at_index = fleet->due_count++;
    while (at_index > 0 && is_before(&due, &dues[(at_index - 1) / 4])) {
        dues[at_index] = dues[(at_index - 1) / 4];
        at_index = (at_index - 1) / 4;
    }
    dues[at_index] = due;
}

static struct fleet_due take_first(struct fleet *fleet)
{
    struct fleet_due *dues = fleet->dues;
    struct fleet_due first = dues[0], last = dues[--fleet->due_count];
    uint32_t hole = 0;

    for (;;) {
        uint32_t child = 4 * hole + 1, least = child;
        if (child >= fleet->due_count)
            break;
        for (uint32_t i = child + 1; i < child + 4 && i < fleet->due_count; i++)
            if (is_before(&dues[i], &dues[least]))
                least = i;
        if (!is_before(&dues[least], &last))
            break;
        dues[hole] = dues[least];
        hole = least;
    }
    dues[hole] = last;
    return first;
}

/* --- Messages --------------------------------------------------------------------------------- */

static bool spare_message(struct fleet *fleet)
{
    uint32_t before = fleet->message_room, room = before, spare_room = before;

    if (fleet->spare_count > 0)
        return true;
    struct fleet_message *messages =
        sim_fleet_grow(fleet, fleet->messages, before, &room, sizeof *fleet->messages);
    if (messages == NULL)
        return false;
    fleet->messages = messages;
    uint32_t *spare = sim_fleet_grow(fleet, fleet->spare, before, &spare_room, sizeof *spare);
    if (spare == NULL)
        return false;
    fleet->spare = spare;
    fleet->message_room = room;
    for (uint32_t i = room; i > before; i--)
        fleet->spare[fleet->spare_count++] = i - 1;
    return true;
}

/* Between a process and its agent, or between a candidate and the store. */
static tenure_ns pick_delay(struct fleet *fleet, const struct fleet_party *party)
{
    bool local = fleet->config.agents && !party->is_agent;
    tenure_ns delay = local ? SOCKET_DELAY : fleet->config.rtt / 2;

    return tn_prng_range(&fleet->prng, delay - delay / 2, delay + delay / 2);
}

void sim_fleet_send(struct fleet *fleet, const struct fleet_message *message)
{
    struct fleet_party *party = &fleet->parties[message->party];
    bool is_asked = message->kind == FLEET_REQUEST || message->kind == FLEET_DEATH;
    tenure_ns *last = is_asked ? &party->asked_at : &party->told_at;
    tenure_ns at = fleet->now + pick_delay(fleet, party);

    if (!spare_message(fleet))
        return;
    *last = at > *last ? at : *last;
    uint32_t index = fleet->spare[--fleet->spare_count];
    fleet->messages[index] = *message;
    sim_fleet_at(fleet, *last, FLEET_MESSAGE, index, 0);
}

struct fleet_secret {
    uint32_t party, incarnation;
    uint64_t number;
};

struct tn_secret sim_fleet_secret(uint32_t party, uint32_t incarnation, uint64_t number)
{
    struct fleet_secret fields = { party + 1, incarnation, number };
    struct tn_secret secret;

    memcpy(&secret, &fields, sizeof secret);
    return secret;
}

static struct fleet_secret read_secret(const struct tn_secret *secret)
{
    struct fleet_secret fields;

    memcpy(&fields, secret, sizeof fields);
    fields.party--;
    return fields;
}

/* A term's secret has the generation and, below it, the name. */
#define NAME_BITS 20
_Static_assert(SIM_FLEET_MOST < 1 << NAME_BITS, "each name has its number");

struct tn_op sim_fleet_op(struct fleet *fleet, const struct fleet_message *message)
{
    const struct tn_request *request = &message->request;
    const char *name = sim_fleet_text(fleet, message->name);

    return (struct tn_op) { .kind = request->kind,
                            .wait = request->wait,
                            .session = sim_fleet_secret(message->party, message->incarnation,
                                                        request->life),
                            .term = sim_fleet_secret(message->party, message->incarnation,
                                                     request->gen << NAME_BITS | message->name),
                            .name = name,
                            .name_len = (uint32_t)strlen(name),
                            .seq = request->seq,
                            .token = request->token,
                            .seen = request->seen,
                            .ttl = request->ttl };
}

/* The record as it is, seen by the sender of @message. */
static struct tn_record read_record(const struct tn_table *table,
                                    const struct fleet_message *message, uint32_t lease)
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
    struct fleet_secret who = read_secret(view.session);
    record.beat = view.beat;
    record.ttl = view.ttl;
    record.mine = who.party == message->party && who.incarnation == message->incarnation &&
                  who.number == message->request.life;
    record.gen = record.mine ? read_secret(view.term).number >> NAME_BITS : 0;
    return record;
}

void sim_fleet_reply(struct fleet *fleet, const struct tn_table *table,
                     const struct fleet_message *message, const struct tn_result *result,
                     tenure_ns ttl)
{
    struct fleet_message answer = *message;

    if (message->request.kind == TN_OP_CLOSE)
        return;
    answer.kind = FLEET_REPLY;
    answer.revoked_count = 0;
    answer.response = (struct tn_response) { .answer = result->answer,
                                             .failed = result->answer == TN_ANSWER_OK && ttl == 0,
                                             .record = read_record(table, message, result->lease),
                                             .ttl = ttl,
                                             .seen = result->seen,
                                             .held = result->held,
                                             .more = result->more };
    for (uint32_t i = 0; i < result->count && !answer.response.failed; i++)
        if (result->list[i].kind == TN_NOTICE_REVOKED)
            answer.revoked[answer.revoked_count++] =
                (struct sim_revoked) { result->list[i].token,
                                       name_of_lease(table, result->list[i].lease) };
    sim_fleet_send(fleet, &answer);
}

void sim_fleet_pass_on(struct fleet *fleet, const struct tn_table *table,
                       const struct fleet_host *host, const struct tn_result *result, bool asked)
{
    struct sim_fleet_load *load = host != NULL ? fleet->local_load : fleet->store_load;

    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        if (notice->kind == TN_NOTICE_ENDED)
            continue;
        uint32_t name = name_of_lease(table, notice->lease);
        if (notice->kind == TN_NOTICE_GRANTED || (notice->kind == TN_NOTICE_REVOKED && !asked)) {
            struct fleet_secret who = read_secret(&notice->session);
            struct fleet_message push = {
                .kind = notice->kind == TN_NOTICE_GRANTED ? FLEET_GRANTED : FLEET_REVOKED,
                .party = who.party,
                .incarnation = who.incarnation,
                .name = name,
                .life = who.number,
                .gen = read_secret(&notice->term).number >> NAME_BITS,
                .token = notice->token,
            };
            load->pushes++;
            sim_fleet_send(fleet, &push);
        }
        if (host != NULL && (notice->kind == TN_NOTICE_LINE ||
                             (notice->kind == TN_NOTICE_CHANGED && !notice->held)))
            sim_fleet_news(fleet, sim_fleet_index(fleet, (uint32_t)(host - fleet->hosts), name),
                           TN_AGENT_EV_LOOK, 0);
    }
}

/* --- The store -------------------------------------------------------------------------------- */

static uint64_t *counter_of(struct sim_fleet_load *load, enum tn_op_kind kind)
{
    return kind == TN_OP_OPEN      ? &load->opens
           : kind == TN_OP_RENEW   ? &load->renewals
           : kind == TN_OP_ACQUIRE ? &load->acquires
           : kind == TN_OP_RELEASE ? &load->releases
                                   : &load->others;
}

uint64_t sim_fleet_requests(const struct sim_fleet_load *load)
{
    return load->opens + load->renewals + load->acquires + load->releases + load->others;
}

void sim_fleet_count(struct fleet *fleet, struct sim_fleet_load *load, enum tn_op_kind kind)
{
    uint64_t second = (uint64_t)(fleet->now / TN_SEC(1));

    ++*counter_of(load, kind);
    if (load != fleet->store_load)
        return;
    fleet->in_second = second == fleet->second ? fleet->in_second + 1 : 1;
    fleet->second = second;
    if (fleet->in_second > load->most)
        load->most = fleet->in_second;
}

static void step_store(struct fleet *fleet, const struct tn_op *op, struct tn_result *ret_result)
{
    tn_table_step(fleet->store, sim_clock_local(&fleet->store_clock, fleet->now), op, ret_result);
    sim_fleet_pass_on(fleet, fleet->store, NULL, ret_result,
                      op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW);
}

static void schedule_store(struct fleet *fleet)
{
    tenure_ns at = tn_table_wake_at(fleet->store);

    if (at == TN_NEVER)
        return;
    at = sim_clock_real(&fleet->store_clock, at);
    at = at > fleet->now ? at : fleet->now;
    if (at >= fleet->store_timer_at)
        return; /* That one sets the next. */
    fleet->store_timer_at = at;
    sim_fleet_at(fleet, at, FLEET_STORE_TIMER, 0, ++fleet->store_timer);
}

static void serve(struct fleet *fleet, const struct fleet_message *message)
{
    struct tn_op op = sim_fleet_op(fleet, message);
    struct tn_result result;

    sim_fleet_count(fleet, fleet->store_load, op.kind);
    step_store(fleet, &op, &result);
    sim_fleet_reply(fleet, fleet->store, message, &result, result.ttl);
    schedule_store(fleet);
}

static void tick_store(struct fleet *fleet, const struct fleet_due *due)
{
    struct tn_result result;

    if (due->timer != fleet->store_timer)
        return;
    fleet->store_timer_at = TN_NEVER;
    if (tn_table_wake_at(fleet->store) <= sim_clock_local(&fleet->store_clock, fleet->now))
        step_store(fleet, &(struct tn_op) { .kind = TN_OP_TICK }, &result);
    schedule_store(fleet);
}

/* --- Events ----------------------------------------------------------------------------------- */

/* Answers and pushes, to a process or an agent that is still the one they are for. */
static void hear(struct fleet_party *party, const struct fleet_message *message)
{
    struct fleet *fleet = party->fleet;
    struct tn_candidate *candidate = &party->candidate;
    tenure_ns now = sim_fleet_now(fleet, party);
    uint32_t index = party->is_agent ? sim_fleet_index(fleet, party->host, message->name) : 0;
    struct tn_seat *seat = &party->seats[index];

    if (message->kind == FLEET_GRANTED) {
        tn_candidate_granted(candidate, now, seat, message->life, message->gen, message->token);
        return;
    }
    if (message->kind == FLEET_REVOKED) {
        tn_candidate_revoked(candidate, now, seat, message->life, message->token);
        return;
    }
    for (uint32_t i = 0; i < message->revoked_count; i++) {
        index = party->is_agent ? sim_fleet_index(fleet, party->host, message->revoked[i].name) : 0;
        tn_candidate_revoked(candidate, now, &party->seats[index], message->request.life,
                             message->revoked[i].token);
    }
    tn_candidate_answer(candidate, now, &message->request, &message->response);
}

static void deliver(struct fleet *fleet, uint32_t index)
{
    struct fleet_message message = fleet->messages[index];
    struct fleet_party *party = &fleet->parties[message.party];
    bool to_agent = fleet->config.agents && !party->is_agent;

    fleet->spare[fleet->spare_count++] = index;
    if (message.kind == FLEET_REQUEST && !to_agent) {
        serve(fleet, &message);
        return;
    }
    if (message.kind == FLEET_REQUEST || message.kind == FLEET_DEATH) {
        party = &fleet->parties[party->host];
        if (message.kind == FLEET_REQUEST)
            sim_fleet_serve(fleet, party, &message);
        else
            sim_fleet_bury(fleet, party, &message);
    } else if (party->up && message.incarnation == party->incarnation) {
        hear(party, &message);
    }
    sim_fleet_after(fleet, party);
}

static void tick(struct fleet *fleet, const struct fleet_due *due)
{
    struct fleet_party *party = &fleet->parties[due->index];

    if (due->timer != party->timer || !party->up)
        return;
    party->timer_at = TN_NEVER;
    tenure_ns now = sim_fleet_now(fleet, party);
    if (tn_candidate_wake_at(&party->candidate) <= now)
        tn_candidate_tick(&party->candidate, now);
    if (party->is_agent)
        sim_fleet_tick_agent(fleet, party);
    sim_fleet_after(fleet, party);
}

bool sim_fleet_to(struct fleet *fleet, tenure_ns until)
{
    while (!fleet->no_memory && fleet->result->promise == NULL && fleet->due_count > 0 &&
           fleet->dues[0].at <= until) {
        struct fleet_due due = take_first(fleet);
        TN_ASSERT(due.at >= fleet->now);
        fleet->now = due.at;
        fleet->result->events++;
        switch (due.kind) {
        case FLEET_MESSAGE:
            deliver(fleet, due.index);
            break;
        case FLEET_TIMER:
            tick(fleet, &due);
            break;
        case FLEET_STORE_TIMER:
            tick_store(fleet, &due);
            break;
        case FLEET_BOOT:
            sim_fleet_boot(fleet, &fleet->parties[due.index]);
            break;
        case FLEET_CRASH:
            sim_fleet_crash(fleet);
            break;
        }
    }
    if (!fleet->no_memory && fleet->result->promise == NULL)
        fleet->now = until;
    return !fleet->no_memory && fleet->result->promise == NULL;
}
