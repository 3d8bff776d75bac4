/* cgroup.h - a control group for one command: all that is in it dies by one system call.
 *
 * The group is a directory below the cgroup of this process, named tenure-PID-NUMBER, mode 0700.
 * Three ways to kill, the best that the machine offers:
 *   cgroup2 with cgroup.kill (Linux 5.14)    one write kills the group and all groups below it
 *   cgroup2 with cgroup.freeze (Linux 5.2)   freeze it, so that nothing forks or exits; kill; thaw
 *   the freezer of cgroup v1                 the same
 * Membership is inherited by fork and outlives the parent, so a process that forks and exits all
 * the time cannot outrun it. A process that may write to another cgroup can leave: tree.h finds it.
 *
 * Every descriptor is opened when the group is made. Killing needs no further descriptor, no memory
 * and no /proc. The makers hold a flock on the directory; a group that nobody holds was left behind
 * by processes that were killed, and the next one to make a group kills and removes it.
 * Threads: one at a time per group. Only tn_cgroup_make allocates; the others may be called in a
 * child forked from a process with threads. */
#ifndef TN_RUNNER_CGROUP_H
#define TN_RUNNER_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tenure/error.h"
#include "tenure/time.h"

enum tn_cgroup_kind { TN_CGROUP_NONE, TN_CGROUP_KILL, TN_CGROUP_FREEZE, TN_CGROUP_V1 };

enum { TN_CGROUP_FDS = 5 };

struct tn_cgroup {
    enum tn_cgroup_kind kind;
    int parent; /* The directory that it is in. */
    int dir;    /* Itself; holds the lock. */
    int enter;  /* cgroup.procs: whoever writes "0" here is in it. */
    int kill;   /* cgroup.kill, cgroup.freeze or freezer.state. */
    int look;   /* cgroup.events; with v1 cgroup.procs. */
    char name[48];
    tenure_ns froze_at; /* 0: it is not being frozen. */
    tenure_ns next_freeze, freeze_pause;
    bool killed; /* All of it, since it was frozen; it may be thawed. */
};

/* No group: every other call accepts it and does nothing. */
#define TN_CGROUP_INIT                                                                       \
    {                                                                                        \
        .kind = TN_CGROUP_NONE, .parent = -1, .dir = -1, .enter = -1, .kill = -1, .look = -1 \
    }

/* Make a group and see that a process can enter it. @only is for tests: TN_CGROUP_NONE takes the
 * best, another value that kind alone.
 * Returns 0 or TENURE_E_UNSUPPORTED with the reason in @ret_why. All descriptors are above 2. */
TENURE_MUST_USE int tn_cgroup_make(struct tn_cgroup *ret_group, enum tn_cgroup_kind only,
                                   char *ret_why, size_t size);

/* Write the descriptors to @ret_fds, TN_CGROUP_FDS of them at most; returns how many. */
size_t tn_cgroup_fds(const struct tn_cgroup *group, int *ret_fds);

/* Fork, with the child in the group if *@ret_inside; otherwise it has to enter. @group may be NULL,
 * or none. */
pid_t tn_cgroup_fork(const struct tn_cgroup *group, bool *ret_inside);

/* This process enters the group. 0, or -1 with errno. */
int tn_cgroup_enter(const struct tn_cgroup *group);

/* SIGKILL to all in the group. Does not block; call both again until the group is empty. A kind
 * that freezes leaves the group frozen in between, so that the caller can walk a tree that stands
 * still; tn_cgroup_thaw lets the dead go once all were killed. */
void tn_cgroup_kill(struct tn_cgroup *group);
void tn_cgroup_thaw(struct tn_cgroup *group);

/* Remove the group. True when nothing is in it any more, dead or alive; what could not be looked at
 * counts as alive. */
bool tn_cgroup_remove(struct tn_cgroup *group);

void tn_cgroup_close(struct tn_cgroup *group);

#endif
