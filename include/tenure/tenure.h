/* tenure.h - lead, and know to the nanosecond for how long.
 *
 * Open a store, campaign for a name, wait until it is won, and work while tenure_token() is not 0.
 *
 *     struct tenure *tenure;
 *     struct tenure_election *election;
 *     struct tenure_campaign campaign = { .size = sizeof campaign,
 *                                         .flags = TENURE_DRAINED_ON_RETURN };
 *     uint64_t token;
 *
 *     int rc = tenure_open(NULL, NULL, &tenure, NULL);
 *     if (rc == 0)
 *         rc = tenure_campaign(tenure, "nightly-report", &campaign, &election);
 *     while (!stopping && (rc == 0 || rc == TENURE_E_TIMEOUT)) {
 *         rc = tenure_wait(election, 500000000, &token);
 *         while (rc == 0 && !stopping && tenure_token(election) == token)
 *             write_something(token);
 *     }
 *
 * The token is 0 also when somebody asks for a hand-over; the lease passes on when the loop is back
 * in tenure_wait, never during a write.
 *
 * One handle is one session: a single thread of its own renews it, however many names it campaigns
 * for. Deadlines count from the moment a renewal was sent, on a clock that also runs in suspend,
 * and lie before the store can give the lease away; nothing has to be in time for that, neither a
 * callback, nor the thread, nor the network. What a deadline cannot do is stop a write that is
 * already under way: hand the token to the receiver and let it refuse older ones (tenure/fence.h).
 * A campaign without fences excludes others in time, not in effect: a process that is paused
 * between the check of its token and its write may still write behind its successor's back.
 *
 * Threads: any call from any thread and from within callbacks, unless it says otherwise.
 * Callbacks: one at a time per handle, on a second thread, so that one which blocks delays the
 *   callbacks behind it and nothing else; or, with TENURE_OWN_LOOP, within tenure_dispatch.
 * Errors: 0 or a negative code of tenure/error.h; nothing is printed, nothing exits.
 * Fork: in a forked child every handle is inert: tokens are 0, calls give TENURE_E_CLOSED. */
#ifndef TENURE_TENURE_H
#define TENURE_TENURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"
#include "tenure/time.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tenure;          /* A store, a session in it, and the thread that keeps it alive. */
struct tenure_election; /* One name that this process campaigns for, or observes. */

enum { TENURE_ID_MAX = 255, TENURE_ERROR_TEXT = 400 };

/* What went wrong, for people: one line, no full stop. */
struct tenure_error {
    int code; /* As returned. */
    char text[TENURE_ERROR_TEXT];
};

/* --- The session ------------------------------------------------------------------------------ */

enum tenure_flags {
    TENURE_OWN_LOOP = 1, /* No thread for callbacks: watch tenure_fd, call tenure_dispatch. */
};

/* All zero but for the size: the defaults. */
struct tenure_options {
    size_t size;      /* sizeof(struct tenure_options): says which members there are. */
    const char *id;   /* A label, to tell who leads; NULL: host-pid. Proves nothing. */
    tenure_ns ttl;    /* How long a lease outlives its last renewal, 1 s to 24 h; 0: 15 s. */
    tenure_ns grace;  /* How long work takes to stop; 0: TTL/5, at most 5 s. */
    uint32_t rho_ppm; /* How wrong the rate of a clock may be, in millionths; 0: 100000. */
    unsigned flags;   /* enum tenure_flags. */
    /* For receivers without a fence: when a term ends other than by being given back, nobody leads
     * for at least this long behind its deadline. The store keeps the session, and so all of its
     * leases, for so much longer than the TTL. */
    tenure_ns hold_off;
};

/* Open the store at @url and a session in it, and start the thread that keeps it alive.
 * @url: any store that `tenure --version` lists (docs/stores); NULL: TENURE_STORE of the
 * environment, else a file in the user's state directory. A store that does not answer is no error:
 * the session opens when it does. @options, which may be NULL, is copied; @reterr may be NULL.
 * Returns 0 and the handle, to be given to tenure_close. Otherwise nothing is left behind:
 * TENURE_E_INVALID      the URL, the id, or numbers that break a promise: see `tenure plan`;
 * TENURE_E_DENIED       the store belongs to somebody else;
 * TENURE_E_DAMAGED      the file is no store, or a damaged one; it was not touched;
 * TENURE_E_UNSUPPORTED  not in this build, a newer format, or a kernel that is too old;
 * TENURE_E_UNAVAILABLE  no descriptors, no thread, no disk;
 * TENURE_E_NOMEM. */
TENURE_API TENURE_MUST_USE int tenure_open(const char *url, const struct tenure_options *options,
                                           struct tenure **ret_tenure, struct tenure_error *reterr);

/* Give back every lease and end the session. All work must have stopped. All elections of the
 * handle are freed with it, and no callback runs any more once this returns; from within a callback
 * it returns at once and the rest happens behind that callback. Takes NULL.
 * Blocks for the store's answer, at most for a third of the TTL.
 * Returns 0: the leases are free. TENURE_E_TIMEOUT, TENURE_E_UNAVAILABLE: the store did not take
 * them back; they are free when the TTL is over. The handle is gone in any case. */
TENURE_API int tenure_close(struct tenure *tenure);

/* With TENURE_OWN_LOOP: a descriptor that is readable when tenure_dispatch has something to do. It
 * stays the handle's; do not read or close it. -1 without that flag, and in a forked child. */
TENURE_API int tenure_fd(const struct tenure *tenure);

/* With TENURE_OWN_LOOP: run the callbacks that are due, on this thread. Never waits for one.
 * Returns how many ran, or TENURE_E_INVALID without that flag, TENURE_E_CLOSED when one of them
 * closed the handle: then it is gone. */
TENURE_API int tenure_dispatch(struct tenure *tenure);

/* Whether the store answers: 0, or the code of the last operation, told in @reterr (may be NULL).
 * TENURE_E_TIMEOUT before the first answer. Never blocks. */
TENURE_API int tenure_health(struct tenure *tenure, struct tenure_error *reterr);

/* What people should know of the store and need not act on at once: a server version with known
 * faults, a setting that weakens a promise. False: nothing so far. It may come once the store has
 * answered; the code in @ret_warning is 0. Never blocks. */
TENURE_API bool tenure_warning(struct tenure *tenure, struct tenure_error *ret_warning);

/* --- Elections -------------------------------------------------------------------------------- */

enum tenure_event_kind {
    TENURE_WON = 1,  /* The term of @token begins. */
    TENURE_JEOPARDY, /* A renewal is overdue; the term is still valid. */
    TENURE_SAFE,     /* And came through. */
    TENURE_STOP,     /* tenure_resign was called, or (@reason TENURE_REASON_ASKED) an operator asks
                        for it: stop the work, then call tenure_drained. The term is valid still. */
    TENURE_LOST, /* The term of @token is over, for @reason: stop at once, then tenure_drained. */
    TENURE_REFUSED, /* A grant was not taken, for @reason; there was no term. TOKEN_REGRESSED is
                       told once until the next WON; @detail says what an operator can do. */
    TENURE_LEADER,  /* @leader leads with @token. */
    TENURE_VACANT,  /* Nobody leads; @token was the last. */
    TENURE_RENEWED, /* With TENURE_TELL_RENEWED: tenure_deadline has moved. */
    TENURE_HEALTH,  /* With TENURE_TELL_HEALTH: the code of tenure_health has changed. */
};

/* Why a term ended, or did not begin. */
enum tenure_reason {
    TENURE_REASON_NONE,
    TENURE_REASON_EXPIRED,         /* No renewal came through in time. */
    TENURE_REASON_REVOKED,         /* An operator took the lease away. */
    TENURE_REASON_RELEASED,        /* It was given back. */
    TENURE_REASON_STALLED,         /* No check-in, or no tenure_drained, in time. */
    TENURE_REASON_TOKEN_REGRESSED, /* The store went back in time. */
    TENURE_REASON_FENCE,           /* A fence could not be raised. */
    TENURE_REASON_CLOSED,          /* The session was closed. */
    TENURE_REASON_ASKED,           /* STOP: an operator asked; the campaign goes on afterwards. */
};

struct tenure_event {
    enum tenure_event_kind kind;
    enum tenure_reason reason; /* LOST, REFUSED, STOP. */
    uint64_t token;
    const char *leader; /* LEADER: the label of who leads. Good during the callback, never NULL. */
    const char *detail; /* LOST, REFUSED: what the store or the fence said last, for people. STOP:
                           what was asked for, "handover", "stand-down", "drain" or "yield". */
    /* LOST: the instant of CLOCK_BOOTTIME at which the last renewal that the store confirmed was
     * sent. Up to then the term is proven; work since then is the work to look at, or to undo. It
     * may lie before WON. Otherwise 0. */
    tenure_ns proven;
};

/* WON and LOST alternate strictly per election, beginning with WON. A term that ended before its
 * WON could be told is not told at all, unless tenure_token or tenure_wait has given its token out.
 * Of several changes of the leader the last one is told. */
typedef void tenure_callback(struct tenure_election *election, const struct tenure_event *event,
                             void *arg);

enum tenure_campaign_flags {
    TENURE_DRAINED_ON_RETURN = 1, /* When the callback returns from STOP or LOST, the work has
                                     stopped: tenure_drained need not be called. Without a
                                     callback the next tenure_wait says so; call it from one
                                     thread, and only when no work of the last term runs. */
    TENURE_NOT_READY = 2,         /* Wait for tenure_ready(election, true). */
    TENURE_TELL_RENEWED = 4,
    TENURE_TELL_HEALTH = 8,
    TENURE_PATIENT = 16, /* You see to it that work ends by the deadline: a drain that takes longer
                            than the grace is no stall. */
    TENURE_YIELD = 32,   /* With a priority: STOP is told when a candidate with a higher one waits,
                            with TENURE_REASON_ASKED and the detail "yield". */
};

/* All zero but for the size: the defaults. */
struct tenure_campaign {
    size_t size;
    tenure_callback *callback; /* NULL: call tenure_wait and tenure_token. The token is 0 from STOP
                                  on, so that the work ends. */
    void *arg;
    /* Without a tenure_check_in for so long the term ends; 0: it need not. */
    tenure_ns stall_after;
    tenure_ns grace; /* For this election; 0: that of the session. */
    unsigned flags;  /* enum tenure_campaign_flags. */
    /* URL#RESOURCE, NULL behind the last: raised before WON. One that is not there is not made:
     * each grant is REFUSED. NULL: there is no fence; then make sure that a late write does no
     * harm. */
    const char *const *fences;
    /* A semaphore: up to this many candidates lead at the same time, each with a token of its own;
     * 0 and 1: one. At most 64, the same number in all candidates, and without fences: a fence
     * admits the highest token only. */
    uint32_t slots;
    /* 1 to 9: among candidates that have one and wait, the higher leads first. 0: the election
     * takes no part. Only in stores that keep a line of those who wait, and without slots. */
    uint32_t priority;
    /* 0: none. When the store has not heard of the leader for so long, a candidate that has a soft
     * limit and the same fences (files of this machine, or URLs of servers) may lead before the TTL
     * is over: the fences go up before its WON, and refuse the former one, which may not know yet
     * that it has lost. For work that does harm only through the fences. Not with a hold-off or a
     * priority; it counts while the handle leads nothing else. In the stores sqlite, tenured, unix
     * and memory. */
    tenure_ns soft_limit;
};

/* The same struct under a name that is no function's, for C++ and for those who prefer it. */
typedef struct tenure_campaign tenure_campaign_options;

/* Campaign for @name, term after term, until tenure_resign or tenure_leave. @campaign may be NULL;
 * it and the strings are copied. The first callback may run before this returns.
 * Returns 0 and the election, to be given to tenure_leave or freed by tenure_close.
 * TENURE_E_INVALID (the name, also one below "~tenure/", a fence, or a grace that breaks P8),
 * TENURE_E_NOMEM,
 * TENURE_E_UNSUPPORTED (a fence that is not in this build, a priority in a store without a line),
 * TENURE_E_CLOSED. */
TENURE_API TENURE_MUST_USE int tenure_campaign(struct tenure *tenure, const char *name,
                                               const struct tenure_campaign *campaign,
                                               struct tenure_election **ret_election);

/* Only hear who leads @name: LEADER and VACANT. Otherwise as tenure_campaign. */
TENURE_API TENURE_MUST_USE int tenure_observe(struct tenure *tenure, const char *name,
                                              tenure_callback *callback, void *arg,
                                              struct tenure_election **ret_election);

/* The token while the term is valid this very instant, otherwise 0: not leading, or no longer.
 * Once it was 0 in a term, it stays 0 until the next WON. Lock-free, async-signal-safe, in tens of
 * nanoseconds: ask before each write, and send the token with it. Takes NULL. */
TENURE_API uint64_t tenure_token(const struct tenure_election *election);

/* The instant of CLOCK_BOOTTIME at which the term ends unless it is renewed; 0 when not leading.
 * Lock-free, async-signal-safe. */
TENURE_API tenure_ns tenure_deadline(const struct tenure_election *election);

/* Step down: STOP is told, then LOST (released) when the work has drained, and the next candidate
 * leads at once. Not leading, stop waiting. No further campaign until tenure_stand.
 * 0 or TENURE_E_CLOSED. */
TENURE_API int tenure_resign(struct tenure_election *election);

/* Campaign again after tenure_resign. 0 or TENURE_E_CLOSED. */
TENURE_API int tenure_stand(struct tenure_election *election);

/* The work of the last term has stopped: only now is its lease given back, and only now can there
 * be another term. Also ends a term whose work is simply done. 0 or TENURE_E_CLOSED. */
TENURE_API int tenure_drained(struct tenure_election *election);

/* Whether the process could lead at once. While it is not, it does not acquire and leaves the
 * queue; a term that it has goes on. 0 or TENURE_E_CLOSED. */
TENURE_API int tenure_ready(struct tenure_election *election, bool ready);

/* The work loop is alive (see stall_after, which is 24 h at most). 0 or TENURE_E_CLOSED. */
TENURE_API int tenure_check_in(struct tenure_election *election);

/* End the election and free it; the work must have stopped. A lease it has is given back. No
 * callback of it runs any more once this returns, unless this is called from within one.
 * Takes NULL. */
TENURE_API void tenure_leave(struct tenure_election *election);

/* The name, as long as the election is. */
TENURE_API const char *tenure_name(const struct tenure_election *election);

/* The word for @reason, as the command prints it: "expired", "revoked", ... Never NULL. */
TENURE_API const char *tenure_reason_text(enum tenure_reason reason);

/* The version of the library, such as "0.1.0". */
TENURE_API const char *tenure_version(void);

/* --- To wait, and to be told why not ---------------------------------------------------------- */

/* Block until @election leads, for @timeout at most; negative: without a limit; 0: only look.
 * Returns 0, and the term's token in @ret_token: ask tenure_token before each write all the same.
 * TENURE_E_TIMEOUT; TENURE_E_CLOSED: the election was left, or the handle closed, meanwhile;
 * TENURE_E_INVALID: it only observes, or see below. On error @ret_token is unchanged. Any number of
 * threads may wait; with TENURE_OWN_LOOP no tenure_dispatch is needed for it.
 * With TENURE_DRAINED_ON_RETURN and no callback a call means that no work of the last term runs any
 * more: after STOP or LOST it gives the lease back. Then all calls come from one thread;
 * TENURE_E_INVALID: it is another one. */
TENURE_API TENURE_MUST_USE int tenure_wait(struct tenure_election *election, tenure_ns timeout,
                                           uint64_t *ret_token);

/* As tenure_campaign and tenure_observe, and @reterr (may be NULL) says what is wrong: with the
 * name, the options, the fence, or the numbers. */
TENURE_API TENURE_MUST_USE int tenure_campaign_start(struct tenure *tenure, const char *name,
                                                     const tenure_campaign_options *options,
                                                     struct tenure_election **ret_election,
                                                     struct tenure_error *reterr);
TENURE_API TENURE_MUST_USE int tenure_observe_start(struct tenure *tenure, const char *name,
                                                    tenure_callback *callback, void *arg,
                                                    struct tenure_election **ret_election,
                                                    struct tenure_error *reterr);

/* Of a semaphore (slots of struct tenure_campaign): the number of the slot that the term of
 * @election has, from 1 on; 0: it does not lead, or it is no semaphore. LEADER means there that
 * others hold all slots, VACANT that one is free. Lock-free. */
TENURE_API uint32_t tenure_slot(const struct tenure_election *election);

/* --- For operators ---------------------------------------------------------------------------- */

/* As `tenure revoke`: take the lease @name away from its holder, or with a @token other than 0 only
 * if that term still lasts. The holder is told, and the next one leads when it has given the lease
 * back, at the latest a TTL from now. Blocks for the store's answers. @reterr may be NULL.
 * Returns 0: it is taken away. TENURE_E_NOT_HELD: nobody holds it, or not under that token;
 * TENURE_E_INVALID (the name); TENURE_E_UNSUPPORTED (the store has no revocation);
 * TENURE_E_DENIED, TENURE_E_UNAVAILABLE, TENURE_E_CLOSED;
 * TENURE_E_TIMEOUT: it may have happened. */
TENURE_API int tenure_revoke(struct tenure *tenure, const char *name, uint64_t token,
                             struct tenure_error *reterr);

/* All zero but for the size: the defaults. */
struct tenure_handover_options {
    size_t size;
    const char *to; /* The id of the candidate that is to lead; NULL: the next one. */
    tenure_ns wait; /* How long to follow it; 0: 30 s. */
    uint64_t token; /* Only the term of this token; 0: whichever it is. */
};

/* As `tenure handover`: ask the holder of @name to step down, and return when another one leads.
 * The holder hears STOP with TENURE_REASON_ASKED and renews until its work has drained. @options,
 * @ret_token and @reterr may be NULL. Blocks that long, and renewals go on meanwhile; not from
 * within a callback, nor on the thread that calls tenure_dispatch if this process is the holder.
 * tenure_close waits until it has returned.
 * Returns 0, and the new term's token in @ret_token; the one of @to leads already: 0 and its token.
 * TENURE_E_NOT_HELD: nobody holds it, or not under that token;
 * TENURE_E_CONFLICT: another operator's wish is in force, or another term began than was asked for,
 * told in @reterr: nobody else was waiting, or somebody who is not @to was faster;
 * TENURE_E_TIMEOUT: not within @wait; the holder may still step down;
 * TENURE_E_INVALID: the name, the options, or within a callback;
 * TENURE_E_UNSUPPORTED: in this store a wish ends with its process: use the command;
 * TENURE_E_DENIED, TENURE_E_UNAVAILABLE, TENURE_E_CLOSED. */
TENURE_API int tenure_handover(struct tenure *tenure, const char *name,
                               const struct tenure_handover_options *options, uint64_t *ret_token,
                               struct tenure_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
