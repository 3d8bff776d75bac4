/* store.c - the authority: the lease table under test, with a clock, a disk and an operator.
 *
 * Grants and releases are on disk before anyone hears of them; renewals are not. So a restart
 * brings back the table as it was, through tn_table_restart; a restore an older copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/line.h"
#include "sim/rows.h"
#include "sim/votes.h"

const char *sim_name(uint32_t name)
{
    static const char *const names[SIM_NAMES_MAX] = { "report", "backup", "billing", "mail",
                                                      "index",  "sync",   "prune",   "audit",
                                                      "cache",  "feed",   "quota",   "scan" };
    TN_ASSERT(name < SIM_NAMES_MAX);
    return names[name];
}

tenure_ns sim_store_now(const struct sim_world *world)
{
    return sim_clock_local(&world->store.clock, world->now);
}

/* --- Secrets: unguessable in life, readable here ---------------------------------------------- */

struct secret_fields {
    uint32_t label, node;
    uint64_t number;
};

static struct tn_secret make_secret(uint32_t label, uint32_t node, uint64_t number)
{
    struct secret_fields fields = { .label = label + 1, .node = node, .number = number };
    struct tn_secret secret;
    memcpy(&secret, &fields, sizeof secret);
    return secret;
}

static struct secret_fields read_secret(const struct tn_secret *secret)
{
    struct secret_fields fields;
    memcpy(&fields, secret, sizeof fields);
    return fields;
}

struct tn_secret sim_session_secret(const struct sim_node *node, uint64_t life)
{
    if (TN_PLANT(SHARED_IDENTITY))
        return make_secret(node->label, SIM_NOBODY, 1);
    return make_secret(node->label, node->index, life);
}

/* A process that starts again begins its generations anew, so its incarnation is part of the
 * secret. */
struct tn_secret sim_term_secret(const struct sim_node *node, uint32_t incarnation, uint64_t gen)
{
    if (TN_PLANT(SHARED_IDENTITY))
        return make_secret(node->label, SIM_NOBODY, 1);
    return make_secret(node->label, node->index, (uint64_t)incarnation << 40 | gen);
}

struct sim_waiter sim_waiter_of(const struct tn_secret *session, const struct tn_secret *term)
{
    struct secret_fields who = read_secret(session);
    uint64_t number = read_secret(term).number;
    return (struct sim_waiter) { .node = who.node,
                                 .life = who.number,
                                 .gen = number & 0xffffffffff,
                                 .incarnation = (uint32_t)(number >> 40) };
}

/* --- Life and death --------------------------------------------------------------------------- */

void sim_store_init(struct sim_world *world)
{
    struct sim_store *store = &world->store;
    const struct sim_config *config = &world->config;
    struct tn_table_limits limits = {
        .sessions = config->session_limit,
        .leases = config->lease_limit,
        .waiters = config->waiter_limit,
        .text_bytes = 64 * (config->session_limit + config->lease_limit + 1),
        .observed = config->style == SIM_OBSERVED,
        .hash_key = { .k0 = world->seed, .k1 = 1 },
    };
    size_t size = tn_table_size(&limits);
    if (size > store->block_size) {
        free(store->block);
        free(store->backup);
        store->block = malloc(size);
        store->backup = malloc(size);
        TN_ASSERT(store->block != NULL && store->backup != NULL);
    }
    store->block_size = size;
    memset(store->block, 0, size);
    store->table = tn_table_init(store->block, &limits);
    for (uint32_t i = 0; i < config->names; i++) {
        size_t room = 4 * (size_t)config->waiter_limit + 4;
        store->queue[i].list = realloc(store->queue[i].list, room * sizeof *store->queue[i].list);
        TN_ASSERT(store->queue[i].list != NULL);
    }
    sim_rows_init(world);
    sim_row_sessions_init(world);
    sim_votes_init(world);
    sim_line_init(world);
    store->up = true;
    store->down_since = TN_NEVER;
    store->ttl_most = TN_NEVER;
    store->clock.rate_ppm = TN_PPM;
    store->clock.real_from = world->now;
    store->clock.local_from = TN_SEC(1000);
    store->timer_at = TN_NEVER;
}

void sim_store_schedule(struct sim_world *world)
{
    struct sim_store *store = &world->store;
    struct sim_event event = { .kind = SIM_EV_STORE_TIMER };
    tenure_ns wake_at = world->config.style == SIM_LINE ? sim_line_expires_at(world)
                                                        : tn_table_wake_at(store->table);
    if (wake_at == TN_NEVER || !store->up)
        return;
    tenure_ns at = sim_clock_real(&store->clock, wake_at);
    if (at < world->now)
        at = world->now;
    if (at == store->timer_at)
        return;
    store->timer_at = at;
    event.id = ++store->timer_id;
    sim_at(world, at, &event);
}

void sim_store_crash(struct sim_world *world, tenure_ns back_at)
{
    struct sim_event event = { .kind = SIM_EV_STORE_UP };
    if (!world->store.up)
        return;
    world->store.up = false;
    world->store.down_since = world->now;
    sim_trace_other(world, "store", "crashes");
    sim_at(world, back_at, &event);
}

/* Every session that was alive gets its full TTL again, in the model as in the table; after a
 * restore any session may be, since it may have been alive when the backup was made. */
static void renew_lives(struct sim_world *world, bool restored)
{
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        for (uint32_t j = 0; j < SIM_LIVES; j++) {
            struct sim_life *life = &world->store.lives[i][j];
            bool over = life->over_at <= world->store.stepped_at && !restored;
            bool rests = life->rests_until > world->store.stepped_at && !restored;
            life->over_at = over ? 0 : sim_store_now(world) + life->ttl;
            life->rests_until = rests ? sim_store_now(world) + life->ttl : 0;
            bool let_go = life->held_off == 0 ||
                          (life->held_off_until <= world->store.stepped_at && !restored);
            life->held_off_until = let_go ? 0 : sim_store_now(world) + life->held_off;
        }
    }
    for (uint32_t i = 0; i < world->config.names; i++) {
        bool kept = world->store.kept_until[i] > world->store.stepped_at && !restored;
        world->store.kept_until[i] = kept ? sim_store_now(world) + world->store.kept_ttl[i] : 0;
        world->store.queue[i].count = 0;
    }
}

static void come_up(struct sim_world *world, bool restored)
{
    struct sim_store *store = &world->store;
    /* A machine that boots again has another clock. */
    store->clock.local_from = sim_between(world, TN_SEC(1), TN_SEC(100000));
    store->clock.real_from = world->now;
    store->up = true;
    store->down_since = TN_NEVER;
    store->timer_at = TN_NEVER;
    sim_feed_cut_all(world);
    tn_table_restart(store->table, sim_store_now(world));
    renew_lives(world, restored);
    sim_ranks_scatter(world);
    sim_row_sessions_restart(world, restored);
    store->stepped_at = sim_store_now(world); /* On the new clock, should it crash again at once. */
    sim_trace_other(world, "store",
                    "is back: every session has a full TTL again, every token its "
                    "place");
    sim_store_schedule(world);
}

void sim_store_backup(struct sim_world *world)
{
    memcpy(world->store.backup, world->store.block, world->store.block_size);
    memcpy(world->store.backup_granted, world->store.granted, sizeof world->store.granted);
    memcpy(world->store.backup_holder, world->store.holder, sizeof world->store.holder);
    memcpy(world->store.backup_rows, world->store.rows, sizeof world->store.rows);
    sim_row_sessions_backup(world);
    sim_line_backup(world);
    world->store.has_backup = true;
}

void sim_store_restore(struct sim_world *world)
{
    struct sim_store *store = &world->store;
    TN_ASSERT(store->has_backup);
    memcpy(store->block, store->backup, store->block_size);
    memcpy(store->granted, store->backup_granted, sizeof store->granted);
    memcpy(store->holder, store->backup_holder, sizeof store->holder);
    memcpy(store->rows, store->backup_rows, sizeof store->rows);
    sim_line_restore(world);
    store->restores++;
    for (uint32_t i = 0; i < world->config.names; i++)
        store->epoch[i]++;
    sim_trace_other(world, "store", "is restored from a backup; its last token is %llu again",
                    (unsigned long long)tn_table_token(store->table));
    store->up = false;
    come_up(world, true);
}

static void step_table(struct sim_world *world, const struct tn_op *op,
                       struct tn_result *ret_result)
{
    world->store.stepped_at = sim_store_now(world);
    tn_table_step(world->store.table, world->store.stepped_at, op, ret_result);
}

/* --- What comes out of the table -------------------------------------------------------------- */

static uint32_t name_of(const struct sim_world *world, uint32_t lease)
{
    struct tn_lease_view view;
    tn_table_lease(world->store.table, lease, &view);
    for (uint32_t i = 0; i < world->config.names; i++)
        if (strlen(sim_name(i)) == view.name_len &&
            memcmp(sim_name(i), view.name, view.name_len) == 0)
            return i;
    return SIM_NOBODY; /* A filler. */
}

static void fill_holder(struct sim_world *world, uint32_t lease, struct sim_event *event)
{
    struct tn_lease_view view;
    event->holder = SIM_NOBODY;
    if (lease == 0)
        return;
    tn_table_lease(world->store.table, lease, &view);
    event->token = view.token;
    event->beat = view.beat;
    event->ttl = view.ttl;
    event->held = view.session != NULL;
    if (view.session == NULL)
        return;
    struct sim_waiter holder = sim_waiter_of(view.session, view.term);
    event->holder = holder.node;
    event->holder_life = holder.life;
    event->holder_gen = holder.gen;
    event->holder_incarnation = holder.incarnation;
}

static void push_granted(struct sim_world *world, const struct tn_notice *notice, uint32_t name)
{
    struct sim_waiter to = sim_waiter_of(&notice->session, &notice->term);
    struct sim_event push = { .kind = SIM_EV_GRANTED,
                              .name = name,
                              .node = to.node,
                              .incarnation = to.incarnation,
                              .life = to.life,
                              .gen = to.gen,
                              .token = notice->token,
                              .epoch = world->store.epoch[name] };
    sim_check_turn(world, name, &to);
    sim_check_grant(world, name, &to, notice->token);
    if (to.node < world->config.nodes)
        sim_send(world, &push);
}

static void push_changed(struct sim_world *world, const struct tn_notice *notice, uint32_t name)
{
    struct sim_event push = { .kind = SIM_EV_CHANGED,
                              .name = name,
                              .epoch = world->store.epoch[name] };
    fill_holder(world, notice->lease, &push);
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        push.node = i;
        push.incarnation = world->nodes[i].incarnation;
        if (world->nodes[i].up)
            sim_send(world, &push);
    }
}

static void push_revoked(struct sim_world *world, const struct tn_notice *notice, uint32_t name)
{
    struct sim_waiter to = sim_waiter_of(&notice->session, &notice->term);
    struct sim_event push = { .kind = SIM_EV_REVOKED,
                              .name = name,
                              .node = to.node,
                              .incarnation = to.incarnation,
                              .life = to.life,
                              .token = notice->token };
    if (to.node < world->config.nodes)
        sim_send(world, &push);
}

/* Pass on the notices; those of revocation that belong to a renewal travel with its reply. */
static void pass_on(struct sim_world *world, const struct tn_result *result,
                    struct sim_event *reply)
{
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        uint32_t name = name_of(world, notice->lease);
        if (name == SIM_NOBODY)
            continue;
        if (notice->kind == TN_NOTICE_GRANTED) {
            push_granted(world, notice, name);
        } else if (notice->kind == TN_NOTICE_CHANGED) {
            if (!notice->held) /* Also of a turn that came, and was given back in the same step. */
                world->store.holder[name].node = SIM_NOBODY;
            if (world->config.style != SIM_QUEUE)
                push_changed(world, notice, name);
        } else if (reply != NULL) {
            reply->revoked[reply->revoked_count++] =
                (struct sim_revoked) { .token = notice->token, .name = name };
        } else {
            push_revoked(world, notice, name);
        }
    }
}

/* --- Requests --------------------------------------------------------------------------------- */

static void note_session(struct sim_world *world, const struct sim_event *request,
                         const struct tn_result *result)
{
    struct sim_node *node = &world->nodes[request->node];
    struct sim_life *life = &world->store.lives[request->node][request->life % SIM_LIVES];
    if (result->answer != TN_ANSWER_OK)
        return;
    if (request->op == TN_OP_CLOSE) {
        life->over_at = 0;
        return;
    }
    if (life->life == request->life)
        sim_check_renewed(world, request->node, life);
    /* An "open" that was delayed beyond its session's life makes a new, empty one of that name. */
    if (life->life == request->life && sim_store_now(world) >= life->over_at)
        sim_check_session_over(world, request->node, request->life);
    *life = (struct sim_life) { .life = request->life,
                                .ttl = result->ttl,
                                .over_at = sim_store_now(world) + result->ttl };
    if (node->incarnation == request->incarnation && node->candidate.life == request->life)
        node->renewed_at = world->now;
}

/* It was its turn in the same step, before its request: the checkers are told in pass_on. */
static bool had_turn(const struct tn_result *result, const struct sim_waiter *who)
{
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        struct sim_waiter to = sim_waiter_of(&notice->session, &notice->term);
        if (notice->kind == TN_NOTICE_GRANTED && to.node == who->node && to.life == who->life &&
            to.gen == who->gen && to.incarnation == who->incarnation)
            return true;
    }
    return false;
}

static bool is_same(const struct sim_waiter *a, const struct sim_waiter *b)
{
    return a->node == b->node && a->life == b->life && a->gen == b->gen &&
           a->incarnation == b->incarnation;
}

/* F1: the name changed hands in one step, and was not free in between. */
static void note_superseded(struct sim_world *world, uint32_t name, const struct sim_waiter *who,
                            const struct tn_result *result)
{
    struct sim_waiter former = world->store.holder[name];

    if (result->token == world->store.granted[name] || had_turn(result, who))
        return;                           /* Repeated, or nobody had it. */
    sim_check_dequeued(world, name, who); /* Whoever takes over leaves the line. */
    if (former.node < world->config.nodes && !is_same(&former, who) &&
        world->store.lives[former.node][former.life % SIM_LIVES].life == former.life &&
        sim_store_now(world) < world->store.lives[former.node][former.life % SIM_LIVES].over_at)
        sim_check_superseded(world, name, &former, who);
}

static void note_lease(struct sim_world *world, const struct sim_event *request,
                       const struct tn_result *result, const struct sim_waiter *held_before)
{
    struct sim_waiter who = { .node = request->node,
                              .life = request->life,
                              .gen = request->gen,
                              .incarnation = request->incarnation };
    if (request->op == TN_OP_ACQUIRE && result->answer == TN_ANSWER_GRANTED) {
        note_superseded(world, request->name, &who, result);
        sim_check_grant(world, request->name, &who, result->token);
    }
    if (request->op == TN_OP_ACQUIRE && result->answer == TN_ANSWER_QUEUED)
        sim_check_queued(world, request->name, &who);
    if (request->op != TN_OP_RELEASE || result->answer != TN_ANSWER_RELEASED)
        return;
    if (request->token == 0 && !had_turn(result, &who))
        sim_check_dequeued(world, request->name, &who);
    if (is_same(&world->store.holder[request->name], &who))
        world->store.holder[request->name].node = SIM_NOBODY; /* Also if it falls back (F1). */
    /* P5: what a release let go of must have been the releaser's own. */
    bool vacated = result->count > 0;
    if (request->token != 0 && vacated && held_before->node != SIM_NOBODY &&
        !TN_PLANT(SHARED_IDENTITY) &&
        (held_before->node != who.node || held_before->gen != who.gen ||
         held_before->incarnation != who.incarnation))
        sim_violate(world, "P5", "a release by node %u ended the term of node %u", who.node,
                    held_before->node);
}

static void fill_op(struct sim_world *world, const struct sim_event *request, struct tn_op *op)
{
    const struct sim_node *node = &world->nodes[request->node];
    struct sim_store *store = &world->store;
    *op = (struct tn_op) {
        .kind = request->op,
        .wait = request->wait,
        .evident = request->evident,
        .session = sim_session_secret(node, request->life),
        .term = sim_term_secret(node, request->incarnation, request->gen),
        .name = sim_name(request->name),
        .name_len = (uint32_t)strlen(sim_name(request->name)),
        .label = "node",
        .label_len = 4,
        .seq = request->seq,
        .token = request->token,
        .beat = request->beat,
        .seen = request->seen,
        .ttl = request->ttl,
    };
    if (op->kind == TN_OP_ACQUIRE && world->config.alike > 0) {
        bool alike = request->node < world->config.alike;
        op->soft.limit = world->config.claim.soft;
        op->soft.fences = make_secret(request->name, alike ? SIM_NOBODY : request->node, 1);
    }
    if (op->kind == TN_OP_OPEN && op->ttl > store->ttl_most) {
        sim_fired(world, SIM_FAULT_TTL_CUT);
        op->ttl = store->ttl_most;
    }
}

static void trace_served(struct sim_world *world, const struct sim_event *request,
                         const struct tn_result *result)
{
    static const char *const ops[] = { "open", "renew", "close", "acquire", "release", "read" };
    static const char *const answers[] = { "ok",       "granted", "queued", "held", "free",
                                           "released", "stale",   "denied", "gone", "full" };
    char label[16];
    if (world->listener == NULL || world->script != NULL)
        return;
    sim_trace_label(&world->nodes[request->node], label, sizeof label);
    if (request->op <= TN_OP_CLOSE)
        sim_trace_other(world, "store", "%s %s.%llu #%llu: %s", ops[request->op], label,
                        (unsigned long long)request->life, (unsigned long long)request->seq,
                        answers[result->answer]);
    else
        sim_trace_other(world, "store", "%s %s by %s.%llu, term %u.%llu: %s, token %llu",
                        ops[request->op], sim_name(request->name), label,
                        (unsigned long long)request->life, request->incarnation,
                        (unsigned long long)request->gen, answers[result->answer],
                        (unsigned long long)result->token);
}

void sim_store_look(const struct sim_world *world, uint32_t name, struct sim_holding *ret_held)
{
    const struct sim_store *store = &world->store;
    struct tn_lease_view view;

    *ret_held = (struct sim_holding) { .node = SIM_NOBODY };
    for (uint32_t i = tn_table_next(store->table, 0); i != 0; i = tn_table_next(store->table, i)) {
        if (name_of(world, i) != name)
            continue;
        tn_table_lease(store->table, i, &view);
        tenure_ns left = view.remaining - (sim_store_now(world) - store->stepped_at);
        ret_held->token = view.token;
        if (view.session == NULL)
            return;
        ret_held->node = sim_waiter_of(view.session, view.term).node;
        ret_held->ttl = view.ttl;
        ret_held->left = left > 0 ? left : 0;
        ret_held->revoked = view.revoked;
        return;
    }
}

/* A term is over when its name changed to free, or to the next in line. */
static void note_vacancies(struct sim_world *world, const struct tn_result *result)
{
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        uint32_t name = name_of(world, notice->lease);
        if (name != SIM_NOBODY && (notice->kind == TN_NOTICE_GRANTED ||
                                   (notice->kind == TN_NOTICE_CHANGED && !notice->held)))
            world->store.holder[name].node = SIM_NOBODY;
    }
}

static void serve(struct sim_world *world, const struct sim_event *request)
{
    struct sim_store *store = &world->store;
    struct sim_waiter held_before = store->holder[request->name];
    struct sim_event reply = *request;
    struct tn_result result;
    struct tn_op op;

    fill_op(world, request, &op);
    step_table(world, &op, &result);
    if (result.answer == TN_ANSWER_FULL)
        sim_fired(world, SIM_FAULT_STORE_FULL);
    note_session(world, request, &result);
    note_vacancies(world, &result);
    if (op.kind != TN_OP_ACQUIRE)
        note_lease(world, request, &result, &held_before);

    reply.kind = SIM_EV_REPLY;
    reply.answer = (uint8_t)result.answer;
    fill_holder(world, result.lease, &reply);
    reply.token = result.token;
    if (op.kind == TN_OP_OPEN || op.kind == TN_OP_RENEW)
        reply.ttl = result.ttl;
    reply.more = result.more;
    reply.seen = result.seen;
    reply.held_count = result.held;
    reply.epoch = store->epoch[request->name];
    trace_served(world, request, &result);
    pass_on(world, &result, op.kind == TN_OP_RENEW || op.kind == TN_OP_OPEN ? &reply : NULL);
    if (op.kind == TN_OP_ACQUIRE) /* It may take over (F1) what the same step gave to the next. */
        note_lease(world, request, &result, &held_before);
    if (op.kind != TN_OP_CLOSE)
        sim_send(world, &reply);
    sim_store_schedule(world);
    /* An operator who is quicker than the reply; more often where a former's time goes on. */
    if (result.answer == TN_ANSWER_GRANTED && !world->healed && world->script == NULL &&
        sim_chance(world, result.rested != 0 ? TN_PPM / 4 : TN_PPM / 200))
        sim_store_operator(world, TN_OP_REVOKE, request->name, 0);
}

static void tick(struct sim_world *world)
{
    struct tn_op op = { .kind = TN_OP_TICK };
    struct tn_result result;
    world->store.timer_at = TN_NEVER;
    step_table(world, &op, &result);
    note_vacancies(world, &result);
    pass_on(world, &result, NULL);
    sim_store_schedule(world);
}

void sim_store_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name,
                        uint64_t token)
{
    struct tn_op op = { .kind = kind,
                        .name = sim_name(name),
                        .name_len = (uint32_t)strlen(sim_name(name)),
                        .token = token };
    struct tn_result result;
    if (world->config.style == SIM_ROWS) {
        sim_rows_operator(world, kind, name, token);
        return;
    }
    if (world->config.style == SIM_VOTES) {
        sim_voters_operator(world, kind, name, token);
        return;
    }
    if (world->config.style == SIM_LINE) {
        sim_line_operator(world, kind, name, token);
        return;
    }
    step_table(world, &op, &result);
    if (kind == TN_OP_REVOKE && result.answer == TN_ANSWER_OK) {
        bool deleted = world->config.style == SIM_OBSERVED;
        sim_fired(world, deleted ? SIM_FAULT_DELETE : SIM_FAULT_REVOKE);
        world->store.epoch[name] += deleted; /* A2 is broken: P1 rests until old terms are over. */
    }
    note_vacancies(world, &result);
    pass_on(world, &result, NULL);
    sim_store_schedule(world);
}

/* Fill the table with names of no importance, until it forgets the free ones that matter. */
void sim_store_forget_names(struct sim_world *world)
{
    struct sim_store *store = &world->store;
    struct tn_secret secret = make_secret(9999, SIM_NOBODY, 1);
    struct tn_op open = { .kind = TN_OP_OPEN, .session = secret, .seq = 1, .ttl = TN_SEC(1) };
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = secret };
    struct tn_result result;
    char name[24];

    step_table(world, &open, &result);
    if (result.answer != TN_ANSWER_OK)
        return;
    for (uint32_t i = 0; i < world->config.lease_limit; i++) {
        int len = snprintf(name, sizeof name, "filler-%u", store->filler++);
        struct tn_op acquire = { .kind = TN_OP_ACQUIRE,
                                 .session = secret,
                                 .term = make_secret(9999, SIM_NOBODY, store->filler),
                                 .name = name,
                                 .name_len = (uint32_t)len };
        step_table(world, &acquire, &result);
        note_vacancies(world, &result);
        pass_on(world, &result, NULL);
    }
    sim_fired(world, SIM_FAULT_FORGET);
    step_table(world, &close, &result);
    note_vacancies(world, &result);
    pass_on(world, &result, NULL);
    sim_store_schedule(world);
}

void sim_store_event(struct sim_world *world, const struct sim_event *event)
{
    struct sim_store *store = &world->store;
    if (event->kind == SIM_EV_STORE_UP) {
        if (!store->up)
            come_up(world, false);
        return;
    }
    if (!store->up)
        return; /* Lost, and nobody says so. */
    if (event->kind == SIM_EV_STORE_TIMER && event->id != store->timer_id)
        return;
    if (world->now < store->paused_until) {
        sim_at(world, store->paused_until, event);
        return;
    }
    if (event->kind == SIM_EV_STORE_TIMER && world->config.style == SIM_LINE) {
        store->timer_at = TN_NEVER;
        sim_line_expire(world);
        sim_store_schedule(world);
        return;
    }
    if (event->kind == SIM_EV_STORE_TIMER) {
        tick(world);
        return;
    }
    if (event->kind == SIM_EV_LINE_REVOKE) {
        sim_line_revoke(world, event);
        return;
    }
    sim_arrived(world, event);
    if (event->kind == SIM_EV_LINE_STEP)
        sim_line_serve(world, event);
    else if (event->kind == SIM_EV_REQUEST && world->config.style == SIM_LINE)
        sim_line_session(world, event);
    else if (event->kind == SIM_EV_REQUEST)
        serve(world, event);
    else
        sim_rows_serve(world, event);
}
