/* candidate.h - one process in one store: its session, all its claims, and what the store's answers
 * mean to them.
 *
 *   application --> wish() --+                     +--> send()  a request for the store
 *   store ------> answer() --+-- session, claims --+--> tell()  a claim's news for the application
 *           --> notice() ----+                     +--> tell_session()
 *   clock ------> tick() ----+
 *
 * The library, `tenure run` and the simulator drive this one file, so what is simulated is what
 * runs. One session serves all seats: a process with ten thousand names renews once, and a seat
 * that only holds is never stepped.
 *
 * Every call takes the `now` of the candidate's clock, read before the call; a request handed to
 * send() counts as sent at that `now`, so write it afterwards. The host's functions are called from
 * within these calls and must not call back.
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_CANDIDATE_H
#define TN_CORE_CANDIDATE_H

#include "core/claim.h"
#include "core/heap.h"
#include "core/lease_table.h"
#include "core/observer.h"

/* One claim's place; the caller's, usually the first member of something larger. */
struct tn_seat {
    struct tn_claim claim;
    struct tn_observer observer;
    struct tn_heap_node wake; /* In the heap unless it is TN_NEVER. */
    struct tn_seat *next, *prev;
};

/* What is to be asked of the store, or (RAISE) of the fences. The answer brings it back. */
struct tn_request {
    enum tn_op_kind kind; /* OPEN, RENEW, CLOSE, ACQUIRE, RELEASE, READ, RAISE. */
    bool wait;            /* ACQUIRE: queue if held. */
    bool evident;         /* ACQUIRE: with an observer's evidence. */
    struct tn_seat *seat; /* NULL: the session's. */
    uint64_t life;        /* Names the session's secret. */
    uint64_t gen;         /* Names the term's secret: ACQUIRE, RELEASE, RAISE. */
    uint64_t token;       /* RELEASE, RAISE; ACQUIRE with evidence. */
    uint64_t seq;         /* OPEN, RENEW. */
    uint64_t beat;        /* ACQUIRE with evidence. */
    uint64_t seen;        /* RENEW. */
    uint64_t read;        /* READ. */
    tenure_ns ttl;        /* OPEN. */
    tenure_ns sent_at;
};

/* What the store says of a name. */
struct tn_record {
    bool held;
    bool mine;      /* By this session, */
    uint64_t gen;   /* under the term of this generation. */
    uint64_t token; /* When free: the last one. */
    uint64_t beat;
    tenure_ns ttl; /* Of the holder. */
};

struct tn_response {
    bool failed; /* There is no answer: it failed, or nobody knows. */
    enum tn_answer answer;
    struct tn_record record; /* ACQUIRE, READ. */
    tenure_ns ttl;           /* OPEN, RENEW: what the store agreed to. */
    uint64_t seen;           /* OPEN, RENEW: as tn_result. */
    uint32_t held;
    bool more;
};

struct tn_candidate_host {
    void (*send)(void *arg, const struct tn_request *request);
    /* WON, DRAIN, LOST, REFUSED, LEADER. */
    void (*tell)(void *arg, struct tn_seat *seat, const struct tn_claim_action *action);
    /* LIVE, JEOPARDY, LOST, CLOSED. */
    void (*tell_session)(void *arg, const struct tn_session_action *action);
};

struct tn_candidate {
    const struct tn_plan *plan;
    const struct tn_claim_config *config;
    const struct tn_candidate_host *host;
    void *arg;
    struct tn_session session;
    struct tn_prng prng;
    tenure_ns now;
    tenure_ns reopen_at; /* When to open another session. */
    uint64_t life;       /* Of the newest session. */
    uint64_t resume;     /* The next session is this life again; 0: a new one. */
    uint64_t seq;        /* The attempts of the next session are numbered from here on. */
    uint64_t seen;       /* Revocations noticed in it. */
    struct tn_heap wakes;
    struct tn_seat *seats;
    uint32_t seat_count;
    struct tn_node_notes notes;
    bool waits;  /* The store queues. */
    bool closed; /* No further session. */
};

/* @plan, @config and @host are borrowed for the candidate's life. @waits: acquires ask the store to
 * queue them. The seed spreads retries in time. */
void tn_candidate_init(struct tn_candidate *candidate, const struct tn_plan *plan,
                       const struct tn_claim_config *config, bool waits,
                       const struct tn_candidate_host *host, void *arg, uint64_t seed);

/* Take a seat, not campaigning yet. @seat is borrowed until tn_candidate_remove, and so is @config,
 * which replaces the one given to init for this seat unless it is NULL. */
void tn_candidate_add(struct tn_candidate *candidate, struct tn_seat *seat,
                      const struct tn_claim_config *config);

/* Give it up, in whatever state; answers that still come for it must not be passed on. */
void tn_candidate_remove(struct tn_candidate *candidate, struct tn_seat *seat);

/* Take up session @life of a process before this one, under the same secrets; it has numbered its
 * attempts up to @seq at most. Then tn_claim_resume for what it had, then tn_candidate_open. */
void tn_candidate_resume(struct tn_candidate *candidate, uint64_t life, uint64_t seq);

/* Open the first session. */
void tn_candidate_open(struct tn_candidate *candidate, tenure_ns now);

/* Somebody has seen the deadline pass, whatever was heard since: the session is over (P6). */
void tn_candidate_expire(struct tn_candidate *candidate, tenure_ns now);

/* Close the session and open no other; every term was released, or dies with it. */
void tn_candidate_close(struct tn_candidate *candidate, tenure_ns now);

/* The application's word on one seat: CAMPAIGN to OBSERVE. */
void tn_candidate_wish(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                       enum tn_claim_event_kind wish);

/* The store's answer to @request. */
void tn_candidate_answer(struct tn_candidate *candidate, tenure_ns now,
                         const struct tn_request *request, const struct tn_response *response);

/* Unasked, to session @life: the seat's generation @gen was granted @token. */
void tn_candidate_granted(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                          uint64_t life, uint64_t gen, uint64_t token);

/* Unasked, to session @life, or beside a renewal's answer and then before it: revoked. */
void tn_candidate_revoked(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                          uint64_t life, uint64_t token);

/* Unasked: the record changed. */
void tn_candidate_changed(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                          const struct tn_record *record);

/* The note about the process in @slot was asked for; tn_candidate_noted tells it. */
void tn_candidate_await(struct tn_candidate *candidate, enum tn_note_slot slot, tenure_ns until);
/* An operator's note was read in @slot, or (TN_NOTE_NONE) its end. @seat: NULL for a note that is
 * about the process. @note NULL: what the seat's rank knows has changed. */
void tn_candidate_noted(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                        enum tn_note_slot slot, const struct tn_note *note);

/* The answer of the fences to a RAISE: 0 they stand at the token, TENURE_E_STALE higher, at
 * @token; anything else: try again. */
void tn_candidate_raised(struct tn_candidate *candidate, tenure_ns now,
                         const struct tn_request *request, int status, uint64_t token);

/* Time has passed. */
void tn_candidate_tick(struct tn_candidate *candidate, tenure_ns now);

/* When to tick if nothing else happens. */
tenure_ns tn_candidate_wake_at(const struct tn_candidate *candidate);

/* The token of @seat while its term is valid at @now, otherwise 0. */
uint64_t tn_candidate_token(const struct tn_candidate *candidate, const struct tn_seat *seat,
                            tenure_ns now);

#endif
