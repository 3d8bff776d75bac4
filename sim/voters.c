/* voters.c - several independent servers, each with a lease table of its own (SIM_VOTES).
 *
 * A server is what one Redis of Redlock is: sessions, leases, queues and a counter, and a token
 * that a majority has agreed on can be confirmed there. The lease table under test does all but the
 * confirming. A connection keeps the order of its messages.
 *
 * Within the assumptions of Redlock are: a server that is down, stopped, cut off or restarted with
 * its memory, and clocks of any rate within the plan's bound. None of these may break a promise.
 * Beyond them are a server that forgets its votes and one whose clock jumps ahead; both give a vote
 * a second time, and a new epoch begins: terms of different epochs may overlap, so may those that
 * rest on a renewal from before it, which is so for a TTL; and after a loss of memory the order of
 * tokens begins anew. A candidate still refuses a token below one it has seen,
 * and the fence still refuses what is older. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/votes.h"

enum { TIMER, COME_UP }; /* SIM_EV_VOTER. */

static tenure_ns voter_now(const struct sim_world *world, const struct sim_voter *voter)
{
    return sim_clock_local(&voter->clock, world->now);
}

static uint32_t index_of(const struct sim_world *world, const struct sim_voter *voter)
{
    return (uint32_t)(voter - world->store.voters);
}

static void clear(struct sim_world *world, struct sim_voter *voter)
{
    const struct sim_config *config = &world->config;
    struct tn_table_limits limits = {
        .sessions = 16 * config->nodes,
        .leases = config->names,
        .waiters = 8 * config->nodes * config->names,
        .text_bytes = 64 * (16 * config->nodes + config->names),
        .hash_key = { .k0 = world->seed, .k1 = index_of(world, voter) },
    };
    size_t size = tn_table_size(&limits);

    if (size > voter->size) {
        free(voter->block);
        voter->block = malloc(size);
        voter->size = size;
        TN_ASSERT(voter->block != NULL);
    }
    memset(voter->block, 0, size);
    voter->table = tn_table_init(voter->block, &limits);
    memset(voter->names, 0, sizeof voter->names);
    voter->timer_at = TN_NEVER;
}

void sim_voters_init(struct sim_world *world)
{
    struct sim_store *store = &world->store;

    if (world->config.style != SIM_VOTES)
        return;
    if (store->voters == NULL) {
        store->voters = malloc(SIM_VOTERS_MAX * sizeof *store->voters);
        TN_ASSERT(store->voters != NULL);
        memset(store->voters, 0, SIM_VOTERS_MAX * sizeof *store->voters);
    }
    for (uint32_t i = 0; i < world->config.voters; i++) {
        struct sim_voter *voter = &store->voters[i];
        void *block = voter->block;
        size_t size = voter->size;
        *voter = (struct sim_voter) { .block = block, .size = size, .up = true };
        voter->clock = (struct sim_clock) { .real_from = world->now,
                                            .local_from = TN_SEC(1000 + i),
                                            .rate_ppm = sim_pick_rate(world) };
        clear(world, voter);
    }
}

void sim_voters_free(struct sim_world *world)
{
    for (uint32_t i = 0; world->store.voters != NULL && i < SIM_VOTERS_MAX; i++)
        free(world->store.voters[i].block);
    free(world->store.voters);
}

static void schedule(struct sim_world *world, struct sim_voter *voter)
{
    struct sim_event event = { .kind = SIM_EV_VOTER, .op = TIMER };
    tenure_ns wake_at = tn_table_wake_at(voter->table);

    if (wake_at == TN_NEVER || !voter->up)
        return;
    tenure_ns at = sim_clock_real(&voter->clock, wake_at);
    if (at < world->now)
        at = world->now;
    if (at == voter->timer_at)
        return;
    voter->timer_at = at;
    event.server = index_of(world, voter);
    event.id = ++voter->timer_id;
    sim_at(world, at, &event);
}

/* --- What is on record ------------------------------------------------------------------------ */

static bool find_lease(const struct sim_voter *voter, uint32_t name, struct tn_lease_view *ret_view)
{
    size_t len = strlen(sim_name(name));

    for (uint32_t i = tn_table_next(voter->table, 0); i != 0; i = tn_table_next(voter->table, i)) {
        tn_table_lease(voter->table, i, ret_view);
        if (ret_view->name_len == len && memcmp(ret_view->name, sim_name(name), len) == 0) {
            ret_view->term = tn_table_term(voter->table, i);
            return true;
        }
    }
    return false;
}

/* Whose vote it is by now; the token that was there before is that of the term before. */
static void take_note(const struct sim_world *world, struct sim_voter *voter)
{
    struct tn_lease_view view;

    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_vote *vote = &voter->names[i];
        if (!find_lease(voter, i, &view))
            continue;
        bool held = view.session != NULL;
        if (held && (!vote->held || !tn_secret_equal(&vote->term, view.term))) {
            vote->last = vote->token;
            vote->sure = false;
        }
        vote->held = held;
        vote->token = view.token;
        vote->term = *view.term;
        if (held)
            vote->session = *view.session;
        vote->sure = vote->sure && held;
    }
}

static void fill_reply(const struct sim_voter *voter, struct sim_event *reply)
{
    const struct sim_vote *vote = &voter->names[reply->name];

    reply->vote.held = vote->held;
    reply->vote.confirmed = vote->sure;
    reply->vote.token = vote->token;
    reply->vote.last = vote->held ? vote->last : vote->token;
    reply->vote.term = vote->term;
}

/* Equal where the same leases are confirmed. */
static void fill_digest(const struct sim_world *world, const struct sim_voter *voter,
                        const struct tn_secret *session, struct sim_event *reply)
{
    static const struct tn_hash_key key = { 3, 3 };

    reply->held_count = 0;
    reply->vote.digest = 0;
    for (uint32_t i = 0; i < world->config.names; i++) {
        const struct sim_vote *vote = &voter->names[i];
        if (!vote->sure || !tn_secret_equal(&vote->session, session))
            continue;
        reply->held_count++;
        reply->vote.digest += tn_hash(key, &vote->term, sizeof vote->term) * (i + 1);
    }
}

/* --- Steps ------------------------------------------------------------------------------------ */

static void push(struct sim_world *world, const struct sim_voter *voter,
                 const struct tn_notice *notice, uint32_t name)
{
    struct sim_waiter to = sim_waiter_of(&notice->session, &notice->term);
    struct sim_event news = { .kind = SIM_EV_VOTE_NEWS,
                              .op = notice->kind == TN_NOTICE_REVOKED,
                              .server = index_of(world, voter),
                              .node = to.node,
                              .incarnation = to.incarnation,
                              .life = to.life,
                              .gen = to.gen,
                              .name = name,
                              .token = notice->token,
                              .epoch = world->store.epoch[name] };

    if (to.node < world->config.nodes)
        sim_send(world, &news);
}

/* Revocations that belong to a renewal travel with its reply. */
static void step(struct sim_world *world, struct sim_voter *voter, const struct tn_op *op,
                 struct tn_result *ret_result, struct sim_event *reply)
{
    struct tn_lease_view view;

    tn_table_step(voter->table, voter_now(world, voter), op, ret_result);
    take_note(world, voter);
    for (uint32_t i = 0; i < ret_result->count; i++) {
        const struct tn_notice *notice = &ret_result->list[i];
        uint32_t name = 0;
        if (notice->kind != TN_NOTICE_GRANTED && notice->kind != TN_NOTICE_REVOKED)
            continue;
        tn_table_lease(voter->table, notice->lease, &view);
        while (strlen(sim_name(name)) != view.name_len ||
               memcmp(sim_name(name), view.name, view.name_len) != 0)
            name++;
        if (notice->kind == TN_NOTICE_REVOKED && reply != NULL)
            reply->revoked[reply->revoked_count++] =
                (struct sim_revoked) { .token = notice->token, .name = name };
        else
            push(world, voter, notice, name);
    }
    schedule(world, voter);
}

/* Forget that this term was here, so that it may be asked for again. */
static void forget_term(struct sim_world *world, struct sim_voter *voter, uint32_t name,
                        const struct tn_secret *term)
{
    static const struct tn_secret none = { { 0 } };
    struct tn_lease_view view;

    if (!find_lease(voter, name, &view) || view.session != NULL ||
        !tn_secret_equal(view.term, term))
        return;
    view.term = &none;
    TN_ASSERT(tn_table_put(voter->table, &view) == 0);
    take_note(world, voter);
}

/* P2, at the instant at which a majority has confirmed. A term that nobody led yet may be confirmed
 * once more with a higher token. */
static void check_confirmed(struct sim_world *world, const struct sim_vote *vote, uint32_t name)
{
    struct sim_store *store = &world->store;
    struct sim_waiter to = sim_waiter_of(&vote->session, &vote->term);
    const struct sim_waiter *holder = &store->holder[name];
    uint32_t same = 0;

    for (uint32_t i = 0; i < world->config.voters; i++) {
        const struct sim_vote *other = &store->voters[i].names[name];
        same += other->sure && other->token == vote->token &&
                tn_secret_equal(&other->term, &vote->term);
    }
    if (same <= world->config.voters / 2)
        return;
    if (holder->node == to.node && holder->life == to.life && holder->gen == to.gen &&
        holder->incarnation == to.incarnation && vote->token > store->granted[name])
        store->holder[name].node = SIM_NOBODY;
    sim_check_grant(world, name, &to, vote->token);
}

static void confirm(struct sim_world *world, struct sim_voter *voter, const struct tn_op *op,
                    struct sim_event *reply)
{
    struct sim_vote *vote = &voter->names[reply->name];
    struct tn_op tick = { .kind = TN_OP_TICK };
    struct tn_result result;
    struct tn_lease_view view;

    step(world, voter, &tick, &result, NULL);
    bool known = find_lease(voter, reply->name, &view);
    reply->answer = TN_ANSWER_STALE;
    bool same = op->token == vote->highest && tn_secret_equal(&op->term, &vote->highest_of);
    /* The plant takes the servers' own rule away, too, which would make it harmless. */
    bool rises = op->token > vote->highest || same || TN_PLANT(FIRST_TOKEN);
    if (known && view.session != NULL && !view.revoked && rises &&
        tn_secret_equal(view.term, &op->term) && tn_secret_equal(view.session, &op->session)) {
        struct tn_secret session = *view.session, term = *view.term;
        view.session = &session;
        view.term = &term;
        view.token = op->token;
        TN_ASSERT(tn_table_put(voter->table, &view) == 0);
        vote->token = vote->highest = op->token;
        vote->highest_of = term;
        vote->sure = true;
        reply->answer = TN_ANSWER_OK;
        check_confirmed(world, vote, reply->name);
    }
}

static struct tn_op op_of(const struct sim_world *world, const struct sim_event *event)
{
    static const uint8_t kinds[] = {
        [TN_VOTES_OPEN] = TN_OP_OPEN,       [TN_VOTES_RENEW] = TN_OP_RENEW,
        [TN_VOTES_CLOSE] = TN_OP_CLOSE,     [TN_VOTES_ASK] = TN_OP_ACQUIRE,
        [TN_VOTES_RECLAIM] = TN_OP_ACQUIRE, [TN_VOTES_CONFIRM] = TN_OP_TICK,
        [TN_VOTES_YIELD] = TN_OP_RELEASE,   [TN_VOTES_WITHDRAW] = TN_OP_RELEASE,
        [TN_VOTES_RELEASE] = TN_OP_RELEASE, [TN_VOTES_READ] = TN_OP_READ,
        [TN_VOTES_REVOKE] = TN_OP_REVOKE,
    };
    const struct sim_node *node = &world->nodes[event->node];

    return (struct tn_op) {
        .kind = (enum tn_op_kind)kinds[event->op],
        .wait = event->wait,
        .session = sim_session_secret(node, event->life),
        .term = sim_term_secret(node, event->incarnation, event->gen),
        .name = sim_name(event->name),
        .name_len = (uint32_t)strlen(sim_name(event->name)),
        .label = "node",
        .label_len = 4,
        .seq = event->seq,
        .token = event->token,
        .ttl = event->ttl,
    };
}

static void trace_served(struct sim_world *world, const struct sim_event *reply)
{
    static const char *const kinds[] = { "opens",    "renews",     "closes", "asks for",
                                         "reclaims", "confirms",   "yields", "withdraws",
                                         "releases", "looks after" };
    static const char *const answers[] = { "ok",       "granted", "queued", "held", "free",
                                           "released", "stale",   "denied", "gone", "full" };
    char label[16];

    if (world->listener == NULL)
        return;
    sim_trace_label(&world->nodes[reply->node], label, sizeof label);
    if (reply->op <= TN_VOTES_CLOSE)
        sim_trace_other(world, "server", "%u: %s.%llu %s #%llu: %s", reply->server, label,
                        (unsigned long long)reply->life, kinds[reply->op],
                        (unsigned long long)reply->seq, answers[reply->answer]);
    else
        sim_trace_other(world, "server", "%u: %s.%llu %s %s, term %u.%llu: %s, token %llu%s",
                        reply->server, label, (unsigned long long)reply->life, kinds[reply->op],
                        sim_name(reply->name), reply->incarnation, (unsigned long long)reply->gen,
                        answers[reply->answer], (unsigned long long)reply->vote.token,
                        reply->vote.confirmed ? ", confirmed" : "");
}

static void serve(struct sim_world *world, struct sim_voter *voter, const struct sim_event *event)
{
    struct tn_op op = op_of(world, event);
    struct sim_event reply = *event;
    struct tn_result result = { .answer = TN_ANSWER_OK };
    bool sure = voter->names[event->name].sure;
    bool of_session = event->op <= TN_VOTES_CLOSE;

    reply.kind = SIM_EV_VOTE_REPLY;
    reply.epoch = world->store.epoch[event->name];
    if (event->op == TN_VOTES_RECLAIM)
        forget_term(world, voter, event->name, &op.term);
    if (event->op == TN_VOTES_CONFIRM) {
        confirm(world, voter, &op, &reply);
    } else {
        step(world, voter, &op, &result, of_session ? &reply : NULL);
        reply.answer = (uint8_t)result.answer;
    }
    if (event->op == TN_VOTES_YIELD && !sure)
        forget_term(world, voter, event->name, &op.term);
    if (of_session)
        fill_digest(world, voter, &op.session, &reply);
    else
        fill_reply(voter, &reply);
    reply.ttl = result.ttl;
    trace_served(world, &reply);
    sim_send(world, &reply);
    /* An operator who is quicker than the reply. */
    if (event->op == TN_VOTES_CONFIRM && reply.answer == TN_ANSWER_OK && !world->healed &&
        sim_chance(world, TN_PPM / 40))
        sim_voters_operator(world, TN_OP_REVOKE, event->name, 0);
}

void sim_voters_event(struct sim_world *world, const struct sim_event *event)
{
    struct sim_voter *voter = &world->store.voters[event->server];
    struct tn_op tick = { .kind = TN_OP_TICK };
    struct tn_result result;

    if (event->kind == SIM_EV_VOTER && event->op == COME_UP && !voter->up) {
        voter->up = true;
        voter->timer_at = TN_NEVER;
        schedule(world, voter);
        return;
    }
    bool timer = event->kind == SIM_EV_VOTER;
    if (!voter->up || (timer && (event->op == COME_UP || event->id != voter->timer_id)))
        return;
    if (world->now < voter->paused_until) {
        sim_at(world, voter->paused_until, event);
        return;
    }
    if (timer) {
        voter->timer_at = TN_NEVER;
        step(world, voter, &tick, &result, NULL);
        return;
    }
    sim_arrived(world, event);
    serve(world, voter, event);
}

void sim_voters_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name,
                         uint64_t token)
{
    struct tn_op op = { .kind = kind,
                        .name = sim_name(name),
                        .name_len = (uint32_t)strlen(sim_name(name)),
                        .token = token };
    struct tn_result result;

    for (uint32_t i = 0; i < world->config.voters; i++) {
        struct sim_voter *voter = &world->store.voters[i];
        if (!voter->up || world->now < voter->paused_until)
            continue;
        step(world, voter, &op, &result, NULL);
        if (kind == TN_OP_REVOKE && result.answer == TN_ANSWER_OK)
            sim_fired(world, SIM_FAULT_REVOKE);
    }
}

/* --- The connections -------------------------------------------------------------------------- */

static bool is_up(const struct sim_event *event)
{
    return event->kind == SIM_EV_VOTE;
}

bool sim_voters_lose(const struct sim_world *world, const struct sim_event *event)
{
    const struct sim_voter *voter = &world->store.voters[event->server];
    uint32_t cut = is_up(event) ? voter->cut_to : voter->cut_from;

    return world->now < voter->cut_until && (cut & 1U << event->node) != 0;
}

tenure_ns sim_voters_in_order(struct sim_world *world, const struct sim_event *event, tenure_ns at)
{
    struct sim_voter *voter = &world->store.voters[event->server];
    tenure_ns *last = is_up(event) ? &voter->last_to[event->node] : &voter->last_from[event->node];

    if (at < *last)
        at = *last;
    *last = at;
    return at;
}

/* --- What breaks ------------------------------------------------------------------------------ */

static struct sim_voter *pick_voter(struct sim_world *world)
{
    return &world->store.voters[tn_prng_below(&world->prng, world->config.voters)];
}

static tenure_ns span(struct sim_world *world, int64_t most)
{
    return sim_between(world, world->config.plan.ttl / 20, most * world->config.plan.ttl);
}

static void restart(struct sim_world *world, struct sim_voter *voter)
{
    struct sim_event up = { .kind = SIM_EV_VOTER, .op = COME_UP };

    if (!voter->up)
        return;
    voter->up = false;
    up.server = index_of(world, voter);
    sim_trace_other(world, "store", "server %u crashes", up.server);
    sim_at(world, world->now + span(world, 2), &up);
    sim_fired(world, SIM_FAULT_VOTER_RESTART);
}

static void stop(struct sim_world *world, struct sim_voter *voter)
{
    voter->paused_until = world->now + span(world, 1);
    sim_trace_other(world, "store", "server %u is stopped", index_of(world, voter));
    sim_fired(world, SIM_FAULT_STORE_PAUSE);
}

static void change_rate(struct sim_world *world, struct sim_voter *voter)
{
    sim_clock_set_rate(&voter->clock, world->now, sim_pick_rate(world));
    voter->timer_at = TN_NEVER;
    schedule(world, voter);
    sim_fired(world, SIM_FAULT_CLOCK_RATE);
}

/* Some of the nodes reach some of the servers, and the others the others. */
static void split(struct sim_world *world, struct sim_voter *voter)
{
    uint32_t nodes = (uint32_t)tn_prng_below(&world->prng, 1U << world->config.nodes);
    tenure_ns until = world->now + span(world, 3);

    (void)voter;
    for (uint32_t i = 0; i < world->config.voters; i++) {
        bool here = sim_chance(world, TN_PPM / 2);
        world->store.voters[i].cut_to = world->store.voters[i].cut_from = here ? nodes : ~nodes;
        world->store.voters[i].cut_until = until;
    }
    sim_trace_other(world, "store", "a partition goes through the servers");
    sim_fired(world, SIM_FAULT_VOTER_SPLIT);
}

/* What a node asks is done, and it hears of less than half of it. */
static void hear_few(struct sim_world *world, struct sim_voter *voter)
{
    uint32_t first = index_of(world, voter);
    uint32_t node = (uint32_t)tn_prng_below(&world->prng, world->config.nodes);
    tenure_ns until = world->now + span(world, 2);

    for (uint32_t i = 0; i <= world->config.voters / 2; i++) {
        struct sim_voter *mute = &world->store.voters[(first + i) % world->config.voters];
        mute->cut_to = 0;
        mute->cut_from = 1U << node;
        mute->cut_until = until;
    }
    sim_trace_node(world, &world->nodes[node], "hears of a minority of servers only");
    sim_fired(world, SIM_FAULT_VOTER_MINORITY);
}

static void begin_epoch(struct sim_world *world, bool tokens)
{
    /* A renewal that was sent before counts for a TTL by a clock that may be slow. */
    world->store.doubt_until = world->now + 2 * tn_plan_asked(&world->config.plan);
    for (uint32_t i = 0; i < world->config.names; i++) {
        world->store.epoch[i]++;
        if (tokens)
            world->store.granted[i] = 0;
    }
}

static void lose_memory(struct sim_world *world, struct sim_voter *voter)
{
    if (!world->config.restores || !voter->up)
        return;
    sim_trace_other(world, "store", "server %u restarts without its memory",
                    index_of(world, voter));
    clear(world, voter);
    begin_epoch(world, true);
    sim_fired(world, SIM_FAULT_VOTER_FORGETS);
}

/* Only ahead: a clock that jumps back keeps votes for longer, which harms no promise but P7. */
static void jump(struct sim_world *world, struct sim_voter *voter)
{
    if (!world->config.restores)
        return;
    voter->clock.local_from += span(world, 2);
    voter->timer_at = TN_NEVER;
    sim_trace_other(world, "store", "the clock of server %u jumps", index_of(world, voter));
    begin_epoch(world, false);
    schedule(world, voter);
    sim_fired(world, SIM_FAULT_VOTER_JUMP);
}

void sim_voters_fault(struct sim_world *world)
{
    static void (*const kinds[])(struct sim_world *, struct sim_voter *) = {
        restart, restart, stop, split, split, hear_few, change_rate, lose_memory, jump,
    };

    kinds[tn_prng_below(&world->prng, sizeof kinds / sizeof kinds[0])](world, pick_voter(world));
}

void sim_voters_heal(struct sim_world *world)
{
    tenure_ns latest = world->now + world->config.delay;

    for (uint32_t i = 0; i < world->config.voters; i++) {
        struct sim_voter *voter = &world->store.voters[i];
        struct sim_event up = { .kind = SIM_EV_VOTER, .op = COME_UP, .server = i };
        voter->paused_until = voter->cut_until = 0;
        sim_voters_event(world, &up);
        for (uint32_t j = 0; j < world->config.nodes; j++) {
            if (voter->last_to[j] > latest)
                voter->last_to[j] = latest;
            if (voter->last_from[j] > latest)
                voter->last_from[j] = latest;
        }
    }
}
