/* claim.h - ownership: one candidate's claim on one name, through any number of terms.
 *
 *                       acquire()             granted()            raised()
 *        +-> WATCHING ------------> ACQUIRING ----------> RAISING ----------> HOLDING
 *        |      ^  ^  held, queued      |                    | cannot raise      |
 *        |      |  +--------------------+                    |                   | resign(), lose()
 *        |      |                                            v                   v
 *        |      +--------------------------------------- RELEASING <-------- DRAINING
 *        |               released, session over                   drained()      |
 *        +-----------------------------------------------------------------------+
 *                         drained() with nothing left to release
 *
 * The claim never counts a deadline: a term is valid while its session (session.h) is. So a process
 * with ten thousand claims renews one session and steps none of them.
 *
 * The application hears WON and LOST strictly in turn (W1). Between LOST - or the request to drain
 * - and the application's DRAINED the claim neither releases nor campaigns (P5).
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_CLAIM_H
#define TN_CORE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "core/note.h"
#include "core/session.h"

#define TN_CLAIM_ACTIONS 6

enum tn_claim_state {
    TN_CLAIM_WATCHING,  /* Not holding; wants to, or not. Perhaps in the store's queue. */
    TN_CLAIM_ACQUIRING, /* An acquire is on its way. */
    TN_CLAIM_RAISING,   /* Granted; the fences go up before anyone hears of it (P4). */
    TN_CLAIM_HOLDING,   /* The application leads. */
    TN_CLAIM_DRAINING,  /* The application is stopping; valid still if it resigned. */
    TN_CLAIM_RELEASING, /* The work has stopped; the lease is on its way back. */
    TN_CLAIM_STATE_COUNT
};

/* Shared by all claims of a process. */
struct tn_claim_config {
    tenure_ns attempt_timeout; /* An unanswered request is repeated after this. */
    tenure_ns backoff;         /* And a refused or failed one after this. */
    tenure_ns poll_every;      /* Backstop for lost wake-ups. */
    tenure_ns queue_poll;      /* The same while queued in a store that tells; 0: poll_every. */
    tenure_ns drain_timeout;   /* Draining longer than this counts as a stall. */
    tenure_ns stall_after;     /* The work loop must check in this often; 0: it need not. */
    tenure_ns raise_timeout;   /* Fences that are not up by then cost the grant. */
    tenure_ns soft;            /* Soft limit (F1): in line, ask four times within it; 0: none. */
    struct tn_note_times notes;
    uint32_t jitter_ppm;
    bool fenced;   /* Raise fences before WON. */
    bool observed; /* The store does not expire: vacancy comes from an observer (observer.h). */
};

enum tn_claim_event_kind {
    TN_CLAIM_EV_TICK,
    /* From the application. */
    TN_CLAIM_EV_CAMPAIGN,  /* Wants to lead. */
    TN_CLAIM_EV_RESIGN,    /* Wants no longer; drains if it leads. */
    TN_CLAIM_EV_READY,     /* Could lead at once. */
    TN_CLAIM_EV_NOT_READY, /* Could not: does not acquire, leaves the queue, keeps a term it has. */
    TN_CLAIM_EV_DRAINED,   /* The work has stopped. */
    TN_CLAIM_EV_CHECK_IN,  /* The work loop is alive. */
    TN_CLAIM_EV_OBSERVE,   /* Wants to hear who leads, though it may never campaign. */
    /* From operators, through the store. */
    TN_CLAIM_EV_NOTED, /* @note is about the name; NULL: one about the process has changed. */
    /* From the session. */
    TN_CLAIM_EV_SESSION_LIVE,
    TN_CLAIM_EV_SESSION_LOST,
    /* From the store. */
    TN_CLAIM_EV_GRANTED,  /* @gen holds the lease with @token: a reply, or a push. */
    TN_CLAIM_EV_QUEUED,   /* @gen waits in the store's queue. */
    TN_CLAIM_EV_HELD,     /* Someone else holds it, under @token. */
    TN_CLAIM_EV_FAILED,   /* The request of @gen failed, or nobody knows: repeat it. */
    TN_CLAIM_EV_OBSERVED, /* The record: @token, @held, and if by us, @mine and @gen. */
    TN_CLAIM_EV_RELEASED, /* @gen holds nothing and waits for nothing (any more). */
    TN_CLAIM_EV_REVOKED,  /* An operator took @token away. */
    TN_CLAIM_EV_DOUBT,    /* The store counts fewer leases of ours than we hold: look it up. */
    /* From the fences. */
    TN_CLAIM_EV_RAISED, /* They are up at @token. */
    TN_CLAIM_EV_BARRED, /* They will not go up to @token, however often they are asked. */
    TN_CLAIM_EV_STALE,  /* They already stand higher, at @token. */
};

struct tn_claim_event {
    enum tn_claim_event_kind kind;
    uint64_t gen;
    uint64_t token;
    bool held;
    bool mine;
    uint64_t read;              /* OBSERVED: of the DO_READ that it answers; 0: nobody asked. */
    const struct tn_note *note; /* NOTED. */
};

enum tn_claim_action_kind {
    TN_CLAIM_DO_ACQUIRE, /* Ask for the lease under the secret of @gen; repeating it is harmless. */
    TN_CLAIM_DO_READ,    /* Read the record; answer with OBSERVED and the same @read. */
    TN_CLAIM_DO_RELEASE, /* Give back exactly (@gen, @token); token 0: whatever it has. */
    TN_CLAIM_DO_RAISE,   /* Raise the fences to @token; @gen comes back with the answer. */
    TN_CLAIM_DO_WON,     /* Tell the application: it leads with @token. */
    TN_CLAIM_DO_DRAIN,   /* Tell the application: stop, then say DRAINED. It still leads. @reason is
                            ASKED for an operator, NONE after RESIGN. */
    TN_CLAIM_DO_LOST,    /* Tell the application: @token is over, for @reason. */
    TN_CLAIM_DO_REFUSED, /* A grant was not taken, for @reason; the application never led. */
    TN_CLAIM_DO_LEADER,  /* Tell the application: @token leads, or (held false) nobody since it. */
};

struct tn_claim_action {
    enum tn_claim_action_kind kind;
    enum tn_reason reason;
    uint64_t gen;
    uint64_t token;
    uint64_t seen; /* REFUSED as TOKEN_REGRESSED: the higher token that was seen before. */
    uint64_t read;
    tenure_ns proven; /* LOST: when the last renewal that was confirmed was sent. */
    bool held;
    bool mine;              /* LEADER: the record is of a grant of our own. */
    enum tn_note_kind note; /* DRAIN, ASKED: for what. */
};

struct tn_claim_actions {
    uint32_t count;
    struct tn_claim_action list[TN_CLAIM_ACTIONS];
};

struct tn_claim {
    const struct tn_claim_config *config;
    const struct tn_session *session;
    struct tn_prng prng;
    tenure_ns now;
    tenure_ns retry_at; /* Of the request on its way, or the next poll. */
    tenure_ns
        give_up_at; /* RAISING: of the fences. DRAINING: of the drain, or a stall's release. */
    tenure_ns check_in_by;  /* When a silent work loop counts as stalled. */
    uint64_t gen;           /* Names the secret of the present or next term. */
    uint64_t life;          /* Of the session the present term belongs to. */
    uint64_t token;         /* Of the present term; 0: none. */
    uint64_t high_token;    /* The highest token seen that was not this term's. */
    uint64_t revoked_token; /* The highest token known to be revoked. */
    uint64_t leader_token;  /* What DO_LEADER last told. */
    uint64_t reads;         /* The number of the newest DO_READ. */
    uint64_t first_read;    /* The first one sent within the present term. */
    struct tn_notes notes;
    enum tn_claim_state state;
    bool leader_held;
    bool hurried; /* Asked again at once, because of the vacancy told last. */
    bool campaigning;
    bool ready;
    bool observing;
    bool informed;  /* Has heard who leads. */
    bool queued;    /* WATCHING: in the store's queue, which wakes us. */
    bool lost;      /* P6: the present term is over, latched. */
    bool refused;   /* The present grant was not taken. */
    bool owed;      /* The lost term still has to be released. */
    bool working;   /* The application was told WON and has not said DRAINED. */
    bool barred;    /* Kept out by a note, when looked at last. */
    bool yields;    /* Stands back when the present term is over. */
    bool unsettled; /* An acquire may arrive at the store yet; look out for a stray grant. */
    bool resuming;  /* The term began in a process before this one; the store has not confirmed it.
                     */
};

/* @config and @session are borrowed for the claim's life. Starts WATCHING, ready, not campaigning.
 * The seed only spreads retries and polls in time. */
void tn_claim_init(struct tn_claim *claim, const struct tn_claim_config *config,
                   const struct tn_session *session, uint64_t seed);

/* Go on, in the same session, where a process before this one was, which had asked for the lease
 * under @gen. @token: its term, whose work goes on; the store is asked, and WON or LOST is told. 0:
 * it is not known whether it has anything, and nobody works with it: it is given back. CAMPAIGN
 * follows, perhaps RESIGN. */
void tn_claim_resume(struct tn_claim *claim, uint64_t gen, uint64_t token);

/* Take one event. Step the session first when both are due at one instant. */
void tn_claim_step(struct tn_claim *claim, tenure_ns now, const struct tn_claim_event *event,
                   struct tn_claim_actions *ret_actions);

tenure_ns tn_claim_wake_at(const struct tn_claim *claim);

/* Whether the candidate waits, and shows at which priority (core/rank.h). */
bool tn_claim_announces(const struct tn_claim *claim);

/* The token while the term is valid at @now, otherwise 0. */
uint64_t tn_claim_token(const struct tn_claim *claim, tenure_ns now);

#endif
