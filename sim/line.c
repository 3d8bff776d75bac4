/* line.c - clients of a store with ordered keys: the recipe under test (core/line.h) in each node.
 *
 * The recipe is hosted as a real engine would host it: each step is a message of its own, with the
 * network in between, and is given up after a while. The store's side is in line_store.c. It comes
 * in two kinds. Like etcd, it carries out a create and a look in one step, and a session has one
 * key per name. Like ZooKeeper, it only names keys, a read may come from a server that lags, and
 * what one session asks is carried out in the order in which it asked. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/line.h"

enum { SLOTS = 4 * SIM_NAMES_MAX };

struct line_first {
    bool held, changed;
    uint32_t node, incarnation;
    uint64_t token, order, life, gen;
};

/* A claim of the recipe, and the requests of the candidate that wait for it. */
struct line_slot {
    struct tn_line_claim claim;
    struct tn_request acquire, release;
    bool used, acquires, releases;
    uint32_t name;
    uint64_t gen;
    uint64_t epoch;          /* Of the store, when it last answered; */
    struct line_first first; /* and whose key it has shown as the first. */
    tenure_ns give_up_at;    /* Of the step under way. */
    tenure_ns retry_at;
    uint64_t used_at;
};

struct sim_line_client {
    struct sim_host host;
    struct tn_line line;
    uint64_t life; /* Of the session that @line is. */
    uint64_t seen; /* The newest revision that an answer has shown. */
    uint64_t uses;
    struct line_slot slots[SLOTS];
};

static struct sim_line_client *client_of(const struct sim_world *world, const struct sim_node *node)
{
    return &world->line_clients[node->index];
}

static struct line_slot *slot_of(struct tn_line_claim *claim)
{
    return (struct line_slot *)(void *)claim; /* Its first member. */
}

void sim_line_init(struct sim_world *world)
{
    size_t size = world->config.nodes * sizeof *world->line_clients;
    size_t lines = SIM_NAMES_MAX * sizeof *world->store.lines;

    if (world->config.style != SIM_LINE)
        return;
    world->line_clients = realloc(world->line_clients, size);
    world->store.lines = realloc(world->store.lines, lines);
    world->store.backup_lines = realloc(world->store.backup_lines, lines);
    TN_ASSERT(world->line_clients != NULL);
    TN_ASSERT(world->store.lines != NULL && world->store.backup_lines != NULL);
    memset(world->line_clients, 0, size);
    memset(world->store.lines, 0, lines);
}

/* --- What the candidate hears ----------------------------------------------------------------- */

/* Within the process: it arrives, and at once. */
static void deliver(const struct sim_line_client *client, struct sim_event *event)
{
    event->node = client->host.node->index;
    event->incarnation = client->host.node->incarnation;
    event->order = client->host.world->order + 1;
    sim_at(client->host.world, client->host.world->now, event);
}

/* The answer "not your turn" names the holder, as the engines' does. */
static void show_first(const struct line_first *first, struct sim_event *reply)
{
    reply->held = first->held;
    reply->stale = first->changed;
    reply->token = first->token;
    reply->holder = first->node;
    reply->holder_life = first->life;
    reply->holder_gen = first->gen;
    reply->holder_incarnation = first->incarnation;
    reply->line.order = first->order;
}

static void reply_to(const struct sim_line_client *client, const struct line_slot *slot,
                     const struct tn_request *request, enum tn_answer answer, bool failed)
{
    struct sim_event reply = { .kind = SIM_EV_REPLY,
                               .op = (uint8_t)request->kind,
                               .answer = (uint8_t)answer,
                               .failed = failed,
                               .name = slot->name,
                               .life = request->life,
                               .gen = request->gen,
                               .sent_at = request->sent_at,
                               .holder = SIM_NOBODY,
                               .epoch = slot->epoch };

    if (answer == TN_ANSWER_GRANTED && !failed) {
        reply.held = true;
        reply.token = slot->claim.key.token;
        reply.holder = client->host.node->index;
        reply.holder_life = request->life;
        reply.holder_gen = request->gen;
        reply.holder_incarnation = client->host.node->incarnation;
    } else if (request->kind == TN_OP_ACQUIRE && !failed) {
        show_first(&slot->first, &reply);
    }
    deliver(client, &reply);
}

static void answer_acquire(struct sim_line_client *client, struct line_slot *slot,
                           enum tn_answer answer)
{
    struct sim_event push = { .kind = SIM_EV_GRANTED,
                              .name = slot->name,
                              .life = client->life,
                              .gen = slot->gen,
                              .token = slot->claim.key.token,
                              .epoch = slot->epoch };

    if (slot->acquires)
        reply_to(client, slot, &slot->acquire, answer, false);
    else if (answer == TN_ANSWER_GRANTED)
        deliver(client, &push);
    slot->acquires = false;
}

static void done(void *arg, struct tn_line_claim *claim, enum tn_line_goal goal,
                 const struct tn_line_answer *answer)
{
    struct sim_line_client *client = arg;
    struct line_slot *slot = slot_of(claim);

    if (goal == TN_LINE_ACQUIRE) {
        answer_acquire(client, slot, answer->answer);
        return;
    }
    if (slot->acquires)
        answer_acquire(client, slot, TN_ANSWER_STALE);
    if (slot->releases)
        reply_to(client, slot, &slot->release, answer->answer, false);
    slot->releases = false;
}

static void news(void *arg, struct tn_line_claim *claim, enum tn_line_news what)
{
    const struct sim_line_client *client = arg;
    struct sim_event push = { .kind = SIM_EV_REVOKED,
                              .name = slot_of(claim)->name,
                              .life = client->life,
                              .token = claim->key.token };

    (void)what; /* To the application both are the end of its term. */
    deliver(client, &push);
}

/* --- What goes to the store ------------------------------------------------------------------- */

static void step(void *arg, struct tn_line_claim *claim, enum tn_line_step what, uint64_t request)
{
    struct sim_line_client *client = arg;
    struct line_slot *slot = slot_of(claim);
    const struct sim_node *node = client->host.node;
    struct sim_event event = { .kind = SIM_EV_LINE_STEP,
                               .op = (uint8_t)what,
                               .node = node->index,
                               .incarnation = node->incarnation,
                               .name = slot->name,
                               .life = client->life,
                               .gen = slot->gen,
                               .id = request,
                               .slot = (uint32_t)(slot - client->slots),
                               .seen = client->seen,
                               .token = claim->key.token };

    event.line.order = claim->key.order;
    event.line.before = claim->before;
    event.line.proof = claim->proof;
    event.line.behind = claim->behind;
    event.line.fresh = claim->fresh;
    slot->give_up_at = node->clock.last + client->host.world->config.claim.attempt_timeout;
    sim_send(client->host.world, &event);
}

static const struct tn_line_host line_host = { step, done, news };

/* --- The candidate's requests ----------------------------------------------------------------- */

static void open_session(struct sim_world *world, struct sim_node *node,
                         const struct tn_request *request)
{
    struct sim_line_client *client = client_of(world, node);
    struct tn_line_engine engine = { .atomic = world->config.atomic,
                                     .shared = world->config.atomic,
                                     .hold_off = world->config.atomic ? 0 : request->ttl };
    uint64_t requests = client->line.requests; /* Late answers stay without a claim. */

    client->host = (struct sim_host) { world, node };
    client->life = request->life;
    memset(client->slots, 0, sizeof client->slots);
    tn_line_init(&client->line, &line_host, client, &engine);
    client->line.requests = requests;
}

static bool is_idle(const struct line_slot *slot)
{
    const struct tn_line_claim *claim = &slot->claim;
    bool out = claim->place == TN_LINE_OUT || tn_line_is_over(claim);

    return out && claim->goal == TN_LINE_REST && claim->step == TN_LINE_NOTHING &&
           claim->proof == TN_LINE_NO_KEY;
}

/* The claim of that term; else one that is not in use, or was not for longest. NULL: all busy. */
static struct line_slot *find_slot(struct sim_line_client *client, uint32_t name, uint64_t gen)
{
    const struct sim_node *node = client->host.node;
    struct tn_secret term = sim_term_secret(node, node->incarnation, gen);
    struct line_slot *best = NULL;

    for (uint32_t i = 0; i < SLOTS; i++) {
        struct line_slot *slot = &client->slots[i];
        if (slot->used && slot->name == name && slot->gen == gen)
            return slot;
        if ((!slot->used || is_idle(slot)) && (best == NULL || slot->used_at < best->used_at))
            best = slot;
    }
    if (best == NULL)
        return NULL;
    if (best->used)
        tn_line_remove(&best->claim);
    *best = (struct line_slot) { .used = true, .name = name, .gen = gen };
    best->give_up_at = best->retry_at = TN_NEVER;
    best->used_at = ++client->uses;
    tn_line_add(&client->line, &best->claim, sim_name(name), &term);
    return best;
}

static void start(struct sim_world *world, struct sim_node *node, const struct tn_request *request)
{
    struct sim_line_client *client = client_of(world, node);
    uint32_t name = (uint32_t)((struct sim_seat *)(void *)request->seat - node->seats);
    struct line_slot *slot = NULL;

    if (client->life == request->life)
        slot = find_slot(client, name, request->gen);
    if (slot == NULL)
        return; /* Of another session, or all are busy: it is asked again. */
    slot->retry_at = TN_NEVER;
    if (request->kind == TN_OP_RELEASE) {
        slot->release = *request;
        slot->releases = true;
        tn_line_release(&slot->claim, node->clock.last, request->token);
    } else {
        slot->acquire = *request;
        slot->acquires = true;
        tn_line_acquire(&slot->claim, node->clock.last, request->wait);
    }
}

bool sim_line_request(struct sim_world *world, struct sim_node *node,
                      const struct tn_request *request)
{
    if (request->kind == TN_OP_OPEN && client_of(world, node)->life != request->life)
        open_session(world, node, request);
    if (request->kind != TN_OP_ACQUIRE && request->kind != TN_OP_RELEASE)
        return false; /* The store's own: sessions, and reading. */
    start(world, node, request);
    return true;
}

void sim_line_boot(struct sim_world *world, struct sim_node *node)
{
    struct sim_line_client *client = client_of(world, node);

    client->life = 0;
    client->seen = 0;
    client->line.claims = NULL;
    memset(client->slots, 0, sizeof client->slots);
}

/* --- The store's answers ---------------------------------------------------------------------- */

/* The store has told that the session is over: whatever waits for it is answered. */
static void end_session(struct sim_line_client *client)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct line_slot *slot = &client->slots[i];
        if (!slot->used)
            continue;
        if (slot->acquires)
            reply_to(client, slot, &slot->acquire, TN_ANSWER_GONE, false);
        if (slot->releases)
            reply_to(client, slot, &slot->release, TN_ANSWER_GONE, false);
        tn_line_remove(&slot->claim);
        slot->used = false;
    }
}

void sim_line_answer(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_line_client *client = client_of(world, node);
    struct line_slot *slot = &client->slots[event->slot];
    tenure_ns now = node->clock.last;

    if (event->life != client->life || !slot->used || slot->gen != event->gen ||
        slot->name != event->name)
        return;
    if (event->answer == TN_ANSWER_GONE) {
        end_session(client);
        return;
    }
    if (event->seen > client->seen)
        client->seen = event->seen;
    if (slot->claim.request == event->id) {
        slot->epoch = event->epoch;
        slot->first = (struct line_first) { event->held,        event->stale,
                                            event->holder,      event->holder_incarnation,
                                            event->token,       event->line.order,
                                            event->holder_life, event->holder_gen };
    }
    switch ((enum tn_line_step)event->op) {
    case TN_LINE_CREATE:
    case TN_LINE_LOOK:
        tn_line_saw(&slot->claim, now, event->id, &event->line.view);
        break;
    case TN_LINE_PROVE:
        tn_line_proved(&slot->claim, now, event->id, &event->line.proven);
        break;
    case TN_LINE_FOLLOW:
        tn_line_followed(&slot->claim, now, event->id, event->line.there);
        break;
    default:
        tn_line_removed(&slot->claim, now, event->id);
    }
}

void sim_line_news(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_line_client *client = client_of(world, node);
    tenure_ns now = node->clock.last;

    /* Of a stream like etcd's: what comes twice does not make up for what was lost. The store lets
     * go of a revoked key, so P1 rests on it. */
    node->news_heard += !world->config.atomic || event->beat == node->news_heard + 1;
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct line_slot *slot = &client->slots[i];
        if (!slot->used || slot->name != event->name)
            continue;
        if (TN_PLANT(LINE_UNLOOKED))
            slot->epoch = event->epoch;
        if (event->op == SIM_LINE_GONE)
            tn_line_gone(&slot->claim, now, event->line.order);
        else if (event->op == SIM_LINE_CHANGED)
            tn_line_changed(&slot->claim, now, event->line.order);
        else
            tn_line_unwatched(&slot->claim, now);
    }
}

/* A connection that was lost took watches with it; a client notices, and looks for itself. */
bool sim_line_renewed(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_line_client *client = client_of(world, node);

    if (event->life != client->life)
        return true;
    for (uint32_t i = 0; i < SLOTS && event->beat != node->news_heard; i++)
        if (client->slots[i].used)
            tn_line_unwatched(&client->slots[i].claim, node->clock.last);
    node->news_heard = event->beat;
    return tn_line_is_sure(&client->line);
}

bool sim_line_take(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_line_client *client = client_of(world, node);
    struct tn_line_key key = { .order = event->line.order, .token = event->token };

    if (!event->held || event->holder != node->index || event->holder_life != client->life ||
        event->holder_incarnation != node->incarnation)
        return true;
    struct line_slot *slot = find_slot(client, event->name, event->holder_gen);
    if (slot == NULL)
        return false;
    if (tn_line_is_granted(&slot->claim) || tn_line_is_over(&slot->claim))
        return true; /* Of a term that is over a backup has brought back the key. */
    /* Its session has been ended since by an operator's hand: it was granted in another age. */
    slot->epoch = event->epoch - (world->store.cut_token[event->name] == event->token);
    if (slot->retry_at == TN_NEVER &&
        tn_line_adopt(&slot->claim, node->clock.last, &key, event->stale)) {
        sim_line_adopted(world, event->name, key.order);
        return true;
    }
    tn_line_unwatched(&slot->claim, node->clock.last); /* Its own steps tell of a grant. */
    return false;
}

uint32_t sim_line_held(const struct sim_world *world, const struct sim_node *node)
{
    return tn_line_held(&client_of(world, node)->line);
}

/* --- Time ------------------------------------------------------------------------------------- */

/* Like etcd's: whoever asked hears of the failure. A claim that nobody asked for goes on later. */
static void fail_requests(struct sim_line_client *client, struct line_slot *slot, tenure_ns now)
{
    if (slot->acquires)
        reply_to(client, slot, &slot->acquire, TN_ANSWER_OK, true);
    if (slot->releases)
        reply_to(client, slot, &slot->release, TN_ANSWER_OK, true);
    if (!slot->acquires && !slot->releases)
        slot->retry_at = now + client->host.world->config.claim.backoff;
    slot->acquires = slot->releases = false;
    tn_line_give_up(&slot->claim);
}

void sim_line_tick(struct sim_world *world, struct sim_node *node)
{
    struct sim_line_client *client = client_of(world, node);
    tenure_ns now = node->clock.last;

    for (uint32_t i = 0; i < SLOTS && client->life != 0; i++) {
        struct line_slot *slot = &client->slots[i];
        if (!slot->used)
            continue;
        if (slot->claim.step != TN_LINE_NOTHING && slot->give_up_at <= now) {
            (void)tn_line_failed(&slot->claim, slot->claim.request, true);
            if (world->config.atomic)
                fail_requests(client, slot, now);
            else
                tn_line_go_on(&slot->claim, now);
        } else if (slot->retry_at <= now) {
            slot->retry_at = TN_NEVER;
            tn_line_go_on(&slot->claim, now);
        }
    }
    if (client->life != 0)
        tn_line_tick(&client->line, now);
}

tenure_ns sim_line_wake_at(const struct sim_world *world, const struct sim_node *node)
{
    const struct sim_line_client *client = client_of(world, node);
    tenure_ns at = client->life != 0 ? tn_line_wake_at(&client->line) : TN_NEVER;

    for (uint32_t i = 0; i < SLOTS && client->life != 0; i++) {
        const struct line_slot *slot = &client->slots[i];
        if (!slot->used)
            continue;
        if (slot->claim.step != TN_LINE_NOTHING && slot->give_up_at < at)
            at = slot->give_up_at;
        if (slot->retry_at < at)
            at = slot->retry_at;
    }
    return at;
}
