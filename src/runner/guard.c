/* guard.c - the guardian process: parent of the command, and death of its tree by the deadline.
 *
 * Happy path: tn_guard_main leaves the supervisor's process group, closes what it inherited, runs
 * the command, and waits for whatever comes first: the command's end, a word from the supervisor,
 * the supervisor's end, or the time at which the deadline it knows demands action. It reports each
 * step and ends when waitpid says that there is no child left, which for a subreaper means that
 * there is no descendant left.
 *
 *   RUNNING --begin_stop--> STOPPING --begin_kill--> KILLING --finish--> gone
 *
 * SIGTERM is sent at D - K - G or when something else ends the term, to each process of the tree
 * once; SIGKILL from kill_at() on, again and again until all are reaped. Time is read anew after
 * each wake and after all that the supervisor has said was read, so a guardian that was itself
 * stopped or suspended acts on what is true now; past D - K it neither sends SIGTERM nor wakes
 * anyone.
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
 *   supervisor is stopped, only the command itself is sure to die. That would take a second
 *   guardian, a pid namespace or a cgroup.
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
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runner/bind.h"
#include "runner/guardian.h"
#include "runner/os.h"
#include "runner/record.h"
#include "runner/tree.h"

enum phase { RUNNING, STOPPING, KILLING };

/* The pause between two sweeps of SIGKILL, when no death ends it sooner. It doubles: what does not
 * die of the first few is not ours to kill, or sleeps in the kernel. */
#define SWEEP_PAUSE_MIN TN_US(500)
#define SWEEP_PAUSE_MAX TN_MS(50)

/* Records taken from the socket before the clock is looked at again. */
enum { RECORDS_PER_WAKE = 64 };

struct guard {
    struct tn_guard_setup setup;
    enum phase phase;
    int socket;     /* -1 when the supervisor is gone. */
    int supervisor; /* Likewise. */
    int signals;
    int timer;
    int exec_status; /* -1 when the exec is over. */
    pid_t child;     /* 0 when there is none, or none any more. */
    int child_fd;
    tenure_ns deadline;
    tenure_ns stop_began;
    tenure_ns next_sweep;
    tenure_ns sweep_pause;
    tenure_ns next_watch;
    bool was_stopped; /* The supervisor, when last looked at, while the command ran. */
    bool exec_failed;
};

static void say_at(const struct guard *g, enum tn_record_kind kind, int value, tenure_ns at)
{
    struct tn_record record = { .kind = kind, .value = value, .at = at };

    /* A supervisor that is gone hears nothing; its queue holds many times what is ever said. */
    if (g->socket >= 0)
        (void)send(g->socket, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say(const struct guard *g, enum tn_record_kind kind, int value)
{
    say_at(g, kind, value, tn_boottime());
}

static tenure_ns stop_at(const struct guard *g)
{
    return g->deadline - g->setup.kill_bound - g->setup.grace;
}

/* The grace counts from the SIGTERM, but the deadline has the last word. */
static tenure_ns kill_at(const struct guard *g)
{
    tenure_ns by_grace = g->stop_began + g->setup.grace;
    tenure_ns by_deadline = g->deadline - g->setup.kill_bound;

    TN_ASSERT(g->phase != RUNNING);
    return by_grace < by_deadline ? by_grace : by_deadline;
}

static void begin_stop(struct guard *g, enum tn_guardian_reason reason)
{
    if (g->phase != RUNNING)
        return;
    g->phase = STOPPING;
    g->stop_began = tn_boottime();
    if (g->stop_began < kill_at(g))
        (void)tn_tree_signal(SIGTERM, true, NULL);
    say_at(g, TN_RECORD_STOPPING, (int)reason, g->stop_began);
}

static void begin_kill(struct guard *g, tenure_ns now)
{
    g->phase = KILLING;
    g->next_sweep = now;
    g->sweep_pause = SWEEP_PAUSE_MIN;
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

static void obey(struct guard *g, const struct tn_record *record)
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
        struct tn_record record;
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

    while (read(g->signals, &info, sizeof info) == (ssize_t)sizeof info) {
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

/* Reap all that is dead; does not return when nobody is left. */
static void reap(struct guard *g)
{
    int status;
    pid_t pid;

    /* __WALL: also children that were cloned to send another signal than SIGCHLD. */
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        g->sweep_pause = SWEEP_PAUSE_MIN;
        if (pid != g->child)
            continue;
        /* It is dead, so whatever it had to say of its exec is in the pipe. */
        read_exec_status(g);
        g->child = 0;
        if (!g->exec_failed)
            say(g, TN_RECORD_EXITED, status);
    }
    if (pid < 0 && errno == ECHILD)
        finish(g);
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

static void sweep(struct guard *g, tenure_ns now)
{
    if (now < g->next_sweep)
        return;
    (void)tn_tree_signal(SIGKILL, false, NULL);
    g->next_sweep = tn_boottime() + g->sweep_pause;
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

        tn_timer_arm(g->timer, step(g));
        (void)poll(fds, sizeof fds / sizeof fds[0], -1);
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
    (void)chdir("/");
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

static void start_command(struct guard *g)
{
    struct pollfd gone = { .fd = g->supervisor, .events = POLLIN };

    if (g->setup.bound >= 0 && !tn_bind_both(g->setup.bound, g->setup.binding, stop_at(g))) {
        begin_stop(g, TN_REASON_UNBOUND);
        finish(g);
    }
    /* The start may have taken long: a command that must be stopped at once is not started. */
    if (poll(&gone, 1, 0) != 0 || tn_boottime() >= stop_at(g)) {
        begin_stop(g, TN_REASON_DEADLINE);
        finish(g);
    }
    pid_t child = tn_spawn_run(g->setup.spawn, &g->exec_status);
    if (child < 0) {
        say(g, TN_RECORD_EXEC_FAILED, errno);
        finish(g);
    }
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

_Noreturn void tn_guard_main(const struct tn_guard_setup *setup)
{
    struct guard g = {
        .setup = *setup,
        .phase = RUNNING,
        .socket = setup->socket,
        .supervisor = setup->supervisor,
        .exec_status = -1,
        .child_fd = -1,
        .deadline = setup->deadline,
    };
    int keep[] = { g.socket, g.supervisor, setup->bound };
    size_t kept = setup->bound >= 0 ? 3 : 2;

    sort(keep, kept);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "tenure-guardian");
    tn_signals_default(NULL);
    tn_close_all_but(3, keep, kept);
    g.signals = open_signals();
    g.timer = tn_fd_above_streams(tn_timer_open());
    if (g.signals < 0 || g.timer < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        say(&g, TN_RECORD_EXEC_FAILED, errno);
        finish(&g);
    }
    g.next_watch = tn_boottime() + setup->watch_every;
    start_command(&g);
    let_go();
    /* On a busy machine the guardian goes first, where it may ask for that. */
    (void)setpriority(PRIO_PROCESS, 0, -20);
    loop(&g);
}
