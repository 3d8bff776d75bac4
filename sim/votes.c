/* votes.c - the clients of several independent servers (SIM_VOTES): the recipe under test
 * (core/votes.h), hosted as the Redlock store hosts it. Each question to a server is a message of
 * its own; one without an answer has an unknown outcome after half an attempt, and an answer that
 * comes later is lost. voters.c has the servers, and says which faults may break what. */
#include "sim/votes.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { SESSIONS = 8, CLAIMS = 64, ROUNDS = 128, JOBS = 64 };

struct vote_session {
    struct tn_votes_session base; /* First. */
    uint64_t life;
    bool used;
};

struct vote_claim {
    struct tn_votes_claim base; /* First. */
    uint32_t name;
    uint64_t gen;
    uint64_t epochs[SIM_VOTERS_MAX]; /* Of each server's last answer. */
    bool used;
};

/* A request of the candidate. */
struct vote_job {
    struct tn_request request;
    uint32_t name;
    bool used;
};

struct vote_round {
    struct tn_votes_round base; /* First. */
    uint64_t number;            /* 0: not used. */
    uint32_t name;
    uint64_t gen, token;
    bool wait;
    tenure_ns give_up_at;
    uint32_t given_up; /* Servers whose outcome is unknown. */
    uint32_t held[SIM_VOTERS_MAX];
    tenure_ns ttl;
};

struct sim_vote_client {
    struct sim_host host;
    struct tn_votes votes;
    struct vote_session sessions[SESSIONS];
    struct vote_claim claims[CLAIMS];
    struct vote_round rounds[ROUNDS];
    struct vote_job jobs[JOBS];
    uint64_t numbers;
};

static struct sim_vote_client *client_of(const struct sim_world *world, const struct sim_node *node)
{
    return &world->vote_clients[node->index];
}

void sim_votes_init(struct sim_world *world)
{
    if (world->config.style != SIM_VOTES)
        return;
    TN_ASSERT(world->config.nodes <= SIM_VOTES_NODES);
    if (world->vote_clients == NULL)
        world->vote_clients = malloc(SIM_VOTES_NODES * sizeof *world->vote_clients);
    TN_ASSERT(world->vote_clients != NULL);
    memset(world->vote_clients, 0, world->config.nodes * sizeof *world->vote_clients);
    sim_voters_init(world);
}

void sim_votes_free(struct sim_world *world)
{
    free(world->vote_clients);
    sim_voters_free(world);
}

/* --- What the candidate hears ----------------------------------------------------------------- */

static void deliver(const struct sim_vote_client *client, struct sim_event *event)
{
    struct sim_world *world = client->host.world;

    event->node = client->host.node->index;
    event->incarnation = client->host.node->incarnation;
    event->order = world->order + 1;
    sim_at(world, world->now, event);
}

/* The oldest answer that the term rests on: what was tampered with since may have ended it. */
static uint64_t epoch_of(const struct sim_vote_client *client, const struct vote_claim *claim)
{
    uint64_t epoch = client->host.world->store.epoch[claim->name];

    for (uint32_t i = 0; i < client->votes.count; i++)
        if ((claim->base.sure & 1U << i) != 0 && claim->epochs[i] < epoch)
            epoch = claim->epochs[i];
    return epoch;
}

/* Whoever has the name by what @server said. */
static void fill_holder(const struct sim_vote_client *client, const struct tn_votes_reply *reply,
                        struct sim_event *event)
{
    struct sim_waiter holder = sim_waiter_of(&reply->term, &reply->term);

    event->held = true;
    event->holder = holder.node;
    event->holder_gen = holder.gen;
    event->holder_incarnation = holder.incarnation;
    event->holder_life = 0;
    for (uint32_t i = 0; i < CLAIMS; i++)
        if (client->claims[i].used && client->claims[i].name == event->name &&
            tn_secret_equal(&client->claims[i].base.term, &reply->term))
            event->holder_life =
                ((const struct vote_session *)(const void *)client->claims[i].base.session)->life;
}

static void done(void *arg, void *of, const struct tn_votes_result *result)
{
    const struct sim_vote_client *client = arg;
    struct vote_job *job = of;
    const struct tn_request *request = &job->request;
    struct sim_event reply = { .kind = SIM_EV_REPLY,
                               .op = (uint8_t)request->kind,
                               .answer = (uint8_t)result->answer,
                               .failed = result->failed,
                               .name = job->name,
                               .life = request->life,
                               .gen = request->gen,
                               .seq = request->seq,
                               .read = request->read,
                               .sent_at = request->sent_at,
                               .token = result->record.token,
                               .holder = SIM_NOBODY };
    const struct vote_round *round = (const struct vote_round *)(const void *)result->round;
    bool of_session = request->kind == TN_OP_OPEN || request->kind == TN_OP_RENEW;

    job->used = false;
    if (request->kind == TN_OP_CLOSE)
        return;
    reply.epoch = client->host.world->store.epoch[job->name];
    if (result->claim != NULL)
        reply.epoch = epoch_of(client, (const struct vote_claim *)(const void *)result->claim);
    if (of_session && !result->failed && result->answer == TN_ANSWER_OK) {
        reply.ttl = tn_plan_asked(&client->host.world->config.plan);
        reply.held_count = round->held[result->record.server];
    } else if (!of_session && round != NULL && !result->failed && result->record.server >= 0) {
        fill_holder(client, &result->round->replies[result->record.server], &reply);
    }
    deliver(client, &reply);
}

static void granted(void *arg, struct tn_votes_claim *of)
{
    const struct sim_vote_client *client = arg;
    const struct vote_claim *claim = (const struct vote_claim *)(const void *)of;
    struct sim_event news = { .kind = SIM_EV_GRANTED,
                              .name = claim->name,
                              .life = ((struct vote_session *)(void *)of->session)->life,
                              .gen = claim->gen,
                              .token = of->token,
                              .epoch = epoch_of(client, claim) };

    deliver(client, &news);
}

static void revoked(void *arg, struct tn_votes_claim *of)
{
    struct sim_event news = { .kind = SIM_EV_REVOKED,
                              .name = ((struct vote_claim *)(void *)of)->name,
                              .life = ((struct vote_session *)(void *)of->session)->life,
                              .token = of->token };

    deliver(arg, &news);
}

static void forget(void *arg, struct tn_votes_claim *claim)
{
    (void)arg;
    ((struct vote_claim *)(void *)claim)->used = false;
}

static void forget_session(void *arg, struct tn_votes_session *session)
{
    (void)arg;
    ((struct vote_session *)(void *)session)->used = false;
}

/* --- What goes to the servers ----------------------------------------------------------------- */

static struct tn_votes_round *begin(void *arg, const struct tn_votes_round *draft)
{
    struct sim_vote_client *client = arg;
    const struct sim_world *world = client->host.world;
    struct vote_round *round = client->rounds;
    const struct vote_job *job = draft->job;
    const struct vote_claim *claim = (const struct vote_claim *)(const void *)draft->claim;

    while (round < client->rounds + ROUNDS && round->number != 0)
        round++;
    if (round == client->rounds + ROUNDS)
        return NULL;
    *round = (struct vote_round) { .base = *draft, .number = ++client->numbers };
    round->token = draft->token;
    if (claim != NULL) {
        round->name = claim->name;
        round->gen = claim->gen;
        round->wait = draft->kind != TN_VOTES_ASK || claim->base.wait;
    } else if (job != NULL) {
        round->name = job->name;
        round->base.name = job->name;
        round->gen = job->request.gen;
        round->token = job->request.token;
    }
    round->give_up_at = client->host.node->clock.last + world->config.plan.attempt_timeout / 2;
    return &round->base;
}

static void send(void *arg, struct tn_votes_round *of, unsigned server, enum tn_votes_kind kind)
{
    const struct sim_vote_client *client = arg;
    const struct vote_round *round = (const struct vote_round *)(const void *)of;
    const struct vote_session *session = (const struct vote_session *)(const void *)of->session;
    struct sim_event event = {
        .kind = SIM_EV_VOTE,
        .op = (uint8_t)kind,
        .server = server,
        .slot = (uint32_t)(round - client->rounds),
        .id = round->number,
        .node = client->host.node->index,
        .incarnation = client->host.node->incarnation,
        .name = round->name,
        .life = session != NULL ? session->life : 0,
        .gen = round->gen,
        .seq = of->seq,
        .token = kind == TN_VOTES_CONFIRM || kind == TN_VOTES_RELEASE ? round->token : 0,
        .wait = round->wait,
        .ttl = tn_plan_asked(&client->host.world->config.plan),
    };

    sim_send(client->host.world, &event);
}

static void end(void *arg, struct tn_votes_round *round)
{
    (void)arg;
    ((struct vote_round *)(void *)round)->number = 0;
}

static const struct tn_votes_host vote_host = { begin,   send,    end,    done,
                                                granted, revoked, forget, forget_session };

/* --- The candidate's requests ----------------------------------------------------------------- */

static struct vote_session *find_session(struct sim_vote_client *client, uint64_t life)
{
    for (uint32_t i = 0; i < SESSIONS; i++)
        if (client->sessions[i].used && client->sessions[i].life == life &&
            !client->sessions[i].base.over)
            return &client->sessions[i];
    return NULL;
}

static struct vote_session *add_session(struct sim_vote_client *client, uint64_t life)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct vote_session *session = &client->sessions[i];
        if (session->used)
            continue;
        *session = (struct vote_session) { .life = life, .used = true };
        tn_votes_session_add(&client->votes, &session->base,
                             tn_plan_asked(&client->host.world->config.plan));
        return session;
    }
    return NULL;
}

static struct vote_claim *find_claim(struct sim_vote_client *client,
                                     const struct tn_votes_session *session, uint32_t name,
                                     uint64_t gen)
{
    for (uint32_t i = 0; i < CLAIMS; i++) {
        struct vote_claim *claim = &client->claims[i];
        if (claim->used && claim->base.session == session && claim->name == name &&
            claim->gen == gen)
            return claim;
    }
    return NULL;
}

static struct vote_claim *add_claim(struct sim_vote_client *client, struct vote_session *session,
                                    uint32_t name, uint64_t gen)
{
    const struct sim_node *node = client->host.node;
    struct tn_secret term = sim_term_secret(node, node->incarnation, gen);

    for (uint32_t i = 0; i < CLAIMS; i++) {
        struct vote_claim *claim = &client->claims[i];
        if (claim->used)
            continue;
        *claim = (struct vote_claim) { .name = name, .gen = gen, .used = true };
        tn_votes_claim_add(&session->base, &claim->base, name, &term);
        return claim;
    }
    return NULL;
}

static struct vote_job *add_job(struct sim_vote_client *client, const struct tn_request *request)
{
    const struct sim_node *node = client->host.node;
    struct vote_job *job = client->jobs;

    while (job < client->jobs + JOBS && job->used)
        job++;
    if (job == client->jobs + JOBS)
        return NULL;
    *job = (struct vote_job) { .request = *request, .used = true };
    if (request->seat != NULL)
        job->name = (uint32_t)((struct sim_seat *)(void *)request->seat - node->seats);
    return job;
}

/* A session that the candidate has given up is not renewed, and soon over everywhere. */
static void drop_sessions(struct sim_vote_client *client, uint64_t life)
{
    for (uint32_t i = 0; i < SESSIONS; i++)
        if (client->sessions[i].used && client->sessions[i].life != life &&
            !client->sessions[i].base.over)
            tn_votes_session_drop(&client->sessions[i].base);
}

static bool start(struct sim_vote_client *client, struct vote_session *session,
                  struct vote_job *job, tenure_ns now)
{
    const struct tn_request *request = &job->request;
    struct vote_claim *claim = NULL;

    if (request->kind == TN_OP_READ)
        return tn_votes_read(&client->votes, now, job);
    if (session == NULL)
        return false;
    switch (request->kind) {
    case TN_OP_OPEN:
    case TN_OP_RENEW:
        return tn_votes_renew(&session->base, now, request->kind == TN_OP_OPEN, request->seq, job);
    case TN_OP_CLOSE:
        return tn_votes_end_session(&session->base, now, job);
    case TN_OP_RELEASE:
        claim = find_claim(client, &session->base, job->name, request->gen);
        return tn_votes_release(&session->base, claim != NULL ? &claim->base : NULL, now,
                                request->token, job);
    default:
        TN_ASSERT(request->kind == TN_OP_ACQUIRE);
        claim = find_claim(client, &session->base, job->name, request->gen);
        if (claim == NULL)
            claim = add_claim(client, session, job->name, request->gen);
        return claim != NULL && tn_votes_acquire(&claim->base, now, request->wait, job);
    }
}

void sim_votes_request(struct sim_world *world, struct sim_node *node,
                       const struct tn_request *request)
{
    struct sim_vote_client *client = client_of(world, node);
    struct vote_session *session = find_session(client, request->life);
    struct vote_job *job = add_job(client, request);

    if (request->kind == TN_OP_OPEN && session == NULL) {
        drop_sessions(client, request->life);
        session = add_session(client, request->life);
    }
    /* Without memory it is never answered, and asked again. */
    if (job != NULL && !start(client, session, job, node->clock.last))
        job->used = false;
}

void sim_votes_boot(struct sim_world *world, struct sim_node *node)
{
    struct sim_vote_client *client = client_of(world, node);
    uint64_t numbers = client->numbers; /* Late answers find no round. */

    memset(client, 0, sizeof *client);
    client->numbers = numbers;
    client->host = (struct sim_host) { world, node };
    tn_votes_init(&client->votes, &vote_host, client, world->config.voters,
                  tn_prng_next(&world->prng));
    client->votes.check_after = world->config.plan.rtt;
    client->votes.check_spread = 2 * world->config.plan.rtt;
}

/* --- Answers, news, and time ------------------------------------------------------------------ */

static void hear_revoked(struct sim_vote_client *client, uint32_t name, tenure_ns now)
{
    for (uint32_t i = 0; i < CLAIMS; i++)
        if (client->claims[i].used && client->claims[i].name == name)
            tn_votes_hear_revoked(&client->claims[i].base, now);
}

static void hear_news(struct sim_vote_client *client, const struct sim_event *event, tenure_ns now)
{
    struct vote_session *session = find_session(client, event->life);
    struct vote_claim *claim =
        session != NULL ? find_claim(client, &session->base, event->name, event->gen) : NULL;

    if (event->op != 0) {
        hear_revoked(client, event->name, now);
    } else if (claim != NULL) {
        claim->epochs[event->server] = event->epoch;
        tn_votes_hear_vote(&claim->base, now, event->server, event->token);
    }
}

void sim_votes_answer(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_vote_client *client = client_of(world, node);
    struct vote_round *round = &client->rounds[event->slot];
    struct tn_votes_reply reply = event->vote;
    tenure_ns now = node->clock.last;

    if (event->kind == SIM_EV_VOTE_NEWS) {
        hear_news(client, event, now);
        return;
    }
    /* Revocations are heard of before the renewal counts, and however late it is. */
    for (uint32_t i = 0; i < event->revoked_count; i++)
        hear_revoked(client, event->revoked[i].name, now);
    if (round->number != event->id || (round->given_up & 1U << event->server) != 0) {
        if (event->op == TN_VOTES_ASK && event->answer == TN_ANSWER_GRANTED)
            sim_fired(world, SIM_FAULT_LATE_VOTE);
        return;
    }
    reply.outcome = TN_VOTES_ANSWERED;
    reply.answer = (enum tn_answer)event->answer;
    round->held[event->server] = event->held_count;
    if (round->base.claim != NULL)
        ((struct vote_claim *)(void *)round->base.claim)->epochs[event->server] = event->epoch;
    tn_votes_heard(&round->base, now, event->server, &reply);
}

static void give_up(struct sim_vote_client *client, struct vote_round *round, tenure_ns now)
{
    struct tn_votes_reply unknown = { .outcome = TN_VOTES_UNKNOWN };
    uint32_t silent = round->base.asked & ~round->base.heard;
    uint64_t number = round->number;

    round->given_up |= silent;
    for (unsigned i = 0; i < client->votes.count && round->number == number; i++)
        if ((silent & 1U << i) != 0)
            tn_votes_heard(&round->base, now, i, &unknown);
}

void sim_votes_tick(struct sim_world *world, struct sim_node *node)
{
    struct sim_vote_client *client = client_of(world, node);

    for (uint32_t i = 0; i < ROUNDS; i++)
        if (client->rounds[i].number != 0 && client->rounds[i].give_up_at <= node->clock.last)
            give_up(client, &client->rounds[i], node->clock.last);
    tn_votes_tick(&client->votes, node->clock.last);
}

tenure_ns sim_votes_wake_at(const struct sim_world *world, const struct sim_node *node)
{
    const struct sim_vote_client *client = client_of(world, node);
    tenure_ns at = tn_votes_wake_at(&client->votes);

    for (uint32_t i = 0; i < ROUNDS; i++)
        if (client->rounds[i].number != 0 && client->rounds[i].give_up_at < at)
            at = client->rounds[i].give_up_at;
    return at;
}
