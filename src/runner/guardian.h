/* guardian.h - run a command whose whole process tree is dead and reaped by a deadline.
 *
 *     supervisor (this process) --fork--> guardian --fork, exec--> command --> its descendants
 *
 * The guardian is a process of its own. It knows a deadline D, which the supervisor moves on with
 * every renewal of its lease, and acts by it alone: SIGTERM to the tree at D - K - G, SIGKILL at
 * D - K, all reaped by D (G grace, K kill bound, as in core/plan.h; CLOCK_BOOTTIME throughout). It
 * does so too when the supervisor is stopped; when the supervisor is gone it starts at once. When
 * the guardian is gone or stopped, the supervisor does its work, from tn_guardian_dispatch.
 * docs/runner.md tells who kills whom when, and what is not covered.
 *
 *     tn_guardian_start(&options, &guardian)
 *     poll tn_guardian_fd(guardian) for reading; when it is, or at any time:
 *         while (tn_guardian_dispatch(guardian, &event)) ...
 *     tn_guardian_extend(guardian, deadline)    after each renewal
 *     tn_guardian_stop(guardian)                to step down
 *     TN_GUARDIAN_REAPED: release the lease, exit with tn_guardian_status(guardian)
 *     tn_guardian_free(guardian)
 *
 * Events come in this order, each at most once: STARTED or EXEC_FAILED; STOPPING, KILLING, EXITED,
 * LOST as it happens; REAPED last, and always. Neither STARTED nor EXEC_FAILED: the deadline came
 * first, and the command never ran.
 *
 * The supervisor becomes a subreaper. As long as a guardian exists, the process starts no children
 * but guardians: when one is lost, every other child that came since is taken for an orphan of its
 * tree. Children that the process had before are left alone (a shell that ends in `exec` has some).
 * Threads: one at a time for all guardians of a process. start forks, and may be called while other
 * threads run. Callbacks: none. Only start and free can block, both for a bounded time. */
#ifndef TN_RUNNER_GUARDIAN_H
#define TN_RUNNER_GUARDIAN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runner/contain.h"
#include "runtime/binding.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct tn_guardian;

struct tn_guardian_options {
    char *const *argv;        /* NULL-terminated; argv[0] is looked up in PATH. */
    const char *const *env;   /* "NAME=VALUE" to set, NULL-terminated; or NULL. */
    const char *const *scrub; /* Names to remove beside Tenure's own, or NULL; @env may set them. */
    tenure_ns grace;          /* G. */
    tenure_ns kill_bound;     /* K, above 0. */
    tenure_ns deadline;       /* D of the term as it is now. */
    tenure_ns watch_every;    /* How often the two look whether the other was stopped; 0: never. */
    enum tn_contain contain;  /* How the tree is held together. */
    const struct tn_store_binding *binding; /* Both are bound before the command runs; or NULL. */
};

/* A good @watch_every: a stopped process is noticed in time for the tree to be gone within the
 * grace and one second, at a cost that does not show. */
#define TN_GUARDIAN_WATCH ((tenure_ns)200000000)

enum tn_guardian_kind {
    TN_GUARDIAN_STARTED,     /* The command runs. @value: its pid. */
    TN_GUARDIAN_EXEC_FAILED, /* It could not be run. @value: errno. */
    TN_GUARDIAN_STOPPING,    /* SIGTERM was sent to the tree. @value: enum tn_guardian_reason. */
    TN_GUARDIAN_KILLING,     /* SIGKILL is being sent to the tree. */
    TN_GUARDIAN_EXITED,      /* The command itself ended; the tree may live. @value: wait status. */
    TN_GUARDIAN_LOST,   /* The guardian died: SIGKILL to the tree. @value: by which signal, or 0. */
    TN_GUARDIAN_REAPED, /* Nothing of the tree is left. */
};

enum tn_guardian_reason {
    TN_REASON_ASKED,           /* tn_guardian_stop, or SIGTERM, SIGINT or SIGHUP to the guardian. */
    TN_REASON_EXITED,          /* The command ended and left others behind. */
    TN_REASON_DEADLINE,        /* D - K - G came. */
    TN_REASON_SUPERVISOR_GONE, /* Nobody is there to read this one. */
    TN_REASON_SUPERVISOR_STOPPED, /* The supervisor was stopped while the command went on. */
    TN_REASON_GUARDIAN_STOPPED,   /* The guardian was stopped, and continued by the supervisor. */
    TN_REASON_UNBOUND,            /* They could not be bound; the command was not run. */
};

struct tn_guardian_event {
    enum tn_guardian_kind kind;
    int value;
    tenure_ns at; /* When it happened, by CLOCK_BOOTTIME. */
};

/* Start a guardian and, through it, the command. All of @options is copied.
 * The command keeps the process group, session, terminal and standard streams of this process and
 * gets no other descriptor. Its signals are unblocked and at their defaults, but SIGHUP, SIGINT and
 * SIGQUIT stay ignored if they are now (nohup, a background job), so look before you handle them.
 * TENURE_SECRET, any other TENURE_ variable named SECRET or PASSWORD, and a TENURE_STORE with a
 * password in it are removed from its environment; TENURE_CONTAIN is added and says which
 * containment it is: cgroup, pidns or tree.
 * Returns 0. TENURE_E_INVALID: an option makes no sense. TENURE_E_EXPIRED: D - K - G has passed,
 * the command must not run. TENURE_E_UNAVAILABLE: nor now, because the @binding's
 * daemon is not there. TENURE_E_FULL: no process or descriptor to be had. TENURE_E_NOMEM.
 * TENURE_E_UNSUPPORTED: no /proc of this pid namespace, Linux before 5.3, or the containment cannot
 * be had (tn_contain_check says why; a pid namespace that fails later is EXEC_FAILED). */
TENURE_MUST_USE int tn_guardian_start(const struct tn_guardian_options *options,
                                      struct tn_guardian **ret_guardian);

/* Readable when dispatch has something to do, its timeouts included. Stays the same. */
int tn_guardian_fd(const struct tn_guardian *guardian);

pid_t tn_guardian_pid(const struct tn_guardian *guardian);

/* Do what is due, and take the next event. Never blocks. False when there is none for now. */
bool tn_guardian_dispatch(struct tn_guardian *guardian, struct tn_guardian_event *ret_event);

/* Move the deadline to @deadline; one that is not later is ignored. It does not undo a stop.
 * Returns 0. TENURE_E_CLOSED: the guardian is gone, or going. TENURE_E_FULL: it does not read, and
 * acts by the deadline it knows. In both cases dispatch sees to the rest. */
TENURE_MUST_USE int tn_guardian_extend(struct tn_guardian *guardian, tenure_ns deadline);

/* Begin to stop: SIGTERM to the tree now, SIGKILL after the grace or at D - K. Cannot fail: when
 * the guardian does not do it, dispatch does. The deadline may still be extended, so that the
 * grace can be used in full. */
void tn_guardian_stop(struct tn_guardian *guardian);

/* Send @signo to the command itself, as kill(1) would if the command had been run directly.
 * A signal typed at the terminal has reached the command already: it is in the foreground group.
 * Such a one has si_code SI_KERNEL; do not forward it.
 * Returns 0, TENURE_E_INVALID, or as tn_guardian_extend. */
TENURE_MUST_USE int tn_guardian_signal(struct tn_guardian *guardian, int signo);

/* The exit status as a shell has it: the command's own, 128 + n after signal n, 127 not found,
 * 126 found but not run. -1 as long as it is not known, or when the command never ran. */
int tn_guardian_status(const struct tn_guardian *guardian);

/* The containment that it got, and for TN_CONTAIN_TREE why it is no better one: "" if it was asked
 * for. */
enum tn_contain tn_guardian_containment(const struct tn_guardian *guardian);
const char *tn_guardian_why_tree(const struct tn_guardian *guardian);

/* Whether REAPED was delivered. */
bool tn_guardian_done(const struct tn_guardian *guardian);

/* Free it. If the tree is not gone, it is killed first, and this waits up to the kill bound for it
 * to be reaped. NULL is allowed. */
void tn_guardian_free(struct tn_guardian *guardian);

#endif
