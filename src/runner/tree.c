/* tree.c - all descendants of this process: find them, signal them.
 *
 * The kernel lists the children of each thread in /proc/PID/task/TID/children, which costs as much
 * as the tree is large. Kernels built without that file are served by reading the parent of every
 * process there is. */
#define _GNU_SOURCE
#include "runner/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "runner/os.h"

/* Each level holds a few descriptors and buffers. What lies deeper comes up as its ancestors die,
 * and is found by a later walk. */
enum { DEPTH_MAX = 16 };

struct walk {
    const struct tn_tree_spared *spared;
    int signo; /* 0: reap instead. */
    bool wake;
    size_t found;
    pid_t watched;
    int *ret_status;
    bool *ret_ended;
};

/* A process whose children are being visited. */
struct node {
    pid_t pid;
    int pidfd; /* -1 for the root, which is this process. */
    int depth;
};

typedef void visit_fn(struct walk *walk, const struct node *parent, pid_t pid);

static bool scan_all;

void tn_tree_scan_all(bool on)
{
    scan_all = on;
}

/* The entry's number, or 0 when its name is not a number. */
static pid_t entry_number(const char *name)
{
    char *end;
    long number = name[0] >= '1' && name[0] <= '9' ? strtol(name, &end, 10) : 0;

    return number > 0 && *end == '\0' ? (pid_t)number : 0;
}

/* Visit the numbers in a children file as they are read; one may lie across two reads. */
static void visit_children_file(struct walk *walk, const struct node *parent, int fd,
                                visit_fn *visit)
{
    char chunk[2048];
    ssize_t len;
    long number = 0;

    while ((len = read(fd, chunk, sizeof chunk)) > 0) {
        for (ssize_t i = 0; i < len; i++) {
            if (chunk[i] >= '0' && chunk[i] <= '9') {
                number = number * 10 + (chunk[i] - '0');
            } else if (number > 0) {
                visit(walk, parent, (pid_t)number);
                number = 0;
            }
        }
    }
}

static void visit_task(struct walk *walk, const struct node *parent, pid_t task, visit_fn *visit)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)parent->pid, (long)task);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    visit_children_file(walk, parent, fd, visit);
    (void)close(fd);
}

static void visit_if_child(struct walk *walk, const struct node *parent, pid_t pid, visit_fn *visit)
{
    char state;
    pid_t its_parent;

    if (tn_proc_stat(pid, &state, &its_parent) && its_parent == parent->pid)
        visit(walk, parent, pid);
}

/* Visit all children of @parent. Not readdir, which allocates. */
static void visit_children(struct walk *walk, const struct node *parent, visit_fn *visit)
{
    _Alignas(struct dirent64) char entries[1024];
    char path[64];
    long len;
    int fd;

    if (scan_all)
        (void)snprintf(path, sizeof path, "/proc");
    else
        (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)parent->pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    while ((len = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < len;) {
            const struct dirent64 *entry = (const struct dirent64 *)(void *)(entries + at);
            pid_t number = entry_number(entry->d_name);

            at += entry->d_reclen;
            if (number == 0)
                continue;
            if (scan_all)
                visit_if_child(walk, parent, number, visit);
            else
                visit_task(walk, parent, number, visit);
        }
    }
    (void)close(fd);
}

static bool is_spared(const struct walk *walk, const struct node *parent, pid_t pid)
{
    if (walk->spared == NULL || parent->depth > 0)
        return false;
    for (size_t i = 0; i < walk->spared->count; i++) {
        if (walk->spared->pids[i] == pid)
            return true;
    }
    return false;
}

/* Whether @pid, whose pidfd is open, is a child of @parent for certain; see tree.h. */
static bool is_child(const struct node *parent, pid_t pid)
{
    char state;
    pid_t its_parent;

    if (parent->depth == 0)
        return true;
    return tn_proc_stat(pid, &state, &its_parent) && its_parent == parent->pid &&
           tn_pidfd_signal(parent->pidfd, 0) == 0;
}

static void signal_one(struct walk *walk, const struct node *parent, pid_t pid)
{
    struct node node = { .pid = pid, .pidfd = -1, .depth = parent->depth + 1 };

    if (is_spared(walk, parent, pid))
        return;
    node.pidfd = tn_pidfd_open(pid);
    if (node.pidfd < 0) {
        /* No descriptor left: a direct child can be reached without one. */
        if (errno != ESRCH && parent->depth == 0) {
            walk->found++;
            (void)kill(pid, walk->signo);
        }
        return;
    }
    if (is_child(parent, pid)) {
        walk->found++;
        (void)tn_pidfd_signal(node.pidfd, walk->signo);
        if (walk->wake)
            (void)tn_pidfd_signal(node.pidfd, SIGCONT);
        if (node.depth < DEPTH_MAX)
            visit_children(walk, &node, signal_one);
    }
    (void)close(node.pidfd);
}

static void reap_one(struct walk *walk, const struct node *parent, pid_t pid)
{
    int status;

    if (is_spared(walk, parent, pid))
        return;
    walk->found++;
    /* __WALL: also children that were cloned to send another signal than SIGCHLD. */
    if (waitpid(pid, &status, WNOHANG | __WALL) == pid && pid == walk->watched) {
        *walk->ret_status = status;
        *walk->ret_ended = true;
    }
}

static void start_walk(struct walk *walk, visit_fn *visit)
{
    struct node root = { .pid = getpid(), .pidfd = -1, .depth = 0 };

    visit_children(walk, &root, visit);
}

size_t tn_tree_signal(int signo, bool wake, const struct tn_tree_spared *spared)
{
    struct walk walk = { .spared = spared, .signo = signo, .wake = wake };

    start_walk(&walk, signal_one);
    return walk.found;
}

/* A walk that found nobody is proof even though it reads one thread's list after the other: a
 * process can only move into a list that was already read when its parent dies, and that parent,
 * which nobody but this walk reaps, is then still found. */
size_t tn_tree_reap(const struct tn_tree_spared *spared, pid_t watched, int *ret_status,
                    bool *ret_ended)
{
    struct walk walk = {
        .spared = spared, .watched = watched, .ret_status = ret_status, .ret_ended = ret_ended
    };

    TN_ASSERT(watched == 0 || ret_status != NULL);
    start_walk(&walk, reap_one);
    return walk.found;
}

int tn_tree_check(void)
{
    char path[64];
    char self[32] = { 0 };
    pid_t pid = getpid();

    if (readlink("/proc/self", self, sizeof self - 1) <= 0 || entry_number(self) != pid)
        return TENURE_E_UNSUPPORTED;
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    if (access(path, R_OK) != 0)
        scan_all = true;
    return 0;
}
