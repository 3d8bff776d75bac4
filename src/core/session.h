/* session.h - liveness: one process's right to exist in a store, kept alive by renewals.
 *
 * The session owns the one deadline of the holder's side. Ownership (claim.h) leans on it and never
 * counts time of its own: a term is valid only while its session is.
 *
 *              open()                  reply OK
 *   [closed] ----------> OPENING -------------------> LIVE <-------------+
 *                           |                          |   overdue()     | reply OK
 *                           |                          +------------> JEOPARDY
 *                           |  gone(), deadline        |                 |
 *                           +------------------------> LOST <------------+
 *
 * LOST is latched: nothing leads out of it but tn_session_init, which starts another life.
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_SESSION_H
#define TN_CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"
#include "core/plan.h"

/* Attempts whose late replies still count: more than fit into one deadline by default. */
#define TN_SESSION_ATTEMPTS 8
#define TN_SESSION_ACTIONS 4

enum tn_session_state {
    TN_SESSION_CLOSED,
    TN_SESSION_OPENING,
    TN_SESSION_LIVE,
    TN_SESSION_JEOPARDY,
    TN_SESSION_LOST,
    TN_SESSION_STATE_COUNT
};

/* Why a term or a session ended. */
enum tn_reason {
    TN_REASON_NONE,
    TN_REASON_EXPIRED,         /* The deadline passed, or the store said the session is over. */
    TN_REASON_REVOKED,         /* An operator took the lease away. */
    TN_REASON_RELEASED,        /* The holder gave it back. */
    TN_REASON_STALLED,         /* The work loop stopped checking in, or did not drain in time. */
    TN_REASON_TOKEN_REGRESSED, /* The store went back in time: a higher token was seen before. */
    TN_REASON_FENCE,           /* The fence could not be raised. */
    TN_REASON_CLOSED,          /* The application closed the session. */
    TN_REASON_NOTE_ASKED       /* An operator's note asks the holder to step down. */
};

enum tn_session_event_kind {
    TN_SESSION_EV_TICK,  /* Time has passed; due at tn_session_wake_at. */
    TN_SESSION_EV_OPEN,  /* Begin. */
    TN_SESSION_EV_OK,    /* The store did what attempt @seq asked. */
    TN_SESSION_EV_FAIL,  /* Attempt @seq failed, or its outcome is unknown: both mean try again. */
    TN_SESSION_EV_GONE,  /* The store does not know this session (any more). */
    TN_SESSION_EV_CLOSE, /* Stop renewing; every lease was released before. */
};

struct tn_session_event {
    enum tn_session_event_kind kind;
    uint64_t seq;  /* OK, FAIL. */
    tenure_ns ttl; /* OK: what the store agreed to. */
    bool more;     /* OK: revocations are left to be read; this reply must not extend anything. */
};

enum tn_session_action_kind {
    TN_SESSION_DO_OPEN,  /* Send "open"; the store treats a repetition as a renewal. */
    TN_SESSION_DO_RENEW, /* Send "renew". */
    TN_SESSION_DO_CLOSE, /* Send "close"; no reply is needed. */
    TN_SESSION_DO_TELL,  /* The state changed: LIVE, JEOPARDY, LOST or CLOSED. */
};

struct tn_session_action {
    enum tn_session_action_kind kind;
    uint64_t seq;                /* OPEN, RENEW: comes back with the reply. */
    enum tn_session_state state; /* TELL. */
    enum tn_session_state from;  /* TELL. */
};

struct tn_session_actions {
    uint32_t count;
    struct tn_session_action list[TN_SESSION_ACTIONS];
};

struct tn_attempt {
    uint64_t seq;      /* Zero: an empty slot. */
    tenure_ns sent_at; /* Read before the request was written. */
};

struct tn_session {
    const struct tn_plan *plan;
    struct tn_timing timing;
    struct tn_prng prng;
    enum tn_session_state state;
    enum tn_reason reason;
    uint64_t life;     /* Which life of this process's session; a term belongs to exactly one. */
    uint64_t seq;      /* Of the newest attempt. */
    uint64_t answered; /* The newest attempt that the store said yes to. */
    tenure_ns now;     /* Of the last step; time never goes back. */
    tenure_ns deadline;
    tenure_ns proven; /* When the last attempt that the store confirmed was sent; 0: none was. */
    tenure_ns attempt_at; /* When to send the next attempt. */
    tenure_ns overdue_at; /* When the newest attempt counts as failed. */
    uint32_t failures;    /* Attempts failed in a row. */
    struct tn_attempt attempts[TN_SESSION_ATTEMPTS];
};

/* Start life @life of a session. @plan is borrowed until the session is no longer used. */
void tn_session_init(struct tn_session *session, const struct tn_plan *plan, uint64_t life,
                     uint64_t seed);

/* Take one event at @now, which must not lie before the last one. @ret_actions is overwritten;
 * carry out its actions in order. A request's send time is this @now, so read the clock, step, then
 * write. */
void tn_session_step(struct tn_session *session, tenure_ns now,
                     const struct tn_session_event *event, struct tn_session_actions *ret_actions);

/* When to step with TICK if nothing else happens. */
tenure_ns tn_session_wake_at(const struct tn_session *session);

/* The instant on the holder's clock after which it must not act; 0 if there was never one. */
tenure_ns tn_session_deadline(const struct tn_session *session);

/* Whether the session is good at @now: a comparison with the deadline, never a cached flag. */
bool tn_session_valid(const struct tn_session *session, tenure_ns now);

const char *tn_reason_text(enum tn_reason reason);

#endif
