/* row_sessions.c - the sessions of a store of rows that has them, as Consul's.
 *
 * A session holds rows and lives for a TTL behind its last renewal, and up to twice as long: the
 * store is in no hurry. When it ends, its rows are free, and a lock-delay keeps them so. What
 * breaks: a session ends before its time, because its agent dies or an operator destroys it; and a
 * lost reply makes a client open a second one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/rows.h"

#define BLOCK (SIM_ROW_SESSIONS * sizeof(struct sim_row_session))

void sim_row_sessions_init(struct sim_world *world)
{
    struct sim_store *store = &world->store;

    if (!world->config.sessions)
        return;
    if (store->row_sessions == NULL)
        store->row_sessions = malloc(BLOCK);
    if (store->backup_row_sessions == NULL)
        store->backup_row_sessions = malloc(BLOCK);
    TN_ASSERT(store->row_sessions != NULL && store->backup_row_sessions != NULL);
    memset(store->row_sessions, 0, BLOCK);
}

void sim_row_sessions_backup(struct sim_world *world)
{
    if (world->config.sessions)
        memcpy(world->store.backup_row_sessions, world->store.row_sessions, BLOCK);
}

static tenure_ns end_of(struct sim_world *world, const struct sim_row_session *session)
{
    return sim_store_now(world) + session->ttl + sim_between(world, 0, session->ttl);
}

void sim_row_sessions_restart(struct sim_world *world, bool restored)
{
    struct sim_store *store = &world->store;

    if (!world->config.sessions)
        return;
    if (restored)
        memcpy(store->row_sessions, store->backup_row_sessions, BLOCK);
    for (uint32_t i = 0; i < SIM_ROW_SESSIONS; i++)
        if (store->row_sessions[i].id != 0)
            store->row_sessions[i].over_at = end_of(world, &store->row_sessions[i]);
    for (uint32_t i = 0; i < world->config.names; i++)
        store->kept_back_until[i] = sim_store_now(world) + store->kept_back_for[i];
}

static void owner_text(uint64_t id, char ret_text[TN_ROW_OWNER])
{
    (void)snprintf(ret_text, TN_ROW_OWNER, "%llu", (unsigned long long)id);
}

static struct sim_row_session *find(struct sim_world *world, uint64_t id)
{
    struct sim_row_session *list = world->store.row_sessions;

    for (uint32_t i = 0; i < SIM_ROW_SESSIONS; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

/* Its rows are free, and what was written in them stays. */
static void end_session(struct sim_world *world, struct sim_row_session *session)
{
    struct sim_store *store = &world->store;
    char owner[TN_ROW_OWNER];

    owner_text(session->id, owner);
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct tn_row row = store->rows[i].row;
        if (!row.held || strcmp(row.owner, owner) != 0)
            continue;
        row.held = row.revoked = false;
        store->kept_back_for[i] = tn_rows_lock_delay(session->ttl);
        store->kept_back_until[i] = sim_store_now(world) + store->kept_back_for[i];
        sim_rows_write(world, i, &row);
    }
    session->id = 0;
}

void sim_row_sessions_expire(struct sim_world *world)
{
    struct sim_row_session *list = world->store.row_sessions;

    for (uint32_t i = 0; world->config.sessions && i < SIM_ROW_SESSIONS; i++)
        if (list[i].id != 0 && list[i].over_at <= sim_store_now(world))
            end_session(world, &list[i]);
}

static struct sim_row_session *open_session(struct sim_world *world, const struct sim_event *event)
{
    struct sim_row_session *list = world->store.row_sessions;
    struct sim_row_session *session = find(world, 0);

    for (uint32_t i = 0; i < SIM_ROW_SESSIONS; i++)
        if (list[i].id != 0 && list[i].node == event->node && list[i].life == event->life) {
            sim_fired(world, SIM_FAULT_SESSION_TWICE);
            break;
        }
    if (session == NULL)
        return NULL;
    *session = (struct sim_row_session) {
        .id = ++world->store.versions, .node = event->node, .life = event->life, .ttl = event->ttl
    };
    return session;
}

void sim_row_sessions_serve(struct sim_world *world, const struct sim_event *event)
{
    struct sim_event reply = *event;
    struct sim_row_session *session =
        event->op == TN_OP_OPEN ? open_session(world, event) : find(world, event->version);

    reply.kind = SIM_EV_ROW_SESSION_DONE;
    if (event->op == TN_OP_CLOSE) {
        if (session != NULL)
            end_session(world, session);
        return;
    }
    reply.answer = session != NULL ? TN_ROWS_WRITTEN : TN_ROWS_GONE;
    if (session != NULL) {
        session->over_at = end_of(world, session);
        reply.version = session->id;
    } else if (event->op == TN_OP_OPEN) {
        reply.answer = TN_ROWS_FAILED; /* Too many. */
    }
    sim_send(world, &reply);
}

enum tn_rows_outcome sim_row_sessions_refuse(struct sim_world *world, const struct sim_event *event)
{
    const struct sim_row *row = &world->store.rows[event->name];
    uint64_t owner = sim_rows_number(event->row.owner);

    if (!world->config.sessions || !event->row.held)
        return TN_ROWS_WRITTEN;
    if (owner == 0 || find(world, owner) == NULL)
        return TN_ROWS_GONE;
    if (!row->row.held && sim_store_now(world) < world->store.kept_back_until[event->name]) {
        sim_fired(world, SIM_FAULT_LOCK_DELAY);
        return TN_ROWS_DELAYED;
    }
    return TN_ROWS_WRITTEN;
}

static void cut_off(struct sim_world *world, struct sim_node *node)
{
    tenure_ns ttl = world->config.plan.ttl;
    tenure_ns until = world->now + sim_between(world, ttl / 8, ttl);

    node->cut_to_until = until > node->cut_to_until ? until : node->cut_to_until;
    node->cut_from_until = until > node->cut_from_until ? until : node->cut_from_until;
}

bool sim_row_sessions_lose(struct sim_world *world, uint32_t name)
{
    const struct tn_row *row = &world->store.rows[name].row;
    struct sim_row_session *session;

    if (!row->held || !sim_chance(world, TN_PPM * 3 / 4))
        return false;
    session = find(world, sim_rows_number(row->owner));
    if (session == NULL)
        return false;
    sim_trace_other(world, "store", "loses the session of node %u", session->node);
    if (sim_chance(world, TN_PPM * 3 / 4)) /* The agent was its way to the store, too. */
        cut_off(world, &world->nodes[session->node]);
    end_session(world, session);
    sim_fired(world, SIM_FAULT_SESSION_LOST);
    return true;
}
