/* rows.c - a store that has rows with versions and nothing else, and the clients of it.
 *
 * The client is the recipe under test (core/rows.h), hosted as a real engine would host it: each
 * read and write is a message of its own, with the network in between. The store compares versions,
 * and that is all it does. What breaks here beside the network: somebody else rewrites or deletes a
 * row, and a read may be answered from a cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/rows.h"

enum { SLOTS = 4 * SIM_NAMES_MAX, ANY_VERSION = 0x7fffffff };

/* A claim of the recipe, and the request of the candidate that it works for. */
struct row_slot {
    struct tn_rows_claim claim;
    struct tn_request request;
    uint32_t name;
    uint64_t epoch; /* Of the store, when it last answered. */
    bool used;
    bool silent; /* Nobody waits for the answer. */
};

struct sim_row_client {
    struct sim_host host;
    struct tn_rows rows;
    struct tn_rows_name names[SIM_NAMES_MAX];
    uint64_t life; /* Of the session that @rows is. */
    struct row_slot slots[SLOTS];
};

static struct sim_row_client *client_of(const struct sim_world *world, const struct sim_node *node)
{
    return &world->row_clients[node->index];
}

static struct row_slot *slot_of(struct tn_rows_claim *claim)
{
    return (struct row_slot *)(void *)claim; /* Its first member. */
}

void sim_rows_init(struct sim_world *world)
{
    size_t size = world->config.nodes * sizeof *world->row_clients;

    if (world->config.style != SIM_ROWS)
        return;
    world->row_clients = realloc(world->row_clients, size);
    TN_ASSERT(world->row_clients != NULL);
    memset(world->row_clients, 0, size);
}

/* --- What the candidate hears ----------------------------------------------------------------- */

/* Within the process: it arrives, and at once. */
static void deliver(struct sim_world *world, const struct sim_node *node, struct sim_event *event)
{
    event->node = node->index;
    event->incarnation = node->incarnation;
    event->order = world->order + 1;
    sim_at(world, world->now, event);
}

static void fill_row(const struct tn_row *row, uint64_t version, struct sim_event *event)
{
    char text[TN_ROW_VERSION];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)version);
    event->held = row->held;
    event->token = tn_row_token(row, text);
    event->beat = tn_row_beat(text);
    event->ttl = row->ttl;
    event->holder = SIM_NOBODY;
    if (!row->held)
        return;
    struct sim_waiter holder = sim_waiter_of(&row->session, &row->term);
    event->holder = holder.node;
    event->holder_life = holder.life;
    event->holder_gen = holder.gen;
    event->holder_incarnation = holder.incarnation;
}

uint64_t sim_rows_number(const char *text)
{
    uint64_t number = 0;

    if (text[0] == '*')
        return ANY_VERSION;
    for (; *text >= '0' && *text <= '9'; text++)
        number = 10 * number + (uint64_t)(*text - '0');
    return number;
}

static void done(void *arg, struct tn_rows_claim *claim, enum tn_rows_goal goal,
                 const struct tn_rows_answer *answer)
{
    const struct sim_row_client *client = arg;
    const struct row_slot *slot = slot_of(claim);
    const struct tn_request *request = &slot->request;
    struct sim_event reply = { .kind = SIM_EV_REPLY,
                               .op = (uint8_t)request->kind,
                               .answer = (uint8_t)answer->answer,
                               .failed = answer->failed,
                               .name = slot->name,
                               .life = request->life,
                               .gen = request->gen,
                               .read = request->read,
                               .sent_at = request->sent_at,
                               .epoch = slot->epoch };

    (void)goal;
    if (slot->silent)
        return;
    fill_row(&claim->row, sim_rows_number(claim->version), &reply);
    reply.held = reply.held && answer->answer != TN_ANSWER_FREE;
    deliver(client->host.world, client->host.node, &reply);
}

static void renewed(void *arg, uint64_t seq, enum tn_rows_outcome outcome, uint32_t held)
{
    const struct sim_row_client *client = arg;
    struct sim_event reply = { .kind = SIM_EV_REPLY,
                               .op = TN_OP_RENEW,
                               .answer = outcome == TN_ROWS_GONE ? TN_ANSWER_GONE : TN_ANSWER_OK,
                               .failed = outcome != TN_ROWS_WRITTEN && outcome != TN_ROWS_GONE,
                               .life = client->life,
                               .seq = seq,
                               .ttl = client->rows.ttl,
                               .held_count = held };

    deliver(client->host.world, client->host.node, &reply);
}

static void ended(void *arg, struct tn_rows_claim *claim)
{
    const struct sim_row_client *client = arg;
    struct sim_event news = { .kind = SIM_EV_REVOKED,
                              .name = slot_of(claim)->name,
                              .life = client->life,
                              .token = claim->token };

    deliver(client->host.world, client->host.node, &news);
}

/* --- What goes to the store ------------------------------------------------------------------- */

static void send_row(const struct sim_row_client *client, struct tn_rows_claim *claim,
                     struct sim_event *event)
{
    struct row_slot *slot = slot_of(claim);

    event->node = client->host.node->index;
    event->incarnation = client->host.node->incarnation;
    event->name = slot->name;
    event->slot = (uint32_t)(slot - client->slots);
    event->op = claim->goal == TN_ROWS_RENEW ? TN_OP_RENEW : (uint8_t)slot->request.kind;
    event->life = client->life;
    event->gen = slot->request.gen;
    sim_send(client->host.world, event);
}

static void get(void *arg, struct tn_rows_claim *claim, uint64_t request)
{
    struct sim_event event = { .kind = SIM_EV_ROW_GET, .id = request };

    send_row(arg, claim, &event);
}

static void put(void *arg, struct tn_rows_claim *claim, uint64_t request, const struct tn_row *row)
{
    struct sim_event event = { .kind = SIM_EV_ROW_PUT,
                               .id = request,
                               .row = *row,
                               .version = sim_rows_number(claim->version) };

    send_row(arg, claim, &event);
}

static uint64_t nonce(void *arg)
{
    (void)arg;
    return 1; /* Versions differ here without it. */
}

static void call_session(void *arg, uint64_t number, enum tn_op_kind kind, const char *id)
{
    const struct sim_row_client *client = arg;
    struct sim_event event = { .kind = SIM_EV_ROW_SESSION,
                               .node = client->host.node->index,
                               .incarnation = client->host.node->incarnation,
                               .op = (uint8_t)kind,
                               .life = client->life,
                               .id = number,
                               .version = sim_rows_number(id),
                               .ttl = client->rows.ttl };

    sim_send(client->host.world, &event);
}

static const struct tn_rows_host row_host = { get, put, done, renewed, ended, nonce, call_session };

/* --- The candidate's requests ----------------------------------------------------------------- */

static void open_session(struct sim_world *world, struct sim_node *node,
                         const struct tn_request *request)
{
    struct sim_row_client *client = client_of(world, node);
    struct tn_secret session = sim_session_secret(node, request->life);
    uint64_t requests = client->rows.requests; /* Late answers stay without a claim. */
    tenure_ns ttl = request->ttl;
    struct tn_timing timing;

    if (ttl > world->store.ttl_most) {
        sim_fired(world, SIM_FAULT_TTL_CUT);
        ttl = world->store.ttl_most;
    }
    client->host = (struct sim_host) { world, node };
    client->life = request->life;
    memset(client->slots, 0, sizeof client->slots);
    tn_plan_timing(&world->config.plan, ttl, &timing);
    tn_rows_init(&client->rows, &row_host, client, &session, ttl, timing.attempt_timeout,
                 world->config.acquire_timeout);
    client->rows.requests = requests;
    client->rows.mints = world->config.mints;
    client->rows.has_sessions = world->config.sessions;
    client->rows.feed_trust = sim_feed_trust(world);
}

/* The claim of that term, or one that is not in use; NULL: too many are busy. */
static struct row_slot *find_slot(struct sim_row_client *client, const struct sim_node *node,
                                  uint32_t name, const struct tn_request *request)
{
    struct row_slot *unused = NULL;

    for (uint32_t i = 0; i < SLOTS; i++) {
        struct row_slot *slot = &client->slots[i];
        bool reads = slot->request.kind == TN_OP_READ;
        if (slot->used && slot->name == name && slot->request.gen == request->gen &&
            reads == (request->kind == TN_OP_READ))
            return slot;
        if (slot->used && slot->claim.goal == TN_ROWS_REST && !slot->claim.held &&
            !slot->claim.revoked && slot->claim.request == 0) {
            tn_rows_remove(&slot->claim);
            slot->used = false;
        }
        if (!slot->used && unused == NULL)
            unused = slot;
    }
    if (unused != NULL) {
        struct tn_secret term = sim_term_secret(node, node->incarnation, request->gen);
        tn_rows_add(&client->rows, &unused->claim, &client->names[name], &term);
        unused->used = true;
        unused->name = name;
    }
    return unused;
}

static void start(struct sim_world *world, struct sim_node *node, const struct tn_request *request)
{
    struct sim_row_client *client = client_of(world, node);
    uint32_t name = (uint32_t)((struct sim_seat *)(void *)request->seat - node->seats);
    struct row_slot *slot = find_slot(client, node, name, request);
    struct tn_op op = { .kind = request->kind, .token = request->token };

    /* What is asked again while it is under way is answered once. */
    if (slot == NULL || !tn_rows_is_free(&slot->claim))
        return;
    slot->request = *request;
    slot->silent = false;
    tn_rows_start(&slot->claim, node->clock.last, &op);
}

static void close_session(struct sim_row_client *client, tenure_ns now)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct row_slot *slot = &client->slots[i];
        struct tn_op op = { .kind = TN_OP_RELEASE, .token = slot->claim.token };
        if (!slot->used || !slot->claim.held || !tn_rows_is_free(&slot->claim))
            continue;
        slot->silent = true;
        slot->request.kind = TN_OP_RELEASE;
        tn_rows_start(&slot->claim, now, &op);
    }
    if (client->rows.has_sessions)
        tn_rows_close_session(&client->rows);
}

void sim_rows_request(struct sim_world *world, struct sim_node *node,
                      const struct tn_request *request)
{
    struct sim_row_client *client = client_of(world, node);

    if (request->kind == TN_OP_OPEN && client->life != request->life)
        open_session(world, node, request);
    if (request->kind == TN_OP_OPEN || request->kind == TN_OP_RENEW)
        tn_rows_renew(&client->rows, node->clock.last, request->seq);
    else if (request->kind == TN_OP_CLOSE)
        close_session(client, node->clock.last);
    else
        start(world, node, request);
}

void sim_rows_boot(struct sim_world *world, struct sim_node *node)
{
    struct sim_row_client *client = client_of(world, node);

    client->life = 0;
    client->rows.claims = NULL;
    memset(client->slots, 0, sizeof client->slots);
    memset(client->names, 0, sizeof client->names);
    sim_feed_boot(node);
}

static void look_at_held(struct sim_row_client *client, uint32_t name, const char *version,
                         tenure_ns now)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct row_slot *slot = &client->slots[i];
        if (slot->used && slot->name == name && strcmp(slot->claim.version, version) != 0)
            tn_rows_look(&slot->claim, now);
    }
}

/* The change feed shows a row; what it means is the recipe's to say. */
static void see_row(struct sim_world *world, const struct sim_node *node,
                    const struct sim_event *event)
{
    struct sim_row_client *client = client_of(world, node);
    struct tn_rows_name *name = &client->names[event->name];
    struct sim_event changed = { .kind = SIM_EV_CHANGED,
                                 .name = event->name,
                                 .epoch = event->epoch };
    char version[TN_ROW_VERSION];
    struct tn_rows_event shown = { event->stale ? NULL : &event->row, version,
                                   tn_rows_whose(&client->rows, name, &event->row) };

    (void)snprintf(version, sizeof version, "%llu", (unsigned long long)event->version);
    struct tn_rows_news news =
        tn_rows_name_saw(name, node->clock.last, world->config.sessions, &shown);
    if (news.look)
        look_at_held(client, event->name, name->shown_version, node->clock.last);
    if (!news.tell)
        return;
    fill_row(&name->shown, event->version, &changed);
    changed.held = changed.held && !tn_rows_name_is_silent(name, node->clock.last);
    deliver(world, node, &changed);
}

void sim_rows_answer(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct row_slot *slot = &client_of(world, node)->slots[event->slot];
    char version[TN_ROW_VERSION] = "";

    if (event->kind == SIM_EV_ROW_SHOWN) {
        if (sim_feed_hear(world, node, client_of(world, node)->names, event))
            see_row(world, node, event);
        return;
    }
    if (event->life != client_of(world, node)->life)
        return;
    if (event->version != 0)
        (void)snprintf(version, sizeof version, "%llu", (unsigned long long)event->version);
    if (event->kind == SIM_EV_ROW_SESSION_DONE) {
        tn_rows_session_done(&client_of(world, node)->rows, node->clock.last, event->id,
                             (enum tn_rows_outcome)event->answer, version);
        return;
    }
    if (!slot->used)
        return;
    slot->epoch = event->epoch;
    if (event->kind == SIM_EV_ROW_GOT)
        tn_rows_got(&slot->claim, node->clock.last, event->id, &event->row, version);
    else
        tn_rows_put_done(&slot->claim, node->clock.last, event->id,
                         (enum tn_rows_outcome)event->answer, version);
}

bool sim_rows_is_stray(const struct sim_world *world, const struct sim_node *node, uint32_t name,
                       const struct tn_row *row)
{
    const struct sim_row_client *client = client_of(world, node);

    return tn_rows_whose(&client->rows, &client->names[name], row) == TN_ROWS_STRAY;
}

/* The holder was silent for long enough: to the candidate the name is free. */
static void tell_vacated(struct sim_world *world, const struct sim_node *node, uint32_t name)
{
    struct sim_event news = { .kind = SIM_EV_CHANGED,
                              .name = name,
                              .token = client_of(world, node)->names[name].observer.token,
                              .holder = SIM_NOBODY };

    deliver(world, node, &news);
}

void sim_rows_tick(struct sim_world *world, struct sim_node *node)
{
    struct sim_row_client *client = client_of(world, node);

    tn_rows_tick(&client->rows, node->clock.last);
    for (uint32_t i = 0; i < world->config.names; i++)
        if (tn_rows_name_is_vacated(&client->names[i], node->clock.last))
            tell_vacated(world, node, i);
    if (world->config.feeds)
        sim_feed_tick(world, node, client->names);
}

tenure_ns sim_rows_wake_at(const struct sim_world *world, const struct sim_node *node)
{
    const struct sim_row_client *client = client_of(world, node);
    tenure_ns at = tn_rows_wake_at(&client->rows);

    for (uint32_t i = 0; i < world->config.names; i++)
        if (tn_rows_name_wake_at(&client->names[i]) < at)
            at = tn_rows_name_wake_at(&client->names[i]);
    if (world->config.feeds && sim_feed_wake_at(world, node, client->names) < at)
        at = sim_feed_wake_at(world, node, client->names);
    return at;
}

/* --- The store -------------------------------------------------------------------------------- */

/* Without a feed, those who watch hear of a new holder and of a vacancy, as reads show them. */
static void push_changed(struct sim_world *world, uint32_t name)
{
    const struct sim_row *row = &world->store.rows[name];
    struct sim_event push = {
        .kind = SIM_EV_CHANGED, .name = name, .epoch = world->store.epoch[name], .row = row->row
    };

    fill_row(&row->row, row->version, &push);
    for (uint32_t i = 0; i < world->config.nodes; i++) {
        push.node = i;
        push.incarnation = world->nodes[i].incarnation;
        if (world->nodes[i].up)
            sim_send(world, &push);
    }
}

static void write_row(struct sim_world *world, uint32_t name, const struct tn_row *next)
{
    struct sim_row *row = &world->store.rows[name];

    row->before = row->row;
    row->version_before = row->version;
    row->row = *next;
    row->version = ++world->store.versions;
    if (!next->held)
        world->store.holder[name].node = SIM_NOBODY;
}

static void tell_row(struct sim_world *world, uint32_t name, bool news)
{
    if (world->config.feeds)
        sim_feed_show(world, name);
    else if (news)
        push_changed(world, name);
}

void sim_rows_write(struct sim_world *world, uint32_t name, const struct tn_row *next)
{
    const struct tn_row *row = &world->store.rows[name].row;
    bool news = row->held != next->held || !tn_secret_equal(&row->term, &next->term);

    write_row(world, name, next);
    tell_row(world, name, news);
}

static bool same_term(const struct sim_waiter *a, const struct sim_waiter *b)
{
    return a->node == b->node && a->gen == b->gen && a->incarnation == b->incarnation;
}

/* The token as the store mints it; the recipe's opinion of it is not asked. */
static uint64_t token_put(const struct sim_world *world, const struct sim_event *event)
{
    uint64_t version = world->store.versions + 1;

    if (!event->row.minted)
        return event->row.token;
    return version > event->row.floor || TN_PLANT(FLOOR_IGNORED) ? version : event->row.floor + 1;
}

/* The reply to an acquire was lost, and somebody rewrote the row before its token was in it: the
 * token that the first write minted was told to nobody, and the term goes on with a later one. */
static void forgive_untold(struct sim_world *world, uint32_t name, const struct sim_waiter *to,
                           uint64_t token)
{
    struct sim_store *store = &world->store;
    const struct sim_waiter *holder = &store->holder[name];
    const struct tn_row *row = &store->rows[name].row;

    if ((row->minted || row->token == token) && same_term(holder, to) &&
        token > store->granted[name] &&
        world->nodes[to->node].seats[name].app.token != store->granted[name]) {
        store->granted[name] = token;
        if (token > store->highest_token)
            store->highest_token = token;
    }
}

/* The checkers' books: who was granted what (P2), and whose term a release ended (P5). */
static void check_put(struct sim_world *world, const struct sim_event *event)
{
    const struct tn_row *old = &world->store.rows[event->name].row;
    struct sim_waiter from = sim_waiter_of(&old->session, &old->term);
    struct sim_waiter to = sim_waiter_of(&event->row.session, &event->row.term);
    struct sim_waiter sender = { .node = event->node,
                                 .gen = event->gen,
                                 .incarnation = event->incarnation };

    uint64_t token = token_put(world, event);

    if (event->row.held && !same_term(&from, &to) && token <= old->floor)
        sim_violate(world, "P2", "%s was granted with token %llu, its floor is %llu",
                    sim_name(event->name), (unsigned long long)token,
                    (unsigned long long)old->floor);
    if (event->row.held) {
        forgive_untold(world, event->name, &to, token);
        sim_check_grant(world, event->name, &to, token);
    } else if (old->held && !same_term(&from, &sender) && !TN_PLANT(SHARED_IDENTITY))
        sim_violate(world, "P5", "a release by node %u ended the term of node %u", event->node,
                    from.node);
}

static void trace_put(struct sim_world *world, const struct sim_event *event, bool written)
{
    char label[16];

    if (world->listener == NULL || world->script != NULL)
        return;
    sim_trace_label(&world->nodes[event->node], label, sizeof label);
    sim_trace_other(world, "store", "%s writes %s %s, token %llu, if version %llu: %s", label,
                    sim_name(event->name), event->row.held ? "held" : "free",
                    (unsigned long long)event->row.token, (unsigned long long)event->version,
                    written ? "written" : "conflict");
}

static void serve_put(struct sim_world *world, const struct sim_event *event,
                      struct sim_event *reply)
{
    struct sim_row *row = &world->store.rows[event->name];
    bool same = event->version == row->version || event->version == ANY_VERSION;
    enum tn_rows_outcome refused = sim_row_sessions_refuse(world, event);
    bool written = same && refused == TN_ROWS_WRITTEN;

    trace_put(world, event, written);
    reply->kind = SIM_EV_ROW_PUT_DONE;
    reply->answer = same ? (uint8_t)refused : TN_ROWS_CONFLICT;
    if (written) {
        check_put(world, event);
        sim_rows_write(world, event->name, &event->row);
        reply->version = row->version;
    } else if (!same) {
        sim_fired(world, SIM_FAULT_ROW_CONFLICT);
    }
}

static void serve_get(struct sim_world *world, const struct sim_event *event,
                      struct sim_event *reply)
{
    const struct sim_row *row = &world->store.rows[event->name];
    bool stale = !world->healed && row->version_before != 0 && sim_chance(world, TN_PPM / 50);

    if (stale)
        sim_fired(world, SIM_FAULT_STALE_READ);
    reply->kind = SIM_EV_ROW_GOT;
    reply->row = stale ? row->before : row->row;
    reply->version = stale ? row->version_before : row->version;
}

/* The word of a grant comes as late as it is still waited for, perhaps after the session was
 * renewed; and then the new holder can write no more. */
static void hold_back(struct sim_world *world, struct sim_event *reply)
{
    struct sim_node *node = &world->nodes[reply->node];

    node->cut_to_until = world->now + 2 * world->config.plan.ttl;
    reply->order = world->order + 1;
    sim_at(world, world->now + world->config.acquire_timeout * 3 / 4, reply);
    sim_fired(world, SIM_FAULT_LATE_GRANT);
}

void sim_rows_serve(struct sim_world *world, const struct sim_event *event)
{
    struct sim_event reply = *event;

    reply.epoch = world->store.epoch[event->name];
    sim_row_sessions_expire(world);
    if (event->kind == SIM_EV_ROW_WATCH) {
        sim_feed_serve(world, event);
        return;
    }
    if (event->kind == SIM_EV_ROW_SESSION) {
        sim_row_sessions_serve(world, event);
        return;
    }
    if (event->kind == SIM_EV_ROW_PUT)
        serve_put(world, event, &reply);
    else
        serve_get(world, event, &reply);
    if (event->op == TN_OP_ACQUIRE && reply.kind == SIM_EV_ROW_PUT_DONE &&
        reply.answer == TN_ROWS_WRITTEN && !world->healed && sim_chance(world, TN_PPM / 20))
        hold_back(world, &reply);
    else
        sim_send(world, &reply);
}

/* --- Other hands on the rows ------------------------------------------------------------------ */

/* What an operator writes has its token in it. */
static struct tn_row settled_row(const struct sim_row *row)
{
    struct tn_row settled = row->row;
    char text[TN_ROW_VERSION];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)row->version);
    settled.token = tn_row_token(&row->row, text);
    settled.minted = false;
    return settled;
}

/* Somebody rewrites a row without changing anything in it, or raises its floor. */
void sim_rows_touch(struct sim_world *world, uint32_t name)
{
    struct sim_row *row = &world->store.rows[name];

    if (row->version == 0)
        return;
    struct tn_row same = row->row;
    if (world->config.sessions && sim_row_sessions_lose(world, name))
        return;
    if (world->config.mints && sim_chance(world, TN_PPM / 4)) {
        same = settled_row(row);
        same.floor = world->store.versions + 20;
        sim_fired(world, SIM_FAULT_FLOOR_RAISED);
    }
    sim_rows_write(world, name, &same);
    sim_fired(world, SIM_FAULT_ROW_TOUCHED);
}

/* A2 is broken: whoever led may go on until its own deadline. The token starts again, unless it is
 * minted: then only the part above the engine's versions is lost. */
static void delete_row(struct sim_world *world, uint32_t name)
{
    struct sim_store *store = &world->store;
    struct tn_row none = { .held = false };
    bool was_held = store->rows[name].row.held;

    write_row(world, name, &none);
    store->rows[name].version = 0;
    tell_row(world, name, was_held);
    if (!world->config.mints)
        store->granted[name] = 0;
    else if (store->granted[name] > store->versions)
        store->granted[name] = store->versions;
    store->epoch[name]++;
    sim_fired(world, SIM_FAULT_DELETE);
}

void sim_rows_revoke(struct sim_world *world, uint32_t name)
{
    struct tn_row row = settled_row(&world->store.rows[name]);

    if (!row.held || row.revoked)
        return;
    row.revoked = true;
    sim_rows_write(world, name, &row);
    sim_fired(world, SIM_FAULT_REVOKE);
}

void sim_rows_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name, uint64_t token)
{
    if (kind == TN_OP_REVOKE && sim_chance(world, TN_PPM / 4)) {
        delete_row(world, name);
    } else if (kind == TN_OP_REVOKE) {
        sim_rows_revoke(world, name);
    } else {
        TN_ASSERT(kind == TN_OP_RAISE);
        for (uint32_t i = 0; i < world->config.names; i++) {
            struct tn_row row = settled_row(&world->store.rows[i]);
            row.floor = token > row.floor ? token : row.floor;
            sim_rows_write(world, i, &row);
        }
    }
}
