/* agent_promise.c - what an agent answers to OPEN and RENEW: N1, N3. core/agent.c decides.
 *
 * Happy path: each upstream confirms the agent every few seconds, and a local session gets the TTL
 * that it asked for. What can fail: one of several upstreams. Then what is left there bounds only
 * sessions that hold its names, and before it would cost them their other names, those are recalled
 * with the answer to a renewal. */
#include "daemon/agent_inner.h"

/* The names that the session has are many perhaps, but with one upstream it does not matter. */
static void mark_used(struct tn_agent *agent, uint32_t session, struct tn_agent_reach *list)
{
    const struct tn_table *table = agent->server->state.table;
    struct tn_lease_view view;

    if (agent->up_count == 1 || session == 0)
        return;
    for (uint32_t lease = 0; (lease = tn_table_next_held(table, session, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        const struct tn_upstream *up = tn_agent_upstream_of(agent, view.name, view.name_len);
        if (up != NULL && !view.revoked)
            list[up - agent->ups].used = true;
    }
}

/* Recall what @secret's session has of that upstream. A step may change its list of leases. */
static void count_out(struct tn_upstream *up, const struct tn_secret *secret)
{
    struct tn_agent *agent = up->agent;
    const struct tn_table *table = agent->server->state.table;
    uint32_t session = tn_table_session_of(table, secret);
    uint32_t lease = session != 0 ? tn_table_next_held(table, session, 0) : 0;
    struct tn_lease_view view;

    while (lease != 0) {
        uint32_t next = tn_table_next_held(table, session, lease);
        tn_table_lease(table, lease, &view);
        if (!view.revoked && tn_agent_upstream_of(agent, view.name, view.name_len) == up) {
            struct tn_agents_name *name = tn_agent_get(agent, view.name, view.name_len);
            if (name != NULL)
                tn_agent_hear(name, TN_AGENT_EV_SHORT, 0);
            if (tn_table_session_of(table, secret) != session)
                return;
        }
        if (next != 0)
            tn_table_lease(table, next, &view);
        if (next != 0 && (view.session == NULL || !tn_secret_equal(view.session, secret)))
            next = tn_table_next_held(table, session, 0); /* What was recalled is passed over. */
        lease = next;
    }
}

static void look_at(struct tn_upstream *up, tenure_ns now, struct tn_agent_reach *ret_reach)
{
    tenure_ns proven = tn_lib_deadline(up->tenure);

    if (proven != up->proven && proven != 0) {
        up->span = tn_lib_span(up->tenure);
        up->awaited = false;
    }
    up->proven = proven;
    *ret_reach = (struct tn_agent_reach) {
        .left = tn_agent_left(proven, now),
        .span = up->span,
        .awaited = up->awaited ? now - up->agent->started + 1 : 0,
    };
}

void tn_agent_listen(struct tn_server *server, const struct tn_op *op,
                     struct tn_agent_bounds *ret_bounds)
{
    struct tn_agent *agent = server->agent;
    struct tn_agent_reach *list = ret_bounds->list;
    struct tn_session_view view = { .ttl = op->ttl };

    if (agent == NULL)
        return;
    /* In this order: an extension that is seen here came behind the news that go with it. */
    for (uint32_t i = 0; i < agent->up_count; i++)
        look_at(&agent->ups[i], server->now, &list[i]);
    for (uint32_t i = 0; i < agent->up_count; i++)
        (void)tenure_dispatch(agent->ups[i].tenure);
    if (agent->up_count == 1)
        return;
    uint32_t session = tn_table_session_of(server->state.table, &op->session);
    if (session == 0)
        return;
    tn_table_session(server->state.table, session, &view);
    mark_used(agent, session, list);
    bool out[TN_UPSTREAMS_MAX];
    for (uint32_t i = 0; i < agent->up_count; i++)
        out[i] = tn_agent_counts_out(list, agent->up_count, i, view.ttl);
    for (uint32_t i = 0; i < agent->up_count; i++) {
        if (!out[i])
            continue;
        count_out(&agent->ups[i], &op->session);
        list[i].used = false;
    }
}

/* Why nothing can be promised: of what the session has, what is over first. */
static struct tn_upstream *to_blame(struct tn_agent *agent, const struct tn_agent_reach *list)
{
    uint32_t worst = 0;

    for (uint32_t i = 1; i < agent->up_count; i++)
        if (list[i].used != list[worst].used ? list[i].used : list[i].left < list[worst].left)
            worst = i;
    return &agent->ups[worst];
}

bool tn_agent_promise(struct tn_call *call, const struct tn_op *op,
                      const struct tn_agent_bounds *bounds, tenure_ns *ttl)
{
    struct tn_server *server = call->server;
    struct tn_agent *agent = server->agent;
    uint32_t session;
    char of[300];
    struct tn_text text;
    struct tenure_error error;

    if (agent == NULL)
        return true;
    *ttl = tn_agent_ttl(bounds->list, agent->up_count, *ttl);
    *ttl -= *ttl % TN_MS(1);
    if (*ttl > 0) {
        session = tn_table_session_of(server->state.table, &op->session);
        if (session != 0)
            tn_table_allow(server->state.table, session, server->now + *ttl);
        return true;
    }
    struct tn_upstream *up = to_blame(agent, bounds->list);
    up->unpromised++;
    tn_text_init(&text, of, sizeof of);
    tn_agent_add_name(up, &text);
    if (tenure_health(up->tenure, &error) != 0)
        tn_reply_error(call, "UNAVAILABLE %s: %.300s", of, error.text);
    else if (agent->up_count > 1)
        tn_reply_error(call,
                       "UNAVAILABLE the agent's own session in %s is not confirmed; ask again", of);
    else
        tn_reply_error(call, "UNAVAILABLE the agent's own session upstream is not confirmed; ask "
                             "again");
    return false;
}
