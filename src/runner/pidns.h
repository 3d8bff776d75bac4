/* pidns.h - a pid namespace for one command: when its init dies, the kernel kills the rest.
 *
 *     guardian --fork--> init           reaps orphans, and does nothing else
 *     guardian --fork, exec--> command  in the namespace, and a child of the guardian all the same
 *
 * The kernel lets nothing in a pid namespace outlive its init, and the init's own death is complete
 * only when all others are gone. PR_SET_PDEATHSIG kills the init when the guardian dies, so this
 * holds even when supervisor and guardian are killed together.
 *
 * The command sees other pids than the rest of the machine, and a /proc of its own. A process that
 * may not make a pid namespace makes a user namespace first; setuid programs (sudo, su) do not work
 * in it. docs/runner.md says what follows. So it is never chosen silently.
 * No allocation; fit for a child of a threaded process. */
#ifndef TN_RUNNER_PIDNS_H
#define TN_RUNNER_PIDNS_H

#include <stddef.h>
#include <sys/types.h>

#include "tenure/error.h"

struct tn_pidns {
    pid_t init; /* 0: no namespace. */
    int hold;   /* When it is closed, the init ends as soon as it is alone. */
};

/* All further children of this process, which has one thread, are in a new namespace, whose init
 * runs. The init keeps none of this process's descriptors. 0, or -1 with errno. */
int tn_pidns_make(struct tn_pidns *ret_pidns);

/* In a child, before exec: a mount namespace in which /proc is that of the pid namespace. All other
 * mounts stay as they are, and still reach the rest of the machine if they did before. 0, or -1
 * with errno. */
int tn_pidns_mount_proc(void);

/* Whether all of this works here. Forks, and waits for it.
 * Returns 0 or TENURE_E_UNSUPPORTED with the reason in @ret_why. */
TENURE_MUST_USE int tn_pidns_check(char *ret_why, size_t size);

#endif
