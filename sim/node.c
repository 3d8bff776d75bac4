/* node.c - a process: the candidate under test, and an application that uses it.
 *
 * The host of the candidate is what the real runtime is, with the world's network and clocks
 * instead of sockets and CLOCK_BOOTTIME. The application works while it leads,
 * checks in, drains when asked, and writes with the token it was given. */
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/line.h"
#include "sim/rows.h"
#include "sim/votes.h"

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
    return tn_candidate_token(&node->candidate, &node->seats[name].seat, sim_node_now(world, node));
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

tenure_ns sim_node_deadline(const struct sim_node *node)
{
    tenure_ns deadline = tn_session_deadline(&node->candidate.session);
    return deadline == 0 ? 0 : sim_clock_real(&node->clock, deadline - clock_error(node));
}

/* A term is over now, or was over before at the deadline, if nobody was awake to see it pass. */
static void note_over(struct sim_world *world, const struct sim_node *node, uint32_t name)
{
    tenure_ns deadline = sim_node_deadline(node);
    tenure_ns over_at = deadline > 0 && deadline < world->now ? deadline : world->now;
    if (world->vacant_since[name] == TN_NEVER || over_at > world->vacant_since[name])
        world->vacant_since[name] = over_at;
}

/* The time without a leader, up to now; none when a term is still valid. A leader that is asleep
 * does not know yet that it has lost. */
static void note_gap(struct sim_world *world, const struct sim_node *winner, uint32_t name)
{
    for (uint32_t i = 0; world->leading[name] > 1 && i < world->config.nodes; i++)
        if (&world->nodes[i] != winner && world->nodes[i].up &&
            world->nodes[i].seats[name].app.told_won)
            note_over(world, &world->nodes[i], name);
    if (world->vacant_since[name] == TN_NEVER)
        return;
    world->gap[name] = world->now - world->vacant_since[name];
    if (world->gap[name] > world->gap_most[name])
        world->gap_most[name] = world->gap[name];
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
    app->given_back = false;
    app->token = token;
    app->epoch = node->seats[name].granted_epoch;
    app->checked_in = sim_node_now(world, node);
    app->drain_id++;
    world->leading[name]++;
    world->leader[name] = node->index;
    note_gap(world, node, name);
    world->stats.terms++;
    sim_trace_node(world, node, "leads %s with token %llu", sim_name(name),
                   (unsigned long long)token);
    if (world->below != NULL)
        world->below->told(world->below->arg, node->index, name, token);
    else
        app_later(world, node, name, SIM_EV_APP, TN_MS(1));
}

/* How long the application takes to stop; now and then longer than it may. */
static tenure_ns drain_time(struct sim_world *world)
{
    tenure_ns allowed = world->config.claim.drain_timeout;
    if (world->script != NULL)
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
    if (world->below != NULL)
        world->below->told(world->below->arg, node->index, name, 0);
    if (app->draining || world->below != NULL)
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
    app->stop_by = tn_session_deadline(&node->candidate.session);
    world->leading[name]--;
    if (world->leader[name] == node->index)
        world->leader[name] = SIM_NOBODY;
    note_over(world, node, name);
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

/* --- What the candidate asks of its host ------------------------------------------------------ */

static uint32_t name_of(const struct sim_node *node, const struct tn_seat *seat)
{
    return (uint32_t)((const struct sim_seat *)(const void *)seat - node->seats);
}

static void send(void *arg, const struct tn_request *request)
{
    const struct sim_host *host = arg;
    struct sim_world *world = host->world;
    struct sim_node *node = host->node;
    uint32_t name = request->seat != NULL ? name_of(node, request->seat) : 0;
    struct sim_event event = { .kind = SIM_EV_REQUEST,
                               .node = node->index,
                               .name = name,
                               .incarnation = node->incarnation,
                               .op = (uint8_t)request->kind,
                               .wait = request->wait,
                               .evident = request->evident,
                               .life = request->life,
                               .gen = request->gen,
                               .token = request->token,
                               .seq = request->seq,
                               .beat = request->beat,
                               .seen = request->seen,
                               .read = request->read,
                               .ttl = request->ttl,
                               .sent_at = request->sent_at };

    if (request->kind == TN_OP_ACQUIRE)
        sim_check_acquire(world, node, name);
    if (request->kind == TN_OP_RELEASE) {
        sim_check_release(world, node, name, request->token);
        if (request->token != 0)
            sim_trace_node(world, node, "gives %s back (token %llu)", sim_name(name),
                           (unsigned long long)request->token);
    }
    if (request->kind == TN_OP_RAISE)
        event.kind = SIM_EV_RAISE;
    else if (world->config.style == SIM_ROWS) {
        sim_rows_request(world, node, request);
        return;
    } else if (world->config.style == SIM_VOTES) {
        sim_votes_request(world, node, request);
        return;
    } else if (world->config.style == SIM_LINE && sim_line_request(world, node, request)) {
        return;
    }
    sim_send(world, &event);
}

static void tell(void *arg, struct tn_seat *seat, const struct tn_claim_action *action)
{
    const struct sim_host *host = arg;
    struct sim_world *world = host->world;
    struct sim_node *node = host->node;
    uint32_t name = name_of(node, seat);

    switch (action->kind) {
    case TN_CLAIM_DO_WON:
        app_won(world, node, name, action->token);
        break;
    case TN_CLAIM_DO_DRAIN:
        if (action->reason == TN_REASON_NOTE_ASKED)
            sim_check_asked(world, node, name, action);
        sim_trace_node(world, node, "%s %s; it leads until the work has stopped",
                       action->reason == TN_REASON_NOTE_ASKED ? "is asked to step down from"
                                                              : "resigns",
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
    default:
        TN_ASSERT(action->kind == TN_CLAIM_DO_LEADER);
    }
}

static void tell_session(void *arg, const struct tn_session_action *action)
{
    const struct sim_host *host = arg;

    if (action->state == TN_SESSION_JEOPARDY)
        sim_trace_node(host->world, host->node, "is in jeopardy: a renewal is overdue");
    else if (action->state == TN_SESSION_LIVE && action->from == TN_SESSION_JEOPARDY)
        sim_trace_node(host->world, host->node, "is safe again");
}

static const struct tn_candidate_host node_host = { send, tell, tell_session };

/* --- Timers ----------------------------------------------------------------------------------- */

void sim_node_schedule(struct sim_world *world, struct sim_node *node)
{
    struct sim_event event = { .kind = SIM_EV_NODE_TIMER, .node = node->index };
    tenure_ns local = tn_candidate_wake_at(&node->candidate);
    if (world->config.style == SIM_ROWS && sim_rows_wake_at(world, node) < local)
        local = sim_rows_wake_at(world, node);
    if (world->config.style == SIM_VOTES && sim_votes_wake_at(world, node) < local)
        local = sim_votes_wake_at(world, node);
    if (world->config.style == SIM_LINE && sim_line_wake_at(world, node) < local)
        local = sim_line_wake_at(world, node);
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

static bool is_own(const struct sim_node *node, const struct sim_event *event)
{
    return event->held && event->holder == node->index &&
           event->holder_life == node->candidate.life &&
           event->holder_incarnation == node->incarnation;
}

static struct tn_record read_record(const struct sim_node *node, const struct sim_event *event)
{
    bool mine = is_own(node, event);
    return (struct tn_record) { .held = event->held,
                                .mine = mine,
                                .gen = mine ? event->holder_gen : 0,
                                .token = event->token,
                                .beat = event->beat,
                                .ttl = event->ttl };
}

/* The checkers' own notes, before the candidate hears of it. */
static void note_record(struct sim_node *node, const struct sim_event *event)
{
    struct sim_seat *seat = &node->seats[event->name];
    if (is_own(node, event))
        seat->granted_epoch = event->epoch;
    else if (event->token > seat->app.seen_token && event->token != seat->seat.claim.token)
        seat->app.seen_token = event->token;
}

static void note_grant(struct sim_node *node, const struct sim_event *event)
{
    struct sim_seat *seat = &node->seats[event->name];
    if (event->gen == seat->seat.claim.gen)
        seat->granted_epoch = event->epoch;
}

static void note_reply(struct sim_world *world, struct sim_node *node,
                       const struct sim_event *event)
{
    struct sim_app *app = &node->seats[event->name].app;
    if (event->life != node->candidate.life)
        return;
    if (event->op == TN_OP_READ ||
        (event->op == TN_OP_ACQUIRE && event->held && event->answer != TN_ANSWER_GRANTED))
        note_record(node, event);
    if (event->op == TN_OP_ACQUIRE && event->answer == TN_ANSWER_GRANTED)
        note_grant(node, event);
    if (event->op == TN_OP_ACQUIRE && event->answer == TN_ANSWER_QUEUED) {
        if (world->script != NULL && world->config.nodes < 10 && !app->waits)
            sim_trace_node(world, node, "waits in the queue for %s", sim_name(event->name));
        app->waits = true;
    }
}

static void check_renewal(struct sim_world *world, struct sim_node *node,
                          const struct sim_event *event, tenure_ns deadline)
{
    sim_check_extended(world, node);
    if (event->answer == TN_ANSWER_GONE)
        sim_check_gone(world, node);
    if (world->script != NULL && event->op == TN_OP_RENEW && world->config.nodes < 10 &&
        world->leader[0] == node->index)
        sim_trace_node(world, node, "renewed, %lld ms before its deadline",
                       (long long)((deadline - node->clock.last) / TN_MS(1)));
}

static void hear_reply(struct sim_world *world, struct sim_node *node,
                       const struct sim_event *event)
{
    struct tn_request request = { .kind = event->op,
                                  .life = event->life,
                                  .gen = event->gen,
                                  .seq = event->seq,
                                  .read = event->read,
                                  .sent_at = event->sent_at };
    struct tn_response response = { .failed = event->failed,
                                    .answer = event->answer,
                                    .record = read_record(node, event),
                                    .ttl = event->ttl,
                                    .seen = event->seen,
                                    .held = event->held_count,
                                    .more = event->more };
    bool of_session = event->op == TN_OP_OPEN || event->op == TN_OP_RENEW;
    tenure_ns deadline = tn_session_deadline(&node->candidate.session);

    if (!of_session)
        request.seat = &node->seats[event->name].seat;
    if (world->config.style == SIM_LINE && event->op == TN_OP_READ)
        response.failed = response.failed || !sim_line_take(world, node, event);
    bool hidden = world->config.style == SIM_LINE && event->op == TN_OP_ACQUIRE &&
                  event->answer != TN_ANSWER_GRANTED && !event->failed &&
                  !sim_line_take(world, node, event);
    response.record.held = response.record.held && !hidden;
    if (world->config.style == SIM_LINE && of_session) {
        response.held = sim_line_held(world, node);
        response.failed = !sim_line_renewed(world, node, event) || response.failed;
    }
    if (!response.failed && !hidden)
        note_reply(world, node, event);
    /* Revocations first: what they end must not be extended (P1). */
    for (uint32_t i = 0; i < event->revoked_count; i++)
        tn_candidate_revoked(&node->candidate, node->clock.last,
                             &node->seats[event->revoked[i].name].seat, event->life,
                             event->revoked[i].token);
    bool current = event->life == node->candidate.life;
    tn_candidate_answer(&node->candidate, node->clock.last, &request, &response);
    if (of_session && current && !response.failed && event->answer != TN_ANSWER_STALE)
        check_renewal(world, node, event, deadline);
}

static void hear_push(struct sim_node *node, const struct sim_event *event)
{
    struct tn_candidate *candidate = &node->candidate;
    struct tn_seat *seat = &node->seats[event->name].seat;
    struct tn_record record = read_record(node, event);

    if (event->kind == SIM_EV_CHANGED && node->host.world->config.style == SIM_ROWS &&
        !node->host.world->config.feeds &&
        sim_rows_is_stray(node->host.world, node, event->name, &event->row))
        return;
    if (event->kind == SIM_EV_CHANGED && node->host.world->config.style == SIM_LINE &&
        !sim_line_take(node->host.world, node, event))
        return;
    if (event->kind == SIM_EV_CHANGED) {
        note_record(node, event);
        tn_candidate_changed(candidate, node->clock.last, seat, &record);
    } else if (event->kind == SIM_EV_GRANTED) {
        if (event->life == candidate->life)
            note_grant(node, event);
        tn_candidate_granted(candidate, node->clock.last, seat, event->life, event->gen,
                             event->token);
    } else {
        tn_candidate_revoked(candidate, node->clock.last, seat, event->life, event->token);
    }
}

static void hear_fence(struct sim_node *node, const struct sim_event *event)
{
    struct tn_request request = { .kind = TN_OP_RAISE,
                                  .seat = &node->seats[event->name].seat,
                                  .gen = event->gen,
                                  .token = event->token };
    int status = event->answer == TN_ANSWER_FULL ? TENURE_E_UNAVAILABLE
                 : event->stale                  ? TENURE_E_STALE
                                                 : 0;
    tn_candidate_raised(&node->candidate, node->clock.last, &request, status, event->token);
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
        tn_candidate_wish(&node->candidate, node->clock.last, &node->seats[event->name].seat,
                          TN_CLAIM_EV_DRAINED);
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
        hear_push(node, event);
        break;
    case SIM_EV_ROW_GOT:
    case SIM_EV_ROW_PUT_DONE:
    case SIM_EV_ROW_SESSION_DONE:
    case SIM_EV_ROW_SHOWN:
        sim_rows_answer(world, node, event);
        break;
    case SIM_EV_VOTE_REPLY:
    case SIM_EV_VOTE_NEWS:
        sim_votes_answer(world, node, event);
        break;
    case SIM_EV_LINE_DONE:
        sim_line_answer(world, node, event);
        break;
    case SIM_EV_LINE_NEWS:
        sim_line_news(world, node, event);
        break;
    case SIM_EV_NOTE:
        if (event->op == TN_NOTE_YIELD)
            sim_rank_hear(world, node, event);
        else
            sim_note_hear(node, event);
        break;
    case SIM_EV_RAISED:
        hear_fence(node, event);
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
    hear(world, node, event);
    tn_candidate_tick(&node->candidate, node->clock.last);
    if (world->config.style == SIM_ROWS)
        sim_rows_tick(world, node);
    if (world->config.style == SIM_VOTES)
        sim_votes_tick(world, node);
    if (world->config.style == SIM_LINE)
        sim_line_tick(world, node);
    sim_check_node(world, node);
    sim_ranks_settle(world, node->index);
    sim_node_schedule(world, node);
}

bool sim_node_tell(struct sim_world *world, uint32_t index, uint32_t name,
                   enum tn_claim_event_kind wish)
{
    struct sim_node *node = &world->nodes[index];
    if (!node->up || world->now < node->paused_until)
        return false;
    read_clock(world, node);
    if (wish == TN_CLAIM_EV_READY || wish == TN_CLAIM_EV_NOT_READY)
        node->seats[name].app.ready = wish == TN_CLAIM_EV_READY;
    tn_candidate_wish(&node->candidate, node->clock.last, &node->seats[name].seat, wish);
    sim_ranks_settle(world, index);
    sim_node_schedule(world, node);
    return true;
}

void sim_node_drained(struct sim_world *world, uint32_t index, uint32_t name)
{
    struct sim_node *node = &world->nodes[index];

    node->seats[name].app.working = false;
    (void)sim_node_tell(world, index, name, TN_CLAIM_EV_DRAINED);
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
    uint64_t life = node->candidate.life;
    node->host = (struct sim_host) { world, node };
    tn_candidate_init(&node->candidate, &world->config.plan, &world->config.claim,
                      world->config.style == SIM_QUEUE || world->config.style == SIM_VOTES ||
                          world->config.style == SIM_LINE,
                      &node_host, &node->host, tn_prng_next(&world->prng));
    if (world->config.style == SIM_ROWS)
        sim_rows_boot(world, node);
    if (world->config.style == SIM_VOTES)
        sim_votes_boot(world, node);
    if (world->config.style == SIM_LINE)
        sim_line_boot(world, node);
    node->candidate.life = life; /* No two sessions of a node share a secret, not across a crash. */
    memset(node->seats, 0, world->config.names * sizeof *node->seats);
    for (uint32_t i = world->config.names; i-- > 0;) {
        node->seats[i].app.ready = true;
        tn_candidate_add(&node->candidate, &node->seats[i].seat, NULL);
    }
    sim_ranks_boot(world, node);
    tn_candidate_open(&node->candidate, node->clock.last);
    for (uint32_t i = 0; i < world->config.names && world->below == NULL; i++)
        tn_candidate_wish(&node->candidate, node->clock.last, &node->seats[i].seat,
                          TN_CLAIM_EV_CAMPAIGN);
    sim_notes_tell(world, index);
    sim_ranks_tell(world, index);
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
            note_over(world, node, i);
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
