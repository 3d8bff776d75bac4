/* node.c - a candidate: the session and claims under test, and an application that uses them.
 *
 * The part that carries out the core's actions is what the real runtime does, with the world's
 * network and clocks instead of sockets and CLOCK_BOOTTIME. The application works while it leads,
 * checks in, drains when asked, and writes with the token it was given. */
#include <string.h>

#include "base/assert.h"
#include "sim/world.h"

/* What a wrongly chosen clock would show beside the right one; the right one counts suspend and
 * knows nothing of wall time. */
static tenure_ns clock_error(const struct sim_node *node)
{
    if (TN_PLANT(CLOCK_IN_SUSPEND))
        return -node->clock.suspended;
    if (TN_PLANT(WALL_CLOCK))
        return node->clock.wall_offset;
    return 0;
}

tenure_ns sim_node_now(const struct sim_world *world, const struct sim_node *node)
{
    tenure_ns now = sim_clock_local(&node->clock, world->now) + clock_error(node);
    return now > node->clock.last ? now : node->clock.last;
}

/* Read the clock, once per event. */
static tenure_ns read_clock(struct sim_world *world, struct sim_node *node)
{
    node->clock.last = sim_node_now(world, node);
    return node->clock.last;
}

uint64_t sim_node_token(const struct sim_world *world, const struct sim_node *node, uint32_t name)
{
    if (!node->up)
        return 0;
    return tn_claim_token(&node->seats[name].claim, sim_node_now(world, node));
}

/* --- The application -------------------------------------------------------------------------- */

static void app_later(struct sim_world *world, const struct sim_node *node, uint32_t name,
                      enum sim_event_kind kind, tenure_ns in)
{
    struct sim_event event = { .kind = (uint8_t)kind,
                               .node = node->index,
                               .name = name,
                               .incarnation = node->incarnation,
                               .id = node->seats[name].app.drain_id };
    sim_at(world, world->now + in, &event);
}

static void app_won(struct sim_world *world, struct sim_node *node, uint32_t name, uint64_t token)
{
    struct sim_app *app = &node->seats[name].app;
    sim_check_won(world, node, name, token);
    app->told_won = true;
    app->working = true;
    app->waits = false;
    app->draining = false;
    app->stalled = false;
    app->stall_told = false;
    app->token = token;
    app->epoch = node->seats[name].granted_epoch;
    app->checked_in = sim_node_now(world, node);
    app->drain_id++;
    world->leading[name]++;
    world->leader[name] = node->index;
    world->gap[name] = world->now - world->vacant_since[name];
    world->stats.terms++;
    sim_trace_node(world, node, "leads %s with token %llu", sim_name(name),
                   (unsigned long long)token);
    app_later(world, node, name, SIM_EV_APP, TN_MS(1));
}

/* How long the application takes to stop; now and then longer than it may. */
static tenure_ns drain_time(struct sim_world *world)
{
    tenure_ns allowed = world->config.claim.drain_timeout;
    if (world->scenario != NULL)
        return allowed / 4;
    if (!world->healed && sim_chance(world, TN_PPM / 10)) {
        sim_fired(world, SIM_FAULT_SLOW_DRAIN);
        return sim_between(world, allowed, 3 * world->config.plan.ttl);
    }
    return sim_between(world, TN_MS(1), allowed / 2);
}

static void app_stop(struct sim_world *world, struct sim_node *node, uint32_t name)
{
    struct sim_app *app = &node->seats[name].app;
    if (app->draining)
        return;
    app->draining = true;
    app_later(world, node, name, SIM_EV_DRAINED, drain_time(world));
}

static void app_lost(struct sim_world *world, struct sim_node *node, uint32_t name,
                     const struct tn_claim_action *action)
{
    struct sim_app *app = &node->seats[name].app;
    sim_check_lost(world, node, name, action->token);
    app->told_won = false;
    app->stall_told = action->reason == TN_REASON_STALLED;
    app->stop_by = tn_session_deadline(&node->session);
    world->leading[name]--;
    if (world->leader[name] == node->index)
        world->leader[name] = SIM_NOBODY;
    world->vacant_since[name] = world->now;
    world->stats.losses++;
    sim_trace_node(world, node, "lost %s: %s (token %llu)", sim_name(name),
                   tn_reason_text(action->reason), (unsigned long long)action->token);
    app_stop(world, node, name);
}

/* One bit of work: look whether the term is valid, then write. In between, anything may happen. */
static void app_work(struct sim_world *world, struct sim_node *node, uint32_t name)
{
    struct sim_app *app = &node->seats[name].app;
    uint64_t token = sim_node_token(world, node, name);
    struct sim_event write = {
        .kind = SIM_EV_WRITE, .node = node->index, .name = name, .token = token
    };
    if (token != 0) {
        app->written++;
        sim_send(world, &write);
    }
    if (!app->stalled && world->config.claim.stall_after > 0) {
        app->checked_in = sim_node_now(world, node);
        (void)sim_node_tell(world, node->index, name, TN_CLAIM_EV_CHECK_IN);
    }
    if (app->working)
        app_later(world, node, name, SIM_EV_APP, world->config.plan.ttl / 5);
}

/* --- Carrying out actions --------------------------------------------------------------------- */

static void send_request(struct sim_world *world, const struct sim_node *node, uint32_t name,
                         struct sim_event *request)
{
    request->kind = SIM_EV_REQUEST;
    request->node = node->index;
    request->name = name;
    request->incarnation = node->incarnation;
    request->life = node->life;
    request->sent_at = node->clock.last;
    sim_send(world, request);
}

static void send_acquire(struct sim_world *world, struct sim_node *node, uint32_t name,
                         uint64_t gen)
{
    const struct tn_observer *observer = &node->seats[name].observer;
    struct sim_event request = { .op = TN_OP_ACQUIRE,
                                 .gen = gen,
                                 .wait = world->config.style == SIM_QUEUE };
    sim_check_acquire(world, node, name);
    if (tn_observer_vacant(observer, node->clock.last)) {
        request.evident = true;
        request.token = observer->token;
        request.beat = observer->beat;
    }
    send_request(world, node, name, &request);
}

static void carry_out(struct sim_world *world, struct sim_node *node, uint32_t name,
                      const struct tn_claim_action *action)
{
    struct sim_event request = { .gen = action->gen, .token = action->token };
    switch (action->kind) {
    case TN_CLAIM_DO_ACQUIRE:
        send_acquire(world, node, name, action->gen);
        break;
    case TN_CLAIM_DO_READ:
        request.op = TN_OP_READ;
        request.read = action->read;
        send_request(world, node, name, &request);
        break;
    case TN_CLAIM_DO_RELEASE:
        sim_check_release(world, node, name, action->token);
        request.op = TN_OP_RELEASE;
        if (action->token != 0)
            sim_trace_node(world, node, "gives %s back (token %llu)", sim_name(name),
                           (unsigned long long)action->token);
        send_request(world, node, name, &request);
        break;
    case TN_CLAIM_DO_RAISE:
        request.kind = SIM_EV_RAISE;
        request.node = node->index;
        request.name = name;
        request.incarnation = node->incarnation;
        sim_send(world, &request);
        break;
    case TN_CLAIM_DO_WON:
        app_won(world, node, name, action->token);
        break;
    case TN_CLAIM_DO_DRAIN:
        sim_trace_node(world, node, "resigns %s; it leads until the work has stopped",
                       sim_name(name));
        app_stop(world, node, name);
        break;
    case TN_CLAIM_DO_LOST:
        app_lost(world, node, name, action);
        break;
    case TN_CLAIM_DO_REFUSED:
        world->stats.refusals++;
        sim_trace_node(world, node, "refuses to lead %s with token %llu: %s", sim_name(name),
                       (unsigned long long)action->token, tn_reason_text(action->reason));
        break;
    case TN_CLAIM_DO_LEADER:
        break;
    }
}

static void step_claim(struct sim_world *world, struct sim_node *node, uint32_t name,
                       const struct tn_claim_event *event)
{
    struct tn_claim_actions actions;
    tn_claim_step(&node->seats[name].claim, node->clock.last, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++)
        carry_out(world, node, name, &actions.list[i]);
}

static void step_claims(struct sim_world *world, struct sim_node *node,
                        enum tn_claim_event_kind kind)
{
    for (uint32_t i = 0; i < world->config.names; i++)
        step_claim(world, node, i, &(struct tn_claim_event) { .kind = kind });
}

static void session_told(struct sim_world *world, struct sim_node *node,
                         const struct tn_session_action *action)
{
    if (action->state == TN_SESSION_LIVE && action->from == TN_SESSION_OPENING) {
        step_claims(world, node, TN_CLAIM_EV_SESSION_LIVE);
    } else if (action->state == TN_SESSION_JEOPARDY) {
        sim_trace_node(world, node, "is in jeopardy: a renewal is overdue");
    } else if (action->state == TN_SESSION_LIVE) {
        sim_trace_node(world, node, "is safe again");
    } else if (action->state == TN_SESSION_LOST) {
        step_claims(world, node, TN_CLAIM_EV_SESSION_LOST);
        node->reopen_at = node->clock.last + sim_between(world, 0, world->config.plan.backoff);
    }
}

static void step_session(struct sim_world *world, struct sim_node *node,
                         const struct tn_session_event *event)
{
    struct tn_session_actions actions;
    tn_session_step(&node->session, node->clock.last, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct tn_session_action *action = &actions.list[i];
        struct sim_event request = { .seq = action->seq,
                                     .ttl = world->config.plan.ttl,
                                     .seen = node->seen };
        if (action->kind == TN_SESSION_DO_TELL) {
            session_told(world, node, action);
        } else {
            request.op = action->kind == TN_SESSION_DO_OPEN    ? TN_OP_OPEN
                         : action->kind == TN_SESSION_DO_RENEW ? TN_OP_RENEW
                                                               : TN_OP_CLOSE;
            send_request(world, node, 0, &request);
        }
    }
}

static void open_session(struct sim_world *world, struct sim_node *node)
{
    node->reopen_at = TN_NEVER;
    node->seen = 0;
    node->life++;
    tn_session_init(&node->session, &world->config.plan, node->life, tn_prng_next(&world->prng));
    step_session(world, node, &(struct tn_session_event) { .kind = TN_SESSION_EV_OPEN });
}

/* --- Timers ----------------------------------------------------------------------------------- */

static bool is_observing(const struct sim_world *world, const struct sim_seat *seat)
{
    return world->config.style == SIM_OBSERVED && seat->claim.state == TN_CLAIM_WATCHING &&
           seat->claim.campaigning && seat->claim.ready && !seat->claim.working;
}

static void run_due(struct sim_world *world, struct sim_node *node)
{
    tenure_ns now = node->clock.last;
    if (now >= tn_session_wake_at(&node->session))
        step_session(world, node, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_seat *seat = &node->seats[i];
        if (now >= tn_claim_wake_at(&seat->claim))
            step_claim(world, node, i, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_TICK });
        if (is_observing(world, seat) && tn_observer_vacant(&seat->observer, now) &&
            tn_session_valid(&node->session, now)) {
            struct tn_claim_event vacant = { .kind = TN_CLAIM_EV_OBSERVED,
                                             .token = seat->observer.token };
            step_claim(world, node, i, &vacant);
        }
    }
    if (now >= node->reopen_at)
        open_session(world, node);
}

static tenure_ns wake_at(const struct sim_world *world, const struct sim_node *node)
{
    tenure_ns at = tn_session_wake_at(&node->session);
    if (node->reopen_at < at)
        at = node->reopen_at;
    for (uint32_t i = 0; i < world->config.names; i++) {
        const struct sim_seat *seat = &node->seats[i];
        tenure_ns claim = tn_claim_wake_at(&seat->claim);
        if (claim < at)
            at = claim;
        if (is_observing(world, seat) && tn_session_valid(&node->session, node->clock.last) &&
            tn_observer_wake_at(&seat->observer) < at)
            at = tn_observer_wake_at(&seat->observer);
    }
    return at;
}

void sim_node_schedule(struct sim_world *world, struct sim_node *node)
{
    struct sim_event event = { .kind = SIM_EV_NODE_TIMER, .node = node->index };
    tenure_ns local = wake_at(world, node);
    if (local == TN_NEVER)
        return;
    tenure_ns at = sim_clock_real(&node->clock, local - clock_error(node));
    if (at < world->now)
        at = world->now;
    if (at == node->timer_at)
        return;
    node->timer_at = at;
    event.id = ++node->timer_id;
    event.incarnation = node->incarnation;
    sim_at(world, at, &event);
}

/* --- Messages --------------------------------------------------------------------------------- */

/* The store knows of fewer leases than this process leads: each has to be looked up. */
static void compare_counts(struct sim_world *world, struct sim_node *node,
                           const struct sim_event *event)
{
    uint32_t leads = 0;
    for (uint32_t i = 0; i < world->config.names; i++)
        leads += tn_claim_token(&node->seats[i].claim, node->clock.last) != 0;
    if (event->answer == TN_ANSWER_OK && event->held_count < leads)
        step_claims(world, node, TN_CLAIM_EV_DOUBT);
}

static void hear_session(struct sim_world *world, struct sim_node *node,
                         const struct sim_event *event)
{
    struct tn_session_event heard = { .seq = event->seq, .ttl = event->ttl, .more = event->more };
    tenure_ns deadline = tn_session_deadline(&node->session);
    /* Revocations first: what they end must not be extended (P1). */
    for (uint32_t i = 0; i < event->revoked_count; i++) {
        struct tn_claim_event revoked = { .kind = TN_CLAIM_EV_REVOKED,
                                          .token = event->revoked[i].token };
        step_claim(world, node, event->revoked[i].name, &revoked);
    }
    switch ((enum tn_answer)event->answer) {
    case TN_ANSWER_OK:
        heard.kind = TN_SESSION_EV_OK;
        if (event->seen > node->seen)
            node->seen = event->seen;
        break;
    case TN_ANSWER_GONE:
        heard.kind = TN_SESSION_EV_GONE;
        break;
    case TN_ANSWER_STALE:
        return;
    default:
        heard.kind = TN_SESSION_EV_FAIL;
    }
    step_session(world, node, &heard);
    compare_counts(world, node, event);
    sim_check_extended(world, node);
    if (heard.kind == TN_SESSION_EV_GONE)
        sim_check_gone(world, node);
    if (world->scenario != NULL && event->op == TN_OP_RENEW && world->config.nodes < 10 &&
        world->leader[0] == node->index)
        sim_trace_node(world, node, "renewed, %lld ms before its deadline",
                       (long long)((deadline - node->clock.last) / TN_MS(1)));
}

static bool is_own(const struct sim_node *node, const struct sim_event *event)
{
    return event->held && event->holder == node->index && event->holder_life == node->life &&
           event->holder_incarnation == node->incarnation;
}

static void hear_record(struct sim_world *world, struct sim_node *node,
                        const struct sim_event *event)
{
    struct sim_seat *seat = &node->seats[event->name];
    bool mine = is_own(node, event);
    struct tn_claim_event observed = { .kind = TN_CLAIM_EV_OBSERVED,
                                       .gen = mine ? event->holder_gen : 0,
                                       .token = event->token,
                                       .read = event->op == TN_OP_READ ? event->read : 0,
                                       .held = event->held,
                                       .mine = mine };
    if (!mine && event->token > seat->app.seen_token && event->token != seat->claim.token)
        seat->app.seen_token = event->token;
    if (mine)
        seat->granted_epoch = event->epoch;
    if (world->config.style == SIM_OBSERVED && event->kind == SIM_EV_REPLY && !mine &&
        event->op == TN_OP_READ)
        tn_observer_saw(&seat->observer, event->sent_at, node->clock.last, event->held,
                        event->token, event->beat, event->ttl);
    step_claim(world, node, event->name, &observed);
}

static void hear_acquire(struct sim_world *world, struct sim_node *node,
                         const struct sim_event *event)
{
    struct sim_seat *seat = &node->seats[event->name];
    struct tn_claim_event heard = { .gen = event->gen, .token = event->token };
    switch ((enum tn_answer)event->answer) {
    case TN_ANSWER_GRANTED:
        heard.kind = TN_CLAIM_EV_GRANTED;
        if (event->gen == seat->claim.gen)
            seat->granted_epoch = event->epoch;
        break;
    case TN_ANSWER_QUEUED:
        heard.kind = TN_CLAIM_EV_QUEUED;
        if (world->scenario != NULL && world->config.nodes < 10 && !seat->app.waits)
            sim_trace_node(world, node, "waits in the queue for %s", sim_name(event->name));
        seat->app.waits = true;
        break;
    case TN_ANSWER_HELD:
        heard.kind = TN_CLAIM_EV_HELD;
        tn_observer_init(&seat->observer); /* The evidence did not convince: look again. */
        break;
    case TN_ANSWER_GONE:
        step_session(world, node, &(struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
        return;
    default:
        heard.kind = TN_CLAIM_EV_FAILED;
    }
    step_claim(world, node, event->name, &heard);
    if (event->answer != TN_ANSWER_GRANTED && event->held)
        hear_record(world, node, event);
}

static void hear_release(struct sim_world *world, struct sim_node *node,
                         const struct sim_event *event)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_RELEASED, .gen = event->gen };
    step_claim(world, node, event->name, &heard);
    if (event->answer == TN_ANSWER_GONE)
        step_session(world, node, &(struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
}

static void hear_reply(struct sim_world *world, struct sim_node *node,
                       const struct sim_event *event)
{
    if (event->life != node->life)
        return; /* Of an earlier session. */
    if (event->op == TN_OP_OPEN || event->op == TN_OP_RENEW)
        hear_session(world, node, event);
    else if (event->op == TN_OP_ACQUIRE)
        hear_acquire(world, node, event);
    else if (event->op == TN_OP_RELEASE)
        hear_release(world, node, event);
    else
        hear_record(world, node, event);
}

static void hear_push(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct tn_claim_event heard = { .gen = event->gen, .token = event->token };
    if (event->kind == SIM_EV_CHANGED) {
        hear_record(world, node, event);
        return;
    }
    if (event->life != node->life)
        return;
    if (event->kind == SIM_EV_GRANTED) {
        heard.kind = TN_CLAIM_EV_GRANTED;
        if (event->gen == node->seats[event->name].claim.gen)
            node->seats[event->name].granted_epoch = event->epoch;
    } else {
        heard.kind = TN_CLAIM_EV_REVOKED;
    }
    step_claim(world, node, event->name, &heard);
}

static void hear_fence(struct sim_world *world, struct sim_node *node,
                       const struct sim_event *event)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_RAISED,
                                    .gen = event->gen,
                                    .token = event->token };
    if (event->answer == TN_ANSWER_FULL)
        heard.kind = TN_CLAIM_EV_FAILED;
    else if (event->stale)
        heard.kind = TN_CLAIM_EV_STALE;
    step_claim(world, node, event->name, &heard);
}

static void hear_app(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_app *app = &node->seats[event->name].app;
    if (event->id != app->drain_id || !app->working)
        return;
    if (event->kind == SIM_EV_APP) {
        app_work(world, node, event->name);
    } else {
        app->working = false;
        app->draining = false;
        step_claim(world, node, event->name,
                   &(struct tn_claim_event) { .kind = TN_CLAIM_EV_DRAINED });
    }
}

static void hear(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EV_REPLY:
        hear_reply(world, node, event);
        break;
    case SIM_EV_GRANTED:
    case SIM_EV_REVOKED:
    case SIM_EV_CHANGED:
        hear_push(world, node, event);
        break;
    case SIM_EV_RAISED:
        hear_fence(world, node, event);
        break;
    case SIM_EV_APP:
    case SIM_EV_DRAINED:
        hear_app(world, node, event);
        break;
    default:
        TN_ASSERT(event->kind == SIM_EV_NODE_TIMER);
    }
}

void sim_node_event(struct sim_world *world, const struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];
    if (event->kind == SIM_EV_NODE_UP) {
        if (!node->up)
            sim_node_boot(world, event->node);
        return;
    }
    if (!node->up || event->incarnation != node->incarnation)
        return; /* Meant for a process that is no more. */
    if (event->kind == SIM_EV_NODE_TIMER && event->id != node->timer_id)
        return;
    if (world->now < node->paused_until) {
        sim_at(world, node->paused_until, event);
        return;
    }
    if (event->kind == SIM_EV_NODE_TIMER)
        node->timer_at = TN_NEVER;
    sim_arrived(world, event);
    read_clock(world, node);
    /* The session's deadline first, before anything that arrived is looked at. */
    if (node->clock.last >= tn_session_wake_at(&node->session))
        step_session(world, node, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    hear(world, node, event);
    run_due(world, node);
    sim_check_node(world, node);
    sim_node_schedule(world, node);
}

bool sim_node_tell(struct sim_world *world, uint32_t index, uint32_t name,
                   enum tn_claim_event_kind wish)
{
    struct sim_node *node = &world->nodes[index];
    if (!node->up || world->now < node->paused_until)
        return false;
    read_clock(world, node);
    if (node->clock.last >= tn_session_wake_at(&node->session))
        step_session(world, node, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    if (wish == TN_CLAIM_EV_READY || wish == TN_CLAIM_EV_NOT_READY)
        node->seats[name].app.ready = wish == TN_CLAIM_EV_READY;
    step_claim(world, node, name, &(struct tn_claim_event) { .kind = wish });
    sim_node_schedule(world, node);
    return true;
}

/* --- Life and death --------------------------------------------------------------------------- */

void sim_node_boot(struct sim_world *world, uint32_t index)
{
    struct sim_node *node = &world->nodes[index];
    node->up = true;
    node->incarnation++;
    node->timer_at = TN_NEVER;
    node->paused_until = 0;
    read_clock(world, node);
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_seat *seat = &node->seats[i];
        memset(seat, 0, sizeof *seat);
        tn_claim_init(&seat->claim, &world->config.claim, &node->session,
                      tn_prng_next(&world->prng));
        tn_observer_init(&seat->observer);
        seat->app.ready = true;
    }
    open_session(world, node);
    step_claims(world, node, TN_CLAIM_EV_CAMPAIGN);
    sim_node_schedule(world, node);
}

void sim_node_crash(struct sim_world *world, uint32_t index)
{
    struct sim_node *node = &world->nodes[index];
    if (!node->up)
        return;
    node->up = false;
    for (uint32_t i = 0; i < world->config.names; i++) {
        if (node->seats[i].app.told_won) {
            world->leading[i]--;
            world->vacant_since[i] = world->now;
        }
        if (world->leader[i] == index)
            world->leader[i] = SIM_NOBODY;
    }
}

void sim_node_pause(struct sim_world *world, uint32_t index, tenure_ns until, bool suspend)
{
    struct sim_node *node = &world->nodes[index];
    if (!node->up || until <= node->paused_until)
        return;
    if (suspend)
        node->clock.suspended +=
            until - (world->now > node->paused_until ? world->now : node->paused_until);
    node->paused_until = until;
}
