/* agent.h - what an agent decides: how long a local term may live, and what it does upstream about
 * each name.
 *
 * An agent stands between the processes of one host and the store that has the truth, its upstream.
 * Upstream it is one session, whatever the number of local processes. Locally it is a lease table
 * that grants nothing by itself (tn_table_limits.upstream).
 *
 *   local process --- lease table --- tn_agent_next --- claim on the upstream's name
 *                     line, holder       decides        won, lost
 *
 * N1: an agent's answer to OPEN and RENEW promises no more than what is left of its own deadline
 * upstream. So a local term always ends before the upstream's.
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_AGENT_H
#define TN_CORE_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "core/lease_table.h"

/* Of an agent's session upstream, unless somebody says otherwise. */
#define TN_AGENT_TTL TN_SEC(30)

/* What one name is upstream. */
enum tn_agent_stage {
    TN_AGENT_IDLE,     /* Nothing. */
    TN_AGENT_WAITING,  /* It is campaigned for. */
    TN_AGENT_WON,      /* Upstream has granted it; the table is about to hear of it. */
    TN_AGENT_IN_USE,   /* A local session has it. */
    TN_AGENT_RECALLED, /* Upstream's term is over or asked to end; a local session may have it. */
    TN_AGENT_RESUMING, /* A local session has it since before the agent was started again;
                          upstream has not confirmed that the term goes on. */
};

struct tn_agent_name {
    enum tn_agent_stage stage;
    uint64_t token; /* WON, IN_USE, RECALLED, RESUMING. */
};

enum tn_agent_event_kind {
    TN_AGENT_EV_LOOK,    /* The table has changed. */
    TN_AGENT_EV_WON,     /* The claim upstream was granted @token. */
    TN_AGENT_EV_GRANTED, /* The table has given it to a session. */
    TN_AGENT_EV_LOST,    /* The claim's term is over, or is asked to end. */
    TN_AGENT_EV_RESUME,  /* The agent was started again. The one before it has had @token upstream;
                            0: upstream has nothing of what the table has. */
};

/* The name as the table has it. */
struct tn_agent_local {
    bool held;   /* By a session, revoked or not. */
    bool wanted; /* Somebody is in line. */
};

enum tn_agent_act {
    TN_AGENT_NOTHING,
    TN_AGENT_CAMPAIGN,  /* Campaign upstream. */
    TN_AGENT_GRANT,     /* Step the table with GRANT, then EV_GRANTED or EV_LOOK. */
    TN_AGENT_RECALL,    /* Step the table with REVOKE until the latest deadline allowed so far. */
    TN_AGENT_GIVE_BACK, /* Local work has stopped: end the term upstream, and campaign again. */
    TN_AGENT_LEAVE,     /* The same, or give up the place in line; and do not campaign again. */
    TN_AGENT_TAKE_UP,   /* Go on with the term that the agent before this one had upstream. */
};

/* Take one event. Returns what to do about it; then take EV_LOOK when that changed the table. */
enum tn_agent_act tn_agent_next(struct tn_agent_name *name, enum tn_agent_event_kind event,
                                uint64_t token, const struct tn_agent_local *local);

/* The TTL for an answer to a local session that asked for @ttl: no longer than what is left at @now
 * until @proven, the agent's deadline upstream. Zero: too little is left to promise anything.
 * @now was read after the request had arrived, @proven before the agent heard the news that the
 * answer is to tell. */
tenure_ns tn_agent_ttl(tenure_ns ttl, tenure_ns proven, tenure_ns now);

/* N2: the latest deadline that the agent before this one can have allowed to a session of @table,
 * whatever it was upstream: no answer allowed more than a session's own TTL. When this one starts,
 * before it recalls anything. */
tenure_ns tn_agent_allowed(const struct tn_table *table, tenure_ns now);

#endif
