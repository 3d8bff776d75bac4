/* contain_test.c - what holds a tree together, and what happens when it cannot be looked at. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "runner/cgroup.h"
#include "runner/guardian.h"
#include "runner/os.h"
#include "tests/harness/test.h"
#include "tests/runner/stage.h"

static const enum tn_cgroup_kind kinds[] = { TN_CGROUP_KILL, TN_CGROUP_FREEZE, TN_CGROUP_V1 };

/* An actor in @group, which writes into the stage's file. */
static pid_t start_in(const struct tn_cgroup *group, const struct stage *stage, char *words)
{
    pid_t pid = fork();

    if (pid == 0) {
        char *argv[] = { TN_ACTOR, (char *)stage->file, words, NULL };

        if (tn_cgroup_enter(group) == 0)
            (void)execv(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static bool wait_beat(const struct stage *stage)
{
    tenure_ns end = tn_boottime() + TN_SEC(5);

    while (stage_last_beat(stage) == 0 && tn_boottime() < end)
        stage_let(1);
    return stage_last_beat(stage) != 0;
}

static void clear(struct stage *stage)
{
    (void)unlink(stage->file);
    (void)rmdir(stage->dir);
}

/* The test is a subreaper: all that the actor leaves comes here. */
static void reap_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static bool kill_until_gone(struct tn_cgroup *group)
{
    tenure_ns end = tn_boottime() + TN_SEC(10);
    bool gone = false;

    while (!gone && tn_boottime() < end) {
        tn_cgroup_kill(group);
        tn_cgroup_thaw(group);
        reap_all();
        gone = tn_cgroup_remove(group);
        (void)poll(NULL, 0, 1);
    }
    return gone;
}

TEST(every_kind_of_cgroup_ends_chains_that_fork_and_exit)
{
    unsigned played = 0;
    char why[256];

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct tn_cgroup group = TN_CGROUP_INIT;
        struct stage stage;

        if (tn_cgroup_make(&group, kinds[i], why, sizeof why) < 0)
            continue;
        played++;
        CHECK(group.kind == kinds[i]);
        stage_init(&stage, 0, 100, 100);
        pid_t pid = start_in(&group, &stage, "comets=10");
        bool beats = pid > 0 && wait_beat(&stage);
        CHECK(!tn_cgroup_remove(&group));
        bool gone = kill_until_gone(&group);
        tenure_ns last = stage_last_beat(&stage);
        stage_let(50);
        tenure_ns later = stage_last_beat(&stage);
        tn_cgroup_close(&group);
        clear(&stage);
        reap_all();
        CHECK(beats);
        CHECK(gone);
        CHECK_EQ_I64(later, last);
    }
    if (played == 0)
        SKIP("this process may not make a cgroup");
}

TEST(a_cgroup_that_nobody_holds_is_killed_and_removed_by_the_next)
{
    char why[256];
    struct tn_cgroup left = TN_CGROUP_INIT;
    struct tn_cgroup next = TN_CGROUP_INIT;
    struct stage stage;

    if (tn_cgroup_make(&left, TN_CGROUP_NONE, why, sizeof why) < 0)
        SKIP("this process may not make a cgroup");
    stage_init(&stage, 0, 100, 100);
    int parent = dup(left.parent);
    pid_t pid = start_in(&left, &stage, "ignore");
    bool beats = pid > 0 && wait_beat(&stage);
    /* While it is held, nobody else touches it. */
    int first = tn_cgroup_make(&next, TN_CGROUP_NONE, why, sizeof why);
    bool alive = waitpid(pid, NULL, WNOHANG) == 0;
    (void)tn_cgroup_remove(&next);
    tn_cgroup_close(&next);
    /* As if supervisor and guardian had been killed. */
    char name[sizeof left.name];
    (void)memcpy(name, left.name, sizeof name);
    tn_cgroup_close(&left);
    int second = tn_cgroup_make(&next, TN_CGROUP_NONE, why, sizeof why);
    int status = 0;
    bool reaped = waitpid(pid, &status, 0) == pid;
    (void)tn_cgroup_remove(&next);
    tn_cgroup_close(&next);
    /* Whatever was still dying is gone by now, and so is the folder, with the one after it. */
    CHECK_EQ_I64(tn_cgroup_make(&next, TN_CGROUP_NONE, why, sizeof why), 0);
    (void)tn_cgroup_remove(&next);
    tn_cgroup_close(&next);
    bool there = faccessat(parent, name, F_OK, 0) == 0;
    (void)close(parent);
    clear(&stage);
    CHECK(beats && alive && reaped && !there);
    CHECK_EQ_I64(first, 0);
    CHECK_EQ_I64(second, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* --- Blind ------------------------------------------------------------------------------------ */

enum blindness { NO_PROC, NO_DESCRIPTORS };

static bool cover_proc(void)
{
    return mount("none", "/proc", "tmpfs", 0, NULL) == 0;
}

/* Of @pid; 0: of this process. */
static bool use_up_descriptors(pid_t pid)
{
    struct rlimit limit = { 0, 0 };

    return prlimit(pid, RLIMIT_NOFILE, &limit, NULL) == 0;
}

/* In a process of its own: run an actor with a daemon beside it, go blind, and wait for REAPED,
 * after the guardian was killed or, if it is @spared, after a deadline that nobody renews. Exits 0
 * when REAPED came, 3 when it did not, 77 if this cannot be played here. */
static _Noreturn void run_blind(struct stage *stage, enum blindness blindness, bool spared)
{
    char *argv[] = { TN_ACTOR, stage->file, "ignore", "daemon", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_MS(50),
                                           .kill_bound = TN_MS(500),
                                           .deadline =
                                               tn_boottime() + (spared ? TN_SEC(4) : TN_SEC(60)),
                                           .contain = TN_CONTAIN_TREE };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event;
    tenure_ns end = tn_boottime() + TN_SEC(10);
    bool started = false;

    if (blindness == NO_PROC &&
        (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) != 0))
        _exit(77);
    if (tn_guardian_start(&options, &guardian) != 0)
        _exit(1);
    while (!started && tn_boottime() < end) {
        (void)poll(NULL, 0, 1);
        started = tn_guardian_dispatch(guardian, &event) && event.kind == TN_GUARDIAN_STARTED;
    }
    if (!started || !wait_beat(stage))
        _exit(2);
    stage_let(50);
    end = (spared ? options.deadline : tn_boottime()) + TN_SEC(3);
    stage->shared->deadline = options.deadline;
    if (!(blindness == NO_PROC ? cover_proc()
                               : use_up_descriptors(spared ? tn_guardian_pid(guardian) : 0)))
        _exit(77);
    if (!spared)
        (void)kill(tn_guardian_pid(guardian), SIGKILL);
    /* This supervisor steps in only after the deadline. */
    while (spared && tn_boottime() < options.deadline)
        (void)poll(NULL, 0, 1);
    while (!tn_guardian_done(guardian) && tn_boottime() < end) {
        (void)poll(NULL, 0, 1);
        while (tn_guardian_dispatch(guardian, &event))
            ;
    }
    _exit(tn_guardian_done(guardian) ? 0 : 3);
}

static void check_blind(enum blindness blindness, bool spared)
{
    struct stage stage;
    int status = 0;

    stage_init(&stage, 0, 100, 100);
    pid_t pid = fork();
    if (pid == 0)
        run_blind(&stage, blindness, spared);
    (void)waitpid(pid, &status, 0);
    tenure_ns ended = tn_boottime();
    stage_let(100);
    tenure_ns last = stage_last_beat(&stage);
    clear(&stage);
    reap_all();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("mounting is not permitted");
    CHECK(WIFEXITED(status));
    /* What is held is killed, so REAPED comes; and never too early. */
    CHECK_EQ_I64(WEXITSTATUS(status), 0);
    CHECK(last <= ended);
    CHECK(last <= stage.shared->deadline);
}

TEST(a_tree_that_proc_does_not_show_is_not_gone)
{
    check_blind(NO_PROC, false);
}

TEST(a_guardian_without_proc_kills_by_the_deadline)
{
    check_blind(NO_PROC, true);
}

TEST(a_tree_is_not_gone_for_want_of_descriptors)
{
    check_blind(NO_DESCRIPTORS, false);
}

TEST(a_guardian_without_descriptors_kills_by_the_deadline)
{
    check_blind(NO_DESCRIPTORS, true);
}

/* --- Strangers -------------------------------------------------------------------------------- */

static _Noreturn void hold_still(void)
{
    for (;;)
        (void)pause();
}

/* As after `helper & exec tenure run`: a child, and an orphan of a child that ends later. */
static _Noreturn void have_children_before(struct stage *stage, int report)
{
    char *argv[] = { TN_ACTOR, stage->file, "ignore", "daemon", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_MS(50),
                                           .kill_bound = TN_MS(500),
                                           .deadline = tn_boottime() + TN_SEC(60),
                                           .watch_every = TN_MS(20),
                                           .contain = TN_CONTAIN_TREE };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event;
    tenure_ns end = tn_boottime() + TN_SEC(15);
    pid_t pids[2] = { fork(), 0 };
    int ends[2];

    if (pids[0] == 0)
        hold_still();
    if (pipe(ends) != 0)
        _exit(1);
    pid_t middle = fork();
    if (middle == 0) {
        pid_t orphan = fork();
        if (orphan == 0)
            hold_still();
        (void)!write(ends[1], &orphan, sizeof orphan);
        hold_still();
    }
    if (read(ends[0], &pids[1], sizeof pids[1]) != (ssize_t)sizeof pids[1] ||
        tn_guardian_start(&options, &guardian) != 0 || !wait_beat(stage))
        _exit(1);
    (void)kill(middle, SIGKILL);
    (void)!write(report, pids, sizeof pids);
    /* Time for a look or two. */
    for (tenure_ns until = tn_boottime() + TN_MS(200); tn_boottime() < until;) {
        (void)poll(NULL, 0, 1);
        (void)tn_guardian_dispatch(guardian, &event);
    }
    (void)kill(tn_guardian_pid(guardian), SIGKILL);
    while (!tn_guardian_done(guardian) && tn_boottime() < end) {
        (void)poll(NULL, 0, 1);
        while (tn_guardian_dispatch(guardian, &event))
            ;
    }
    _exit(tn_guardian_done(guardian) ? 0 : 3);
}

TEST(children_from_before_the_start_are_left_alone)
{
    struct stage stage;
    pid_t pids[2] = { 0, 0 };
    int ends[2];
    int status = 0;
    char state[2] = { '?', '?' };
    pid_t parent;

    stage_init(&stage, 0, 100, 100);
    CHECK_EQ_I64(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        have_children_before(&stage, ends[1]);
    (void)close(ends[1]);
    bool told = read(ends[0], pids, sizeof pids) == (ssize_t)sizeof pids;
    (void)close(ends[0]);
    (void)waitpid(pid, &status, 0);
    for (size_t i = 0; i < 2 && told; i++) {
        (void)tn_proc_stat(pids[i], &state[i], &parent);
        (void)kill(pids[i], SIGKILL);
    }
    stage_let(20);
    tenure_ns last = stage_last_beat(&stage);
    stage_let(50);
    bool silent = stage_last_beat(&stage) == last;
    clear(&stage);
    reap_all();
    CHECK(told && silent);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(state[0] == 'S');
    CHECK(state[1] == 'S');
}
