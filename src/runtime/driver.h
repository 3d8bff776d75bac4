/* driver.h - a candidate on a real store: requests out, answers in, by the real clock, on one loop.
 *
 * The core's state is under one lock and may be stepped by any thread; only the store belongs to
 * the loop's thread. So a loop that hangs in a disk's flush delays renewals, but neither wishes nor
 * the deadline: whoever holds the lock may tick.
 *
 *   any thread:      tn_driver_lock; tn_driver_wish, _tick, _add, ...; tn_driver_unlock
 *   loop's thread:   submits what the steps left in the outbox, hears the answers, keeps the timer
 *
 * Host functions are called with the lock held and must not block. */
#ifndef TN_RUNTIME_DRIVER_H
#define TN_RUNTIME_DRIVER_H

#include <pthread.h>
#include <uv.h>

#include "core/candidate.h"
#include "runtime/ledger.h"
#include "runtime/store.h"

struct tn_driver;
struct tn_driver_req;

/* One name that is campaigned for or observed; the caller's, first member of something larger. */
struct tn_driver_seat {
    struct tn_seat seat;
    const char *name;     /* Borrowed until dispose(). */
    uint64_t number;      /* Keeps the secrets of two seats apart. */
    struct tn_soft *soft; /* NULL: without a soft limit. */
    char *leader;         /* The label of the leader told last, or NULL. */
    uint32_t leader_len;
    uint32_t place;                     /* In the ledger; 0: it is not there. */
    uint64_t noted;                     /* The generation that is there. */
    struct tn_driver_req *reqs;         /* On their way. */
    struct tn_driver_seat *bucket_next; /* By name. */
    struct tn_driver_seat *chore_next;  /* Waits for the loop's thread. */
    bool chore, watched, leaving, left;
    bool note_watched; /* So is the name of notes about it. */
};

/* An operation beside the candidate's own, such as an operator's. The caller's, until done. */
struct tn_driver_errand {
    struct tn_store_req req; /* First. The caller sets its op. */
    struct tn_driver *driver;
    struct tn_driver_errand *next;
    void (*done)(struct tn_driver_errand *errand); /* On the loop's thread, with the lock held. */
};

struct tn_driver_host {
    /* WON, DRAIN, LOST, REFUSED, LEADER. */
    void (*tell)(void *arg, struct tn_driver_seat *seat, const struct tn_claim_action *action);
    void (*tell_session)(void *arg, const struct tn_session_action *action);
    /* After every step, before the lock is let go. */
    void (*settle)(void *arg);
    /* Raise the seat's fences to @token, then tn_driver_raised; NULL: there are none. */
    void (*raise)(void *arg, const struct tn_request *request);
    /* The seat is no longer used: free it. */
    void (*dispose)(void *arg, struct tn_driver_seat *seat);
};

struct tn_driver {
    pthread_mutex_t lock;
    uv_loop_t *loop;
    uv_async_t nudge;
    uv_poll_t timer_poll;
    int timer;
    tenure_ns timer_at;
    struct tn_clock clock;
    struct tn_plan plan;
    struct tn_claim_config config;
    struct tn_candidate candidate;
    struct tn_store *store;
    const struct tn_driver_host *host;
    void *arg;
    struct tn_secret secret;  /* Every secret of this process is a hash of this one. */
    struct tn_ledger *ledger; /* Keeps them for the next process; NULL: nobody does. */
    char label[TN_LABEL_MAX + 1];
    char drain_notes[TN_NOTE_SLOTS][TN_NAME_MAX + 1]; /* Names of notes about this process; empty:
                                                         there can be none. */
    bool drains_watched;
    uint64_t seat_numbers;
    struct tn_driver_seat **buckets; /* By name; a power of two. */
    uint32_t bucket_count;
    struct tn_driver_req *outbox, **outbox_end;
    struct tn_driver_errand *errands;
    struct tn_driver_seat *chores;
    uint32_t leaving; /* Seats that wait for their release. */
    bool nudged, closing, closed;
    tenure_ns close_by;
    int close_status;
    struct tn_request last_word; /* CLOSE; said again when the store did not take it. */
    tenure_ns say_again_at;
    bool answered;            /* The store ever did. */
    int error;                /* Of the last operation; 0: it was answered. */
    enum tn_op_kind error_of; /* What that was. */
    char error_text[TN_ERROR_TEXT];
    char warning[TN_ERROR_TEXT]; /* Of the store; empty: none. */
};

/* Tells a store who drives it: pass it as tn_store_open's host, with the driver as @arg. */
extern const struct tn_store_host tn_driver_store_host;

/* Prepare; nothing runs yet. @plan is copied, @host borrowed. On error nothing is left behind:
 * TENURE_E_NOMEM, TENURE_E_UNAVAILABLE (descriptors), TENURE_E_UNSUPPORTED (random numbers, or a
 * kernel that does not tell its boots apart). */
TENURE_MUST_USE int tn_driver_init(struct tn_driver *driver, uv_loop_t *loop,
                                   const struct tn_plan *plan, const char *label,
                                   const struct tn_driver_host *host, void *arg);

/* Campaign in @store, which the driver owns from now on. Call it before the loop runs. The session
 * opens with the first campaign. */
void tn_driver_start(struct tn_driver *driver, struct tn_store *store);

/* Undo tn_driver_init when there was no tn_driver_start; the loop has to run once more. */
void tn_driver_cancel(struct tn_driver *driver);

/* Free what is left, once the loop has ended. */
void tn_driver_done(struct tn_driver *driver);

void tn_driver_lock(struct tn_driver *driver);
void tn_driver_unlock(struct tn_driver *driver);

/* --- With the lock held --- */

/* Take a seat for @seat->name; @config NULL: the driver's own. TENURE_E_CLOSED: it is closing. */
TENURE_MUST_USE int tn_driver_add(struct tn_driver *driver, struct tn_driver_seat *seat,
                                  const struct tn_claim_config *config);

/* From now on the secrets are those of @ledger, which stays the caller's; and so is the session, if
 * it was resumed. Before the first seat is taken and the session opens. */
void tn_driver_keep(struct tn_driver *driver, struct tn_ledger *ledger);

/* Go on with what the ledger had in @place: its entry is @past. @token as in tn_claim_resume. After
 * tn_driver_add, before anything is wished. */
void tn_driver_resume(struct tn_driver_seat *seat, const struct tn_ledger_entry *past,
                      uint32_t place, uint64_t token);

/* The work has stopped: give back what it has, then dispose of the seat. */
void tn_driver_leave(struct tn_driver *driver, struct tn_driver_seat *seat);

void tn_driver_wish(struct tn_driver *driver, struct tn_driver_seat *seat,
                    enum tn_claim_event_kind wish);
/* What its claim's rank knows has changed (core/rank.h). */
void tn_driver_look(struct tn_driver *driver, struct tn_driver_seat *seat);
void tn_driver_raised(struct tn_driver *driver, const struct tn_request *request, int status,
                      uint64_t token);
void tn_driver_tick(struct tn_driver *driver);
void tn_driver_expire(struct tn_driver *driver);

/* How another process is bound to the present session; false: nobody needs to be. */
bool tn_driver_binding(struct tn_driver *driver, struct tn_store_binding *ret_binding);

/* Send it; its done() comes once the store has answered, at the latest when its patience is over.
 * Before tn_driver_close all must be done. */
void tn_driver_run(struct tn_driver *driver, struct tn_driver_errand *errand);

/* Close the session, and give up waiting for the store's answer at @by; then the loop ends. All
 * seats are disposed of. The answer is in close_status. */
void tn_driver_close(struct tn_driver *driver, tenure_ns by);

#endif
