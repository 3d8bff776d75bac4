/* spawn.c - the command's side of fork and exec. */
#define _GNU_SOURCE
#include "runner/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/os.h"
#include "runner/pidns.h"

/* Whether the names of two NAME=VALUE or NAME are the same. */
static bool same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");

    return strcspn(b, "=") == len && memcmp(a, b, len) == 0;
}

static bool name_in(const char *entry, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        if (same_name(entry, *list))
            return true;
    }
    return false;
}

static bool name_has(const char *entry, const char *word)
{
    const char *found = strstr(entry, word);

    return found != NULL && (size_t)(found - entry) < strcspn(entry, "=");
}

/* Tenure's own secrets. A command that is to talk to the store with the same password gets it in a
 * way of its own. */
static bool is_secret(const char *entry)
{
    if (strncmp(entry, "TENURE_", 7) != 0)
        return false;
    if (name_has(entry, "SECRET") || name_has(entry, "PASSWORD"))
        return true;
    /* URL userinfo with a password, or a password among the parameters. */
    if (!same_name(entry, "TENURE_STORE") && !same_name(entry, "TENURE_FENCE"))
        return false;
    const char *slashes = strstr(entry, "://");
    const char *user = slashes != NULL ? slashes + 3 : entry;
    const char *at = strrchr(user, '@');
    const char *colon = strchr(user, ':');
    return (slashes != NULL && at != NULL && colon != NULL && colon < at) ||
           strcasestr(user, "password=") != NULL;
}

static size_t count_of(const char *const *list)
{
    size_t count = 0;

    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        free(list[i]);
    free(list);
}

/* Append a copy; the list is zeroed and large enough. */
static bool add_copy(char **list, size_t *count, const char *string)
{
    list[*count] = strdup(string);
    return list[*count] != NULL && ++*count > 0;
}

static char **copy_argv(char *const *argv)
{
    size_t count = 0;
    char **copy = calloc(count_of((const char *const *)argv) + 1, sizeof *copy);

    for (; copy != NULL && *argv != NULL; argv++) {
        if (!add_copy(copy, &count, *argv)) {
            free_list(copy);
            return NULL;
        }
    }
    return copy;
}

static char **build_env(const char *const *env, const char *const *scrub)
{
    const char *const *inherited = (const char *const *)environ;
    size_t count = 0;
    bool ok = true;
    char **envp = calloc(count_of(inherited) + count_of(env) + 1, sizeof *envp);

    if (envp == NULL)
        return NULL;
    for (; ok && inherited != NULL && *inherited != NULL; inherited++) {
        if (!is_secret(*inherited) && !name_in(*inherited, scrub) && !name_in(*inherited, env))
            ok = add_copy(envp, &count, *inherited);
    }
    for (; ok && env != NULL && *env != NULL; env++)
        ok = add_copy(envp, &count, *env);
    if (!ok) {
        free_list(envp);
        return NULL;
    }
    return envp;
}

int tn_spawn_init(struct tn_spawn *ret_spawn, char *const *argv, const char *const *env,
                  const char *const *scrub)
{
    static const int kept[] = { SIGHUP, SIGINT, SIGQUIT };
    struct tn_spawn spawn = { .group = getpgrp() };

    for (const char *const *entry = env; entry != NULL && *entry != NULL; entry++) {
        if ((*entry)[0] == '=' || strchr(*entry, '=') == NULL)
            return TENURE_E_INVALID;
    }
    (void)sigemptyset(&spawn.ignored);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        struct sigaction action;

        if (sigaction(kept[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            (void)sigaddset(&spawn.ignored, kept[i]);
    }
    spawn.argv = copy_argv(argv);
    spawn.envp = build_env(env, scrub);
    if (spawn.argv == NULL || spawn.envp == NULL) {
        tn_spawn_done(&spawn);
        return TENURE_E_NOMEM;
    }
    *ret_spawn = spawn;
    return 0;
}

void tn_spawn_done(struct tn_spawn *spawn)
{
    free_list(spawn->argv);
    free_list(spawn->envp);
    spawn->argv = NULL;
    spawn->envp = NULL;
}

void tn_signals_default(const sigset_t *ignored)
{
    for (int signo = 1; signo < NSIG; signo++) {
        bool ignore = ignored != NULL && sigismember(ignored, signo) == 1;
        struct sigaction action = { .sa_handler = ignore ? SIG_IGN : SIG_DFL };

        (void)sigaction(signo, &action, NULL);
    }
}

/* execvpe also says "permission denied" when a folder of PATH may not be searched, or holds a
 * folder of that name. A shell has then not found it: only a file counts. */
static int search_error(const char *name, int error)
{
    const char *path = getenv("PATH");
    char candidate[4096];
    struct stat st;

    if (error != EACCES || strchr(name, '/') != NULL || path == NULL)
        return error;
    for (size_t len; *path != '\0'; path += len + (path[len] == ':')) {
        len = strcspn(path, ":");
        (void)snprintf(candidate, sizeof candidate, "%.*s/%s", len > 0 ? (int)len : 1,
                       len > 0 ? path : ".", name);
        if (stat(candidate, &st) == 0 && S_ISREG(st.st_mode))
            return EACCES;
    }
    return ENOENT;
}

/* Into the supervisor's process group: the terminal's foreground group, if that one is. From inside
 * a pid namespace that group cannot be named, so the guardian puts it there and then says so. */
static int join_group(const struct tn_spawn *spawn, int go)
{
    char byte;

    if (!spawn->pidns)
        return setpgid(0, spawn->group);
    if (read(go, &byte, 1) == 1)
        return 0;
    _exit(126);
}

/* In the child. Its descriptors are the standard streams and ones that close on exec: the guardian
 * has closed all others long since. */
static _Noreturn void become_command(const struct tn_spawn *spawn, pid_t guardian, int status_fd,
                                     int go, bool inside)
{
    sigset_t none;
    int error = 0;

    /* The guardian's death kills it; if that came before this call, it is too late to be told. In a
     * pid namespace the parent cannot be seen; there the word to go shows that it lives. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || (!spawn->pidns && getppid() != guardian))
        _exit(126);
    tn_signals_default(&spawn->ignored);
    tn_sched_restore(&spawn->sched);
    if (join_group(spawn, go) != 0 ||
        (spawn->cgroup != NULL && !inside && tn_cgroup_enter(spawn->cgroup) != 0) ||
        (spawn->pidns && tn_pidns_mount_proc() != 0))
        error = errno;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (error == 0) {
        (void)execvpe(spawn->argv[0], spawn->argv, spawn->envp);
        error = search_error(spawn->argv[0], errno);
    }
    /* A lost report leaves the status, which says the same in fewer words. */
    ssize_t sent = write(status_fd, &error, sizeof error);
    _exit(sent == (ssize_t)sizeof error ? tn_spawn_exec_status(error) : 126);
}

static bool open_pipe(int *ends, int flags)
{
    if (pipe2(ends, O_CLOEXEC | flags) != 0)
        return false;
    ends[0] = tn_fd_above_streams(ends[0]);
    ends[1] = tn_fd_above_streams(ends[1]);
    return ends[0] >= 0 && ends[1] >= 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

pid_t tn_spawn_run(const struct tn_spawn *spawn, int *ret_status_fd)
{
    pid_t guardian = getpid();
    int ends[2] = { -1, -1 };
    int go[2] = { -1, -1 };
    pid_t pid = -1;
    bool inside = false;

    if (open_pipe(ends, O_NONBLOCK) && open_pipe(go, 0))
        pid = tn_cgroup_fork(spawn->cgroup, &inside);
    if (pid == 0) {
        close_fd(&go[1]);
        become_command(spawn, guardian, ends[1], go[0], inside);
    }
    int error = errno;
    if (pid > 0 && spawn->pidns && setpgid(pid, spawn->group) == 0)
        (void)!write(go[1], "", 1);
    close_fd(&go[0]);
    close_fd(&go[1]);
    close_fd(&ends[1]);
    if (pid < 0)
        close_fd(&ends[0]);
    else
        *ret_status_fd = ends[0];
    errno = error;
    return pid;
}

int tn_spawn_exec_status(int error)
{
    return error == ENOENT ? 127 : 126;
}

int tn_spawn_wait_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
