/* pidns.c - a pid namespace for one command. */
#define _GNU_SOURCE
#include "runner/pidns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/os.h"
#include "runner/spawn.h"

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    bool written = fd >= 0 && write(fd, text, len) == (ssize_t)len;

    if (fd >= 0)
        (void)close(fd);
    return written;
}

/* As this user and group, and no other. */
static int unshare_user(void)
{
    char uids[64];
    char gids[64];

    (void)snprintf(uids, sizeof uids, "%lu %lu 1\n", (unsigned long)geteuid(),
                   (unsigned long)geteuid());
    (void)snprintf(gids, sizeof gids, "%lu %lu 1\n", (unsigned long)getegid(),
                   (unsigned long)getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return -1;
    return write_file("/proc/self/uid_map", uids) && write_file("/proc/self/setgroups", "deny") &&
                   write_file("/proc/self/gid_map", gids)
               ? 0
               : -1;
}

/* The init: nothing to do but to be there. With SIGCHLD ignored the kernel reaps its orphans. */
static _Noreturn void be_init(int talk)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    char byte = 0;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || send(talk, &byte, 1, MSG_NOSIGNAL) != 1)
        _exit(1);
    /* An answer means that the guardian was there after the call above. */
    if (recv(talk, &byte, 1, 0) != 1)
        _exit(1);
    (void)prctl(PR_SET_NAME, "tenure-init");
    (void)tn_sched_first(); /* The namespace ends when this process is scheduled to die. */
    (void)setpgid(0, 0);
    (void)sigaction(SIGCHLD, &ignore, NULL);
    tn_close_all_but(0, &talk, 1);
    int rc = chdir("/"); /* So that no file system stays busy; the root is always there. */
    (void)rc;
    /* Until the guardian has reaped the command; from then on all others are children of this. */
    while (recv(talk, &byte, 1, 0) < 0 && errno == EINTR)
        ;
    while (waitpid(-1, NULL, __WALL) >= 0 || errno == EINTR)
        ;
    _exit(0);
}

int tn_pidns_make(struct tn_pidns *ret_pidns)
{
    int ends[2];
    char byte = 0;

    if (unshare(CLONE_NEWPID) != 0 && (errno != EPERM || unshare_user() != 0))
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    ends[0] = tn_fd_above_streams(ends[0]);
    ends[1] = tn_fd_above_streams(ends[1]);
    pid_t pid = ends[0] >= 0 && ends[1] >= 0 ? tn_fork() : -1;
    if (pid == 0) {
        (void)close(ends[0]);
        be_init(ends[1]);
    }
    int error = errno;
    (void)close(ends[1]);
    if (pid > 0 && recv(ends[0], &byte, 1, 0) == 1 && send(ends[0], &byte, 1, MSG_NOSIGNAL) == 1) {
        *ret_pidns = (struct tn_pidns) { .init = pid, .hold = ends[0] };
        return 0;
    }
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        error = EAGAIN;
    }
    (void)close(ends[0]);
    errno = error;
    return -1;
}

/* Mounts are shared between namespaces on most machines. What is put on top of /proc stays here
 * only because /proc itself is made private first; without that it would cover the machine's. */
int tn_pidns_mount_proc(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/proc", NULL, MS_PRIVATE, NULL) != 0)
        return -1;
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* In a child: make one and look into it. */
static int try_all(void)
{
    struct tn_pidns pidns;
    int status = 0;

    if (tn_pidns_make(&pidns) != 0)
        return errno;
    pid_t pid = tn_fork();
    if (pid == 0)
        _exit(tn_pidns_mount_proc() == 0 ? 0 : errno);
    int error = errno;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return error;
    (void)close(pidns.hold);
    (void)waitpid(pidns.init, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

int tn_pidns_check(char *ret_why, size_t size)
{
    int status = 0;
    pid_t pid = tn_fork();
    int error = errno;

    if (pid == 0) {
        tn_signals_default(NULL);
        _exit(try_all());
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0)
        error = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    if (error == 0)
        return 0;
    (void)snprintf(ret_why, size, "no pid namespace with a /proc of its own: %s", strerror(error));
    return TENURE_E_UNSUPPORTED;
}
