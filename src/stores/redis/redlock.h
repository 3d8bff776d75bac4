/* redlock.h - one store made of a majority of independent ones; for redlock.c, bids.c, watches.c.
 *
 * Each node is a whole store of redis:, with its own sessions, leases, queue and counter. What is
 * asked here is asked of all of them, in a round, and holds when a majority has said so. A lease at
 * a node is a vote; docs/stores/redis.md says why terms do not overlap and tokens rise.
 *
 * A session renews at all nodes at once. The renewal counts when a majority took it whose members
 * agree on the leases that were confirmed there, and when every term held here has a majority of
 * its confirmed votes among them: only those nodes keep the votes until the deadline. */
#ifndef TN_STORES_REDIS_REDLOCK_H
#define TN_STORES_REDIS_REDLOCK_H

#include "stores/redis/private.h"

struct tn_rl_store;
struct tn_rl_round;
struct tn_rl_bid;
struct tn_rl_vote;

typedef void tn_rl_heard(struct tn_rl_round *round, struct tn_rl_vote *vote);

struct tn_rl_node {
    struct tn_rl_store *store;
    struct tn_store *redis;
    unsigned number;
};

/* What one node is asked in a round. */
struct tn_rl_vote {
    struct tn_rd_req req;
    struct tn_rl_round *round;
    uint32_t bit; /* Of the node. */
    bool done;
};

/* One operation at some of the nodes; gone when all of them have answered. */
struct tn_rl_round {
    struct tn_rl_store *store;
    tn_rl_heard *heard;
    struct tn_store_req *req; /* NULL: answered, or nobody has asked. */
    struct tn_rl_bid *bid;
    bool over; /* Nothing more follows from it. */
    struct tn_op op;
    unsigned asked, answered;
    char name[TN_NAME_MAX + 1];
    char label[TN_LABEL_MAX + 1];
    struct tn_rl_vote votes[];
};

struct tn_rl_session {
    struct tn_rl_session *next;
    struct tn_secret secret;
    tenure_ns ttl;
    uint32_t open;     /* Nodes where it is. */
    uint32_t good;     /* Nodes that took the newest renewal that counted, */
    uint64_t good_seq; /* which was this one. */
    uint32_t label_len;
    char label[TN_LABEL_MAX + 1];
};

enum tn_rl_state {
    TN_RL_ASKING,
    TN_RL_WAITING,    /* In the queues of the nodes, or with too few votes. */
    TN_RL_CONFIRMING, /* A majority has voted; the token goes to all of them. */
    TN_RL_HELD,
    TN_RL_LEAVING, /* Given back; some nodes have not heard of it. */
};

/* One term's claim on a name. */
struct tn_rl_bid {
    struct tn_rl_bid *next;
    struct tn_secret session, term, hash;
    enum tn_rl_state state;
    uint32_t voted, sure; /* Nodes where it has the lease, and where that is confirmed. */
    uint32_t healing;     /* Nodes that are being asked again. */
    uint32_t out;         /* Nodes that think it is over: no vote there, and no place. */
    uint64_t token;
    uint64_t tokens[TN_ENDPOINTS_MAX]; /* Of the votes. */
    struct tn_store_req *req;          /* Whom to answer; NULL: told by a push. */
    bool wait;
    const struct tn_rl_round *asking; /* The whole question, while nodes are silent. */
    unsigned refs;                    /* Rounds under way. */
    unsigned tries;
    bool led; /* It was told that it has the name, and has not given it back. */
    bool dropped;
    tenure_ns check_at; /* Too few votes: look who has the others. */
    char name[TN_NAME_MAX + 1];
};

struct tn_rl_watch {
    struct tn_rl_watch *next;
    unsigned count;
    struct tn_rl_watch *due_next;
    bool is_due, reading, dirty, told; /* To be read; once more after that. */
    struct tn_store_record record;
    char name[TN_NAME_MAX + 1];
};

struct tn_rl_store {
    struct tn_store base;
    struct tn_rd_url url;
    struct tn_rl_node nodes[TN_ENDPOINTS_MAX];
    unsigned count, majority;
    struct tn_prng prng;
    uv_timer_t timer;
    uv_idle_t idle;
    unsigned handles, open_nodes; /* That are not closed yet. */
    bool shut;
    struct tn_req_list faulty;
    struct tn_rl_session *sessions;
    struct tn_rl_bid *bids[TN_RD_BUCKETS];
    struct tn_rl_watch *watches[TN_RD_BUCKETS];
    struct tn_rl_watch *due, **due_end; /* To be read, when fewer reads are under way. */
    unsigned reads;
};

tenure_ns tn_rl_now(const struct tn_rl_store *store);
unsigned tn_rl_count(uint32_t mask);
bool tn_rl_is_majority(const struct tn_rl_store *store, uint32_t mask);

/* A round of @op at the nodes of @mask; the name and the label are copied. NULL: no memory. */
struct tn_rl_round *tn_rl_ask(struct tn_rl_store *store, const struct tn_op *op, uint32_t mask,
                              tn_rl_heard *heard, struct tn_rl_bid *bid);
/* To be done in the loop's next turn, with @status. */
void tn_rl_fault(struct tn_rl_store *store, struct tn_store_req *req, int status, const char *why);
void tn_rl_arm(struct tn_rl_store *store);
uint32_t tn_rl_all(const struct tn_rl_store *store);
/* Nodes of @round whose answer was @answer, that have not answered yet, or that may have done it
 * without an answer. */
uint32_t tn_rl_said(const struct tn_rl_round *round, enum tn_answer answer);
uint32_t tn_rl_silent(const struct tn_rl_round *round);
uint32_t tn_rl_unsure(const struct tn_rl_round *round);
/* Too few have answered: why, and the code of it. */
int tn_rl_blame(const struct tn_rl_round *round, char why[TN_ERROR_TEXT]);
/* Who has most votes for the name by the answers of @round, and at which nodes; 0: nobody has any,
 * and @ret_record is left alone. */
uint32_t tn_rl_holder(const struct tn_rl_round *round, bool sure,
                      struct tn_store_record *ret_record);

/* The record of the name by the answers of @round: held by whom a majority has confirmed, or free.
 * False: not known yet. */
bool tn_rl_read(const struct tn_rl_round *round, struct tn_store_record *ret_record);

struct tn_rl_session *tn_rl_session_find(struct tn_rl_store *store, const struct tn_secret *secret);

/* --- watches.c ------------------------------------------------------------------------------ */

int tn_rl_watch(struct tn_store *base, const char *name, bool on);
/* A node has told of a change. */
void tn_rl_watch_hear(struct tn_rl_store *store, const char *name,
                      const struct tn_store_record *record);
void tn_rl_watches_done(struct tn_rl_store *store);

/* --- bids.c --------------------------------------------------------------------------------- */

void tn_rl_acquire(struct tn_rl_store *store, struct tn_store_req *req);
void tn_rl_release(struct tn_rl_store *store, struct tn_store_req *req);
/* A node has told of a vote; of a revocation. */
void tn_rl_hear_vote(struct tn_rl_store *store, uint32_t bit, const char *name,
                     const struct tn_secret *hash, uint64_t token);
void tn_rl_hear_revoked(struct tn_rl_store *store, const char *name);
/* The session is no more at the nodes of @mask; with all of them its bids are gone. */
void tn_rl_bids_lost(struct tn_rl_store *store, const struct tn_secret *session, uint32_t mask);
/* Whether every term of the session is confirmed by a majority among @mask. */
bool tn_rl_bids_covered(struct tn_rl_store *store, const struct tn_secret *session, uint32_t mask);
/* The node of @bit does not agree with the others: bring it in line. */
void tn_rl_bids_heal(struct tn_rl_store *store, const struct tn_secret *session, uint32_t bit);
/* The session has come to the node of @bit. */
void tn_rl_bids_join(struct tn_rl_store *store, const struct tn_secret *session, uint32_t bit);
/* The session has other good nodes: terms that waited for them. */
void tn_rl_bids_good(struct tn_rl_store *store, const struct tn_secret *session);
void tn_rl_bids_check(struct tn_rl_store *store, tenure_ns now);
tenure_ns tn_rl_bids_check_at(const struct tn_rl_store *store);
void tn_rl_bids_done(struct tn_rl_store *store);

#endif
