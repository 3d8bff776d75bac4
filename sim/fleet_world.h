/* fleet_world.h - the inside of a fleet; private to fleet*.c. */
#ifndef TN_SIM_FLEET_WORLD_H
#define TN_SIM_FLEET_WORLD_H

#include "core/agent.h"
#include "sim/fleet.h"
#include "sim/world.h"

enum fleet_due_kind { FLEET_MESSAGE, FLEET_TIMER, FLEET_STORE_TIMER, FLEET_BOOT, FLEET_CRASH };

/* What is to happen; the queue is a heap of these. */
struct fleet_due {
    tenure_ns at;
    uint64_t order;
    enum fleet_due_kind kind;
    uint32_t index; /* Of the message or the party. */
    uint64_t timer; /* Its number. */
};

enum fleet_message_kind {
    FLEET_REQUEST, /* To the store, or to an agent. */
    FLEET_REPLY,
    FLEET_GRANTED,
    FLEET_REVOKED,
    FLEET_DEATH, /* To an agent: a process of its host is gone. */
};

struct fleet_message {
    enum fleet_message_kind kind;
    uint32_t party, incarnation; /* Who asks, or who is told. */
    uint32_t name;
    uint64_t life, gen, token;
    struct tn_request request;
    struct tn_response response;
    uint32_t revoked_count;
    struct sim_revoked revoked[TN_TABLE_NOTICES];
};

struct fleet;

/* A candidate: a process, at its agent or at the store; or an agent, at the store. */
struct fleet_party {
    struct fleet *fleet;
    struct tn_candidate candidate;
    struct tn_seat *seats; /* A process has one, an agent one for each process of its host. */
    uint32_t host, incarnation;
    bool is_agent, up;
    bool leads;                  /* A process was told that it does. */
    bool stopping;               /* And that it must not any more. */
    tenure_ns timer_at;          /* Real; TN_NEVER: none is set. */
    uint64_t timer;              /* The number of the newest. */
    tenure_ns asked_at, told_at; /* When what it sent or was sent last arrives: in turn. */
};

struct fleet_news {
    uint32_t seat;
    enum tn_agent_event_kind kind;
    uint64_t token;
};

struct fleet_host {
    struct sim_clock clock;
    struct tn_table *table; /* The agent's; NULL: there is none. */
    struct tn_agent_name *names;
    tenure_ns proven; /* N1: the latest deadline that the agent had at the store. */
};

struct fleet_name {
    uint64_t token;    /* P2: the highest with which a process has led. */
    tenure_ns dead_at; /* When its leader was killed; 0: it lives. */
};

struct fleet {
    struct sim_fleet_config config;
    struct sim_fleet_result *result;
    struct tn_plan plan, agent_plan;
    struct tn_claim_config claim, agent_claim;
    struct tn_prng prng;
    tenure_ns now;
    uint32_t party_count, name_count;
    struct fleet_party *parties; /* The agents first. */
    struct fleet_host *hosts;
    struct fleet_name *names;
    struct tn_seat *seats;
    struct tn_agent_name *agent_names;
    struct tn_table *store;
    struct sim_clock store_clock;
    tenure_ns store_timer_at;
    uint64_t store_timer;
    /* The queue. */
    struct fleet_due *dues;
    uint32_t due_count, due_room;
    uint64_t order;
    struct fleet_message *messages;
    uint32_t *spare; /* Messages that are free. */
    uint32_t message_room, spare_count;
    /* What an agent has heard and not dealt with yet; empty between two events. */
    struct fleet_news *news;
    uint32_t news_count, news_room;
    tenure_ns *samples; /* Of failovers. */
    uint32_t sample_count, sample_room;
    /* Where requests are counted at present. */
    struct sim_fleet_load *store_load, *local_load, uncounted;
    uint64_t second, in_second;
    uint32_t unled, dead; /* Names that nobody has led yet; whose leader was killed. */
    bool crashing;
    bool no_memory;
    char name_text[16];
};

/* fleet.c */
/* The name of @host's process number @index, and the other way round. */
uint32_t sim_fleet_name(const struct fleet *fleet, uint32_t host, uint32_t index);
uint32_t sim_fleet_index(const struct fleet *fleet, uint32_t host, uint32_t name);
/* As the tables know it; good until the next call. */
const char *sim_fleet_text(struct fleet *fleet, uint32_t name);
struct fleet_party *sim_fleet_process(struct fleet *fleet, uint32_t host, uint32_t index);
tenure_ns sim_fleet_now(const struct fleet *fleet, const struct fleet_party *party);
/* @array with room for one more of @size bytes; NULL: there is no memory, and it is as before. */
void *sim_fleet_grow(struct fleet *fleet, void *array, uint32_t count, uint32_t *room, size_t size);
void sim_fleet_at(struct fleet *fleet, tenure_ns at, enum fleet_due_kind kind, uint32_t index,
                  uint64_t timer);
struct tn_secret sim_fleet_secret(uint32_t party, uint32_t incarnation, uint64_t number);
struct tn_op sim_fleet_op(struct fleet *fleet, const struct fleet_message *message);
void sim_fleet_send(struct fleet *fleet, const struct fleet_message *message);
/* The answer of @table to @message, a request. */
void sim_fleet_reply(struct fleet *fleet, const struct tn_table *table,
                     const struct fleet_message *message, const struct tn_result *result,
                     tenure_ns ttl);
/* What a step has told: pushes, and news for the agent of @host, NULL at the store. @asked: the
 * reply tells of revocations. */
void sim_fleet_pass_on(struct fleet *fleet, const struct tn_table *table,
                       const struct fleet_host *host, const struct tn_result *result, bool asked);
void sim_fleet_count(struct fleet *fleet, struct sim_fleet_load *load, enum tn_op_kind kind);
void sim_fleet_broken(struct fleet *fleet, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* All that is due up to @until. False: a promise is broken, or there is no memory. */
bool sim_fleet_to(struct fleet *fleet, tenure_ns until);

/* fleet_agent.c */
void sim_fleet_news(struct fleet *fleet, uint32_t seat, enum tn_agent_event_kind kind,
                    uint64_t token);
void sim_fleet_settle(struct fleet *fleet, struct fleet_party *agent);
void sim_fleet_tick_agent(struct fleet *fleet, struct fleet_party *agent);
/* A process asks its agent; or is gone. */
void sim_fleet_serve(struct fleet *fleet, struct fleet_party *agent,
                     const struct fleet_message *message);
void sim_fleet_bury(struct fleet *fleet, struct fleet_party *agent,
                    const struct fleet_message *message);

/* fleet_life.c */
void sim_fleet_boot(struct fleet *fleet, struct fleet_party *party);
void sim_fleet_crash(struct fleet *fleet);
/* What candidates are given (struct tn_candidate_host). */
extern const struct tn_candidate_host sim_fleet_candidate;
/* Behind every event of a party. */
void sim_fleet_after(struct fleet *fleet, struct fleet_party *party);

#endif
