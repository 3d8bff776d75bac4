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
#include "base/time.h"
#include "runner/os.h"

/* Each level holds a few descriptors and buffers. What lies deeper comes up as its ancestors die,
 * and is found by a later walk. */
enum { DEPTH_MAX = 32 };

/* How long one walk may take. Where processes fork and exit without rest the list of children grows
 * as it is read, and a walk would never end. */
#define WALK_MAX TN_MS(30)

struct walk {
    const struct tn_tree_spared *spared;
    tenure_ns until;
    int signo; /* 0: reap instead. */
    bool wake;
    bool blind; /* Something could not be looked at. */
    bool full;  /* There are more than the list can hold. */
    size_t found;
    pid_t watched;
    int *ret_status;
    bool *ret_ended;
    pid_t *list;
    size_t *list_count;
    size_t list_max;
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

/* Somebody who is gone, which is no reason to be in doubt. But this process itself is not gone: a
 * /proc that does not show it shows nothing. */
static void note_error(struct walk *walk, const struct node *parent)
{
    if (parent->depth == 0 || (errno != ENOENT && errno != ESRCH))
        walk->blind = true;
}

/* What a walk that was cut short has not seen is unknown. */
static bool is_over(struct walk *walk)
{
    bool over = tn_boottime() >= walk->until;

    walk->blind = walk->blind || over;
    return over;
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
            } else if (number > 0 && is_over(walk)) {
                return;
            } else if (number > 0) {
                visit(walk, parent, (pid_t)number);
                number = 0;
            }
        }
    }
    if (len < 0)
        note_error(walk, parent);
}

static void visit_task(struct walk *walk, const struct node *parent, pid_t task, visit_fn *visit)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)parent->pid, (long)task);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        note_error(walk, parent);
        return;
    }
    visit_children_file(walk, parent, fd, visit);
    (void)close(fd);
}

static void visit_if_child(struct walk *walk, const struct node *parent, pid_t pid, visit_fn *visit)
{
    char state;
    pid_t its_parent;

    if (!tn_proc_stat(pid, &state, &its_parent))
        walk->blind = walk->blind || errno != ESRCH;
    else if (its_parent == parent->pid)
        visit(walk, parent, pid);
}

/* Visit all children of @parent. Not readdir, which allocates. */
static void visit_children(struct walk *walk, const struct node *parent, visit_fn *visit)
{
    _Alignas(struct dirent64) char entries[1024];
    char path[64];
    long len = 0;
    int fd;

    if (scan_all)
        (void)snprintf(path, sizeof path, "/proc");
    else
        (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)parent->pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        note_error(walk, parent);
        return;
    }
    while (!is_over(walk) && (len = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
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
    if (len < 0)
        note_error(walk, parent);
    (void)close(fd);
}

/* A child whose age cannot be read may be a stranger's: it is left alone, but not forgotten. */
static bool is_spared(struct walk *walk, const struct node *parent, pid_t pid)
{
    uint64_t born;

    if (walk->spared == NULL || parent->depth > 0)
        return false;
    for (size_t i = 0; i < walk->spared->count; i++) {
        if (walk->spared->pids[i] == pid)
            return true;
    }
    if (walk->spared->born_before == 0)
        return false;
    if (tn_proc_born(pid, &born))
        return born < walk->spared->born_before;
    walk->blind = true;
    return true;
}

/* Whether @pid, whose pidfd is open, is a child of @parent for certain; see tree.h. */
static bool is_child(struct walk *walk, const struct node *parent, pid_t pid)
{
    char state;
    pid_t its_parent;

    if (parent->depth == 0)
        return true;
    if (!tn_proc_stat(pid, &state, &its_parent)) {
        walk->blind = walk->blind || errno != ESRCH;
        return false;
    }
    return its_parent == parent->pid && tn_pidfd_signal(parent->pidfd, 0) == 0;
}

static void signal_one(struct walk *walk, const struct node *parent, pid_t pid)
{
    struct node node = { .pid = pid, .pidfd = -1, .depth = parent->depth + 1 };

    if (is_spared(walk, parent, pid))
        return;
    /* A direct child is reached by its number, which is faster and needs no descriptor. */
    if (node.depth == 1) {
        walk->found++;
        (void)kill(pid, walk->signo);
        if (walk->wake)
            (void)kill(pid, SIGCONT);
    }
    node.pidfd = tn_pidfd_open(pid);
    if (node.pidfd < 0) {
        walk->blind = walk->blind || errno != ESRCH;
        return;
    }
    if (is_child(walk, parent, pid)) {
        if (node.depth > 1) {
            walk->found++;
            (void)tn_pidfd_signal(node.pidfd, walk->signo);
            if (walk->wake)
                (void)tn_pidfd_signal(node.pidfd, SIGCONT);
        }
        if (node.depth < DEPTH_MAX)
            visit_children(walk, &node, signal_one);
    }
    (void)close(node.pidfd);
}

static void kill_one(struct walk *walk, const struct node *parent, pid_t pid)
{
    if (is_spared(walk, parent, pid))
        return;
    walk->found++;
    pid_t session = getsid(pid);
    pid_t group = getpgid(pid);
    if (session > 0 && session != getsid(0) && group > 1)
        (void)kill(-group, SIGKILL);
    (void)kill(pid, SIGKILL);
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

static void list_one(struct walk *walk, const struct node *parent, pid_t pid)
{
    (void)parent;
    for (size_t i = 0; i < *walk->list_count; i++) {
        if (walk->list[i] == pid)
            return;
    }
    if (*walk->list_count < walk->list_max)
        walk->list[(*walk->list_count)++] = pid;
    else
        walk->full = true;
}

static const struct node *root_node(struct node *ret_node)
{
    *ret_node = (struct node) { .pid = getpid(), .pidfd = -1, .depth = 0 };
    return ret_node;
}

/* Whether /proc is there, and that of this pid namespace. */
static bool proc_is_ours(void)
{
    char self[32] = { 0 };

    return readlink("/proc/self", self, sizeof self - 1) > 0 && entry_number(self) == getpid();
}

static void start_walk(struct walk *walk, visit_fn *visit)
{
    struct node root;

    if (walk->until == 0)
        walk->until = tn_boottime() + WALK_MAX;
    visit_children(walk, root_node(&root), visit);
    if (!proc_is_ours())
        walk->blind = true;
}

size_t tn_tree_signal(int signo, bool wake, const struct tn_tree_spared *spared, tenure_ns until)
{
    struct walk walk = { .spared = spared, .signo = signo, .wake = wake, .until = until };

    start_walk(&walk, signal_one);
    return walk.found;
}

size_t tn_tree_kill_children(int children, const struct tn_tree_spared *spared)
{
    struct walk walk = { .spared = spared, .signo = SIGKILL, .until = tn_boottime() + WALK_MAX };
    struct node root;

    if (children >= 0 && lseek(children, 0, SEEK_SET) == 0)
        visit_children_file(&walk, root_node(&root), children, kill_one);
    return walk.found;
}

/* A walk that found nobody is proof even though it reads one thread's list after the other: a
 * process can only move into a list that was already read when its parent dies, and that parent,
 * which nobody but this walk reaps, is then still found. */
enum tn_tree_left tn_tree_reap(int children, const struct tn_tree_spared *spared, pid_t watched,
                               int *ret_status, bool *ret_ended)
{
    struct walk walk = {
        .spared = spared, .watched = watched, .ret_status = ret_status, .ret_ended = ret_ended
    };
    struct node root;
    siginfo_t info;

    TN_ASSERT(watched == 0 || ret_status != NULL);
    start_walk(&walk, reap_one);
    walk.until = tn_boottime() + WALK_MAX;
    if (walk.blind && children >= 0 && lseek(children, 0, SEEK_SET) == 0)
        visit_children_file(&walk, root_node(&root), children, reap_one);
    if (walk.found > 0)
        return TN_TREE_LEFT;
    if (!walk.blind)
        return TN_TREE_GONE;
    /* Without any child there is nothing to look at. */
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD
               ? TN_TREE_GONE
               : TN_TREE_UNKNOWN;
}

bool tn_tree_list(pid_t *ret_pids, size_t *count, size_t max)
{
    struct walk walk = { .list = ret_pids, .list_count = count, .list_max = max };

    start_walk(&walk, list_one);
    return !walk.blind && !walk.full;
}

int tn_tree_open(void)
{
    char path[96];

    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)getpid(),
                   (long)getpid());
    return tn_fd_above_streams(open(path, O_RDONLY | O_CLOEXEC));
}

int tn_tree_check(void)
{
    int fd = proc_is_ours() ? tn_tree_open() : -1;

    if (fd < 0 && !proc_is_ours())
        return TENURE_E_UNSUPPORTED;
    if (fd < 0 && errno == ENOENT)
        scan_all = true;
    if (fd >= 0)
        (void)close(fd);
    return 0;
}
