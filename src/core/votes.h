/* votes.h - the recipe for several independent servers of which a majority decides (Redlock).
 *
 * Each server is a whole lease store with sessions, leases, queues and a token counter of its own,
 * and knows nothing of the others. A lease at one server is a vote. This file decides what their
 * answers mean together:
 *
 *   open, renew, close  +--------------------+  round: one question to many servers
 *   acquire, release    | tn_votes           | ------------->  server 0, 1, 2, ...
 *   read, revoke -----> | tn_votes_session   |
 *   done, granted <---- | tn_votes_claim,    | <-------------  heard(round, server, reply)
 *   revoked             | a term on one name |                 vote, revocation: news
 *                       +--------------------+
 *
 * The states of a claim, each arrow with the function that takes it:
 *
 *   ENDED -acquire-> ASKING -decide-> CONFIRMING -hold-> HELD -release-> LEAVING -> ENDED
 *                      |  ^              |   ^             | end_if_lost    ^
 *                      |  '- ask_all ----'   |             '----------------'
 *                      '-end_asking-> WAITING (in the queues, or with too few votes)
 *
 * Rules, each with a plant that breaks it (plant.h):
 * - A majority is a majority of servers. A repeated answer is not another vote.
 * - The term's token is the highest of the votes. A majority confirms it before the term is held:
 *   a server raises its counter to it, if its vote still stands. So tokens rise over majorities.
 * - A renewal counts when a majority took it whose members agree on the confirmed leases, and when
 *   every term held has a majority of its confirmed votes among them. The deadline counts from
 *   before the renewal was sent to the first server; the session does that (session.h).
 * - A vote that was given or may have been given to a claim that is over goes back.
 * - Too few votes go to whoever has the most, so that somebody wins.
 *
 * What this cannot promise: a server that forgets its votes or whose clock jumps gives a vote twice
 * before its time. The class is advisory.
 *
 * Threads: one at a time. Memory: the caller's; nothing is allocated here. Never blocks, reads no
 * clock. The host's functions are called from within these calls and must not call back. */
#ifndef TN_CORE_VOTES_H
#define TN_CORE_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/secret.h"
#include "base/time.h"
#include "core/lease_table.h"

enum { TN_VOTES_SERVERS = 16 };

/* What a server is asked. */
enum tn_votes_kind {
    TN_VOTES_OPEN, /* Also renews a session that exists. */
    TN_VOTES_RENEW,
    TN_VOTES_CLOSE,
    TN_VOTES_ASK,      /* A vote for this term; claim->wait: or a place in the queue. */
    TN_VOTES_RECLAIM,  /* The same for a term that is not over, whatever the server remembers. */
    TN_VOTES_CONFIRM,  /* round->token is the term's token, if the vote still stands. */
    TN_VOTES_YIELD,    /* Vote and place back; the term may be asked for again. */
    TN_VOTES_WITHDRAW, /* Vote and place back; the term is over. */
    TN_VOTES_RELEASE,  /* The holder's own, with the term's token. */
    TN_VOTES_READ,
    TN_VOTES_REVOKE,
};

enum tn_votes_outcome {
    TN_VOTES_SILENT, /* Not heard yet. */
    TN_VOTES_ANSWERED,
    TN_VOTES_FAILED,  /* Not done, and never will be. */
    TN_VOTES_UNKNOWN, /* Done, or not, or not yet. */
};

/* What one server said. */
struct tn_votes_reply {
    enum tn_votes_outcome outcome;
    enum tn_answer answer;
    bool held;             /* With a name: whether somebody has the lease there, */
    bool confirmed;        /* a majority's token was confirmed for it, */
    uint64_t token;        /* its token, */
    uint64_t last;         /* the token of the term before it (free: of the last term), */
    struct tn_secret term; /* and the hash of the term. */
    uint64_t digest;       /* OPEN, RENEW: of the leases that are confirmed there. */
};

struct tn_votes;

/* One session of this process; the first member of something of the caller's. */
struct tn_votes_session {
    struct tn_votes *votes;
    struct tn_votes_session *next;
    struct tn_votes_claim *claims;
    tenure_ns ttl;     /* 0: another process opened it, and this one cannot open it anew. */
    uint32_t open;     /* Servers where it is. */
    uint32_t good;     /* Servers that took the newest renewal that counted, */
    uint64_t good_seq; /* which was this one. */
    unsigned refs;     /* Claims and rounds. */
    bool over;
};

enum tn_votes_state {
    TN_VOTES_ENDED, /* Nothing is asked for, and nothing owed. */
    TN_VOTES_ASKING,
    TN_VOTES_WAITING,
    TN_VOTES_CONFIRMING, /* A majority has voted; the token goes to all who did. */
    TN_VOTES_HELD,
    TN_VOTES_LEAVING, /* Given back; some servers have not heard of it. */
};

/* One term on one name; the first member of something of the caller's. */
struct tn_votes_claim {
    struct tn_votes_session *session;
    struct tn_votes_claim *next; /* Among those of the session. */
    uint64_t name;               /* A number of the caller's: others have others. */
    struct tn_secret term;       /* The hash. */
    enum tn_votes_state state;
    bool wait;               /* Queue where the name is held. */
    bool led;                /* The application has it, and was not told otherwise. */
    uint32_t voted, sure;    /* Servers where it has the lease, and where that is confirmed. */
    uint32_t busy;           /* Servers that are being asked for, or told, a single thing. */
    uint32_t out;            /* Servers to which it is over: no vote there, and no place. */
    uint32_t owed;           /* Servers that may have its vote and are to have it back, */
    uint32_t returning;      /* those that are being told so, */
    enum tn_votes_kind back; /* and how: YIELD or WITHDRAW. */
    uint64_t token;
    uint64_t tokens[TN_VOTES_SERVERS];   /* Of the votes. */
    void *job;                           /* The acquire to answer; NULL: none. */
    const struct tn_votes_round *asking; /* The question to all, while servers are silent. */
    unsigned refs;                       /* Rounds. */
    unsigned tries;
    unsigned tally;     /* Only for a plant. */
    tenure_ns check_at; /* Too few votes: look who has the others. */
};

/* One question to some of the servers; the first member of something of the caller's, which lives
 * until end(). */
struct tn_votes_round {
    struct tn_votes *votes;
    enum tn_votes_kind kind;
    struct tn_votes_session *session; /* NULL: READ and REVOKE of nobody's. */
    struct tn_votes_claim *claim;     /* NULL: of none. */
    void *job;                        /* To be answered; NULL: not any more. */
    uint64_t name;                    /* Of a job's round begin() sets it. */
    uint64_t seq, token;
    uint32_t asked, heard; /* Servers. */
    uint32_t opens;        /* Servers where OPEN takes the place of RENEW. */
    struct tn_votes_reply replies[TN_VOTES_SERVERS];
};

/* A name, by the answers of a round. */
struct tn_votes_record {
    int server;     /* Whose record it is, with a majority behind it; -1: free, as far as known. */
    uint64_t token; /* Free: no later grant is at or below it. */
    bool stray;     /* Not free, but a majority has a term of ours that we do not hold yet. */
    bool unsure;    /* Servers have votes that are no majority's: ask again, nobody tells of it. */
};

/* The end of a job. */
struct tn_votes_result {
    bool failed; /* Too few answered. Whether something was done may be unknown. */
    enum tn_answer answer;
    const struct tn_votes_round *round; /* What the servers said; NULL: the job was overtaken. */
    const struct tn_votes_claim *claim; /* GRANTED. */
    struct tn_votes_record record;      /* Of a name; a renewal: @server speaks for all. */
};

struct tn_votes_host {
    /* Memory for a round like @draft, which is copied; NULL: there is none. */
    struct tn_votes_round *(*begin)(void *arg, const struct tn_votes_round *draft);
    /* Ask @server; answer once by tn_votes_heard, never inside the call. */
    void (*send)(void *arg, struct tn_votes_round *round, unsigned server, enum tn_votes_kind kind);
    /* All servers have answered, and the memory is the host's. */
    void (*end)(void *arg, struct tn_votes_round *round);
    void (*done)(void *arg, void *job, const struct tn_votes_result *result);
    /* A claim that waited has its name. */
    void (*granted)(void *arg, struct tn_votes_claim *claim);
    /* A claim must stop: its majority is gone, or a server says so. Comes before the renewal that
     * found out is answered. */
    void (*revoked)(void *arg, struct tn_votes_claim *claim);
    /* Nothing refers to it any more. */
    void (*forget)(void *arg, struct tn_votes_claim *claim);
    void (*forget_session)(void *arg, struct tn_votes_session *session);
};

struct tn_votes {
    const struct tn_votes_host *host;
    void *arg;
    unsigned count, majority;
    tenure_ns check_after, check_spread; /* How long too few votes are kept, and how much longer. */
    struct tn_votes_session *sessions;
    struct tn_prng prng;
    tenure_ns now;
    bool closed;
};

void tn_votes_init(struct tn_votes *votes, const struct tn_votes_host *host, void *arg,
                   unsigned count, uint64_t seed);
/* No question is begun from now on. */
void tn_votes_close(struct tn_votes *votes);

unsigned tn_votes_count(uint32_t mask);
uint32_t tn_votes_all(const struct tn_votes *votes);

/* @ttl 0: another process has opened it, presumably everywhere. */
void tn_votes_session_add(struct tn_votes *votes, struct tn_votes_session *session, tenure_ns ttl);
/* @claim is of @session from now on. */
void tn_votes_claim_add(struct tn_votes_session *session, struct tn_votes_claim *claim,
                        uint64_t name, const struct tn_secret *term_hash);

/* Begin a job; all return false when there is no memory, and then the job is not answered. */
TENURE_MUST_USE bool tn_votes_renew(struct tn_votes_session *session, tenure_ns now, bool open,
                                    uint64_t seq, void *job);
/* The session and its claims are over. */
TENURE_MUST_USE bool tn_votes_end_session(struct tn_votes_session *session, tenure_ns now,
                                          void *job);
/* The same without a word to the servers, of a session that nobody renews any more. */
void tn_votes_session_drop(struct tn_votes_session *session);
TENURE_MUST_USE bool tn_votes_acquire(struct tn_votes_claim *claim, tenure_ns now, bool wait,
                                      void *job);
/* @claim NULL: this process has none. @token 0: whatever the term has. */
TENURE_MUST_USE bool tn_votes_release(struct tn_votes_session *session,
                                      struct tn_votes_claim *claim, tenure_ns now, uint64_t token,
                                      void *job);
TENURE_MUST_USE bool tn_votes_read(struct tn_votes *votes, tenure_ns now, void *job);
TENURE_MUST_USE bool tn_votes_revoke(struct tn_votes *votes, tenure_ns now, void *job);

/* What @server said in @round. */
void tn_votes_heard(struct tn_votes_round *round, tenure_ns now, unsigned server,
                    const struct tn_votes_reply *reply);
/* News: the claim's turn came at @server; the claim's lease was revoked at some server. */
void tn_votes_hear_vote(struct tn_votes_claim *claim, tenure_ns now, unsigned server,
                        uint64_t token);
void tn_votes_hear_revoked(struct tn_votes_claim *claim, tenure_ns now);

/* Time has passed. */
void tn_votes_tick(struct tn_votes *votes, tenure_ns now);
tenure_ns tn_votes_wake_at(const struct tn_votes *votes);

/* Servers of a majority that share these tokens, highest first, have reached which? */
uint64_t tn_votes_reached(const struct tn_votes *votes, uint64_t *tokens, unsigned count);

/* --- Between votes.c and votes_claim.c -------------------------------------------------------- */

bool tn_votes_is_majority(const struct tn_votes *votes, uint32_t mask);
/* Servers whose answer was @answer; that may have done it without an answer. */
uint32_t tn_votes_said(const struct tn_votes_round *round, enum tn_answer answer);
uint32_t tn_votes_unknown(const struct tn_votes_round *round);
/* The term with the most votes, and with @sure the most confirmed ones; 0: there is none. */
uint32_t tn_votes_leader(const struct tn_votes_round *round, bool sure, int *ret_server);
/* False: not known yet, and @ret_record is what there is. */
bool tn_votes_judge(const struct tn_votes_round *round, struct tn_votes_record *ret_record);
struct tn_votes_round *tn_votes_ask(struct tn_votes *votes, const struct tn_votes_round *draft,
                                    uint32_t mask);
void tn_votes_answer(struct tn_votes_round *round, enum tn_answer answer);
void tn_votes_fail(struct tn_votes_round *round);

void tn_votes_claim_heard(struct tn_votes_round *round, unsigned server);
void tn_votes_claim_unref(struct tn_votes_claim *claim);
/* The session is no more at the servers of @mask; at all of them: its claims are over. */
void tn_votes_claims_lost(struct tn_votes_session *session, uint32_t mask);
/* Whether every term of the session is confirmed by a majority among @mask. */
bool tn_votes_claims_covered(const struct tn_votes_session *session, uint32_t mask);
/* @server does not agree with the others: bring it in line. */
void tn_votes_claims_heal(struct tn_votes_session *session, unsigned server);
/* @server has answered: what is owed to it goes out once more. */
void tn_votes_claims_settle(struct tn_votes_session *session, unsigned server);
/* The session has come to @server. */
void tn_votes_claims_join(struct tn_votes_session *session, unsigned server);
/* The session has other good servers: terms that waited for them. */
void tn_votes_claims_good(struct tn_votes_session *session);

#endif
