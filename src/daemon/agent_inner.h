/* agent_inner.h - what the files of the agent share.
 *
 * Private to src/daemon/agent*.c. */
#ifndef TN_DAEMON_AGENT_INNER_H
#define TN_DAEMON_AGENT_INNER_H

#include "core/agent.h"
#include "daemon/server.h"
#include "lib/agent.h"

/* One store above, and the agent's session there. */
struct tn_upstream {
    struct tn_agent *agent;
    const char *prefix; /* Of the names that it has; "": of all that no other has. */
    struct tenure *tenure;
    uv_poll_t poll;
    bool polled;
    bool awaited;               /* An earlier agent's session, not confirmed yet. */
    tenure_ns proven, span;     /* The deadline as it was looked at last; what a renewal proves. */
    uint32_t name_count, looks; /* All; observed only. */
    bool left_open;
    uint64_t campaigns, won, recalled, given_back, unpromised, resumed, counted_out;
};

/* A name, as long as somebody here has to do with it. */
struct tn_agents_name {
    struct tn_map_node node; /* First; by name. */
    struct tn_agent *agent;
    struct tn_upstream *up; /* NULL: no upstream has it any more. */
    struct tn_agent_name core;
    struct tenure_election *campaign; /* NULL: there is none, and then perhaps */
    struct tenure_election *observer; /* this one. */
    struct tenure_election *past;     /* What the agent before this one asked for, given back. */
    tenure_ns asked_at;
    bool known; /* What is on record upstream: */
    bool held;
    bool mine;
    uint64_t token;
    uint64_t over; /* The last token that the agent gave back; what shows it is old. */
    struct tn_agents_name *next, **prev; /* Of all. */
    uint32_t label_len, len;
    char label[TENURE_ID_MAX + 1];
    char text[TN_NAME_MAX + 1];
};

struct tn_agent {
    struct tn_server *server;
    struct tn_upstream ups[TN_UPSTREAMS_MAX];
    const char *prefixes[TN_UPSTREAMS_MAX];
    uint32_t up_count;
    tenure_ns started;
    bool ending; /* The daemon is. */
    struct tn_map_node *names[TN_BUCKETS];
    struct tn_agents_name *all;
};

/* agent.c */
/* The upstream that has the name; NULL: none. */
struct tn_upstream *tn_agent_upstream_of(struct tn_agent *agent, const char *name, uint32_t len);
/* NULL: no memory. */
struct tn_agents_name *tn_agent_get(struct tn_agent *agent, const char *name, uint32_t len);
void tn_agent_hear(struct tn_agents_name *name, enum tn_agent_event_kind kind, uint64_t token);
struct tenure_campaign tn_agent_how_to(struct tn_agents_name *name);
/* "upstream", and which one if there are several. */
void tn_agent_add_name(const struct tn_upstream *up, struct tn_text *text);

#endif
