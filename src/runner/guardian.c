/* guardian.c - the supervisor's side: starts the guardian, talks to it, and stands in for it.
 *
 * Happy path: start forks tn_guard_main; dispatch turns its records into events; after REAPED the
 * guardian is reaped, and the last event is delivered.
 *
 * What can fail is the guardian:
 * - It dies. PR_SET_PDEATHSIG kills the command; all other descendants become children of this
 *   process, which is a subreaper. By the time the guardian can be waited for, the kernel has moved
 *   them. dispatch kills the cgroup, and kills and reaps every child that is neither a guardian nor
 *   a stranger (note_strangers), until there is none. What it cannot look at counts as alive.
 * - It is stopped. It is continued and told to stop the tree: whoever can stop it once can do it
 *   again, so the term ends.
 * - It does not do its work in time, for whatever reason. Half the kill bound before the deadline,
 *   or sooner when a stop was asked for, the guardian is killed, and the case is as the first.
 *
 * One epoll descriptor holds the socket, the guardian's pidfd, and a timer on the boot clock for
 * the latter two, so that the caller has one descriptor to poll and no timeouts to keep. */
#define _GNU_SOURCE
#include "runner/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runner/bind.h"
#include "runner/cgroup.h"
#include "runner/guard.h"
#include "runner/os.h"
#include "runner/record.h"
#include "runner/spawn.h"
#include "runner/strangers.h"
#include "runner/tree.h"

/* At once in one process. */
enum { GUARDIANS_MAX = 64 };

/* The pause between two sweeps of SIGKILL; SIGCHLD, which would end it, is the caller's. */
#define SWEEP_PAUSE_MIN TN_MS(1)
#define SWEEP_PAUSE_MAX TN_MS(50)

/* How long the guardian may take to kill when the deadline is far. */
#define PATIENCE TN_MS(500)

struct tn_guardian {
    struct tn_guardian *next;
    pid_t pid;
    int pidfd;
    int socket;
    int timer;
    int epoll;
    tenure_ns grace;
    tenure_ns kill_bound;
    tenure_ns deadline;
    tenure_ns watch_every;
    tenure_ns next_watch;
    tenure_ns stop_began; /* TN_NEVER: not yet. */
    tenure_ns next_sweep;
    tenure_ns sweep_pause;
    tenure_ns reaped_at;
    struct tn_cgroup cgroup;
    enum tn_contain contain;
    char why_tree[256];
    int children;  /* From tn_tree_open. */
    uint64_t born; /* The guardian, see tn_proc_born. */
    pid_t command; /* 0: not known. */
    int status;
    int ended_by;     /* The signal that ended the guardian. */
    bool exited;      /* The command's end was reported. */
    bool was_stopped; /* The guardian, before anything had ended the term. */
    bool killed;      /* The guardian, by us. */
    bool dead;        /* The guardian is. */
    bool gone;        /* It is reaped, too. */
    bool lost;        /* It died before its work was done. */
    bool tree_gone;   /* Nothing of the tree is left. */
    bool done;        /* REAPED was delivered. */
};

static struct tn_guardian *guardians;

/* Of the supervisor's thread before its first guardian. While it has one, it is scheduled soon: it
 * may have to take over half of K before the deadline. */
static struct tn_sched usual_sched;

static size_t count_guardians(void)
{
    size_t count = 0;

    for (struct tn_guardian *g = guardians; g != NULL; g = g->next)
        count++;
    return count;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static int error_of(int error)
{
    if (error == ENOSYS || error == EINVAL)
        return TENURE_E_UNSUPPORTED;
    return error == ENOMEM ? TENURE_E_NOMEM : TENURE_E_FULL;
}

static bool watch_fd(const struct tn_guardian *g, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void unwatch_fd(const struct tn_guardian *g, int fd)
{
    (void)epoll_ctl(g->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* When the guardian should have sent SIGKILL by, as far as this side knows. */
static tenure_ns kill_due(const struct tn_guardian *g)
{
    tenure_ns by_deadline = g->deadline - g->kill_bound;
    tenure_ns by_grace = g->stop_began == TN_NEVER ? by_deadline : g->stop_began + g->grace;

    return by_grace < by_deadline ? by_grace : by_deadline;
}

/* When to lose patience with it: while there is still time for us to do it by the deadline. */
static tenure_ns takeover_due(const struct tn_guardian *g)
{
    tenure_ns by_deadline = g->deadline - g->kill_bound + g->kill_bound / 2;
    tenure_ns patience = g->kill_bound > PATIENCE ? g->kill_bound : PATIENCE;
    tenure_ns by_grace = kill_due(g) + patience;

    return by_grace < by_deadline ? by_grace : by_deadline;
}

static void arm(const struct tn_guardian *g)
{
    tenure_ns when = TN_NEVER;

    if (g->lost && !g->tree_gone) {
        when = g->next_sweep;
    } else if (!g->dead) {
        when = g->killed ? g->next_sweep : takeover_due(g);
        if (g->watch_every > 0 && g->next_watch < when)
            when = g->next_watch;
    }
    tn_timer_arm(g->timer, when);
}

/* Its number is safe to use: it is our child, and not reaped. */
static void kill_guardian(struct tn_guardian *g)
{
    if (!g->gone)
        (void)kill(g->pid, SIGKILL);
    /* It may be long in dying; what it should have done need not wait for that. */
    tn_cgroup_kill(&g->cgroup);
    tn_cgroup_thaw(&g->cgroup);
    g->killed = true;
    g->next_sweep = tn_boottime() + SWEEP_PAUSE_MIN;
}

static int tell(struct tn_guardian *g, enum tn_guard_record_kind kind, int value, tenure_ns at)
{
    struct tn_guard_record record = { .kind = kind, .value = value, .at = at };

    if (g->gone)
        return TENURE_E_CLOSED;
    if (send(g->socket, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT) ==
        (ssize_t)sizeof record)
        return 0;
    return errno == EPIPE || errno == ECONNRESET ? TENURE_E_CLOSED : TENURE_E_FULL;
}

static bool is_guardian(pid_t pid)
{
    for (struct tn_guardian *g = guardians; g != NULL; g = g->next) {
        if (!g->gone && g->pid == pid)
            return true;
    }
    return false;
}

/* As long as all guardians live, the orphans of their trees go to them, so every other child of
 * this process is a stranger. They are noted at the start and, if there are any, at each look: a
 * stranger that dies leaves its own children to us. An orphan that came after the last look is
 * known by its age, if it is older than the guardian. */
static void note_strangers(void)
{
    pid_t found[TN_STRANGERS_MAX + GUARDIANS_MAX];
    size_t count = 0;
    bool complete = tn_tree_list(found, &count, TN_STRANGERS_MAX + GUARDIANS_MAX);

    for (struct tn_guardian *g = guardians; g != NULL; g = g->next) {
        struct pollfd end = { .fd = g->pidfd, .events = POLLIN };

        /* After the look, so that a dead guardian's orphans are not taken for strangers. */
        if (g->pid > 0 && !g->done && (g->dead || g->pidfd < 0 || poll(&end, 1, 0) != 0))
            count = 0;
    }
    tn_strangers_add(found, count, complete, is_guardian);
}

/* Everything that can be had before the fork is, so that little can fail after it. */
static int open_all(struct tn_guardian *g, struct tn_guard_setup *setup)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_of(errno);
    g->socket = tn_fd_above_streams(ends[0]);
    setup->socket = tn_fd_above_streams(ends[1]);
    setup->supervisor_pid = getpid();
    setup->supervisor = tn_fd_above_streams(tn_pidfd_open(setup->supervisor_pid));
    g->timer = tn_timer_open();
    g->epoll = epoll_create1(EPOLL_CLOEXEC);
    g->children = tn_tree_open();
    if (g->socket < 0 || setup->socket < 0 || setup->supervisor < 0 || g->timer < 0 ||
        g->epoll < 0 || !watch_fd(g, g->socket) || !watch_fd(g, g->timer))
        return error_of(errno);
    return 0;
}

/* No handler of ours may run in the child, so all signals are blocked across the fork. */
static int fork_guardian(struct tn_guardian *g, const struct tn_guard_setup *setup)
{
    sigset_t all;
    sigset_t before;
    int error;
    int reserved = open("/dev/null", O_RDONLY | O_CLOEXEC); /* The pidfd's number. */

    if (reserved < 0)
        return error_of(errno);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    g->pid = fork();
    if (g->pid == 0)
        tn_guard_main(setup);
    error = errno;
    (void)close(reserved);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (g->pid < 0)
        return error_of(error);
    g->dead = g->gone = false;
    g->pidfd = tn_pidfd_open(g->pid);
    if (g->pidfd < 0 || !watch_fd(g, g->pidfd))
        return error_of(errno);
    (void)tn_proc_born(g->pid, &g->born);
    return 0;
}

/* Make the containment that was asked for, or say why there is none. */
static int make_containment(struct tn_guardian *g, enum tn_contain contain)
{
    g->contain = contain;
    if (contain == TN_CONTAIN_PIDNS || contain == TN_CONTAIN_TREE)
        return 0;
    int rc = tn_cgroup_make(&g->cgroup, TN_CGROUP_NONE, g->why_tree, sizeof g->why_tree);
    g->contain = rc == 0 ? TN_CONTAIN_CGROUP : TN_CONTAIN_TREE;
    return contain == TN_CONTAIN_AUTO ? 0 : rc;
}

/* As tn_spawn_init, and the containment among the variables. */
static int prepare_spawn(struct tn_spawn *spawn, const struct tn_guardian_options *options,
                         enum tn_contain contain)
{
    char contained[32];
    size_t count = 0;

    while (options->env != NULL && options->env[count] != NULL)
        count++;
    const char **env = calloc(count + 2, sizeof *env);
    if (env == NULL)
        return TENURE_E_NOMEM;
    (void)snprintf(contained, sizeof contained, "TENURE_CONTAIN=%s", tn_contain_text(contain));
    env[0] = contained;
    for (size_t i = 0; i < count; i++)
        env[i + 1] = options->env[i];
    int rc = tn_spawn_init(spawn, options->argv, env, options->scrub);
    spawn->sched = usual_sched;
    free(env);
    return rc;
}

/* Children must wait to be reaped, and orphans must come here. */
static int become_reaper(void)
{
    struct sigaction action;

    if (sigaction(SIGCHLD, NULL, &action) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return TENURE_E_UNSUPPORTED;
    if (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0) {
        action.sa_flags &= ~SA_NOCLDWAIT;
        if (action.sa_handler == SIG_IGN)
            action.sa_handler = SIG_DFL;
        (void)sigaction(SIGCHLD, &action, NULL);
    }
    return tn_tree_check();
}

static int check_options(const struct tn_guardian_options *options)
{
    tenure_ns most = TN_SEC(365 * 24 * 3600);

    if (options->argv == NULL || options->argv[0] == NULL || options->grace < 0 ||
        options->grace > most || options->kill_bound <= 0 || options->kill_bound > most ||
        options->deadline <= 0 || options->watch_every < 0 || options->watch_every > most ||
        options->contain > TN_CONTAIN_TREE)
        return TENURE_E_INVALID;
    if (tn_boottime() >= options->deadline - options->kill_bound - options->grace)
        return TENURE_E_EXPIRED;
    return count_guardians() < GUARDIANS_MAX ? 0 : TENURE_E_FULL;
}

static struct tn_guardian *new_guardian(const struct tn_guardian_options *options)
{
    struct tn_guardian *g = calloc(1, sizeof *g);

    if (g == NULL)
        return NULL;
    g->pidfd = g->socket = g->timer = g->epoll = g->children = -1;
    g->cgroup = (struct tn_cgroup)TN_CGROUP_INIT;
    g->grace = options->grace;
    g->kill_bound = options->kill_bound;
    g->deadline = options->deadline;
    g->watch_every = options->watch_every;
    g->next_watch = tn_boottime() + options->watch_every;
    g->stop_began = TN_NEVER;
    g->sweep_pause = SWEEP_PAUSE_MIN;
    g->status = -1;
    g->dead = g->gone = true;
    g->next = guardians;
    guardians = g;
    return g;
}

int tn_guardian_start(const struct tn_guardian_options *options, struct tn_guardian **ret_guardian)
{
    struct tn_spawn spawn = { 0 };
    struct tn_guard_setup setup = {
        .spawn = &spawn,
        .socket = -1,
        .supervisor = -1,
        .bound = -1,
        .binding = options->binding,
        .grace = options->grace,
        .kill_bound = options->kill_bound,
        .deadline = options->deadline,
        .watch_every = options->watch_every,
    };
    struct tn_guardian *g = NULL;
    int rc = check_options(options);

    if (rc == 0)
        rc = become_reaper();
    if (rc < 0)
        goto out;
    note_strangers();
    if (guardians == NULL)
        tn_sched_read(&usual_sched);
    g = new_guardian(options);
    rc = g != NULL ? make_containment(g, options->contain) : TENURE_E_NOMEM;
    if (rc == 0)
        rc = prepare_spawn(&spawn, options, g->contain);
    if (rc == 0)
        rc = open_all(g, &setup);
    if (rc == 0 && setup.binding != NULL) {
        setup.bound = tn_bind_connect(setup.binding->path);
        rc = setup.bound >= 0 ? 0 : TENURE_E_UNAVAILABLE;
    }
    if (rc < 0)
        goto out;
    setup.cgroup = &g->cgroup;
    setup.pidns = g->contain == TN_CONTAIN_PIDNS;
    rc = fork_guardian(g, &setup);
    if (rc < 0)
        goto out;
    arm(g);
    tn_sched_soon();
    *ret_guardian = g;
    g = NULL;
out:
    close_fd(&setup.socket);
    close_fd(&setup.supervisor);
    close_fd(&setup.bound);
    tn_spawn_done(&spawn);
    tn_guardian_free(g);
    return rc;
}

int tn_guardian_fd(const struct tn_guardian *g)
{
    return g->epoll;
}

pid_t tn_guardian_pid(const struct tn_guardian *g)
{
    return g->pid;
}

static void wait_for(struct tn_guardian *g)
{
    siginfo_t info = { 0 };

    if (waitid(P_PID, (id_t)g->pid, &info, WEXITED | WSTOPPED | WNOHANG) != 0) {
        /* Somebody else has reaped it, against the rules; it is gone all the same. */
        g->gone = errno == ECHILD;
    } else if (info.si_pid == g->pid && info.si_code == CLD_STOPPED) {
        /* It will report the stop as one that was asked for; but nobody has. */
        g->was_stopped = g->was_stopped || g->stop_began == TN_NEVER;
        tn_guardian_stop(g);
        (void)kill(g->pid, SIGCONT);
    } else if (info.si_pid == g->pid) {
        g->gone = true;
        g->ended_by = info.si_code == CLD_EXITED ? 0 : info.si_status;
    }
}

/* Whether the guardian died, or was stopped. */
static void look_after(struct tn_guardian *g)
{
    struct pollfd end = { .fd = g->pidfd, .events = POLLIN };

    if (g->gone)
        return;
    bool dead = g->pidfd >= 0 && poll(&end, 1, 0) == 1;
    wait_for(g);
    /* Dead but not to be had: a debugger keeps the dead from their parent until it has looked at
     * them itself. That is no reason to let the tree live. */
    g->dead = g->gone || dead;
    if (g->dead && g->pidfd >= 0)
        unwatch_fd(g, g->pidfd);
}

/* Take in one record. False when it is none for the caller. */
static bool hear(struct tn_guardian *g, const struct tn_guard_record *record,
                 struct tn_guardian_event *event)
{
    static const enum tn_guardian_kind kinds[] = {
        [TN_RECORD_STARTED] = TN_GUARDIAN_STARTED,
        [TN_RECORD_EXEC_FAILED] = TN_GUARDIAN_EXEC_FAILED,
        [TN_RECORD_STOPPING] = TN_GUARDIAN_STOPPING,
        [TN_RECORD_KILLING] = TN_GUARDIAN_KILLING,
        [TN_RECORD_EXITED] = TN_GUARDIAN_EXITED,
        [TN_RECORD_REAPED] = TN_GUARDIAN_REAPED,
    };

    TN_ASSERT(record->kind >= TN_RECORD_STARTED);
    TN_ASSERT(record->kind <= TN_RECORD_REAPED);
    *event = (struct tn_guardian_event) { kinds[record->kind], record->value, record->at };
    switch (event->kind) {
    case TN_GUARDIAN_STARTED:
        g->command = record->value;
        break;
    case TN_GUARDIAN_EXEC_FAILED:
        g->status = tn_spawn_exec_status(record->value);
        break;
    case TN_GUARDIAN_STOPPING:
        if (record->at < g->stop_began)
            g->stop_began = record->at;
        if (g->was_stopped && record->value == TN_REASON_ASKED)
            event->value = TN_REASON_GUARDIAN_STOPPED;
        break;
    case TN_GUARDIAN_EXITED:
        g->exited = true;
        g->status = tn_spawn_wait_status(record->value);
        break;
    case TN_GUARDIAN_REAPED:
        /* Delivered when the guardian, which is done, is reaped too. */
        g->tree_gone = true;
        g->reaped_at = record->at;
        kill_guardian(g);
        return false;
    default:
        break;
    }
    return true;
}

static bool read_socket(struct tn_guardian *g, struct tn_guardian_event *event)
{
    struct tn_guard_record record;

    while (g->socket >= 0) {
        ssize_t len = recv(g->socket, &record, sizeof record, MSG_DONTWAIT);

        if (len == (ssize_t)sizeof record) {
            if (hear(g, &record, event))
                return true;
        } else if (len < 0 && errno == EAGAIN) {
            return false;
        } else if (len < 0 && (errno == EINTR || errno == ECONNRESET)) {
            /* The latter comes once, ahead of all records, when the guardian has ended without
             * having read all of ours. What it said is still there. */
            continue;
        } else {
            unwatch_fd(g, g->socket);
            close_fd(&g->socket);
        }
    }
    return false;
}

/* The children that are no orphans of lost guardians. */
static void spare_others(struct tn_tree_spared *spared, pid_t *pids, uint64_t born)
{
    for (struct tn_guardian *other = guardians; other != NULL; other = other->next) {
        if (!other->gone && spared->count < GUARDIANS_MAX)
            pids[spared->count++] = other->pid;
    }
    tn_strangers_spare(spared, pids, born);
}

/* The command is held by its number, if it is our child by now: it is reaped by nobody else. */
static void kill_command(const struct tn_guardian *g)
{
    siginfo_t info;

    if (g->command > 0 && !g->exited &&
        waitid(P_PID, (id_t)g->command, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0)
        (void)kill(g->command, SIGKILL);
}

/* One round of killing and reaping in place of the guardian. True when the command was reaped. */
static bool sweep(struct tn_guardian *g, tenure_ns now, struct tn_guardian_event *event)
{
    pid_t pids[GUARDIANS_MAX + TN_STRANGERS_MAX];
    struct tn_tree_spared spared = { 0 };
    bool ended = false;
    int status = 0;

    spare_others(&spared, pids, g->born);
    kill_command(g);
    tn_cgroup_kill(&g->cgroup);
    (void)tn_tree_kill_children(g->children, &spared);
    (void)tn_tree_signal(SIGKILL, false, &spared, 0);
    tn_cgroup_thaw(&g->cgroup);
    enum tn_tree_left left =
        tn_tree_reap(g->children, &spared, g->exited ? 0 : g->command, &status, &ended);
    g->tree_gone = left == TN_TREE_GONE && tn_cgroup_remove(&g->cgroup);
    g->reaped_at = tn_boottime();
    g->next_sweep = now + g->sweep_pause;
    if (g->sweep_pause < SWEEP_PAUSE_MAX)
        g->sweep_pause *= 2;
    if (!ended)
        return false;
    g->exited = true;
    g->status = tn_spawn_wait_status(status);
    *event = (struct tn_guardian_event) { TN_GUARDIAN_EXITED, status, now };
    return true;
}

/* What is due. True when that is an event. */
static bool act(struct tn_guardian *g, struct tn_guardian_event *event)
{
    tenure_ns now = tn_boottime();

    if (!g->dead && !g->killed && now >= takeover_due(g))
        kill_guardian(g);
    if (!g->dead && g->killed) {
        tn_cgroup_kill(&g->cgroup);
        tn_cgroup_thaw(&g->cgroup);
        g->next_sweep = now + SWEEP_PAUSE_MIN;
    }
    if (now >= g->next_watch) {
        g->next_watch = now + g->watch_every;
        if (tn_strangers_any())
            note_strangers();
    }
    if (g->dead && !g->tree_gone && !g->lost) {
        g->lost = true;
        g->next_sweep = now;
        *event = (struct tn_guardian_event) { TN_GUARDIAN_LOST, g->ended_by, now };
        return true;
    }
    if (g->lost && !g->tree_gone && now >= g->next_sweep && sweep(g, now, event))
        return true;
    if (g->dead && g->tree_gone && !g->done) {
        g->done = true;
        *event = (struct tn_guardian_event) { TN_GUARDIAN_REAPED, 0, g->reaped_at };
        return true;
    }
    return false;
}

bool tn_guardian_dispatch(struct tn_guardian *g, struct tn_guardian_event *ret_event)
{
    struct tn_guardian_event event;

    /* First whether it is gone, then what it said: after the former there is no more of the
     * latter. */
    look_after(g);
    bool any = read_socket(g, &event) || act(g, &event);
    arm(g);
    if (any)
        *ret_event = event;
    return any;
}

int tn_guardian_extend(struct tn_guardian *g, tenure_ns deadline)
{
    if (deadline <= g->deadline)
        return 0;
    int rc = tell(g, TN_RECORD_EXTEND, 0, deadline);
    if (rc == 0) {
        g->deadline = deadline;
        arm(g);
    }
    return rc;
}

void tn_guardian_stop(struct tn_guardian *g)
{
    tenure_ns now = tn_boottime();

    if (now < g->stop_began)
        g->stop_began = now;
    (void)tell(g, TN_RECORD_STOP, 0, 0);
    arm(g);
}

int tn_guardian_signal(struct tn_guardian *g, int signo)
{
    if (signo < 1 || signo > SIGRTMAX)
        return TENURE_E_INVALID;
    return tell(g, TN_RECORD_SIGNAL, signo, 0);
}

int tn_guardian_status(const struct tn_guardian *g)
{
    return g->status;
}

enum tn_contain tn_guardian_containment(const struct tn_guardian *g)
{
    return g->contain;
}

const char *tn_guardian_why_tree(const struct tn_guardian *g)
{
    return g->why_tree;
}

bool tn_guardian_done(const struct tn_guardian *g)
{
    return g->done;
}

void tn_guardian_free(struct tn_guardian *g)
{
    struct tn_guardian_event event;

    if (g == NULL)
        return;
    if (!g->gone)
        kill_guardian(g);
    /* Half-built, without a guardian, there is nothing to wait for. */
    tenure_ns limit = tn_boottime() + (g->pid > 0 ? g->kill_bound : 0);
    while (!g->done && tn_boottime() < limit) {
        if (!tn_guardian_dispatch(g, &event))
            (void)poll(NULL, 0, 1);
    }
    look_after(g);
    for (struct tn_guardian **at = &guardians; *at != NULL; at = &(*at)->next) {
        if (*at == g) {
            *at = g->next;
            break;
        }
    }
    if (guardians == NULL)
        tn_sched_restore(&usual_sched);
    close_fd(&g->socket);
    close_fd(&g->pidfd);
    close_fd(&g->timer);
    close_fd(&g->epoll);
    close_fd(&g->children);
    (void)tn_cgroup_remove(&g->cgroup);
    tn_cgroup_close(&g->cgroup);
    free(g);
}
