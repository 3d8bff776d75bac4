/* lease_table.h - the authority: who holds which name, since when, under which token, and who
 * waits.
 *
 * The same code is the daemon's state machine, the memory store, the simulator's store and the
 * browser's sandbox. One operation and one `now` (of the authority's own clock) in, a reply and a
 * bounded list of notices out.
 *
 * Sessions (liveness) and leases (ownership) are separate: a lease belongs to a session and ends
 * with it. Tokens come from one counter for all names, so a name that is forgotten and comes back
 * still gets a larger token, and restoring the counter restores all of them (P2).
 *
 * Memory: one block of the caller's, of tn_table_size bytes, zeroed (fresh pages will do: it is
 * touched only as far as it is used). It holds no pointers, so a copy of the block is a backup, and
 * a block moved elsewhere still works. Nothing is allocated. Limits are answered with FULL.
 * Threads: one at a time. Never blocks, reads no clock. */
#ifndef TN_CORE_LEASE_TABLE_H
#define TN_CORE_LEASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/name.h"
#include "base/secret.h"
#include "base/time.h"

#define TN_TABLE_NOTICES 8

struct tn_table; /* Lives at the start of the caller's block. */

struct tn_table_limits {
    uint32_t sessions;
    uint32_t leases; /* Names held or remembered; the longest free one is forgotten first. */
    uint32_t waiters;
    uint32_t text_bytes; /* For names and labels, in units of 16. A sixteenth may stay unused. */
    uint32_t owners;     /* Of sessions; 0: nobody counts what is whose. */
    bool observed;       /* No expiry of its own: an acquire brings an observer's evidence. */
    bool tells_ends;     /* ENDED notices are wanted too, by who keeps a journal. */
    bool upstream;       /* An agent's: grants nothing by itself, GRANT brings the tokens. */
    struct tn_hash_key hash_key; /* Unknown to strangers who choose names. */
};

enum tn_op_kind {
    TN_OP_OPEN,    /* @session, @seq, @ttl, @label. A session that exists is renewed. */
    TN_OP_RENEW,   /* @session, @seq, @seen. */
    TN_OP_CLOSE,   /* @session. Its leases are free at once. */
    TN_OP_ACQUIRE, /* @session, @term, @name, @wait. Again with the same @term: the same answer. */
    TN_OP_RELEASE, /* @session, @term, @name, @token; token 0: whatever @term has or waits for. */
    TN_OP_READ,    /* @name. */
    TN_OP_REVOKE,  /* @name, @token (0: any). An operator's: no secret asked. An agent's: @until. */
    TN_OP_RAISE,   /* @token. An operator's: no grant from now on at or below it. */
    TN_OP_GRANT,   /* @name, @token. An agent's: the upstream's term goes to the first in line. */
    TN_OP_TICK,    /* Time has passed; due at tn_table_wake_at. */
};

/* F1: a holder that was silent for @limit may be superseded by who has the same fences. */
struct tn_soft {
    tenure_ns limit; /* On the authority's clock, since the last renewal; 0: there is none. */
    struct tn_secret
        fences; /* A digest of the name and of all fences that are raised before WON. */
};

struct tn_op {
    enum tn_op_kind kind;
    bool wait;    /* ACQUIRE: queue if held. */
    bool evident; /* ACQUIRE: @token's holder was silent for its TTL since @beat. */
    struct tn_secret session;
    struct tn_secret term;
    const char *name;
    const char *label;
    uint32_t name_len;
    uint32_t label_len;
    uint64_t seq;    /* OPEN, RENEW: rises with every attempt; an old one extends nothing. */
    uint64_t token;  /* RELEASE, REVOKE, RAISE, GRANT; ACQUIRE with evidence. */
    uint64_t beat;   /* ACQUIRE with evidence. */
    uint64_t seen;   /* RENEW: revocations known so far. */
    tenure_ns ttl;   /* OPEN. */
    tenure_ns until; /* REVOKE at an agent: when no local term can be valid any more. */
    /* OPEN, RENEW, ACQUIRE: whose the session is if it is nobody's yet, up to limits.owners; 0:
     * nobody's. And what its owner may have, 0: as much as there is. OPEN: so many sessions;
     * ACQUIRE: leases and places in line together, so that a place can become a lease. */
    uint32_t owner;
    uint32_t owner_max;
    struct tn_soft soft; /* ACQUIRE: of the session from now on, if there is one. */
};

enum tn_answer {
    TN_ANSWER_OK,       /* OPEN, RENEW, CLOSE, REVOKE, RAISE, TICK. */
    TN_ANSWER_GRANTED,  /* ACQUIRE: @token. GRANT: somebody has it. */
    TN_ANSWER_QUEUED,   /* ACQUIRE: its turn will come by a GRANTED notice. An agent's: also of a
                           free name, and without @wait: upstream has not answered yet. */
    TN_ANSWER_HELD,     /* ACQUIRE without @wait, READ: by @holder under @token. */
    TN_ANSWER_FREE,     /* READ: the last token was @token, 0 if none is remembered. GRANT: nobody
                           is in line. */
    TN_ANSWER_RELEASED, /* RELEASE: the term holds nothing; also when it is said again. */
    TN_ANSWER_STALE,    /* RELEASE, REVOKE: that token is not current. OPEN, RENEW: an old @seq.
                           GRANT: held, or a token that is not above the last one. */
    TN_ANSWER_DENIED,   /* RELEASE: current, but not this session's and term's. */
    TN_ANSWER_GONE,     /* There is no such session; it expired, or never was. */
    TN_ANSWER_FULL,     /* A limit is reached; nothing held or waited for has changed. */
};

/* Who holds a lease, as others may know it. The pointers are into the table, good until its next
 * use. */
struct tn_lease_view {
    const char *name;
    const char *label;
    const struct tn_secret *session; /* NULL: free. */
    const struct tn_secret *term;
    uint32_t name_len;
    uint32_t label_len;
    uint64_t token;
    uint64_t beat;       /* Changes with every renewal of the holder. */
    tenure_ns ttl;       /* Of the holder's session. */
    tenure_ns remaining; /* Until it expires on the authority's clock. */
    bool revoked;        /* Taken away, and not given back yet. */
    bool closed; /* The holder's session was closed; this is free as soon as it is reached. */
};

enum tn_notice_kind {
    TN_NOTICE_GRANTED, /* To the session: its turn has come. */
    TN_NOTICE_REVOKED, /* To the session: stop, then release. */
    TN_NOTICE_CHANGED, /* To all who watch the name. */
    TN_NOTICE_ENDED,   /* The session is over and has nothing any more. No lease. */
    TN_NOTICE_LINE,    /* At an agent: the line of a free name has its first waiter, or none. */
};

struct tn_notice {
    enum tn_notice_kind kind;
    struct tn_secret session;
    struct tn_secret term;
    uint64_t token;
    uint64_t revocation; /* REVOKED: its number, to be reported by RENEW as seen. */
    uint32_t lease;      /* For tn_table_lease. */
    bool held;           /* CHANGED. */
};

struct tn_result {
    enum tn_answer answer;
    uint64_t token;
    tenure_ns ttl;   /* OPEN, RENEW. */
    uint64_t seen;   /* OPEN, RENEW: revocations noticed up to here, this reply's included. */
    uint32_t held;   /* OPEN, RENEW: how many leases the session has, revoked ones included. */
    bool fresh;      /* OPEN: there was no such session before. */
    bool owners;     /* FULL: it is the limit of the session's owner. */
    bool adopted;    /* The session was nobody's, and has an owner from now on. */
    bool more;       /* RENEW: more revocations than fit are waiting; ask again before extending. */
    bool softened;   /* ACQUIRE: @soft is another than the session had. */
    uint32_t lease;  /* ACQUIRE, READ, RELEASE: for tn_table_lease; 0: none. */
    uint32_t rested; /* ACQUIRE: the superseded session, at rest from now on; 0: none. */
    uint32_t count;
    struct tn_notice list[TN_TABLE_NOTICES];
};

/* Bytes needed for @limits. */
size_t tn_table_size(const struct tn_table_limits *limits);

/* Lay out an empty table in @block (zeroed, 8-byte aligned, tn_table_size bytes). Returns it. */
struct tn_table *tn_table_init(void *block, const struct tn_table_limits *limits);

/* A step with this name comes soon: begin to fetch where it is looked up. Changes nothing. Returns
 * where to go on, a little later: then that is in the cache, and tells what else to fetch. */
uint32_t tn_table_expect(const struct tn_table *table, const char *name, uint32_t len);
void tn_table_expect_at(const struct tn_table *table, uint32_t bucket);

/* The memory in which names are looked up, far apart each time, in two parts: with many names it is
 * worth large pages. */
struct tn_table_part {
    void *at;
    size_t bytes;
};
void tn_table_parts(const struct tn_table *table, struct tn_table_part ret_parts[2]);

/* Take one operation. Names and labels must have passed tn_name_check or be at most 255 bytes. */
void tn_table_step(struct tn_table *table, tenure_ns now, const struct tn_op *op,
                   struct tn_result *ret_result);

/* When to step with TICK. May lie in the past: then there is work left over, step at once. */
tenure_ns tn_table_wake_at(const struct tn_table *table);

/* The authority starts again on the same records at @now, perhaps of another clock: each session
 * has its full TTL again, each token its place; waiters are gone with their connections. */
void tn_table_restart(struct tn_table *table, tenure_ns now);

/* Look at lease @lease (from a result, a notice or tn_table_next). */
void tn_table_lease(const struct tn_table *table, uint32_t lease, struct tn_lease_view *ret_view);

/* The next lease in use after @lease (0: from the start); 0 at the end. In no particular order. */
uint32_t tn_table_next(const struct tn_table *table, uint32_t lease);

/* A session, as a journal keeps it. The pointers are into the table, good until its next use. */
struct tn_session_view {
    const struct tn_secret *secret;
    const char *label;
    uint32_t label_len;
    tenure_ns ttl;
    tenure_ns expires_at; /* On the authority's clock. */
    tenure_ns allowed;    /* See tn_table_allow. */
    bool closed;          /* Over; what it had is being let go. */
    uint32_t owner;       /* 0: nobody's. */
    const struct tn_soft *soft;
    uint32_t borrowed; /* The lease that falls back to session @rest; 0: none. */
    const struct tn_secret *rest;
};

/* The next session in use after @session (0: from the start); 0 at the end. */
uint32_t tn_table_next_session(const struct tn_table *table, uint32_t session);
void tn_table_session(const struct tn_table *table, uint32_t session,
                      struct tn_session_view *ret_view);

/* The session with this secret; 0: there is none. */
uint32_t tn_table_session_of(const struct tn_table *table, const struct tn_secret *secret);
/* The session's next lease after @lease, and its next place in line after @place (0: the first); 0
 * at the end. Ask for the next one before a step changes this one. */
uint32_t tn_table_next_held(const struct tn_table *table, uint32_t session, uint32_t lease);
uint32_t tn_table_next_place(const struct tn_table *table, uint32_t session, uint32_t place);
/* The next place in the line of @lease after @place (0: the first), and its session; 0: the end. */
uint32_t tn_table_next_waiter(const struct tn_table *table, uint32_t lease, uint32_t place,
                              uint32_t *ret_session);
/* The lease of this name; 0: there is none. */
uint32_t tn_table_lease_of(const struct tn_table *table, const char *name, uint32_t len);
/* The lease that @place waits for, and its term. */
uint32_t tn_table_place(const struct tn_table *table, uint32_t place, struct tn_secret *ret_term);

/* The secret of the current term of @lease or, when it is free, of its last one. */
const struct tn_secret *tn_table_term(const struct tn_table *table, uint32_t lease);

/* Put a lease back as a journal has it: name, session (NULL: free), term, token, revoked. Whoever
 * has it is out, and nobody is told; for use before tn_table_restart. Sessions are put back by
 * OPEN. Returns 0, TENURE_E_FULL, or TENURE_E_NOT_HELD when there is no such session. */
TENURE_MUST_USE int tn_table_put(struct tn_table *table, const struct tn_lease_view *view);

/* The same for what a session has beside its leases. Returns 0 or TENURE_E_NOT_HELD. */
TENURE_MUST_USE int tn_table_put_soft(struct tn_table *table, const struct tn_secret *session,
                                      const struct tn_soft *soft);
TENURE_MUST_USE int tn_table_put_rest(struct tn_table *table, const struct tn_lease_view *view,
                                      const struct tn_secret *rest);

/* An agent has answered @session (tn_table_session_of): it may be valid until @until. The latest
 * one counts. */
void tn_table_allow(struct tn_table *table, uint32_t session, tenure_ns until);

/* The latest deadline that the session which has @lease can have, by an agent's answers; 0: it is
 * free. After tn_table_restart whatever the agent before can have allowed, and no answer allowed
 * more than the session's own TTL (N2). */
tenure_ns tn_table_allowed(const struct tn_table *table, uint32_t lease);

/* How much there is of what the limits bound. */
struct tn_table_counts {
    uint32_t sessions, leases, waiters;
};

void tn_table_count(const struct tn_table *table, struct tn_table_counts *ret_counts);

/* The highest token granted so far. */
uint64_t tn_table_token(const struct tn_table *table);

#endif
