/* hosts.h - the two-level world: processes on hosts, an agent on each host, one store above them or
 * two, each with names of its own.
 *
 * Half of these worlds have lease tables as stores, which agents can be resumed at. In the others
 * the store is a one-level world (world.h) of any style, whose nodes are the agents: with its
 * network, its faults and its checks, and below each node a table and processes.
 *
 * Private to hosts*.c. */
#ifndef TN_SIM_HOSTS_H
#define TN_SIM_HOSTS_H

#include "core/agent.h"
#include "sim/world.h"

#define HOSTS_MAX 3
#define HOST_PROCESSES 3 /* Per host, at most. */
#define HOST_NAMES 2
#define HOST_STORES 2
#define HOST_PARTIES (HOSTS_MAX * (HOST_STORES + HOST_PROCESSES))
#define HOST_EVENTS 1024
#define HOST_NEWS 64

enum host_event_kind {
    HOST_REQUEST, /* To the store, or to an agent. */
    HOST_REPLY,
    HOST_GRANTED,
    HOST_REVOKED,
    HOST_DEATH, /* To an agent: a process of its host is gone. */
    HOST_TIMER, /* Of a party. */
    HOST_STORE_TIMER,
    HOST_DRAINED, /* A process's work has stopped. */
    HOST_BOOT,
    HOST_FAULT,
    HOST_HEAL,
    HOST_PHASE,
};

/* A message, or what is due. */
struct host_event {
    tenure_ns at;
    uint64_t order;
    enum host_event_kind kind;
    uint32_t party, incarnation; /* Who asks, or who is told. */
    uint32_t identity;           /* Whose secrets it has. */
    uint32_t store;              /* Of STORE_TIMER. */
    uint32_t served_by;          /* The incarnation of the agent that was asked. */
    uint32_t name;
    uint64_t id, life, gen, token;
    struct tn_request request;
    struct tn_response response;
    uint32_t revoked_count;
    struct sim_revoked revoked[TN_TABLE_NOTICES];
};

struct host_world;

/* A candidate: a process, at its agent; or an agent, at a store. An agent is one for each store;
 * they are up, stopped and killed together, and the first stands for the agent. Above a one-level
 * world the candidate is its node's: sim_host_candidate. */
struct host_party {
    struct host_world *hosts;
    struct tn_candidate candidate;
    struct tn_seat seats[HOST_NAMES];
    uint32_t index, host, incarnation;
    uint32_t store;    /* An agent's. */
    uint32_t identity; /* The incarnation that its secrets are of: an earlier one, if resumed. */
    bool up, is_agent;
    tenure_ns stopped_until; /* Real. */
    uint64_t timer_id;
    tenure_ns timer_at; /* Real; 0: none is set. */
    bool told_won[HOST_NAMES];
    uint64_t epoch[HOST_NAMES]; /* As the agent's term that it won. */
    bool draining[HOST_NAMES];  /* The work of its last term is stopping. */
};

struct host_news {
    uint32_t name;
    enum tn_agent_event_kind kind;
    uint64_t token;
};

/* What an agent has beside its claims upstream. */
struct host_agent {
    struct tn_table *table;
    void *block;
    struct tn_agent_name names[HOST_NAMES];
    struct host_news news[HOST_NEWS];
    uint32_t news_count;
    tenure_ns cut_until[HOST_STORES]; /* Real: no way to that store. */
    struct sim_clock clock;
    tenure_ns proven[HOST_STORES];  /* N1: the latest deadline that the agent had upstream. */
    tenure_ns started;              /* On its clock. */
    bool awaited[HOST_STORES];      /* Resumed, and not confirmed yet. */
    uint32_t identity[HOST_STORES]; /* That its secrets are of. */
    struct {                        /* What it knows when it starts again, as runtime/ledger.h. */
        uint64_t life[HOST_STORES], starts, gen[HOST_NAMES], token[HOST_NAMES];
    } ledger;
};

struct host_world {
    struct sim_world *world; /* For time, chance, the trace, and what was violated. */
    struct tn_plan up, local;
    struct tn_claim_config up_claim, local_claim;
    uint32_t host_count, process_count; /* Per host. */
    uint32_t party_count;
    struct sim_world *upstream; /* NULL: lease tables. */
    struct sim_world *kept;     /* The same, or its memory. */
    struct sim_below below;
    tenure_ns delay, fault_every;
    uint32_t drop_ppm;
    uint32_t unread_ppm; /* How often an agent cannot look upstream. */
    bool healed, over;
    uint32_t phase;
    struct host_party parties[HOST_PARTIES];
    struct host_agent agents[HOSTS_MAX];
    uint32_t store_count;
    struct host_store {
        struct tn_table *table;
        void *block;
        struct sim_clock clock;
        tenure_ns stopped_until;
        uint64_t timer_id;
        tenure_ns timer_at;
    } stores[HOST_STORES];
    size_t store_size, agent_size;
    struct { /* N3: who led when a store died. */
        uint32_t party;
        uint64_t token;
    } led[HOST_NAMES];
    uint64_t won[HOST_NAMES];    /* P2: the highest token that a process has led with, */
    uint64_t won_in[HOST_NAMES]; /* and its epoch. */
    uint64_t order;
    struct host_event events[HOST_EVENTS];
    uint32_t event_count;
};

/* hosts.c */
void sim_host_at(struct host_world *hosts, tenure_ns at, const struct host_event *event);
void sim_host_boot(struct host_world *hosts, uint32_t party);
void sim_host_crash(struct host_world *hosts, uint32_t party);
/* An operator's word at a store. */
void sim_host_store_step(struct host_world *hosts, uint32_t store, const struct tn_op *op);
/* The store that has the name. */
uint32_t sim_host_store_of(const struct host_world *hosts, uint32_t name);
/* What the agent of @host is at @store. */
struct host_party *sim_host_arm(struct host_world *hosts, uint32_t host, uint32_t store);
/* The token with which this process may act now, or 0. */
uint64_t sim_host_token(const struct host_world *hosts, uint32_t party, uint32_t name);
tenure_ns sim_host_now(const struct host_world *hosts, const struct host_party *party);
const struct sim_clock *sim_host_clock(const struct host_world *hosts, uint32_t host);
const struct tn_candidate *sim_host_candidate(const struct host_world *hosts,
                                              const struct host_party *party);
/* The token of @party's own term, or 0. */
uint64_t sim_host_won(const struct host_world *hosts, const struct host_party *party,
                      uint32_t name);
/* The one-level world has gone on: its agents deal with what they have heard. */
void sim_host_heard(struct host_world *hosts);
void sim_host_tell(struct host_world *hosts, uint32_t party, const char *what);
/* A process steps down from @name, and campaigns again when its work has stopped. */
void sim_host_resign(struct host_world *hosts, uint32_t party, uint32_t name);

void sim_host_handle(struct host_world *hosts, const struct host_event *event);
/* When the first event is due; and taking it. There is one. */
tenure_ns sim_host_first_at(const struct host_world *hosts);
void sim_host_first(struct host_world *hosts, struct host_event *ret_event);
void sim_host_wish(struct host_world *hosts, struct host_party *party, uint32_t name,
                   enum tn_claim_event_kind what);
struct tn_secret sim_host_secret(uint32_t party, uint32_t incarnation, uint64_t number);
struct tn_op sim_host_op(const struct host_event *event);
void sim_host_reply(struct host_world *hosts, const struct tn_table *table,
                    const struct host_event *event, const struct tn_result *result, tenure_ns ttl);
/* A step of the table of @party's agent. */
void sim_host_agent_step(struct host_world *hosts, const struct host_party *party,
                         const struct tn_op *op, struct tn_result *ret_result);

/* hosts_agent.c */
void sim_host_news(struct host_world *hosts, const struct host_party *party, uint32_t name,
                   enum tn_agent_event_kind kind, uint64_t token);
void sim_host_agent_settle(struct host_world *hosts, struct host_party *party);
/* A process asks its agent; or every life of that process is over. */
void sim_host_agent_serve(struct host_world *hosts, struct host_party *party,
                          const struct host_event *event);
void sim_host_agent_bury(struct host_world *hosts, const struct host_party *party,
                         const struct host_event *event);
/* An agent starts, with what the one before it has kept or without. */
void sim_host_agent_boot(struct host_world *hosts, struct host_party *party);

/* hosts_faults.c */
void sim_host_fault(struct host_world *hosts);
void sim_host_heal(struct host_world *hosts);
/* The next step of the life of this world. */
void sim_host_phase(struct host_world *hosts);

#endif
