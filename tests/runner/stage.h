/* stage.h - a supervisor in a process of its own, with an actor as its command, to be tormented.
 *
 * stage_open forks the supervisor, which moves the deadline on every few milliseconds; the test
 * then stops or kills whom it likes, and stage_close says how long the tree outlived the deadline.
 * What the supervisor sees is kept in memory that both share. Nothing waits longer than it must:
 * every wait has a condition and a bound. */
#ifndef TN_TESTS_RUNNER_STAGE_H
#define TN_TESTS_RUNNER_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/time.h"
#include "runner/guardian.h"

enum { STAGE_WORDS = 12 };

struct stage_shared {
    _Atomic int64_t deadline; /* The latest one that the guardian can know. */
    _Atomic int guardian;
    _Atomic int command; /* Its pid, from STARTED. */
    _Atomic int reason;  /* Of STOPPING, or -1. */
    _Atomic int64_t stopping_at, killing_at, reaped_at;
    _Atomic bool lost;
    _Atomic int lost_by; /* The signal. */
    _Atomic int status;
    _Atomic int start_error;
    _Atomic int contain; /* enum tn_contain: the one that it got. */
    _Atomic int fds_before, fds_after;
    _Atomic bool extend; /* Move the deadline on. */
    _Atomic bool stop;   /* Ask for the stop, once. */
    _Atomic int signal;  /* Forward this, once. */
};

struct stage {
    struct stage_shared *shared;
    pid_t supervisor;
    char dir[64];
    char file[80];
    char mark[64]; /* "TN_STAGE=...": every process of the tree has it in its environment. */
    tenure_ns grace, kill_bound, term, watch_every;
    enum tn_contain contain;                /* From TN_CONTAIN in the environment, else auto. */
    const struct tn_store_binding *binding; /* NULL unless it is set after stage_init. */
};

/* Grace, kill bound, length of a term; the rest is set to fit. */
void stage_init(struct stage *stage, int grace_ms, int kill_bound_ms, int term_ms);

/* Start the supervisor with an actor that obeys @words, separated by blanks, and wait until the
 * actor beats. False when it does not. */
bool stage_open(struct stage *stage, const char *words);

/* As stage_open, with any command, and without waiting. */
void stage_open_command(struct stage *stage, char *const *argv);

/* What is left, and when. */
struct stage_result {
    tenure_ns last_beat;    /* 0: none. */
    tenure_ns beat_overrun; /* How long after the deadline; negative: before it. */
    tenure_ns gone_overrun; /* The same for the moment when no process of the tree was left. */
    size_t left;            /* Processes of the tree still there when the patience was over, */
    size_t unkilled;        /* and those of them that may still act. */
    int supervisor_status;  /* Wait status. */
};

/* Wait until the tree is gone, continue a stopped supervisor, wait for its end, and clean up. What
 * it noted in @stage->shared can be read until the next stage_init. */
struct stage_result stage_close(struct stage *stage);

/* How many live processes carry the mark. */
size_t stage_count(const struct stage *stage);

/* The last time that anyone of the tree wrote, or 0. */
tenure_ns stage_last_beat(const struct stage *stage);

bool stage_wait_count(const struct stage *stage, size_t least, int ms);
bool stage_wait_int(_Atomic int *value, int unlike, int ms);
bool stage_wait_time(_Atomic int64_t *value, int ms);
/* True when @pid is in one of @states within @ms. */
bool stage_wait_state(pid_t pid, const char *states, int ms);
/* True when @pid has a handler for @signo within @ms. */
bool stage_wait_caught(pid_t pid, int signo, int ms);

/* Whether the machine offers a containment, or the one in TN_CONTAIN is one. */
bool stage_is_contained(void);

/* Let @ms go by. */
void stage_let(int ms);

/* How many descriptors this process has open. */
int stage_fds(void);

#endif
