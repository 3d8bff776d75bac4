/* private.h - one store made of several of redis:, for store.c, votes.c, watches.c and list.c.
 *
 * core/votes.h decides what the servers' answers mean. Each server is a whole store of redis:; here
 * its recipe's questions become requests to them.
 *
 *   store.c    the store's life, and requests in
 *   votes.c    questions out, answers back: the host of the recipe
 *   watches.c  who leads a name that is watched
 *   list.c     all names, as a majority has them */
#ifndef TN_STORES_REDLOCK_PRIVATE_H
#define TN_STORES_REDLOCK_PRIVATE_H

#include "core/votes.h"
#include "stores/redis/private.h"

struct tn_rl_store;

struct tn_rl_node {
    struct tn_rl_store *store;
    struct tn_store *redis;
    unsigned number;
};

/* In the recipe's list, not in the frame's: one that is over there makes room for the next. */
struct tn_rl_session {
    struct tn_votes_session base; /* First. */
    struct tn_secret secret;
    uint32_t label_len;
    char label[TN_LABEL_MAX + 1];
};

enum tn_rl_reading {
    TN_RL_AT_REST,
    TN_RL_DUE, /* To be read, when fewer reads are under way. */
    TN_RL_READING,
    TN_RL_READING_OLD, /* It has changed since: once more after that. */
    TN_RL_RESTING,     /* The last read left it open; once more at @due_at, or when it changes. */
};

struct tn_rl_claim;

struct tn_rl_name {
    struct tn_store_name base;
    struct tn_rl_store *store;
    struct tn_rl_claim *claims;
    /* Of one that is watched; the read is a use of it, from when it is due until it has ended. */
    struct tn_store_req read;
    struct tn_rl_name *due_next; /* DUE, RESTING: in that list. */
    tenure_ns due_at, rest;
    bool unsure; /* What the read has shown. */
    enum tn_rl_reading reading;
};

struct tn_rl_claim {
    struct tn_votes_claim base; /* First. */
    struct tn_rl_claim *next;   /* Of its name. */
    struct tn_rl_name *name;
    struct tn_secret term;
};

struct tn_rl_round;

/* What one server is asked in a round. */
struct tn_rl_vote {
    struct tn_rd_req req; /* First. */
    struct tn_rl_round *round;
};

struct tn_rl_round {
    struct tn_votes_round base; /* First. */
    struct tn_rl_store *store;
    struct tn_op op;
    char name[TN_NAME_MAX + 1];
    char label[TN_LABEL_MAX + 1];
    struct tn_rl_vote votes[]; /* By server. */
};

struct tn_rl_store {
    struct tn_store base;
    struct tn_votes votes;
    struct tn_rd_url url;
    struct tn_rl_node nodes[TN_ENDPOINTS_MAX];
    unsigned count;
    uv_timer_t timer;
    unsigned open_nodes; /* That are not closed yet. */
    struct tn_rl_name *due, **due_end, *resting;
    unsigned reads;
};

/* --- votes.c --- */
void tn_rl_votes_init(struct tn_rl_store *store);
void tn_rl_submit(struct tn_store *base, struct tn_store_req *req);
tenure_ns tn_rl_now(const struct tn_rl_store *store);
/* News of a server. */
void tn_rl_hear_vote(struct tn_rl_store *store, unsigned server, const char *name,
                     const struct tn_secret *term_hash, uint64_t token);
void tn_rl_hear_revoked(struct tn_rl_store *store, const char *name);
void tn_rl_votes_done(struct tn_rl_store *store);

/* --- watches.c --- */
int tn_rl_watched(struct tn_store *base, struct tn_store_name *name, bool on);
bool tn_rl_is_watch(const struct tn_store_req *req);
/* Its read has shown votes that are no majority's. */
void tn_rl_watch_unsure(struct tn_store_req *req);
void tn_rl_watches_tick(struct tn_rl_store *store);
tenure_ns tn_rl_watches_wake_at(const struct tn_rl_store *store);
/* A server has told of a change; @record NULL: something has changed. */
void tn_rl_hear_change(struct tn_rl_store *store, const char *name,
                       const struct tn_store_record *record);

/* --- list.c --- */
void tn_rl_ask(struct tn_store *base, struct tn_store_query *query);

#endif
