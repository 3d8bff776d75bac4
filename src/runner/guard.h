/* guard.h - the guardian process itself: what runs between its fork and its end. */
#ifndef TN_RUNNER_GUARD_H
#define TN_RUNNER_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "runner/spawn.h"
#include "runtime/binding.h"
#include "tenure/time.h"

struct tn_guard_setup {
    struct tn_spawn *spawn;
    int socket;     /* To the supervisor; above 2. */
    int supervisor; /* Its pidfd; above 2. */
    int bound;      /* A connection of its to the store's daemon, above 2; -1: there is none. */
    const struct tn_store_binding *binding; /* With it. */
    pid_t supervisor_pid;
    const struct tn_cgroup *cgroup; /* Of kind TN_CGROUP_NONE: there is none. */
    bool pidns;                     /* Make a pid namespace for the command. */
    tenure_ns grace;
    tenure_ns kill_bound;
    tenure_ns deadline;
    tenure_ns watch_every;
};

/* Runs in the forked child, with all signals blocked. Ends with status 0 when the tree is gone. */
_Noreturn void tn_guard_main(const struct tn_guard_setup *setup);

#endif
