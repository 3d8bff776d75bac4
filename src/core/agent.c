/* agent.c - an agent's decisions; agent.h has the contract.
 *
 * Happy path: somebody is in line, the agent campaigns; upstream grants, the table gives the name
 * to the first in line; that session lets go of it, the agent gives the term back. With others in
 * line it campaigns again, so each local term has a token of its own.
 * What can fail: upstream takes the term away first. Then the local holder is told, and only when
 * it has stopped, or its deadline is over, the agent counts as drained. Or the agent dies: the next
 * one takes up the terms that are held locally, and gives back the rest (N2). */
#include "core/agent.h"

#include "base/assert.h"
#include "core/plan.h"
#include "core/plant.h"

tenure_ns tn_agent_ttl(tenure_ns ttl, tenure_ns proven, tenure_ns now)
{
    tenure_ns left = proven > now ? proven - now : 0;

    TN_ASSERT(ttl > 0);
    if (TN_PLANT(AGENT_NOT_NESTED))
        return ttl;
    if (left < TN_TTL_MIN && left < ttl)
        return 0; /* No session can be kept alive with less. */
    return left < ttl ? left : ttl;
}

tenure_ns tn_agent_allowed(const struct tn_table *table, tenure_ns now)
{
    struct tn_session_view view;
    tenure_ns most = 0;

    if (TN_PLANT(AGENT_UNTOLD))
        return 0;
    for (uint32_t i = 0; (i = tn_table_next_session(table, i)) != 0;) {
        tn_table_session(table, i, &view);
        if (view.ttl > most)
            most = view.ttl;
    }
    return now + most;
}

/* The upstream's term ends by the agent's own wish; nobody here may lead with it any more. */
static enum tn_agent_act let_go(struct tn_agent_name *name, const struct tn_agent_local *local)
{
    TN_ASSERT(!local->held || TN_PLANT(AGENT_GIVES_BACK));
    name->token = 0;
    name->stage = local->wanted ? TN_AGENT_WAITING : TN_AGENT_IDLE;
    return local->wanted ? TN_AGENT_GIVE_BACK : TN_AGENT_LEAVE;
}

static enum tn_agent_act look(struct tn_agent_name *name, const struct tn_agent_local *local)
{
    switch (name->stage) {
    case TN_AGENT_IDLE:
        if (!local->wanted || local->held)
            return TN_AGENT_NOTHING;
        name->stage = TN_AGENT_WAITING;
        return TN_AGENT_CAMPAIGN;
    case TN_AGENT_WAITING:
        if (local->wanted)
            return TN_AGENT_NOTHING;
        name->stage = TN_AGENT_IDLE;
        return TN_AGENT_LEAVE;
    case TN_AGENT_WON: /* The table did not take it: nobody was left in line. */
    case TN_AGENT_IN_USE:
    case TN_AGENT_RECALLED:
    case TN_AGENT_RESUMING:
        break;
    }
    if (TN_PLANT(AGENT_GIVES_BACK) && name->stage == TN_AGENT_RECALLED)
        return let_go(name, local);
    return local->held ? TN_AGENT_NOTHING : let_go(name, local);
}

static enum tn_agent_act won(struct tn_agent_name *name, uint64_t token,
                             const struct tn_agent_local *local)
{
    TN_ASSERT(token > 0);
    if (name->stage == TN_AGENT_RESUMING) {
        TN_ASSERT(token == name->token);
        name->stage = TN_AGENT_IN_USE;
        return look(name, local);
    }
    TN_ASSERT(name->stage == TN_AGENT_WAITING);
    name->stage = TN_AGENT_WON;
    name->token = token;
    return TN_AGENT_GRANT;
}

static enum tn_agent_act lost(struct tn_agent_name *name, const struct tn_agent_local *local)
{
    if (name->stage != TN_AGENT_IN_USE && name->stage != TN_AGENT_RESUMING)
        return look(name, local);
    if (TN_PLANT(AGENT_LOST_IGNORED))
        return TN_AGENT_NOTHING;
    name->stage = TN_AGENT_RECALLED;
    return local->held ? TN_AGENT_RECALL : let_go(name, local);
}

/* N2: what a local session may be at work with is taken up as it is, or ended there. What nobody
 * has is given back, or it would be kept for ever: this agent renews the session it belongs to. */
static enum tn_agent_act resume(struct tn_agent_name *name, uint64_t token,
                                const struct tn_agent_local *local)
{
    TN_ASSERT(name->stage == TN_AGENT_IDLE);
    if (!local->held || TN_PLANT(AGENT_FORGETS))
        return TN_AGENT_LEAVE;
    if (token == 0)
        return TN_AGENT_RECALL;
    name->stage = TN_AGENT_RESUMING;
    name->token = token;
    return TN_AGENT_TAKE_UP;
}

enum tn_agent_act tn_agent_next(struct tn_agent_name *name, enum tn_agent_event_kind event,
                                uint64_t token, const struct tn_agent_local *local)
{
    switch (event) {
    case TN_AGENT_EV_WON:
        return won(name, token, local);
    case TN_AGENT_EV_GRANTED:
        if (name->stage == TN_AGENT_WON) /* Otherwise it was let go of again by now. */
            name->stage = TN_AGENT_IN_USE;
        return look(name, local);
    case TN_AGENT_EV_LOST:
        return lost(name, local);
    case TN_AGENT_EV_RESUME:
        return resume(name, token, local);
    case TN_AGENT_EV_LOOK:
        break;
    }
    return look(name, local);
}
