/* private.h - what the files of the easy API share: the handle, the election, and who may touch
 * which.
 *
 * Three threads meet here. The loop's thread renews; the application's threads wish; callbacks run
 * on a thread of their own (or on the application's, in tenure_dispatch). All state is under the
 * driver's lock but for two atomic words, from which tenure_token is answered without it:
 *
 *   shared->deadline   of the session; 0: there is none, or somebody saw it pass (P6)
 *   election->token    of the term; 0: not leading
 *
 * A reader takes the deadline first, then the token, then the time. A term's token is set to 0
 * before a later session's deadline is put there, so an old token never meets a new deadline. */
#ifndef TN_LIB_PRIVATE_H
#define TN_LIB_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "core/slots.h"
#include "lib/agent.h"
#include "lib/command.h"
#include "runtime/driver.h"
#include "tenure/tenure.h"

/* In a page of its own that the kernel empties in a forked child. */
struct tn_shared {
    _Atomic tenure_ns deadline;
    _Atomic uint32_t alive;
};

/* Elections with the same numbers share one. */
struct tn_lib_config {
    struct tn_claim_config claim;
    struct tn_lib_config *next;
};

/* What an election has beside, if it is one of a semaphore. */
struct tn_lib_slot {
    struct tn_lib_slots *all;
    struct tenure_election *election;
    uint32_t index, number;
    bool open; /* Its claim was told that it may win. */
};

/* A semaphore: its slots, by their index in the core. The application sees the first election only,
 * and its events and state are in that one; each of the others just holds a claim. */
struct tn_lib_slots {
    struct tn_slots core;
    struct tn_lib_slots *next; /* Of the handle. */
    uint32_t members;          /* Not yet freed. */
    bool full;                 /* As told last: others hold all. */
    bool left;
    _Atomic uint32_t kept;                   /* The number of the slot that the last term had. */
    const struct tenure_election *leader_of; /* The slot that LEADER was told of. */
    struct tn_lib_slot list[TN_SLOTS_MAX];
};

/* The priority of an election, and those that show who waits: of our own level, then of all higher
 * ones. */
struct tn_lib_rank {
    struct tn_rank core;
    struct tn_lib_rank *next; /* Of the handle. */
    struct tenure_election *election;
    struct tenure_election *list[TN_RANK_MAX];
    uint32_t count;
    uint32_t members; /* Not yet freed, the application's included. */
    bool heard;       /* Something that its claim does not know yet. */
};

/* What the application knows of the term that an election has, or had last.
 *
 *      NONE --the grant--> UNTOLD --WON told--> KNOWN --the end--> NONE, and LOST is told
 *                            +--ends unread--> TAKEN_BACK
 *
 * Without a callback a term is KNOWN from its beginning. One of which a thread has read the token
 * is not taken back. */
enum tn_term_state {
    TN_TERM_NONE,
    TN_TERM_UNTOLD,
    TN_TERM_KNOWN,      /* Somebody may be at work in it. */
    TN_TERM_TAKEN_BACK, /* Never told, even if a thread reads the token later: nothing to stop. */
    TN_TERM_STATE_COUNT,
};

/* The thread that asks for terms by tenure_wait, with TENURE_DRAINED_ON_RETURN, no callback. */
enum tn_asker_state {
    TN_ASKER_WORKS, /* Or may, in a term. */
    TN_ASKER_OWES,  /* STOP or LOST has come: its next tenure_wait says that the work is over. */
    TN_ASKER_WAITS, /* In tenure_wait: no work is under way. */
};

enum tn_election_life {
    TN_ELECTION_STANDS,
    TN_ELECTION_LEFT,     /* By tenure_leave: the application hears nothing more. */
    TN_ELECTION_DISPOSED, /* By the driver, too: freed when its callback and its fences are done. */
};

struct tenure_election {
    struct tn_driver_seat seat; /* First: the driver hands it back. */
    struct tn_lib_slot *slot;   /* NULL: it is none of a semaphore. */
    struct tn_lib_rank *rank;   /* NULL: it has no priority. */
    struct tenure *tenure;
    _Atomic uint64_t token;
    tenure_callback *callback;
    void *arg;
    struct tn_list_node news_node; /* Of tenure->news, while there is any. */
    uint64_t won_token, lost_token, refused_token, leader_token;
    uint64_t refused_seen; /* The higher token, when the store went back. */
    tenure_ns lost_proven;
    pid_t asker; /* The thread that calls tenure_wait, without a callback; 0: none has. */
    enum tn_asker_state asker_state : 8;
    enum tn_election_life life : 8;
    enum tn_term_state term : 8;
    /* What the application has to hear of yet: a bit for each enum tenure_event_kind, and what the
     * events say. At most one of each, so nothing can pile up. */
    uint16_t news;
    uint8_t lost_reason, refused_reason;
    uint8_t stop_note; /* enum tn_note_kind; NONE: the application resigned. */
    bool leader_mine;  /* The record that was told last is of our own grant. */
    bool anxious;      /* JEOPARDY was told, and SAFE not yet. */
    bool unheard;      /* A term was taken back: the core is to be told that its work is over. */
    bool regressed;    /* That the store went back was told, and there was no term since. */
    bool raising;      /* A thread is at its fences. */
    /* Set once. @level: of an election that shows who waits; 0: it is none of these. */
    bool observes : 1, drained_on_return : 1, tell_renewed : 1, tell_health : 1;
    uint8_t level : 4;
    atomic_bool seen; /* Somebody has read the token, and may be at work. */
    uint16_t waiters; /* Threads in tenure_wait. */
    char **fences;    /* NULL: none; otherwise one block, and NULL behind the last. */
    char name[];
};

struct tenure {
    struct tn_shared *shared;
    struct tn_driver driver;
    uv_loop_t loop;
    uv_prepare_t before_wait; /* The loop's thread tells whether it works (lib/forks.h). */
    uv_check_t after_wait;
    pthread_t loop_thread;
    pthread_t herald;        /* Runs the callbacks, unless the application's loop does. */
    pthread_cond_t returned; /* A callback has, or whoever waited for one; or a term has begun. */
    struct tn_lib_config *configs;
    struct tn_lib_slots *slots;
    struct tn_lib_rank *ranks;
    struct tn_list news;             /* Elections that have some. */
    struct tenure_election *calling; /* Whose callback runs. */
    pthread_t dispatcher;
    tenure_ns published; /* What is in shared->deadline, unless a reader has latched it. */
    int bell;            /* An eventfd: there is news. */
    int timer;           /* The deadline has passed, even if the loop's thread hangs. */
    int watch;           /* An epoll of both. */
    uint32_t raising;    /* Threads at fences. */
    uint32_t listeners;  /* Elections that want to hear of renewals, or of the store's health. */
    int illness;         /* The store's error as told last. */
    uint32_t waiting;    /* Threads in tenure_leave or tenure_wait: the handle stays until
                            they are out. */
    struct tn_ledger ledger; /* Of tn_lib_keep. */
    bool keeps;
    const struct tn_ledger_entry *past; /* What the next election goes on with, and its token. */
    uint64_t past_token;
    bool own_loop, shares, unbound, dispatching, rung, closing, closed_by_callback;
    int fence_status;                    /* Of the last raise that failed, */
    char fence_error[TENURE_ERROR_TEXT]; /* and why. */
    char regress[TENURE_ERROR_TEXT];     /* What to do about a store that went back. */
};

/* news.c: the driver's host. */
extern const struct tn_driver_host tn_lib_host;

/* Call back with what there is, some of it if there is much. How often, or TENURE_E_CLOSED in a
 * child that a callback has forked, without the lock. Lock held, but not during callbacks. */
int tn_lib_hand_out(struct tenure *tenure);

/* The deadline has moved, or the store's health changed: for those who want to hear of it. Lock
 * held. */
void tn_election_renewed(struct tenure_election *election);
void tn_election_health(struct tenure_election *election);

/* soft.c: the limit, and the digest by which the store knows that two candidates for @name raise
 * the same fences. For the caller to free. 0 or a code. */
TENURE_MUST_USE int tn_lib_soft_make(const char *name, tenure_ns limit, char *const *fences,
                                     struct tn_soft **ret_soft, struct tn_text *reterr);
/* Whether the campaign's soft limit may be had in a store with these caps. */
TENURE_MUST_USE int tn_lib_soft_check(const struct tn_plan *plan, unsigned caps, const char *scheme,
                                      const struct tenure_campaign *campaign,
                                      struct tn_text *reterr);

/* Into @reterr, unless NULL: @code and its text, or what it means. Returns @code. */
int tn_lib_fail(int code, const char *text, struct tenure_error *reterr);

/* Until @tenure's condition is told, or @end (TN_NEVER: none); a spurious return does no harm. Lock
 * held. */
void tn_lib_wait_until(struct tenure *tenure, tenure_ns end);

/* 0, or INVALID: why @name is not a name. */
int tn_lib_check_name(const char *name, struct tn_text *reterr);

/* The application's word. Lock held. */
void tn_election_wish(struct tenure_election *election, enum tn_claim_event_kind wish);

/* slots.c: what the core says of a slot. NULL: the application hears nothing of it; otherwise the
 * election that hears. Lock held, as for the rest. */
struct tenure_election *tn_lib_slot_tell(struct tenure_election *election,
                                         const struct tn_claim_action **action,
                                         struct tn_claim_action *buf);
/* The application's word on a semaphore. */
void tn_lib_slot_wish(struct tenure_election *election, enum tn_claim_event_kind wish);
/* Let the claims of all slots do what core/slots.h decides. */
void tn_lib_slots_settle(struct tenure *tenure);
/* All or none take their seats. TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_lib_slots_add(struct tenure *tenure, struct tn_lib_slots *slots,
                                     const struct tn_claim_config *config);
void tn_lib_slots_leave(struct tn_lib_slots *slots);
/* One of the elections is freed. */
void tn_lib_slot_free(struct tenure_election *election);

/* rank.c: what the core says of an election that shows who waits. Lock held, as for the rest. */
void tn_lib_rank_tell(struct tenure_election *election, const struct tn_claim_action *action);
/* Let those elections do what core/rank.h decides. */
void tn_lib_ranks_settle(struct tenure *tenure);
/* They take their seats, behind the application's. TENURE_E_CLOSED. */
TENURE_MUST_USE int tn_lib_rank_add(struct tenure *tenure, struct tn_lib_rank *rank);
void tn_lib_rank_leave(struct tn_lib_rank *rank);
/* One of the elections is freed. */
void tn_lib_rank_free(struct tenure_election *election);

/* The driver needs the seat no longer. */
void tn_election_dispose(void *arg, struct tn_driver_seat *seat);
/* Free it, out of any list. */
void tn_election_free(struct tenure_election *election);

/* tenure.c: the deadline as readers may know it, and the bell. Lock held. */
void tn_lib_settle(void *arg);

/* A thread that no signal wakes; @name is what `ps -L` shows. */
int tn_lib_start_thread(pthread_t *thread, void *(*body)(void *arg), void *arg, const char *name);

/* raise.c: raise the fences of the request's seat. Lock held. */
void tn_lib_raise(void *arg, const struct tn_request *request);

/* Whether @tenure is this process's own and open; not so in a forked child. */
bool tn_lib_alive(const struct tenure *tenure);

#endif
