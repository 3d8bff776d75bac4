/* agent.c - an agent's decisions; agent.h has the contract.
 *
 * Happy path: somebody is in line, the agent campaigns; upstream grants, the table gives the name
 * to the first in line; that session lets go of it, the agent gives the term back. With others in
 * line it campaigns again, so each local term has a token of its own.
 * What can fail: upstream takes the term away first. Then the local holder is told, and only when
 * it has stopped, or its deadline is over, the agent counts as drained. Or the agent dies: the next
 * one takes up the terms that are held locally, and gives back the rest (N2). Or one of several
 * upstreams dies: each session that holds names there and elsewhere gives those names up in time to
 * keep the others (N3); one that holds none of them notices nothing. */
#include "core/agent.h"

#include "base/assert.h"
#include "core/plan.h"
#include "core/plant.h"

/* --- What a renewal promises ------------------------------------------------------------------ */

tenure_ns tn_agent_left(tenure_ns proven, tenure_ns now)
{
    return proven > now ? proven - now : 0;
}

static tenure_ns most(tenure_ns a, tenure_ns b)
{
    return a > b ? a : b;
}

static tenure_ns least(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

static tenure_ns most_left(const struct tn_agent_reach *list, uint32_t count)
{
    tenure_ns left = 0;

    for (uint32_t i = 0; i < count; i++)
        left = most(left, list[i].left);
    return left;
}

/* With no names elsewhere, the session goes on to the end. Otherwise it must renew in time, so it
 * leaves while it has a third of its TTL, unless that upstream never had so much to give. */
static tenure_ns goes_on_with(const struct tn_agent_reach *list, uint32_t count, uint32_t index,
                              tenure_ns ttl)
{
    bool elsewhere = false;

    for (uint32_t i = 0; i < count; i++)
        elsewhere = elsewhere || (i != index && list[i].used);
    return elsewhere ? most(TN_TTL_MIN, least(list[index].span / 4, ttl / 3)) : TN_TTL_MIN;
}

bool tn_agent_counts_out(const struct tn_agent_reach *list, uint32_t count, uint32_t index,
                         tenure_ns ttl)
{
    const struct tn_agent_reach *one = &list[index];
    tenure_ns best = most_left(list, count);

    if (!one->used || one->left >= best || best < TN_TTL_MIN || TN_PLANT(AGENT_DRAGS_ALL))
        return false; /* Nothing would be better without it. */
    if (one->awaited > 0 && one->awaited < ttl / 5)
        return false; /* Its terms go on if it answers soon; until then nothing is promised. */
    return one->left < goes_on_with(list, count, index, ttl);
}

/* Whoever has none of its names is bound by it only while it is well. */
static bool is_well(const struct tn_agent_reach *one)
{
    return one->left >= TN_TTL_MIN && one->left >= one->span / 2;
}

tenure_ns tn_agent_ttl(const struct tn_agent_reach *list, uint32_t count, tenure_ns ttl)
{
    tenure_ns left = TN_NEVER;

    TN_ASSERT(ttl > 0);
    if (TN_PLANT(AGENT_NOT_NESTED))
        return ttl;
    if (TN_PLANT(AGENT_ONE_DEADLINE))
        count = 1;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].used || is_well(&list[i]))
            left = least(left, list[i].left);
    if (left == TN_NEVER)
        left = most_left(list, count);
    if (left < TN_TTL_MIN && left < ttl)
        return 0; /* No session can be kept alive with less. */
    return least(left, ttl);
}

struct tn_agent_local tn_agent_local_of(const struct tn_table *table, const char *name,
                                        uint32_t len, tenure_ns proven, tenure_ns now)
{
    uint32_t lease = tn_table_lease_of(table, name, len);
    uint32_t place = 0, session;
    struct tn_agent_local local = { 0 };
    struct tn_lease_view view;
    struct tn_session_view first;

    if (lease == 0)
        return local;
    tn_table_lease(table, lease, &view);
    local.held = view.session != NULL;
    while ((place = tn_table_next_waiter(table, lease, place, &session)) != 0) {
        local.wanted = true;
        if (proven == TN_NEVER || TN_PLANT(AGENT_GRANTS_EARLY))
            break;
        tn_table_session(table, session, &first);
        local.beyond = first.allowed > proven;
        if (!first.closed && first.expires_at > now)
            break; /* The others are passed over. */
    }
    return local;
}

/* --- Which upstream --------------------------------------------------------------------------- */

uint32_t tn_agent_route(const char *const *prefixes, uint32_t count, const char *name, uint32_t len)
{
    uint32_t found = TN_AGENT_NOWHERE;
    size_t longest = 0;

    for (uint32_t i = 0; i < count; i++) {
        size_t at = 0; /* Each prefix but the empty one ends with the "/" of a segment. */
        while (prefixes[i][at] != 0 && at < len && prefixes[i][at] == name[at])
            at++;
        if (prefixes[i][at] == 0 && at < len && (found == TN_AGENT_NOWHERE || at > longest)) {
            found = i;
            longest = at;
        }
    }
    return found;
}

/* --- What becomes of a name ------------------------------------------------------------------- */

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
    case TN_AGENT_HELD_BACK:
        if (!local->wanted)
            break;
        if (!local->beyond)
            name->stage = TN_AGENT_WON;
        return local->beyond ? TN_AGENT_NOTHING : TN_AGENT_GRANT;
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
    if (name->stage == TN_AGENT_RECALLED && token == name->token)
        return look(name, local); /* It was counted out before it was confirmed. */
    TN_ASSERT(name->stage == TN_AGENT_WAITING);
    name->stage = local->wanted && local->beyond ? TN_AGENT_HELD_BACK : TN_AGENT_WON;
    name->token = token;
    return name->stage == TN_AGENT_WON ? TN_AGENT_GRANT : TN_AGENT_NOTHING;
}

static enum tn_agent_act lost(struct tn_agent_name *name, const struct tn_agent_local *local)
{
    if (name->stage == TN_AGENT_HELD_BACK)
        return let_go(name, local);
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
    case TN_AGENT_EV_SHORT: /* As if that upstream had taken it away. */
        return TN_PLANT(AGENT_COUNTED_LATE) ? TN_AGENT_NOTHING : lost(name, local);
    case TN_AGENT_EV_RESUME:
        return resume(name, token, local);
    case TN_AGENT_EV_LOOK:
        break;
    }
    return look(name, local);
}
