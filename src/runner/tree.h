/* tree.h - all descendants of this process: find them, signal them.
 *
 * A process whose parent dies becomes a child of its nearest ancestor that is a subreaper. So, seen
 * from a subreaper, a process can double-fork and setsid as it likes: it stays a descendant.
 *
 * No process outside the tree is ever hit. A direct child keeps its number until this process
 * reaps it, which it does not do during a walk. For every other process a pidfd is opened first,
 * then its parent is read, and then the parent is seen to be alive through its own pidfd: a number
 * that was given to a stranger in between cannot pass all three.
 *
 * One walk can miss a process that was forked or adopted meanwhile. Signals that must reach all,
 * SIGKILL above all, are therefore sent in walk after walk until there is nobody left: a process
 * with SIGKILL pending cannot fork any more, so each walk leaves fewer that can. That is a race,
 * and chains that fork and exit without rest can win it for a while: cgroup.h and pidns.h do not
 * race.
 *
 * What cannot be looked at, for want of descriptors, memory or /proc, is unknown, never gone.
 * Threads: one at a time. Memory: none allocated; fit for a child of a threaded process. */
#ifndef TN_RUNNER_TREE_H
#define TN_RUNNER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/time.h"

#include "tenure/error.h"

/* Direct children that are not ours to touch, nor is anything below them. */
struct tn_tree_spared {
    const pid_t *pids;
    size_t count;
    uint64_t
        born_before; /* Nor those that are older than this (tn_proc_born); 0: age is nothing. */
};

enum tn_tree_left { TN_TREE_GONE, TN_TREE_LEFT, TN_TREE_UNKNOWN };

/* Whether /proc shows this process's children.
 * Returns 0 or TENURE_E_UNSUPPORTED: not mounted, or that of another pid namespace. */
TENURE_MUST_USE int tn_tree_check(void);

/* A descriptor through which the direct children can be read without opening another one: those of
 * the main thread, which gets all orphans. Above 2. -1 with errno. */
int tn_tree_open(void);

/* SIGKILL to the direct children that @children, from tn_tree_open, shows. When one has left this
 * process's session, its whole process group gets it in the same instant: such a session was begun
 * inside the tree, so nobody else can be in it.
 * Returns how many there were, dead ones included. */
size_t tn_tree_kill_children(int children, const struct tn_tree_spared *spared);

/* Send @signo to every descendant, parents before children; with @wake, SIGCONT after it, so that
 * a stopped process can act on it. @spared may be NULL. The walk ends at @until at the latest; 0:
 * soon, as one that will be repeated.
 * Returns how many it was sent to, dead ones that nobody has reaped yet included. */
size_t tn_tree_signal(int signo, bool wake, const struct tn_tree_spared *spared, tenure_ns until);

/* Reap those direct children that are dead, spared ones aside. @children is from tn_tree_open and
 * is used when nothing else can be; but it alone does not prove that there are no more. @watched is
 * one whose end is of interest: when it is among them, @ret_status gets its wait status and
 * @ret_ended becomes true.
 * Returns whether there were any before. */
enum tn_tree_left tn_tree_reap(int children, const struct tn_tree_spared *spared, pid_t watched,
                               int *ret_status, bool *ret_ended);

/* Append the direct children that are not among @ret_pids[0..*count) yet, @max in all.
 * False when they could not be looked at, or are more. */
bool tn_tree_list(pid_t *ret_pids, size_t *count, size_t max);

/* For tests: find children by reading all of /proc, as on a kernel without task/TID/children. */
void tn_tree_scan_all(bool on);

#endif
