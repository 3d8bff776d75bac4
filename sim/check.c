/* check.c - the promises (docs/INVARIANTS.md), checked as the world goes on.
 *
 * The checkers use their own books, never the core's opinion of itself: the world knows the real
 * time, every clock, what the store granted and what each application was told. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"

void sim_violate(struct sim_world *world, const char *promise, const char *format, ...)
{
    va_list args;
    if (world->violation.promise != NULL)
        return; /* The first one counts; what follows may be its consequence. */
    world->violation.promise = promise;
    world->violation.at = world->now;
    va_start(args, format);
    (void)vsnprintf(world->violation.text, sizeof world->violation.text, format, args);
    va_end(args);
    sim_trace_other(world, "CHECK", "%s is broken: %s", promise, world->violation.text);
}

/* F1: a process that starts again has the fences of the one before it. */
static bool are_alike(const struct sim_world *world, uint32_t a, uint32_t b)
{
    return a == b || (a < world->config.alike && b < world->config.alike);
}

/* F1: one of the two was superseded, and the other raises the same fences: it knows that the former
 * may believe in its term, and that nothing of it gets through. */
static bool is_behind_fence(const struct sim_world *world, const struct sim_node *a,
                            const struct sim_node *b, uint32_t name)
{
    uint64_t a_token = sim_node_token(world, a, name), b_token = sim_node_token(world, b, name);
    const struct sim_node *former = a_token < b_token ? a : b;
    uint64_t token = a_token < b_token ? a_token : b_token;

    return token == former->seats[name].superseded && are_alike(world, a->index, b->index);
}

/* F1: behind WON no write of a former is accepted that was superseded and has not heard of it. */
static void check_fenced_off(struct sim_world *world, const struct sim_node *node, uint32_t name,
                             uint64_t token)
{
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        const struct sim_node *other = &world->nodes[i];
        uint64_t before = sim_node_token(world, other, name);
        if (other != node && before != 0 && before == other->seats[name].superseded &&
            world->receivers[name].fence.highest < token)
            sim_violate(world, "F1", "node %u leads %s early, and the fence lets node %u through",
                        node->index, sim_name(name), i);
    }
}

/* P1: of two terms valid now, both granted by a store that kept its word, one is too many. Terms of
 * different epochs were granted by a store whose memory somebody changed in between (A2). */
static void check_alone(struct sim_world *world, const struct sim_node *node, uint32_t name,
                        uint64_t epoch)
{
    uint64_t token = sim_node_token(world, node, name);
    if (token == 0 || world->now < world->store.doubt_until)
        return;
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        const struct sim_node *other = &world->nodes[i];
        const struct sim_app *rival = &other->seats[name].app;
        if (other == node || !rival->told_won || rival->epoch != epoch ||
            sim_node_token(world, other, name) == 0 || is_behind_fence(world, node, other, name))
            continue;
        sim_violate(world, "P1", "nodes %u (token %llu) and %u (token %llu) both lead %s",
                    node->index, (unsigned long long)token, i, (unsigned long long)rival->token,
                    sim_name(name));
    }
}

/* G1: whoever led before, and did not give it back, has not believed in it for the hold-off. By its
 * own clock, however slow: P1's inequality has the hold-off on the holder's side. What breaks P1
 * breaks this first, and a plant is filed under one promise. A session that somebody ends with the
 * engine's own tool leaves no hold-off behind. */
static void check_gap(struct sim_world *world, const struct sim_node *node, uint32_t name,
                      uint64_t token)
{
    tenure_ns hold_off = world->config.plan.hold_off;

    if (hold_off == 0 || TN_PLANT_OTHER(NO_HOLD_OFF) || world->now < world->store.doubt_until)
        return;
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        const struct sim_node *other = &world->nodes[i];
        const struct sim_app *before = &other->seats[name].app;
        if (other == node || before->token == 0 || before->token >= token || before->given_back ||
            before->epoch != node->seats[name].granted_epoch ||
            before->token == world->store.cut_token[name] ||
            sim_clock_local(&other->clock, world->now) >= before->believed + hold_off)
            continue;
        sim_violate(world, "G1", "node %u leads %s (token %llu) within the hold-off of node %u",
                    node->index, sim_name(name), (unsigned long long)token, i);
    }
}

void sim_check_won(struct sim_world *world, struct sim_node *node, uint32_t name, uint64_t token)
{
    const struct sim_app *app = &node->seats[name].app;

    if (app->told_won)
        sim_violate(world, "W1", "node %u was told \"won\" twice for %s", node->index,
                    sim_name(name));
    if (app->working)
        sim_violate(world, "P5", "node %u leads %s again beside its own old work", node->index,
                    sim_name(name));
    if (!app->ready)
        sim_violate(world, "R1", "node %u leads %s without being ready", node->index,
                    sim_name(name));
    if (token <= app->token || token < app->seen_token)
        sim_violate(
            world, "P2", "node %u leads %s with token %llu after seeing %llu", node->index,
            sim_name(name), (unsigned long long)token,
            (unsigned long long)(app->token > app->seen_token ? app->token : app->seen_token));
    check_fenced_off(world, node, name, token);
    if (world->config.fenced && world->receivers[name].fence.highest < token &&
        !TN_PLANT(FENCE_BACKWARDS) && !TN_PLANT(SOFT_UNRAISED))
        sim_violate(world, "P4", "node %u leads %s with token %llu, the fence stands at %llu",
                    node->index, sim_name(name), (unsigned long long)token,
                    (unsigned long long)world->receivers[name].fence.highest);
    check_alone(world, node, name, node->seats[name].granted_epoch);
    check_gap(world, node, name, token);
}

void sim_check_lost(struct sim_world *world, struct sim_node *node, uint32_t name, uint64_t token)
{
    const struct sim_app *app = &node->seats[name].app;
    if (!app->told_won || app->token != token)
        sim_violate(world, "W1", "node %u was told \"lost\" for a term of %s it did not have",
                    node->index, sim_name(name));
    if (world->must_keep == node->index && !node->seats[name].rank.gave_way)
        sim_violate(world, "P8",
                    "node %u lost %s though no more than the tolerated renewals failed",
                    node->index, sim_name(name));
}

/* A renewal was answered: if that made anything valid, it must be the only one. */
void sim_check_extended(struct sim_world *world, struct sim_node *node)
{
    for (uint32_t i = 0; i < world->config.names; i++)
        if (node->seats[i].app.told_won && world->leading[i] > 1)
            check_alone(world, node, i, node->seats[i].app.epoch);
}

/* P9: the store may be wrong about it (restored, emptied), but who is told that its session is gone
 * must stop. */
void sim_check_gone(struct sim_world *world, struct sim_node *node)
{
    for (uint32_t i = 0; i < world->config.names; i++)
        if (sim_node_token(world, node, i) != 0)
            sim_violate(world, "P9", "node %u leads %s, the store has told it that it is gone",
                        node->index, sim_name(i));
}

/* The longest real time for which one renewal can be believed. */
static tenure_ns belief_most(const struct sim_world *world)
{
    const struct tn_plan *plan = &world->config.plan;
    tenure_ns valid_for = tn_plan_valid_for(plan, tn_plan_asked(plan));
    return valid_for + valid_for / (TN_PPM - world->config.rho_ppm) * world->config.rho_ppm +
           TN_MS(1);
}

static void check_seat(struct sim_world *world, struct sim_node *node, uint32_t name)
{
    struct sim_app *app = &node->seats[name].app;
    uint64_t token = sim_node_token(world, node, name);

    if (token == 0) {
        if (app->token > app->over_token && node->clock.last < app->believed)
            app->believed = node->clock.last;
        if (app->token > app->over_token)
            app->over_token = app->token;
        return;
    }
    app->believed = tn_session_deadline(&node->candidate.session);
    if (token <= app->over_token)
        sim_violate(world, "P6", "the term of node %u on %s (token %llu) is valid again",
                    node->index, sim_name(name), (unsigned long long)token);
    if (world->config.claim.stall_after > 0 &&
        node->clock.last > app->checked_in + world->config.claim.stall_after)
        sim_violate(world, "S1", "node %u still leads %s, its work loop has stalled", node->index,
                    sim_name(name));
    if (world->store.down_since != TN_NEVER &&
        world->now - world->store.down_since > belief_most(world))
        sim_violate(world, "P9", "node %u still leads %s, the store has been down for longer",
                    node->index, sim_name(name));
}

void sim_check_node(struct sim_world *world, struct sim_node *node)
{
    for (uint32_t i = 0; i < world->config.names; i++)
        if (node->seats[i].app.told_won || node->seats[i].seat.claim.token != 0)
            check_seat(world, node, i);
}

void sim_check_acquire(struct sim_world *world, struct sim_node *node, uint32_t name)
{
    const struct sim_app *app = &node->seats[name].app;
    if (!app->ready)
        sim_violate(world, "R1", "node %u asks for %s without being ready", node->index,
                    sim_name(name));
    if (app->working)
        sim_violate(world, "P5", "node %u asks for %s while its old work runs", node->index,
                    sim_name(name));
}

void sim_check_release(struct sim_world *world, struct sim_node *node, uint32_t name,
                       uint64_t token)
{
    struct sim_app *app = &node->seats[name].app;
    bool own = token != 0 && token == app->token;

    app->given_back = app->given_back || (own && !app->working);
    if (own && app->working && !(app->stall_told && node->clock.last >= app->stop_by))
        sim_violate(world, "P5", "node %u releases %s while its work runs", node->index,
                    sim_name(name));
    if (own && sim_node_token(world, node, name) == token)
        sim_violate(world, "P5", "node %u releases %s while its term is valid", node->index,
                    sim_name(name));
}

/* --- The store's order of grants -------------------------------------------------------------- */

static bool same_waiter(const struct sim_waiter *a, const struct sim_waiter *b)
{
    return a->node == b->node && a->life == b->life && a->gen == b->gen &&
           a->incarnation == b->incarnation;
}

/* P2, and one token per term: a grant is either the last one repeated, or it has a larger token. */
void sim_check_grant(struct sim_world *world, uint32_t name, const struct sim_waiter *to,
                     uint64_t token)
{
    struct sim_store *store = &world->store;
    bool repeated = token == store->granted[name] && same_waiter(&store->holder[name], to);
    if (repeated)
        return;
    if (token <= store->granted[name])
        sim_violate(world, "P2", "%s was granted with token %llu after %llu", sim_name(name),
                    (unsigned long long)token, (unsigned long long)store->granted[name]);
    else if (same_waiter(&store->holder[name], to))
        sim_violate(world, "P2", "one term of %s has two tokens, %llu and %llu", sim_name(name),
                    (unsigned long long)store->granted[name], (unsigned long long)token);
    if (sim_store_now(world) < store->kept_until[name] &&
        !are_alike(world, to->node, store->kept_for[name]))
        sim_violate(world, "F1",
                    "%s went to node %u, which has other fences than those whose time "
                    "goes on",
                    sim_name(name), to->node);
    store->granted[name] = token;
    store->holder[name] = *to;
    if (token > store->highest_token)
        store->highest_token = token;
}

/* --- F1: the soft limit ----------------------------------------------------------------------- */

static struct sim_life *life_of(struct sim_world *world, const struct sim_waiter *of)
{
    return &world->store.lives[of->node][of->life % SIM_LIVES];
}

void sim_check_superseded(struct sim_world *world, uint32_t name, const struct sim_waiter *former,
                          const struct sim_waiter *by)
{
    struct sim_store *store = &world->store;
    struct sim_life *life = life_of(world, former);
    tenure_ns silent = sim_store_now(world) - (life->over_at - life->ttl);

    if (!are_alike(world, former->node, by->node))
        sim_violate(world, "F1", "node %u took %s from node %u early, without the same fences",
                    by->node, sim_name(name), former->node);
    else if (silent < world->config.claim.soft)
        sim_violate(world, "F1", "node %u took %s from node %u, which was silent for %lld ms only",
                    by->node, sim_name(name), former->node, (long long)(silent / TN_MS(1)));
    sim_fired(world, SIM_FAULT_SOFT);
    world->nodes[former->node].seats[name].superseded = store->granted[name];
    if (life->over_at > store->kept_until[name]) {
        store->kept_until[name] = life->over_at;
        store->kept_ttl[name] = life->ttl;
        store->kept_for[name] = former->node;
    }
    life->rests_until = life->over_at;
    life->over_at = 0;
    sim_check_session_over(world, former->node, former->life);
}

void sim_check_renewed(struct sim_world *world, uint32_t node, const struct sim_life *life)
{
    if (sim_store_now(world) < life->rests_until)
        sim_violate(world, "F1", "node %u was superseded, and its session is renewed", node);
}

/* --- Q1: first come, first served ------------------------------------------------------------- */

static uint32_t find_in_queue(const struct sim_queue *queue, const struct sim_waiter *waiter)
{
    for (uint32_t i = 0; i < queue->count; i++)
        if (same_waiter(&queue->list[queue->first + i], waiter))
            return i;
    return SIM_NOBODY;
}

static void leave_queue(struct sim_queue *queue, uint32_t place)
{
    struct sim_waiter *list = queue->list + queue->first;
    if (place == 0) {
        queue->first++;
        queue->count--;
        return;
    }
    memmove(&list[place], &list[place + 1], (queue->count - place - 1) * sizeof *list);
    queue->count--;
}

static bool is_alive(const struct sim_world *world, const struct sim_waiter *waiter)
{
    if (waiter->node >= world->config.nodes)
        return false;
    const struct sim_life *life = &world->store.lives[waiter->node][waiter->life % SIM_LIVES];
    return life->life == waiter->life && sim_store_now(world) < life->over_at;
}

/* Make room: without whoever left by dying, the table's own limit keeps the rest small enough. */
static void tidy_queue(const struct sim_world *world, struct sim_queue *queue)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        struct sim_waiter waiter = queue->list[queue->first + i];
        if (is_alive(world, &waiter))
            queue->list[kept++] = waiter;
    }
    queue->first = 0;
    queue->count = kept;
}

void sim_check_queued(struct sim_world *world, uint32_t name, const struct sim_waiter *waiter)
{
    struct sim_queue *queue = &world->store.queue[name];
    uint32_t room = 4 * world->config.waiter_limit;
    if (find_in_queue(queue, waiter) != SIM_NOBODY)
        return;
    if (queue->first + queue->count >= room)
        tidy_queue(world, queue);
    TN_ASSERT(queue->count < room);
    queue->list[queue->first + queue->count++] = *waiter;
}

void sim_check_dequeued(struct sim_world *world, uint32_t name, const struct sim_waiter *waiter)
{
    uint32_t place = find_in_queue(&world->store.queue[name], waiter);
    if (place != SIM_NOBODY)
        leave_queue(&world->store.queue[name], place);
}

/* The session is over, and with it every place it had in a queue. */
void sim_check_session_over(struct sim_world *world, uint32_t node, uint64_t life)
{
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_queue *queue = &world->store.queue[i];
        for (uint32_t place = queue->count; place > 0; place--) {
            const struct sim_waiter *waiter = &queue->list[queue->first + place - 1];
            if (waiter->node == node && waiter->life == life)
                leave_queue(queue, place - 1);
        }
    }
}

/* It is this waiter's turn: everyone before it must be gone. */
void sim_check_turn(struct sim_world *world, uint32_t name, const struct sim_waiter *waiter)
{
    struct sim_queue *queue = &world->store.queue[name];
    while (queue->count > 0) {
        struct sim_waiter first = queue->list[queue->first];
        leave_queue(queue, 0);
        if (same_waiter(&first, waiter))
            break;
        if (is_alive(world, &first)) {
            sim_violate(world, "Q1", "node %u was passed over for node %u in the queue for %s",
                        first.node, waiter->node, sim_name(name));
            return;
        }
    }
    if (!is_alive(world, waiter) && waiter->node != SIM_NOBODY)
        sim_violate(world, "Q1", "%s went to node %u, whose session is over", sim_name(name),
                    waiter->node);
}

/* --- Receivers -------------------------------------------------------------------------------- */

/* P3: accepted tokens never decrease; and P4: nor below what the fence was raised to. */
void sim_check_accepted(struct sim_world *world, uint32_t name, uint64_t token)
{
    if (token < world->receivers[name].highest)
        sim_violate(world, "P3", "a write to %s with token %llu was accepted after %llu",
                    sim_name(name), (unsigned long long)token,
                    (unsigned long long)world->receivers[name].highest);
}

/* --- P7 --------------------------------------------------------------------------------------- */

void sim_check_one_leader(struct sim_world *world, uint32_t name)
{
    uint32_t leaders = 0;
    for (uint32_t i = 0; i < world->config.nodes; i++)
        leaders += sim_node_token(world, &world->nodes[i], name) != 0;
    if (leaders > 1)
        sim_violate(world, "P1", "%u lead %s long after everything was mended", leaders,
                    sim_name(name));
}

void sim_check_led(struct sim_world *world, uint32_t name, const char *when)
{
    for (uint32_t i = 0; i < world->config.nodes; i++)
        if (sim_node_token(world, &world->nodes[i], name) != 0)
            return;
    sim_violate(world, "P7", "nobody leads %s %s", sim_name(name), when);
}
