/* spawn.h - the command's side of fork and exec: a clean process, and word of a failed exec. */
#ifndef TN_RUNNER_SPAWN_H
#define TN_RUNNER_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runner/cgroup.h"
#include "runner/os.h"
#include "tenure/error.h"

/* What the child needs, put together before any fork, because it allocates. */
struct tn_spawn {
    char **argv;
    char **envp;
    pid_t group;                    /* The process group that the command belongs to. */
    struct tn_sched sched;          /* The command's, whatever the guardian's is. */
    sigset_t ignored;               /* Signals that stay ignored. */
    const struct tn_cgroup *cgroup; /* That it enters; or NULL. */
    bool pidns;                     /* It is in a pid namespace, and needs a /proc of it. */
};

/* Copy @argv, and this process's environment less its secrets and @scrub plus @env.
 * Returns 0, TENURE_E_INVALID for an @env entry without a name or a '=', or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_spawn_init(struct tn_spawn *ret_spawn, char *const *argv,
                                  const char *const *env, const char *const *scrub);
void tn_spawn_done(struct tn_spawn *spawn);

/* Fork and exec. @ret_status_fd is the reading end of a pipe, non-blocking: its end of file means
 * that the command runs, an int in it is the errno of the failed exec. The caller has one thread
 * and all signals blocked. Returns the pid, or -1 with errno. */
pid_t tn_spawn_run(const struct tn_spawn *spawn, int *ret_status_fd);

/* The status that a shell gives for a failed exec, and for a wait status. */
int tn_spawn_exec_status(int error);
int tn_spawn_wait_status(int status);

/* Every signal at its default, but those in @ignored, unless NULL, ignored. */
void tn_signals_default(const sigset_t *ignored);

#endif
