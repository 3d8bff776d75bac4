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

#include "runtime/driver.h"
#include "tenure/tenure.h"

/* A flag of struct tenure_options, for `tenure run`: another process can act for the session, too.
 */
#define TN_LIB_SHARED (1u << 31)

/* How that process binds itself to the present session; false: nobody needs to. */
bool tn_lib_binding(struct tenure *tenure, struct tn_store_binding *ret_binding);

/* Whether LEADER, as told last, is about a grant of @election's own: that may be told before WON,
 * while fences go up. */
bool tn_lib_leader_is_mine(const struct tenure_election *election);

/* Why the last fence that was not raised was not: the code, and the line unless @reterr is NULL; 0:
 * all were. */
int tn_lib_fence_status(struct tenure *tenure, struct tn_text *reterr);

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

struct tenure_election {
    struct tn_driver_seat seat; /* First: the driver hands it back. */
    struct tenure *tenure;
    _Atomic uint64_t token;
    tenure_callback *callback;
    void *arg;
    struct tenure_election *news_next;
    /* What the application has to hear of yet: at most one of each, so nothing can pile up. */
    uint64_t won_token, lost_token, refused_token, leader_token;
    uint64_t refused_seen; /* The higher token, when the store went back. */
    uint8_t mood;          /* TENURE_JEOPARDY, TENURE_SAFE or 0. */
    uint8_t lost_reason, refused_reason;
    bool won, stop, lost, refused, leader, leader_held, renewed, health;
    bool leader_mine; /* The record that was told last is of our own grant. */
    bool heard;       /* WON of the present term was told. */
    bool anxious;     /* JEOPARDY was told in it, and SAFE not yet. */
    bool unheard;     /* The term ended before its WON was told: nothing was started. */
    bool regressed;   /* That the store went back was told, and there was no term since. */
    bool has_news, left, dispose_later;
    bool observes, drained_on_return, tell_renewed, tell_health;
    bool raising;  /* A thread is at its fences. */
    char **fences; /* NULL: none; otherwise one block, and NULL behind the last. */
    char name[];
};

struct tenure {
    struct tn_shared *shared;
    struct tn_driver driver;
    uv_loop_t loop;
    pthread_t loop_thread;
    pthread_t herald;        /* Runs the callbacks, unless the application's loop does. */
    pthread_cond_t returned; /* A callback has, or whoever waited for one. */
    struct tn_lib_config *configs;
    struct tenure_election *news, **news_end;
    struct tenure_election *calling; /* Whose callback runs. */
    pthread_t dispatcher;
    tenure_ns published; /* What is in shared->deadline, unless a reader has latched it. */
    int bell;            /* An eventfd: there is news. */
    int timer;           /* The deadline has passed, even if the loop's thread hangs. */
    int watch;           /* An epoll of both. */
    uint32_t raising;    /* Threads at fences. */
    uint32_t listeners;  /* Elections that want to hear of renewals, or of the store's health. */
    int illness;         /* The store's error as told last. */
    uint32_t waiting;    /* Threads in tenure_leave: the handle stays until they are out. */
    bool own_loop, shares, dispatching, rung, closing, closed_by_callback;
    int fence_status;                    /* Of the last raise that failed, */
    char fence_error[TENURE_ERROR_TEXT]; /* and why. */
    char regress[TENURE_ERROR_TEXT];     /* What to do about a store that went back. */
};

/* election.c: the driver's host. */
extern const struct tn_driver_host tn_lib_host;

/* The next thing to tell @election's callback; false: nothing. Lock held. */
bool tn_election_next(struct tenure_election *election, struct tenure_event *ret_event);

/* The deadline has moved, or the store's health changed: for those who want to hear of it. Lock
 * held. */
void tn_election_renewed(struct tenure_election *election);
void tn_election_health(struct tenure_election *election);

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
