/* os.h - what the runner needs of Linux beside POSIX: pidfds, descriptors, /proc/PID/stat.
 *
 * The pidfd calls go by number, because C libraries older than 2022 have no names for them. All of
 * these may be called in a child forked from a process with threads: nothing allocates or locks. */
#ifndef TN_RUNNER_OS_H
#define TN_RUNNER_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/clock.h"
#include "runtime/timer.h"
#include "tenure/time.h"

/* Descriptors that refer to one process and never to a later one with the same number.
 * 0 or more, or -1 with errno; close-on-exec. */
int tn_pidfd_open(pid_t pid);
int tn_pidfd_signal(int pidfd, int signo);

/* As fork, but without the handlers that libraries have registered for it (pthread_atfork). They
 * know descriptors by numbers that the guardian has closed long since and used again: libuv's
 * would close the pipe that tells of a failed exec. */
pid_t tn_fork(void);
/* The same, with the child in the cgroup (v2) whose directory @cgroup is from its beginning. A
 * process that moves there later waits until every processor has passed a quiet point: hundreds of
 * milliseconds on a busy machine. -1 with errno where the kernel does not have it (before 5.7). */
pid_t tn_fork_into(int cgroup);

/* The same descriptor or a copy that is not 0, 1 or 2: a caller without standard streams must not
 * hand our socket to the command as its input. Closes @fd when it copies; -1 with errno. */
int tn_fd_above_streams(int fd);

/* Close every descriptor from @first on, but not @keep[0..count), which is sorted. */
void tn_close_all_but(int first, const int *keep, size_t count);

/* How a thread is scheduled: sched_setattr(2). */
struct tn_sched {
    uint32_t policy;
    int32_t nice;
    uint64_t slice; /* In nanoseconds, where the kernel has one for each thread (Linux 6.12). */
};

/* Let a busy machine schedule this thread soon after it wakes up: the shortest slice, which anybody
 * may ask for, and the lowest niceness where this process may (root, RLIMIT_NICE). A thread under
 * another policy than the usual one stays as it is. Children inherit it. */
void tn_sched_soon(void);
/* The same, and ahead of all ordinary processes where this one may: round-robin at the lowest
 * real-time priority. Niceness only orders the processes of one session where the kernel groups
 * them by session (sched_autogroup), so a busy command with many sessions could outweigh it. Not
 * with a limit on real time (RLIMIT_RTTIME), whose excess kills. Children start as ordinary
 * processes. Whether it was granted. */
bool tn_sched_first(void);
/* Where the kernel does not tell, restoring changes nothing. */
void tn_sched_read(struct tn_sched *ret_sched);
void tn_sched_restore(const struct tn_sched *sched);

/* The state letter and the parent of @pid, from /proc. False with errno: ESRCH when it is gone,
 * anything else when it could not be looked at. */
bool tn_proc_stat(pid_t pid, char *ret_state, pid_t *ret_parent);

/* When @pid started, in clock ticks since boot. False as above. */
bool tn_proc_born(pid_t pid, uint64_t *ret_born);

#endif
