/* cgroup.c - a control group for one command.
 *
 * Happy path: tn_cgroup_make finds the cgroup of this process (/proc/self/cgroup says its path,
 * /proc/self/mountinfo where that is), makes a directory in it and opens what is needed; the
 * command enters it between fork and exec; tn_cgroup_kill ends all of it; tn_cgroup_remove proves
 * that it is empty, because the kernel removes no group with a live process in it.
 *
 * What can fail: there is no cgroup file system, it is read-only (most containers), or it belongs
 * to another user (a session or service that was not delegated). Then no group is made, and the
 * reason is told. cgroup2 forbids processes beside child groups only where controllers are enabled
 * for the children, and then no process, this one included, can be there; the root is exempt. */
#define _GNU_SOURCE
#include "runner/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runner/os.h"

#define PREFIX "tenure-"

/* How long a group may take to stand still. What has stopped cannot act meanwhile; but a process
 * that sleeps in the kernel may keep it from ever being still. Then it is killed as it is, and
 * thawed to die. */
#define FREEZE_WAIT TN_SEC(2)

/* From a thaw to the next freeze. All that was killed has to run once more to die, and a new freeze
 * would keep it from that; so the pause doubles. */
#define FREEZE_PAUSE TN_MS(100)

/* How long to wait for what is left in a stale group. */
#define STALE_WAIT TN_MS(50)

/* Groups that the command made below its own, to this depth. */
enum { DEPTH_MAX = 16 };

enum { PATH_SIZE = 4096, TRIES = 8 };

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void tn_cgroup_close(struct tn_cgroup *group)
{
    close_fd(&group->parent);
    close_fd(&group->dir);
    close_fd(&group->enter);
    close_fd(&group->kill);
    close_fd(&group->look);
    group->kind = TN_CGROUP_NONE;
}

size_t tn_cgroup_fds(const struct tn_cgroup *group, int *ret_fds)
{
    if (group->kind == TN_CGROUP_NONE)
        return 0;
    ret_fds[0] = group->parent;
    ret_fds[1] = group->dir;
    ret_fds[2] = group->enter;
    ret_fds[3] = group->kill;
    ret_fds[4] = group->look;
    return TN_CGROUP_FDS;
}

pid_t tn_cgroup_fork(const struct tn_cgroup *group, bool *ret_inside)
{
    pid_t pid = -1;

    if (group != NULL && (group->kind == TN_CGROUP_KILL || group->kind == TN_CGROUP_FREEZE))
        pid = tn_fork_into(group->dir);
    *ret_inside = pid >= 0;
    return pid >= 0 ? pid : tn_fork();
}

int tn_cgroup_enter(const struct tn_cgroup *group)
{
    if (group->kind == TN_CGROUP_NONE)
        return 0;
    return write(group->enter, "0", 1) == 1 ? 0 : -1;
}

/* --- Kill ------------------------------------------------------------------------------------- */

static bool write_word(int fd, const char *word)
{
    ssize_t len = (ssize_t)strlen(word);

    return pwrite(fd, word, (size_t)len, 0) == len;
}

/* Whether everything in a frozen group stands still. */
static bool is_frozen(const struct tn_cgroup *group)
{
    char text[256];
    int fd = group->kind == TN_CGROUP_V1 ? group->kill : group->look;
    ssize_t len = pread(fd, text, sizeof text - 1, 0);

    text[len > 0 ? len : 0] = '\0';
    if (group->kind == TN_CGROUP_V1)
        return strncmp(text, "FROZEN", 6) == 0;
    return strstr(text, "frozen 1") != NULL;
}

/* Whether @pid is in the group, whose name no other group has. */
static bool is_member(const struct tn_cgroup *group, pid_t pid)
{
    char text[4096];
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%ld/cgroup", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    text[len > 0 ? len : 0] = '\0';
    close_fd(&fd);
    return strstr(text, group->name) != NULL;
}

/* In a group that stands still nobody can end, so no number can pass to a stranger between the read
 * and the signal. In any other the process is held first, and then looked at. */
static void kill_member(const struct tn_cgroup *group, pid_t pid, bool frozen)
{
    if (frozen) {
        (void)kill(pid, SIGKILL);
        return;
    }
    int pidfd = tn_pidfd_open(pid);
    if (pidfd >= 0 && is_member(group, pid))
        (void)tn_pidfd_signal(pidfd, SIGKILL);
    close_fd(&pidfd);
}

/* Kill each process that cgroup.procs lists. */
static void kill_members(const struct tn_cgroup *group, bool frozen)
{
    char chunk[2048];
    ssize_t len;
    long number = 0;
    int fd = openat(group->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);

    /* No descriptor left: the caller's walk reaches the same processes. */
    while (fd >= 0 && (len = read(fd, chunk, sizeof chunk)) > 0) {
        for (ssize_t i = 0; i < len; i++) {
            if (chunk[i] >= '0' && chunk[i] <= '9') {
                number = number * 10 + (chunk[i] - '0');
            } else if (number > 0) {
                kill_member(group, (pid_t)number, frozen);
                number = 0;
            }
        }
    }
    close_fd(&fd);
}

/* Each process has to be scheduled once more to stop, which takes its time on a busy machine. So
 * this does not wait: it is called again and again, and nothing is thawed before all was killed. */
void tn_cgroup_kill(struct tn_cgroup *group)
{
    tenure_ns now = tn_boottime();

    if (group->kind == TN_CGROUP_NONE)
        return;
    if (group->kind == TN_CGROUP_KILL) {
        (void)write_word(group->kill, "1");
        return;
    }
    if (now < group->next_freeze)
        return;
    if (group->froze_at == 0 &&
        !write_word(group->kill, group->kind == TN_CGROUP_V1 ? "FROZEN" : "1"))
        return;
    if (group->froze_at == 0)
        group->froze_at = now;
    bool frozen = is_frozen(group);
    group->killed = frozen || now >= group->froze_at + FREEZE_WAIT;
    if (group->killed)
        kill_members(group, frozen);
}

void tn_cgroup_thaw(struct tn_cgroup *group)
{
    if (!group->killed)
        return;
    (void)write_word(group->kill, group->kind == TN_CGROUP_V1 ? "THAWED" : "0");
    group->killed = false;
    group->froze_at = 0;
    group->freeze_pause = group->freeze_pause > 0 ? 2 * group->freeze_pause : FREEZE_PAUSE;
    group->next_freeze = tn_boottime() + group->freeze_pause;
}

/* --- Remove ----------------------------------------------------------------------------------- */

/* Remove @name in @parent and the groups below it. True when it is gone. */
static bool remove_group(int parent, const char *name, int depth)
{
    _Alignas(struct dirent64) char entries[1024];
    long len;

    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (depth >= DEPTH_MAX)
        return false;
    int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT;
    while ((len = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) {
        for (long at = 0; at < len;) {
            const struct dirent64 *entry = (const struct dirent64 *)(void *)(entries + at);

            at += entry->d_reclen;
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                (void)remove_group(dir, entry->d_name, depth + 1);
        }
    }
    close_fd(&dir);
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool tn_cgroup_remove(struct tn_cgroup *group)
{
    char text[256];

    if (group->kind == TN_CGROUP_NONE || remove_group(group->parent, group->name, 0))
        return true;
    if (errno == EBUSY || errno == ENOTEMPTY)
        return false;
    /* It cannot be removed, as on a file system that is read-only by now; but is it empty? */
    ssize_t len = pread(group->look, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    return group->kind == TN_CGROUP_V1 ? len == 0 : strstr(text, "populated 0") != NULL;
}

/* --- Make ------------------------------------------------------------------------------------- */

static int open_in(int dir, const char *name, int flags)
{
    return tn_fd_above_streams(openat(dir, name, flags | O_CLOEXEC));
}

/* Whether a process can really enter: the rules (delegation, namespaces, threaded groups) are the
 * kernel's, and asking it is the only sure way. */
static bool can_enter(const struct tn_cgroup *group)
{
    static enum tn_cgroup_kind known; /* Asked once: a fork of a large process takes its time. */
    int status = 0;
    bool inside;

    if (known == group->kind)
        return true;
    pid_t pid = tn_cgroup_fork(group, &inside);

    if (pid == 0)
        _exit(inside || tn_cgroup_enter(group) == 0 ? 0 : errno);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && WIFEXITED(status))
        errno = WEXITSTATUS(status);
    bool entered = pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (entered)
        known = group->kind;
    return entered;
}

static bool open_files(struct tn_cgroup *group, bool v1, enum tn_cgroup_kind only)
{
    group->enter = open_in(group->dir, "cgroup.procs", O_WRONLY);
    group->look = open_in(group->dir, v1 ? "cgroup.procs" : "cgroup.events", O_RDONLY);
    if (v1) {
        group->kind = TN_CGROUP_V1;
        group->kill = open_in(group->dir, "freezer.state", O_RDWR);
    } else {
        group->kind = TN_CGROUP_KILL;
        if (only != TN_CGROUP_FREEZE)
            group->kill = open_in(group->dir, "cgroup.kill", O_WRONLY);
        if (group->kill < 0 && only != TN_CGROUP_KILL) {
            group->kind = TN_CGROUP_FREEZE;
            group->kill = open_in(group->dir, "cgroup.freeze", O_RDWR);
        }
    }
    return group->enter >= 0 && group->look >= 0 && group->kill >= 0;
}

/* Kill what is in a group that nobody holds, and remove it. If that takes too long, the next one
 * who makes a group does the rest. */
static void end_stale(int parent, const char *name, bool v1)
{
    struct tn_cgroup stale = TN_CGROUP_INIT;
    tenure_ns end = tn_boottime() + STALE_WAIT;
    struct stat st;

    (void)snprintf(stale.name, sizeof stale.name, "%.40s", name);
    stale.dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (stale.dir >= 0 && fstat(stale.dir, &st) == 0 && st.st_uid == geteuid() &&
        flock(stale.dir, LOCK_EX | LOCK_NB) == 0 && !remove_group(parent, name, 0) &&
        open_files(&stale, v1, TN_CGROUP_NONE)) {
        do {
            tn_cgroup_kill(&stale);
            tn_cgroup_thaw(&stale);
            (void)poll(NULL, 0, 1);
        } while (!remove_group(parent, name, 0) && tn_boottime() < end);
    }
    tn_cgroup_close(&stale);
}

/* Groups that nobody holds. What is in one has outlived both supervisor and guardian, and with them
 * the term that it belonged to. */
static void sweep_stale(int parent, bool v1)
{
    int copy = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;

    if (list == NULL && copy >= 0)
        (void)close(copy);
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0)
            end_stale(parent, entry->d_name, v1);
    }
    if (list != NULL)
        (void)closedir(list);
}

/* Somebody who sweeps may take a new group for a stale one in the moment before it is locked; it is
 * empty then, and another one does as well. */
static bool swept_meanwhile(int error)
{
    return error == ENOENT || error == ENODEV || error == EWOULDBLOCK;
}

static bool try_make(struct tn_cgroup *group, bool v1, enum tn_cgroup_kind only)
{
    static unsigned number;

    (void)snprintf(group->name, sizeof group->name, PREFIX "%ld-%08" PRIx64, (long)getpid(),
                   (uint64_t)(tn_boottime() + number++) & 0xffffffff);
    if (mkdirat(group->parent, group->name, 0700) != 0)
        return false;
    group->dir = open_in(group->parent, group->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (group->dir >= 0 && flock(group->dir, LOCK_EX | LOCK_NB) == 0 &&
        open_files(group, v1, only) && can_enter(group))
        return true;
    int error = errno;
    (void)unlinkat(group->parent, group->name, AT_REMOVEDIR);
    close_fd(&group->dir);
    close_fd(&group->enter);
    close_fd(&group->kill);
    close_fd(&group->look);
    errno = error;
    return false;
}

/* Make one in @parent, which it takes. False with errno. */
static bool make_in(struct tn_cgroup *ret_group, int parent, bool v1, enum tn_cgroup_kind only)
{
    struct tn_cgroup group = TN_CGROUP_INIT;
    bool made = false;

    group.parent = parent;
    sweep_stale(parent, v1);
    for (int i = 0; i < TRIES && !made && (i == 0 || swept_meanwhile(errno)); i++)
        made = try_make(&group, v1, only);
    if (made) {
        *ret_group = group;
        return true;
    }
    int error = errno;
    tn_cgroup_close(&group);
    errno = error;
    return false;
}

/* Whether @word is one of the @list, which commas separate. */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (; *list != '\0'; list += strcspn(list, ","), list += *list == ',') {
        if (strcspn(list, ",\n") == len && strncmp(list, word, len) == 0)
            return true;
    }
    return false;
}

/* The path of this process's cgroup in the hierarchy. */
static bool own_path(bool v1, char *ret_path, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    while (file != NULL && !found && getline(&line, &room, file) > 0) {
        char *rest = line;
        const char *id = strsep(&rest, ":");
        const char *controllers = strsep(&rest, ":");

        if (rest == NULL)
            continue;
        found =
            v1 ? has_word(controllers, "freezer") : strcmp(id, "0") == 0 && controllers[0] == '\0';
        rest[strcspn(rest, "\n")] = '\0';
        /* "/..": outside of the cgroup namespace, and so of every mount that can be seen. */
        if (found &&
            (strncmp(rest, "/..", 3) == 0 || (size_t)snprintf(ret_path, size, "%s", rest) >= size))
            found = false;
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
    return found;
}

/* mountinfo writes a blank as \040, and so on. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] != '\0' && from[2] != '\0' && from[3] != '\0') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* From a line of mountinfo the folder of the cgroup @path. False: not there. */
static bool mounted_folder(char *line, bool v1, const char *path, char *ret_folder, size_t size)
{
    char *fields[5] = { NULL };
    char *rest = line;

    for (size_t i = 0; i < 5 && rest != NULL; i++)
        fields[i] = strsep(&rest, " ");
    char *dash = rest != NULL ? strstr(rest, "- ") : NULL;
    if (dash == NULL)
        return false;
    dash += 2;
    const char *type = strsep(&dash, " ");
    (void)strsep(&dash, " ");
    if (dash == NULL || strcmp(type, v1 ? "cgroup" : "cgroup2") != 0 ||
        (v1 && !has_word(dash, "freezer")))
        return false;
    unescape(fields[3]);
    unescape(fields[4]);
    size_t len = strcmp(fields[3], "/") == 0 ? 0 : strlen(fields[3]);
    if (strncmp(path, fields[3], len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return false;
    return (size_t)snprintf(ret_folder, size, "%s%s", fields[4], path + len) < size;
}

static bool make_below(struct tn_cgroup *group, const char *folder, bool v1,
                       enum tn_cgroup_kind only)
{
    struct statfs fs;
    int fd = tn_fd_above_streams(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    if (fd < 0)
        return false;
    if (fstatfs(fd, &fs) != 0 || fs.f_type != (v1 ? CGROUP_SUPER_MAGIC : CGROUP2_SUPER_MAGIC)) {
        (void)close(fd);
        errno = ENOTDIR;
        return false;
    }
    return make_in(group, fd, v1, only);
}

static bool make_version(struct tn_cgroup *group, bool v1, enum tn_cgroup_kind only, char *ret_why,
                         size_t size)
{
    char path[PATH_SIZE];
    char folder[PATH_SIZE];
    FILE *mounts = own_path(v1, path, sizeof path) ? fopen("/proc/self/mountinfo", "re") : NULL;
    char *line = NULL;
    size_t room = 0;
    bool made = false;

    while (mounts != NULL && !made && getline(&line, &room, mounts) > 0) {
        if (!mounted_folder(line, v1, path, folder, sizeof folder))
            continue;
        made = make_below(group, folder, v1, only);
        if (!made)
            (void)snprintf(ret_why, size, "%.180s: %s", folder, strerror(errno));
    }
    free(line);
    if (mounts != NULL)
        (void)fclose(mounts);
    return made;
}

int tn_cgroup_make(struct tn_cgroup *ret_group, enum tn_cgroup_kind only, char *ret_why,
                   size_t size)
{
    char why[2][256] = { "", "" };

    TN_ASSERT(size > 0);
    if (only != TN_CGROUP_V1 && make_version(ret_group, false, only, why[0], sizeof why[0]))
        return 0;
    if ((only == TN_CGROUP_NONE || only == TN_CGROUP_V1) &&
        make_version(ret_group, true, only, why[1], sizeof why[1]))
        return 0;
    (void)snprintf(ret_why, size, "%s",
                   why[0][0] != '\0'   ? why[0]
                   : why[1][0] != '\0' ? why[1]
                                       : "no cgroup file system of its own is mounted");
    return TENURE_E_UNSUPPORTED;
}
