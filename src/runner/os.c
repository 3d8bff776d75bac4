/* os.c - what the runner needs of Linux beside POSIX. */
#define _GNU_SOURCE
#include "runner/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"

/* The same numbers on every architecture that Linux has gained system calls on since 2019. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* The kernel's least slice, in nanoseconds. */
enum { SLICE_LEAST = 100000 };

int tn_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int tn_pidfd_signal(int pidfd, int signo)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

pid_t tn_fork(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return _Fork();
#elif defined(SYS_fork)
    return (pid_t)syscall(SYS_fork);
#elif defined(__s390__)
    return (pid_t)syscall(SYS_clone, 0UL, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL);
#else
    return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL);
#endif
}

pid_t tn_fork_into(int cgroup)
{
#if defined(SYS_clone3) && defined(CLONE_INTO_CGROUP)
    struct clone_args args = { .flags = CLONE_INTO_CGROUP,
                               .exit_signal = SIGCHLD,
                               .cgroup = (unsigned)cgroup };

    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
#else
    (void)cgroup;
    errno = ENOSYS;
    return -1;
#endif
}

int tn_fd_above_streams(int fd)
{
    int copy;

    if (fd < 0 || fd > 2)
        return fd;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    (void)close(fd);
    return copy;
}

/* C libraries before 2025 have no name for it. */
struct sched_words {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void tn_sched_read(struct tn_sched *ret_sched)
{
    struct sched_words words = { 0 };

    if (syscall(SYS_sched_getattr, 0, &words, sizeof words, 0) != 0)
        words.policy = UINT32_MAX;
    *ret_sched = (struct tn_sched) { words.policy, words.nice, words.runtime };
}

void tn_sched_restore(const struct tn_sched *sched)
{
    struct sched_words words = {
        .size = sizeof words,
        .nice = sched->nice,
        .runtime = sched->slice,
    };

    if (sched->policy == 0)
        (void)syscall(SYS_sched_setattr, 0, &words, 0);
}

void tn_sched_soon(void)
{
    struct tn_sched sched;

    tn_sched_read(&sched);
    sched.slice = SLICE_LEAST;
    tn_sched_restore(&sched);
    sched.nice = -20;
    tn_sched_restore(&sched);
}

bool tn_sched_first(void)
{
    struct sched_words words = {
        .size = sizeof words,
        .policy = SCHED_RR,
        .flags = SCHED_FLAG_RESET_ON_FORK,
        .priority = 1,
    };
    struct rlimit limit;
    struct tn_sched sched;

    tn_sched_soon(); /* What remains where real time is not to be had. */
    tn_sched_read(&sched);
    return sched.policy == SCHED_NORMAL && getrlimit(RLIMIT_RTTIME, &limit) == 0 &&
           limit.rlim_cur == RLIM_INFINITY && syscall(SYS_sched_setattr, 0, &words, 0) == 0;
}

/* Both ends included. */
static void close_span(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    /* Linux before 5.9. The limit may have been lowered since, but it is all one can see. */
    long most = sysconf(_SC_OPEN_MAX);
    for (unsigned fd = first; fd <= last && (long)fd < most; fd++)
        (void)close((int)fd);
}

void tn_close_all_but(int first, const int *keep, size_t count)
{
    unsigned from = (unsigned)first;

    for (size_t i = 0; i < count; i++) {
        TN_ASSERT(keep[i] >= (int)from);
        if (keep[i] > (int)from)
            close_span(from, (unsigned)keep[i] - 1);
        from = (unsigned)keep[i] + 1;
    }
    close_span(from, ~0U);
}

/* What follows the name in /proc/PID/stat. NULL with errno; ESRCH: there is no such process. */
static const char *read_stat(pid_t pid, char *text, size_t size)
{
    char path[64];
    int fd;
    ssize_t len;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        errno = errno == ENOENT ? ESRCH : errno;
        return NULL;
    }
    len = read(fd, text, size - 1);
    int error = errno;
    (void)close(fd);
    errno = error;
    if (len < 0)
        return NULL;
    text[len] = '\0';
    /* "PID (NAME) S PPID ...": the name may hold anything, so count from its last bracket. */
    const char *after = strrchr(text, ')');
    if (after == NULL || after[1] != ' ' || after[2] == '\0' || after[3] != ' ') {
        errno = EIO;
        return NULL;
    }
    return after + 2;
}

bool tn_proc_stat(pid_t pid, char *ret_state, pid_t *ret_parent)
{
    char text[512];
    const char *after = read_stat(pid, text, sizeof text);

    if (after == NULL)
        return false;
    *ret_state = after[0];
    *ret_parent = (pid_t)strtol(after + 2, NULL, 10);
    return true;
}

bool tn_proc_born(pid_t pid, uint64_t *ret_born)
{
    char text[512];
    const char *after = read_stat(pid, text, sizeof text);

    /* The state is field 3, the time of the start field 22. */
    for (int field = 3; after != NULL && field < 22; field++) {
        after = strchr(after, ' ');
        after = after != NULL ? after + 1 : NULL;
    }
    if (after == NULL)
        return false;
    *ret_born = strtoull(after, NULL, 10);
    return true;
}
