/* guard.c - the guardian process: parent of the command, and death of its tree by the deadline.
 *
 * Happy path: tn_guard_main leaves the supervisor's process group, closes what it inherited, runs
 * the command, and waits for whatever comes first: the command's end, a word from the supervisor,
 * the supervisor's end, or the time at which the deadline it knows demands action. It reports each
 * step and ends when waitpid says that there is no child left, which for a subreaper means that
 * there is no descendant left, and when the cgroup, if there is one, is empty too.
 *
 *   RUNNING --begin_stop--> STOPPING --begin_kill--> KILLING --finish--> gone
 *
 * SIGTERM is sent at D - K - G or when something else ends the term, to each process of the tree
 * once; SIGKILL from kill_at() on, again and again until all are reaped: to the cgroup or to the
 * pid namespace, which nothing can outrun, and to the tree, for what has left the cgroup and where
 * there is neither. What is held, such as the command, is killed without a look at /proc, and no
 * step takes longer because processes keep dying. Time is read anew after
 * each wake and after all that the supervisor has said was read, so a guardian that was itself
 * stopped or suspended acts on what is true now; past D - K it neither sends SIGTERM nor wakes
 * anyone. On a machine so busy that it is woken late, it kills earlier by what that may cost
 * (reserve).
 *
 * Who outlives whom:
 * - The guardian must outlive the supervisor, or nobody would stop the tree. So it asks for no
 *   signal on its parent's death, has a process group of its own (a signal or SIGSTOP to the
 *   supervisor's group, Ctrl-C and Ctrl-Z included, does not reach it) and blocks every signal that
 *   can be blocked. It keeps the session: with a session of its own it would leave a command that
 *   makes its own group an orphaned one, whose members Ctrl-Z cannot stop and whose reads from the
 *   terminal fail.
 * - The command must not outlive the guardian: PR_SET_PDEATHSIG kills it. Its descendants fall to
 *   the supervisor, also a subreaper, which kills them (guardian.c). PDEATHSIG is not inherited by
 *   fork, so when supervisor and guardian are killed together, or the guardian is killed while the
 *   supervisor is stopped, only the command itself is sure to die, or with a pid namespace all.
 *
 * It was forked from a process that may have had threads, so nothing here allocates or prints. */
#define _GNU_SOURCE
#include "runner/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runner/bind.h"
#include "runner/cgroup.h"
#include "runner/guardian.h"
#include "runner/os.h"
#include "runner/pidns.h"
#include "runner/record.h"
#include "runner/tree.h"

enum guard_phase { RUNNING, STOPPING, KILLING };

/* The pause between two sweeps of SIGKILL, when no death ends it sooner. It doubles: what does not
 * die of the first few is not ours to kill, or sleeps in the kernel. */
#define SWEEP_PAUSE_MIN TN_US(500)
#define SWEEP_PAUSE_MAX TN_MS(50)

/* Records taken from the socket, and dead processes reaped, before the clock is looked at again. */
enum { RECORDS_PER_WAKE = 64, REAPED_PER_WAKE = 64, SIGNALS_PER_WAKE = 4 };

/* Rounds of killing and reaping the direct children, which are fast, for each walk of the tree. */
enum { ROUNDS_PER_SWEEP = 8 };

/* Being woken late by a quarter of the kill bound is what that is for. Beyond it the kill is due
 * earlier by twice the delay, but by no more than four kill bounds, a fifth of the usual TTL. */
enum { USUAL_DELAY = 4, RESERVE_MOST = 4 };

/* Each look takes a 32nd off the delay that was seen: half of it counts after 22 looks. */
enum { DELAY_FADES = 32 };

struct guard {
    struct tn_guard_setup setup;
    enum guard_phase phase;
    int socket;     /* -1 when the supervisor is gone. */
    int supervisor; /* Likewise. */
    int signals;
    int timer;
    int exec_status; /* -1 when the exec is over. */
    pid_t child;     /* 0 when there is none, or none any more. */
    int child_fd;
    struct tn_cgroup cgroup;
    struct tn_pidns pidns; /* Without an init when there is none, or none any more. */
    int children;          /* From tn_tree_open. */
    tenure_ns deadline;
    tenure_ns stop_began;
    tenure_ns next_sweep;
    tenure_ns sweep_pause;
    tenure_ns kill_began;
    tenure_ns next_watch;
    tenure_ns delay;  /* How late it was woken of late. */
    bool more;        /* Dead processes are waiting to be reaped, or the cgroup to become empty. */
    bool was_stopped; /* The supervisor, when last looked at, while the command ran. */
    bool exec_failed;
};

static void say_at(const struct guard *g, enum tn_guard_record_kind kind, int value, tenure_ns at)
{
    struct tn_guard_record record = { .kind = kind, .value = value, .at = at };

    /* A supervisor that is gone hears nothing; its queue holds many times what is ever said. */
    if (g->socket >= 0)
        (void)send(g->socket, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say(const struct guard *g, enum tn_guard_record_kind kind, int value)
{
    say_at(g, kind, value, tn_boottime());
}

/* What to keep for being woken late: a plain user's guardian has no priority over a hundred others
 * that want the processor. */
static tenure_ns reserve(const struct guard *g)
{
    tenure_ns bound = g->setup.kill_bound;

    if (g->delay <= bound / USUAL_DELAY)
        return 0;
    return g->delay < RESERVE_MOST * bound / 2 ? 2 * g->delay : RESERVE_MOST * bound;
}

/* Only RUNNING, where nothing but the looks wakes it by the clock. */
static void note_delay(struct guard *g, tenure_ns due)
{
    tenure_ns late = tn_boottime() - due;

    g->delay -= g->delay / DELAY_FADES;
    if (late > g->delay)
        g->delay = late;
}

/* The grace gives way first. */
static tenure_ns stop_at(const struct guard *g)
{
    tenure_ns kept = reserve(g);

    return g->deadline - g->setup.kill_bound - (kept > g->setup.grace ? kept : g->setup.grace);
}

/* The grace counts from the SIGTERM, but the deadline has the last word. */
static tenure_ns kill_at(const struct guard *g)
{
    tenure_ns by_grace = g->stop_began + g->setup.grace;
    tenure_ns by_deadline = g->deadline - g->setup.kill_bound - reserve(g);

    TN_ASSERT(g->phase != RUNNING);
    return by_grace < by_deadline ? by_grace : by_deadline;
}

static void begin_stop(struct guard *g, enum tn_guardian_reason reason)
{
    if (g->phase != RUNNING)
        return;
    g->phase = STOPPING;
    g->stop_began = tn_boottime();
    /* The only walk with SIGTERM, so it may take longer than those that are repeated. */
    tenure_ns until = g->stop_began + (kill_at(g) - g->stop_began) / 2;
    /* If it shows nobody, /proc does not work: tell at least the command. */
    if (g->stop_began < kill_at(g) && tn_tree_signal(SIGTERM, true, NULL, until) == 0 &&
        g->child != 0) {
        (void)kill(g->child, SIGTERM);
        (void)kill(g->child, SIGCONT);
    }
    say_at(g, TN_RECORD_STOPPING, (int)reason, g->stop_began);
}

static void begin_kill(struct guard *g, tenure_ns now)
{
    g->phase = KILLING;
    g->next_sweep = now;
    g->sweep_pause = SWEEP_PAUSE_MIN;
    g->kill_began = now;
    say_at(g, TN_RECORD_KILLING, 0, now);
}

static void supervisor_gone(struct guard *g)
{
    if (g->socket >= 0)
        (void)close(g->socket);
    if (g->supervisor >= 0)
        (void)close(g->supervisor);
    g->socket = -1;
    g->supervisor = -1;
    begin_stop(g, TN_REASON_SUPERVISOR_GONE);
}

static void obey(struct guard *g, const struct tn_guard_record *record)
{
    switch (record->kind) {
    case TN_RECORD_EXTEND:
        if (record->at > g->deadline)
            g->deadline = record->at;
        break;
    case TN_RECORD_STOP:
        begin_stop(g, TN_REASON_ASKED);
        break;
    case TN_RECORD_SIGNAL:
        if (g->child != 0)
            (void)tn_pidfd_signal(g->child_fd, record->value);
        break;
    default:
        TN_ASSERT(record->kind == TN_RECORD_EXTEND);
    }
}

static void read_socket(struct guard *g)
{
    for (int i = 0; i < RECORDS_PER_WAKE && g->socket >= 0; i++) {
        struct tn_guard_record record;
        ssize_t len = recv(g->socket, &record, sizeof record, MSG_DONTWAIT);

        if (len == (ssize_t)sizeof record)
            obey(g, &record);
        else if (len < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        else if (len == 0 || errno != ECONNRESET)
            supervisor_gone(g);
        /* A reset comes once, ahead of all records, when the supervisor has ended without having
         * read all of ours. What it said is still there, and then the end of file. */
    }
}

static void read_signals(struct guard *g)
{
    struct signalfd_siginfo info;

    /* Not until there is none: where processes die without rest, there is always another. */
    for (int i = 0; i < SIGNALS_PER_WAKE; i++) {
        if (read(g->signals, &info, sizeof info) != (ssize_t)sizeof info)
            return;
        if (info.ssi_signo != SIGCHLD)
            begin_stop(g, TN_REASON_ASKED);
    }
}

/* Nothing to read yet: the exec is still to come. */
static void read_exec_status(struct guard *g)
{
    int error;
    ssize_t len;

    if (g->exec_status < 0)
        return;
    len = read(g->exec_status, &error, sizeof error);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    (void)close(g->exec_status);
    g->exec_status = -1;
    g->exec_failed = len == (ssize_t)sizeof error;
    if (g->exec_failed)
        say(g, TN_RECORD_EXEC_FAILED, error);
    else
        say(g, TN_RECORD_STARTED, (int)g->child);
}

static _Noreturn void finish(const struct guard *g)
{
    say(g, TN_RECORD_REAPED, 0);
    _exit(0);
}

static void ended(struct guard *g, pid_t pid, int status)
{
    g->sweep_pause = SWEEP_PAUSE_MIN;
    if (pid == g->pidns.init)
        g->pidns.init = 0;
    if (pid != g->child)
        return;
    /* It is dead, so whatever it had to say of its exec is in the pipe. */
    read_exec_status(g);
    g->child = 0;
    if (!g->exec_failed)
        say(g, TN_RECORD_EXITED, status);
    /* All others in the namespace are the init's children by now: it ends when they have. */
    if (g->pidns.hold >= 0)
        (void)close(g->pidns.hold);
    g->pidns.hold = -1;
}

/* Reap some of what is dead: processes that keep dying must not keep us from the clock. Returns
 * what waitpid said last. */
static pid_t reap_some(struct guard *g)
{
    pid_t pid = 1;
    int status;

    /* __WALL: also children that were cloned to send another signal than SIGCHLD. */
    for (int i = 0; i < REAPED_PER_WAKE && pid > 0; i++) {
        pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid > 0)
            ended(g, pid, status);
    }
    return pid;
}

/* Does not return when nobody is left. */
static void reap(struct guard *g)
{
    pid_t pid = reap_some(g);
    bool childless = pid < 0 && errno == ECHILD;

    if (childless && tn_cgroup_remove(&g->cgroup))
        finish(g);
    /* The kernel may take a moment longer to see that the cgroup is empty; or strangers are in it,
     * and must be killed. */
    g->more = pid > 0 || childless;
    if (g->child == 0)
        begin_stop(g, TN_REASON_EXITED);
}

/* A supervisor that was stopped cannot renew; if the command goes on, somebody has stopped the
 * supervisor alone, and the term is ended. If both are stopped it was Ctrl-Z, and fg may follow:
 * then only the deadline counts. It takes two looks, because Ctrl-Z does not stop all at once. */
static void watch_supervisor(struct guard *g, tenure_ns now)
{
    char state = '?';
    char child_state = '?';
    pid_t parent;

    if (g->setup.watch_every == 0 || now < g->next_watch)
        return;
    g->next_watch = now + g->setup.watch_every;
    if (g->socket < 0 || g->child == 0)
        return;
    bool stopped = tn_proc_stat(g->setup.supervisor_pid, &state, &parent) && state == 'T' &&
                   tn_proc_stat(g->child, &child_state, &parent) && child_state != 'T';
    if (stopped && g->was_stopped)
        begin_stop(g, TN_REASON_SUPERVISOR_STOPPED);
    g->was_stopped = stopped;
}

/* Without a cgroup or a pid namespace killing is a race, which takes all the speed there is. */
static bool must_race(const struct guard *g, tenure_ns now)
{
    return g->cgroup.kind == TN_CGROUP_NONE && !g->setup.pidns &&
           now < g->kill_began + g->setup.kill_bound;
}

static void sweep(struct guard *g, tenure_ns now)
{
    if (now < g->next_sweep)
        return;
    /* What is held needs no look at /proc. Neither number can be another process's before it is
     * reaped here. */
    if (g->pidns.init != 0)
        (void)kill(g->pidns.init, SIGKILL);
    if (g->child != 0)
        (void)kill(g->child, SIGKILL);
    tn_cgroup_kill(&g->cgroup);
    for (int i = 0; i < ROUNDS_PER_SWEEP && tn_tree_kill_children(g->children, NULL) > 0; i++) {
        if (reap_some(g) < 0)
            break;
    }
    (void)tn_tree_signal(SIGKILL, false, NULL, 0);
    tn_cgroup_thaw(&g->cgroup);
    now = tn_boottime();
    g->next_sweep = now + (must_race(g, now) ? 0 : g->sweep_pause);
    if (g->sweep_pause < SWEEP_PAUSE_MAX)
        g->sweep_pause *= 2;
}

/* What is due by the clock; returns when to look again. */
static tenure_ns step(struct guard *g)
{
    tenure_ns now = tn_boottime();

    if (g->phase == RUNNING)
        watch_supervisor(g, now);
    if (g->phase == RUNNING && now >= stop_at(g))
        begin_stop(g, TN_REASON_DEADLINE);
    if (g->phase == STOPPING && now >= kill_at(g))
        begin_kill(g, now);
    if (g->phase == KILLING) {
        sweep(g, now);
        return g->next_sweep;
    }
    if (g->phase == STOPPING)
        return kill_at(g);
    if (g->setup.watch_every > 0 && g->next_watch < stop_at(g))
        return g->next_watch;
    return stop_at(g);
}

static _Noreturn void loop(struct guard *g)
{
    for (;;) {
        struct pollfd fds[] = {
            { .fd = g->socket, .events = POLLIN },      { .fd = g->supervisor, .events = POLLIN },
            { .fd = g->signals, .events = POLLIN },     { .fd = g->timer, .events = POLLIN },
            { .fd = g->exec_status, .events = POLLIN },
        };

        tenure_ns due = step(g);

        tn_timer_arm(g->timer, due);
        (void)poll(fds, sizeof fds / sizeof fds[0], g->more ? 1 : -1);
        if (g->phase == RUNNING && fds[3].revents != 0)
            note_delay(g, due);
        /* What the supervisor last said counts, also when it is gone by now. */
        read_socket(g);
        if (g->supervisor >= 0 && fds[1].revents != 0)
            supervisor_gone(g);
        read_signals(g);
        read_exec_status(g);
        reap(g);
    }
}

/* Let go of what belongs to the command: a reader of its output must see the end of it when the
 * command closes it, not when the guardian ends. */
static void let_go(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd <= 2; fd++) {
        if (null >= 0)
            (void)dup2(null, fd);
        else
            (void)close(fd);
    }
    if (null > 2)
        (void)close(null);
    int rc = chdir("/"); /* So that no file system stays busy; the root is always there. */
    (void)rc;
}

static int open_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    return tn_fd_above_streams(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* The command cannot be run; nothing of it was. */
static _Noreturn void give_up(struct guard *g, int error)
{
    say(g, TN_RECORD_EXEC_FAILED, error);
    if (g->pidns.init != 0)
        (void)kill(g->pidns.init, SIGKILL);
    (void)tn_cgroup_remove(&g->cgroup);
    finish(g);
}

static void start_command(struct guard *g)
{
    struct pollfd gone = { .fd = g->supervisor, .events = POLLIN };

    if (g->setup.bound >= 0 && !tn_bind_both(g->setup.bound, g->setup.binding, stop_at(g))) {
        begin_stop(g, TN_REASON_UNBOUND);
        (void)tn_cgroup_remove(&g->cgroup);
        finish(g);
    }
    /* The start may have taken long: a command that must be stopped at once is not started. */
    if (poll(&gone, 1, 0) != 0 || tn_boottime() >= stop_at(g)) {
        begin_stop(g, TN_REASON_DEADLINE);
        (void)tn_cgroup_remove(&g->cgroup);
        finish(g);
    }
    pid_t child = -1;
    if (!g->setup.pidns || tn_pidns_make(&g->pidns) == 0)
        child = tn_spawn_run(g->setup.spawn, &g->exec_status);
    if (child < 0)
        give_up(g, errno);
    g->child = child;
    g->child_fd = tn_pidfd_open(child);
    if (g->child_fd < 0) {
        (void)kill(child, SIGKILL);
        begin_stop(g, TN_REASON_ASKED);
    }
}

static void sort(int *fds, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && fds[j] < fds[j - 1]; j--) {
            int lower = fds[j];
            fds[j] = fds[j - 1];
            fds[j - 1] = lower;
        }
    }
}

/* Close all but what was given to it. */
static void close_others(const struct tn_guard_setup *setup)
{
    int keep[3 + TN_CGROUP_FDS] = { setup->socket, setup->supervisor };
    size_t kept = 2;

    if (setup->bound >= 0)
        keep[kept++] = setup->bound;
    kept += tn_cgroup_fds(setup->cgroup, keep + kept);
    sort(keep, kept);
    tn_close_all_but(3, keep, kept);
}

_Noreturn void tn_guard_main(const struct tn_guard_setup *setup)
{
    struct guard g = {
        .setup = *setup,
        .phase = RUNNING,
        .socket = setup->socket,
        .supervisor = setup->supervisor,
        .exec_status = -1,
        .child_fd = -1,
        .cgroup = *setup->cgroup,
        .pidns = { .hold = -1 },
        .deadline = setup->deadline,
    };

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "tenure-guardian");
    tn_signals_default(NULL);
    close_others(setup);
    g.setup.spawn->cgroup = &g.cgroup;
    g.setup.spawn->pidns = setup->pidns;
    g.signals = open_signals();
    g.timer = tn_fd_above_streams(tn_timer_open());
    /* Before the command can use up what it takes. Some kernels have no such file. */
    g.children = tn_tree_open();
    if (g.signals < 0 || g.timer < 0 || (g.children < 0 && errno != ENOENT) ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        give_up(&g, errno);
    g.next_watch = tn_boottime() + setup->watch_every;
    start_command(&g);
    let_go();
    (void)tn_sched_first();
    loop(&g);
}
