/* os.c - what the runner needs of Linux beside POSIX. */
#define _GNU_SOURCE
#include "runner/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int tn_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int tn_pidfd_signal(int pidfd, int signo)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
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

bool tn_proc_stat(pid_t pid, char *ret_state, pid_t *ret_parent)
{
    char path[64];
    char text[512];
    int fd;
    ssize_t len;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    /* "PID (NAME) S PPID ...": the name may hold anything, so count from its last bracket. */
    const char *after = strrchr(text, ')');
    if (after == NULL || after[1] != ' ' || after[2] == '\0' || after[3] != ' ')
        return false;
    *ret_state = after[2];
    *ret_parent = (pid_t)strtol(after + 4, NULL, 10);
    return true;
}
