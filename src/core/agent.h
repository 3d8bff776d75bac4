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
 * With several upstreams each has the names below its prefix, and the agent has a session and a
 * deadline in each. An answer is bound by those whose names the session holds. N3: an upstream
 * that is about to run out is counted out: the answer that it no longer binds recalls the names
 * that the session has there.
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
    TN_AGENT_IDLE,      /* Nothing. */
    TN_AGENT_WAITING,   /* It is campaigned for. */
    TN_AGENT_WON,       /* Upstream has granted it; the table is about to hear of it. */
    TN_AGENT_HELD_BACK, /* The same, when that upstream's deadline lies behind the one that the
                           first in line may have. */
    TN_AGENT_IN_USE,    /* A local session has it. */
    TN_AGENT_RECALLED,  /* Upstream's term is over or asked to end; a local session may have it. */
    TN_AGENT_RESUMING,  /* A local session has it since before the agent was started again;
                          upstream has not confirmed that the term goes on. */
};

struct tn_agent_name {
    enum tn_agent_stage stage;
    uint64_t token; /* WON, HELD_BACK, IN_USE, RECALLED, RESUMING. */
};

enum tn_agent_event_kind {
    TN_AGENT_EV_LOOK,    /* The table has changed. */
    TN_AGENT_EV_WON,     /* The claim upstream was granted @token. */
    TN_AGENT_EV_GRANTED, /* The table has given it to a session. */
    TN_AGENT_EV_LOST,    /* The claim's term is over, or is asked to end. */
    TN_AGENT_EV_SHORT,   /* Its upstream is counted out for the session that has it. */
    TN_AGENT_EV_RESUME,  /* The agent was started again. The one before it has had @token upstream;
                            0: upstream has nothing of what the table has. */
};

/* The name as the table has it. */
struct tn_agent_local {
    bool held;   /* By a session, revoked or not. */
    bool wanted; /* Somebody is in line. */
    bool beyond; /* The first in line may be valid beyond the upstream's deadline. */
};

enum tn_agent_act {
    TN_AGENT_NOTHING,
    TN_AGENT_CAMPAIGN,  /* Campaign upstream. */
    TN_AGENT_GRANT,     /* Step the table with GRANT, then EV_GRANTED or EV_LOOK. */
    TN_AGENT_RECALL,    /* Step the table with REVOKE until tn_table_allowed. */
    TN_AGENT_GIVE_BACK, /* Local work has stopped: end the term upstream, and campaign again. */
    TN_AGENT_LEAVE,     /* The same, or give up the place in line; and do not campaign again. */
    TN_AGENT_TAKE_UP,   /* Go on with the term that the agent before this one had upstream. */
};

/* Take one event. Returns what to do about it; then take EV_LOOK when that changed the table. */
enum tn_agent_act tn_agent_next(struct tn_agent_name *name, enum tn_agent_event_kind event,
                                uint64_t token, const struct tn_agent_local *local);

/* What is there of one upstream for the local session that asks. */
struct tn_agent_reach {
    tenure_ns left;    /* Until the agent's deadline there; 0: it is over, or not confirmed. */
    tenure_ns span;    /* What a renewal there proves: while all is well, more than half is left. */
    tenure_ns awaited; /* Not confirmed since the agent started, so long ago; 0: it was. */
    bool used;         /* The session holds a name of it that is not recalled. */
};

/* Until @proven, the agent's deadline upstream. @now was read after the request had arrived,
 * @proven before the agent heard the news that the answer is to tell. */
tenure_ns tn_agent_left(tenure_ns proven, tenure_ns now);

/* N3: whether upstream @index of @list no longer counts for a session of @ttl: it must not take
 * along what the session has of others. Then send EV_SHORT to each of its names that the session
 * holds, before the table renews the session, and drop @used. */
bool tn_agent_counts_out(const struct tn_agent_reach *list, uint32_t count, uint32_t index,
                         tenure_ns ttl);

/* The TTL for an answer to a local session that asked for @ttl: no longer than what is left of the
 * upstreams whose names it holds, and of all that are well, so that each of them may grant it a
 * name. Zero: too little is left to promise anything. With one upstream: what is left there. */
tenure_ns tn_agent_ttl(const struct tn_agent_reach *list, uint32_t count, tenure_ns ttl);

/* The name as @table has it. @proven: the deadline of its upstream, which must not end before the
 * session that would get the name; TN_NEVER with one upstream, where each answer sees to that. */
struct tn_agent_local tn_agent_local_of(const struct tn_table *table, const char *name,
                                        uint32_t len, tenure_ns proven, tenure_ns now);

/* Which of @count prefixes has @name: the longest, by whole segments. "" is one that has them all.
 * TN_AGENT_NOWHERE: none. */
#define TN_AGENT_NOWHERE UINT32_MAX
uint32_t tn_agent_route(const char *const *prefixes, uint32_t count, const char *name,
                        uint32_t len);

#endif
