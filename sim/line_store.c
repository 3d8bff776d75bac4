/* line_store.c - a store with sessions, and ordered keys that vanish with them.
 *
 * It knows nothing of leaders: it creates, lists and deletes keys, and tells of those that are
 * gone. What breaks here beside the network: an operator ends a session (line_operator.c has the
 * others), a watch is lost, a read comes from a server that lags, a create arrives after its
 * session has ended. The sessions are those of the checkers' books (struct sim_life). */
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/line.h"

struct sim_line *sim_line_of(struct sim_world *world, uint32_t name)
{
    return &world->store.lines[name];
}

static struct sim_waiter waiter_of(const struct sim_key *key)
{
    return (struct sim_waiter) {
        .node = key->node, .life = key->life, .gen = key->gen, .incarnation = key->incarnation
    };
}

static bool is_same(const struct sim_waiter *a, const struct sim_waiter *b)
{
    return a->node == b->node && a->life == b->life && a->gen == b->gen &&
           a->incarnation == b->incarnation;
}

bool sim_line_is_alive(const struct sim_world *world, uint32_t node, uint64_t life)
{
    const struct sim_life *known = &world->store.lives[node][life % SIM_LIVES];

    return known->life == life && sim_store_now(world) < known->over_at;
}

/* --- News ------------------------------------------------------------------------------------- */

static void fill_first(const struct sim_world *world, uint32_t name, struct sim_event *event)
{
    const struct sim_line *line = &world->store.lines[name];
    const struct sim_key *first = &line->keys[0];

    event->epoch = world->store.epoch[name];
    event->holder = SIM_NOBODY;
    event->held = line->count > 0;
    event->token = line->last_token;
    if (line->count == 0)
        return;
    event->token = first->token;
    event->stale = first->changed;
    event->holder = first->node;
    event->holder_life = first->life;
    event->holder_gen = first->gen;
    event->holder_incarnation = first->incarnation;
    event->line.order = first->order;
}

/* One that nobody gets, or of which only the loss is told: the history was compacted. */
static bool lose_watch(struct sim_world *world, struct sim_event *event)
{
    bool deaf = world->now < world->nodes[event->node].deaf_until;

    if (world->healed || (!deaf && !sim_chance(world, TN_PPM / 20)))
        return false;
    sim_fired(world, SIM_FAULT_WATCH_LOST);
    event->op = SIM_LINE_UNWATCHED;
    return deaf || sim_chance(world, TN_PPM / 2);
}

static void push_all(struct sim_world *world, struct sim_event *push)
{
    uint8_t op = push->op;

    for (uint32_t i = 0; i < world->config.nodes; i++) {
        push->node = i;
        push->incarnation = world->nodes[i].incarnation;
        push->op = op;
        push->beat = ++world->nodes[i].news_sent;
        if (world->nodes[i].up && !lose_watch(world, push))
            sim_send(world, push);
    }
}

void sim_line_push(struct sim_world *world, uint32_t name, uint8_t op, uint64_t order)
{
    struct sim_event push = {
        .kind = SIM_EV_LINE_NEWS, .op = op, .name = name, .epoch = world->store.epoch[name]
    };

    push.line.order = order;
    push_all(world, &push);
}

static void push_first(struct sim_world *world, uint32_t name)
{
    struct sim_event push = { .kind = SIM_EV_CHANGED, .name = name };

    fill_first(world, name, &push);
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        push.node = i;
        push.incarnation = world->nodes[i].incarnation;
        if (world->nodes[i].up)
            sim_send(world, &push);
    }
}

/* --- Keys ------------------------------------------------------------------------------------- */

void sim_line_begin_change(struct sim_world *world, uint32_t name)
{
    struct sim_line *line = sim_line_of(world, name);

    memcpy(line->before, line->keys, sizeof line->keys);
    line->count_before = line->count;
    line->revision_before = line->revision;
    line->revision = ++world->store.revision;
}

struct sim_key *sim_line_find(struct sim_line *line, uint64_t order)
{
    for (uint32_t i = 0; i < line->count; i++)
        if (line->keys[i].order == order)
            return &line->keys[i];
    return NULL;
}

void sim_line_delete(struct sim_world *world, uint32_t name, struct sim_key *key)
{
    struct sim_line *line = sim_line_of(world, name);
    struct sim_waiter who = waiter_of(key);
    uint64_t order = key->order;
    bool first = key == line->keys;

    sim_line_begin_change(world, name);
    if (is_same(&world->store.holder[name], &who))
        world->store.holder[name].node = SIM_NOBODY;
    if (key->led && key->token > line->last_token)
        line->last_token = key->token;
    memmove(key, key + 1, (size_t)(&line->keys[line->count] - (key + 1)) * sizeof *key);
    line->count--;
    sim_line_push(world, name, SIM_LINE_GONE, order);
    if (first)
        push_first(world, name);
}

static struct sim_key *create_key(struct sim_world *world, const struct sim_event *event)
{
    struct sim_line *line = sim_line_of(world, event->name);

    if (line->count == SIM_KEYS_MAX)
        return NULL;
    sim_line_begin_change(world, event->name);
    struct sim_key *key = &line->keys[line->count++];
    *key = (struct sim_key) { .token = line->revision,
                              .node = event->node,
                              .life = event->life,
                              .gen = event->gen,
                              .incarnation = event->incarnation };
    key->order = world->config.atomic ? key->token : ++line->sequence;
    if (line->count == 1)
        push_first(world, event->name);
    return key;
}

/* The end of a session takes its keys, but not those that a revocation has moved to another lease.
 * @early: while their terms may still be valid. */
static void drop_keys(struct sim_world *world, uint32_t node, uint64_t life, bool early)
{
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_line *line = sim_line_of(world, i);
        for (uint32_t j = line->count; j-- > 0;) {
            if (line->keys[j].node != node || line->keys[j].life != life || line->keys[j].moved)
                continue;
            /* A2 is broken for a term that leads; one that only waits is owed nothing. */
            world->store.epoch[i] += early && line->keys[j].led;
            if (early)
                world->store.cut_token[i] = line->keys[j].token;
            sim_line_delete(world, i, &line->keys[j]);
        }
    }
}

static void kill_session(struct sim_world *world, uint32_t node, uint64_t life)
{
    struct sim_life *known = &world->store.lives[node][life % SIM_LIVES];

    if (!sim_line_is_alive(world, node, life))
        return;
    known->over_at = 0;
    sim_fired(world, SIM_FAULT_SESSION_KILLED);
    sim_trace_other(world, "store", "an operator ends session %llu of node %u",
                    (unsigned long long)life, node);
    drop_keys(world, node, life, true);
}

void sim_line_kill(struct sim_world *world, uint32_t name)
{
    struct sim_line *line = sim_line_of(world, name);

    if (line->count == 0)
        return;
    struct sim_key key = line->keys[tn_prng_below(&world->prng, line->count)];
    kill_session(world, key.node, key.life);
}

/* --- Steps ------------------------------------------------------------------------------------ */

static bool is_of(const struct sim_key *key, const struct sim_event *event)
{
    return key->node == event->node && key->life == event->life && key->gen == event->gen &&
           key->incarnation == event->incarnation;
}

/* Like ZooKeeper's: keys bear the candidate's name, which an earlier session's may bear as well. */
static void list_keys(const struct sim_key *keys, uint32_t count, const struct sim_event *event,
                      struct tn_line_view *view)
{
    struct tn_line_seen seen[SIM_KEYS_MAX];

    for (uint32_t i = 0; i < count; i++)
        seen[i] = (struct tn_line_seen) { keys[i].order, keys[i].node == event->node };
    tn_line_find(event->line.order, event->line.proof, seen, count, view);
}

static const struct sim_key *find_of_session(const struct sim_key *keys, uint32_t count,
                                             const struct sim_event *event)
{
    for (uint32_t i = 0; i < count; i++)
        if (keys[i].node == event->node && keys[i].life == event->life)
            return &keys[i];
    return NULL;
}

static void fill_view(const struct sim_world *world, const struct sim_event *event,
                      const struct sim_key *keys, uint32_t count, struct tn_line_view *view)
{
    const struct sim_key *own = find_of_session(keys, count, event);

    if (!world->config.atomic) {
        list_keys(keys, count, event, view);
        return;
    }
    *view = (struct tn_line_view) { .first = count > 0 ? keys[0].order : 0 };
    if (own == NULL)
        return;
    view->own = (struct tn_line_key) { .order = own->order, .token = own->token };
    view->before = own > keys ? own[-1].order : 0;
    view->whose = TN_LINE_MINE;
    view->changed = own->changed;
    if (!is_of(own, event)) {
        view->whose = TN_LINE_SIBLINGS;
        view->sibling = sim_term_secret(&world->nodes[event->node], own->incarnation, own->gen);
    }
}

static void note_led(struct sim_world *world, uint32_t name, struct sim_key *key, uint64_t token)
{
    struct sim_waiter who = waiter_of(key);

    key->led = true;
    sim_check_grant(world, name, &who, token);
}

void sim_line_adopted(struct sim_world *world, uint32_t name, uint64_t order)
{
    struct sim_key *key = sim_line_find(sim_line_of(world, name), order);

    if (key != NULL)
        key->led = true;
}

/* Shown as the first, a candidate has still to prove that its key is there. Now its session ends,
 * and the one behind it leads before it hears of anything. */
static void kill_behind(struct sim_world *world, const struct sim_event *event,
                        const struct tn_line_view *view)
{
    const struct sim_key *key = sim_line_find(sim_line_of(world, event->name), view->own.order);

    if (world->healed || view->own.order == 0 || view->first != view->own.order || key == NULL ||
        key->led || !sim_chance(world, TN_PPM / 20))
        return;
    kill_session(world, event->node, event->life);
}

static void serve_look(struct sim_world *world, const struct sim_event *event,
                       struct sim_event *reply)
{
    struct sim_line *line = sim_line_of(world, event->name);
    bool lags = !world->config.atomic && !event->line.fresh && !world->healed &&
                line->revision_before >= event->seen && line->revision_before != 0 &&
                sim_chance(world, TN_PPM / 5);

    if (lags) {
        sim_fired(world, SIM_FAULT_STALE_LOOK);
        fill_view(world, event, line->before, line->count_before, &reply->line.view);
        reply->seen = line->revision_before;
        return;
    }
    fill_view(world, event, line->keys, line->count, &reply->line.view);
}

static void serve_create(struct sim_world *world, const struct sim_event *event,
                         struct sim_event *reply)
{
    struct sim_line *line = sim_line_of(world, event->name);
    struct tn_line_view *view = &reply->line.view;
    struct sim_key *key = NULL;

    if (!world->config.atomic) {
        key = create_key(world, event);
        if (key != NULL)
            *view = (struct tn_line_view) { .whose = TN_LINE_MINE, .own.order = key->order };
        return;
    }
    bool alone = line->count == 0;
    if (alone || (event->line.behind && find_of_session(line->keys, line->count, event) == NULL))
        key = create_key(world, event);
    fill_view(world, event, line->keys, line->count, view);
    if (key != NULL && alone) {
        view->proved = true;
        note_led(world, event->name, key, key->token);
    }
}

static void serve_prove(struct sim_world *world, const struct sim_event *event,
                        struct sim_event *reply)
{
    struct sim_line *line = sim_line_of(world, event->name);
    struct sim_key *key = sim_line_find(line, event->line.order);

    reply->line.proven = (struct tn_line_proven) { 0 };
    if (key == NULL || (world->config.atomic && key->changed))
        return;
    reply->line.proven = (struct tn_line_proven) { is_of(key, event), key->changed, key->token };
    if (is_of(key, event) && key == line->keys && event->line.proof == TN_LINE_OURS &&
        !key->changed)
        note_led(world, event->name, key, event->token != 0 ? event->token : key->token);
}

static void serve_remove(struct sim_world *world, const struct sim_event *event)
{
    struct sim_line *line = sim_line_of(world, event->name);
    bool clear = event->op == TN_LINE_CLEAR;
    struct sim_key *key = sim_line_find(line, clear ? event->line.before : event->line.order);

    if (event->line.order == 0 && !clear && line->count > 0)
        key = line->keys;
    if (key == NULL)
        return;
    if (!is_of(key, event) && !(clear && key->node == event->node && key->life == event->life))
        sim_violate(world, "P5", "a release by node %u removed the key of node %u", event->node,
                    key->node);
    sim_line_delete(world, event->name, key);
}

/* The connection breaks before a create that follows an earlier session of the same candidate,
 * whose key is still there: the candidate has to tell the two apart. */
static bool is_cut_short(struct sim_world *world, const struct sim_event *event)
{
    const struct sim_line *line = sim_line_of(world, event->name);

    if (world->config.atomic || event->op != TN_LINE_CREATE || world->healed)
        return false;
    for (uint32_t i = 0; i < line->count; i++)
        if (line->keys[i].node == event->node && line->keys[i].life != event->life &&
            sim_chance(world, TN_PPM / 2)) {
            sim_fired(world, SIM_FAULT_DROP);
            return true;
        }
    return false;
}

/* Like ZooKeeper, which carries out what a session asked in that order: what an earlier connection
 * left behind is too late once a later one was heard. */
static bool is_overtaken(struct sim_world *world, const struct sim_event *event)
{
    uint64_t *last = &world->store.lives[event->node][event->life % SIM_LIVES].asked;

    if (world->config.atomic)
        return false;
    if (event->id > *last) {
        *last = event->id;
        return false;
    }
    if (event->op == TN_LINE_CREATE)
        sim_fired(world, SIM_FAULT_LATE_CREATE);
    return event->op == TN_LINE_CREATE;
}

void sim_line_serve(struct sim_world *world, const struct sim_event *event)
{
    struct sim_event reply = *event;

    sim_line_expire(world);
    if (is_overtaken(world, event) || is_cut_short(world, event))
        return;
    if (event->op == TN_LINE_LOOK && !world->healed &&
        world->now < world->nodes[event->node].deaf_until)
        return; /* The server is busy with that. */
    reply.kind = SIM_EV_LINE_DONE;
    reply.answer = TN_ANSWER_OK;
    reply.seen = 0;
    if (!sim_line_is_alive(world, event->node, event->life)) {
        if (event->op == TN_LINE_CREATE)
            sim_fired(world, SIM_FAULT_LATE_CREATE);
        reply.answer = TN_ANSWER_GONE;
        sim_send(world, &reply);
        return;
    }
    switch ((enum tn_line_step)event->op) {
    case TN_LINE_CREATE:
        serve_create(world, event, &reply);
        break;
    case TN_LINE_LOOK:
        serve_look(world, event, &reply);
        break;
    case TN_LINE_PROVE:
        serve_prove(world, event, &reply);
        break;
    case TN_LINE_FOLLOW:
        reply.line.there =
            sim_line_find(sim_line_of(world, event->name), event->line.before) != NULL;
        break;
    default:
        serve_remove(world, event);
    }
    if (reply.seen == 0)
        reply.seen = sim_line_of(world, event->name)->revision;
    reply.line.view.revision = world->store.revision;
    fill_first(world, event->name, &reply);
    sim_send(world, &reply);
    if (event->op == TN_LINE_LOOK || event->op == TN_LINE_CREATE)
        kill_behind(world, event, &reply.line.view);
    sim_store_schedule(world);
}

/* --- Sessions --------------------------------------------------------------------------------- */

static enum tn_answer keep_session(struct sim_world *world, const struct sim_event *request,
                                   tenure_ns ttl)
{
    struct sim_node *node = &world->nodes[request->node];
    struct sim_life *life = &world->store.lives[request->node][request->life % SIM_LIVES];
    bool alive = sim_line_is_alive(world, request->node, request->life);

    if (request->op == TN_OP_RENEW && !alive)
        return TN_ANSWER_GONE;
    if (life->life > request->life)
        return TN_ANSWER_GONE; /* Long over. */
    if (life->life != request->life) {
        drop_keys(world, request->node, life->life, false);
        sim_line_drop_moved(world, request->node, life->life);
        *life = (struct sim_life) { .life = request->life };
    }
    if (!alive)
        life->ttl = ttl;
    life->over_at = sim_store_now(world) + life->ttl;
    if (node->incarnation == request->incarnation && node->candidate.life == request->life)
        node->renewed_at = world->now;
    return TN_ANSWER_OK;
}

void sim_line_session(struct sim_world *world, const struct sim_event *request)
{
    struct sim_event reply = *request;
    tenure_ns ttl = request->ttl;

    sim_line_expire(world);
    reply.kind = SIM_EV_REPLY;
    reply.epoch = world->store.epoch[request->name];
    if (request->op == TN_OP_OPEN && ttl > world->store.ttl_most) {
        sim_fired(world, SIM_FAULT_TTL_CUT);
        ttl = world->store.ttl_most;
    }
    switch (request->op) {
    case TN_OP_READ:
        fill_first(world, request->name, &reply);
        reply.answer = reply.held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
        break;
    case TN_OP_CLOSE:
        if (sim_line_is_alive(world, request->node, request->life)) {
            world->store.lives[request->node][request->life % SIM_LIVES].over_at = 0;
            sim_line_drop_moved(world, request->node, request->life);
            drop_keys(world, request->node, request->life, false);
        }
        return;
    default:
        reply.answer = (uint8_t)keep_session(world, request, ttl);
        reply.beat = world->nodes[request->node].news_sent;
        reply.ttl = world->store.lives[request->node][request->life % SIM_LIVES].ttl;
    }
    sim_send(world, &reply);
    sim_store_schedule(world);
}

void sim_line_expire(struct sim_world *world)
{
    tenure_ns now = sim_store_now(world);

    world->store.stepped_at = now;
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        for (uint32_t j = 0; j < SIM_LIVES; j++) {
            struct sim_life *life = &world->store.lives[i][j];
            if (life->over_at == 0 || life->over_at > now)
                continue;
            life->over_at = 0;
            drop_keys(world, i, life->life, false);
        }
    }
    sim_line_let_go(world);
}

tenure_ns sim_line_expires_at(const struct sim_world *world)
{
    tenure_ns at = TN_NEVER;

    for (uint32_t i = 0; i < world->config.nodes; i++)
        for (uint32_t j = 0; j < SIM_LIVES; j++) {
            const struct sim_life *life = &world->store.lives[i][j];
            if (life->over_at != 0 && life->over_at < at)
                at = life->over_at;
            if (life->held_off_until != 0 && life->held_off_until < at)
                at = life->held_off_until;
        }
    return at;
}

void sim_line_backup(struct sim_world *world)
{
    if (world->config.style == SIM_LINE)
        memcpy(world->store.backup_lines, world->store.lines,
               SIM_NAMES_MAX * sizeof *world->store.lines);
}

/* Keys of sessions that the checkers have forgotten, which are over, stay away. */
void sim_line_restore(struct sim_world *world)
{
    if (world->config.style != SIM_LINE)
        return;
    for (uint32_t i = 0; i < world->config.nodes; i++)
        world->nodes[i].news_sent++; /* What is watched has another history now. */
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_line *line = sim_line_of(world, i);
        uint64_t sequence = line->sequence;
        uint32_t kept = 0;
        *line = world->store.backup_lines[i];
        line->sequence = sequence; /* A real key's path has the term in it. */
        for (uint32_t j = 0; j < line->count; j++) {
            struct sim_key key = line->keys[j];
            if (world->store.lives[key.node][key.life % SIM_LIVES].life == key.life)
                line->keys[kept++] = key;
        }
        line->count = kept;
        line->revision = ++world->store.revision;
        line->revision_before = 0;
    }
}
