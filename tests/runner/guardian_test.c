/* guardian_test.c - the tree is dead and reaped by the deadline, whoever is stopped or killed.
 *
 * Real processes and real time; deadlines of a few hundred milliseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/guardian.h"
#include "runner/os.h"
#include "runner/tree.h"
#include "tests/harness/test.h"
#include "tests/runner/stage.h"

/* Enough for loaded machines; the trees here are gone in a few milliseconds. */
enum { GRACE = 80, KILL_BOUND = 300, TERM = 500, LONG_GRACE = 400 };

/* What holds in every scene: nothing acts or exists after the deadline, nothing is left over. */
static struct stage_result close_and_check(struct stage *stage)
{
    struct stage_result result = stage_close(stage);

    CHECK_EQ_U64(result.left, 0);
    CHECK_PROMISE(result.beat_overrun <= 0);
    CHECK(result.gone_overrun <= 0);
    return result;
}

/* The supervisor lived to see the end, and left no child and no descriptor behind. */
static void check_supervisor(const struct stage *stage, const struct stage_result *result)
{
    CHECK(WIFEXITED(result->supervisor_status));
    CHECK_EQ_I64(WEXITSTATUS(result->supervisor_status), 0);
    CHECK_EQ_I64(stage->shared->fds_after, stage->shared->fds_before);
    CHECK(stage->shared->reaped_at != 0);
}

/* And the guardian did not crash. On a busy machine the supervisor may have lost patience. */
static void check_both(const struct stage *stage, const struct stage_result *result)
{
    check_supervisor(stage, result);
    CHECK(!stage->shared->lost || stage->shared->lost_by == SIGKILL);
}

static void open_stage(struct stage *stage, const char *words)
{
    stage_init(stage, GRACE, KILL_BOUND, TERM);
    CHECK(stage_open(stage, words));
}

/* With a grace that is enough for those who heed SIGTERM, also on a busy machine. */
static void open_patient_stage(struct stage *stage, const char *words)
{
    stage_init(stage, LONG_GRACE, KILL_BOUND, LONG_GRACE + KILL_BOUND + 150);
    CHECK(stage_open(stage, words));
}

/* The actor runs; nobody renews any more. */
static struct stage_result lapse_open(struct stage *stage)
{
    stage->shared->extend = false;
    struct stage_result result = close_and_check(stage);
    check_both(stage, &result);
    CHECK_EQ_I64(stage->shared->reason, TN_REASON_DEADLINE);
    /* Not too early either: the work may go on until D - K - G. */
    CHECK(stage->shared->stopping_at >= stage->shared->deadline - stage->kill_bound - stage->grace);
    return result;
}

static struct stage_result lapse(struct stage *stage, const char *words)
{
    open_stage(stage, words);
    return lapse_open(stage);
}

static int run_status(char *const *argv)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, TERM);
    stage_open_command(&stage, argv);
    CHECK(stage_wait_time(&stage.shared->reaped_at, 2000));
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    return stage.shared->status;
}

TEST(the_exit_status_is_the_commands_own)
{
    char *argv[] = { "sh", "-c", "exit 7", NULL };

    CHECK_EQ_I64(run_status(argv), 7);
}

TEST(a_signal_is_128_and_its_number)
{
    char *argv[] = { "sh", "-c", "kill -USR1 $$", NULL };

    CHECK_EQ_I64(run_status(argv), 128 + SIGUSR1);
}

TEST(a_missing_command_is_127)
{
    char *argv[] = { "/nonexistent/command", NULL };
    char *in_path[] = { "no-such-command-anywhere", NULL };

    CHECK_EQ_I64(run_status(argv), 127);
    CHECK_EQ_I64(run_status(in_path), 127);
}

TEST(only_a_file_in_path_is_found)
{
    char *file[] = { "status", NULL };
    char *folder[] = { "fd", NULL };
    char *before = strdup(getenv("PATH"));

    (void)setenv("PATH", "/nonexistent:/proc/self", 1);
    int file_status = run_status(file);
    int folder_status = run_status(folder);
    (void)setenv("PATH", before, 1);
    free(before);
    CHECK_EQ_I64(file_status, 126);
    CHECK_EQ_I64(folder_status, 127);
}

TEST(a_command_that_cannot_be_executed_is_126)
{
    char *plain_file[] = { "/proc/self/status", NULL };
    char *directory[] = { "/proc", NULL };

    CHECK_EQ_I64(run_status(plain_file), 126);
    CHECK_EQ_I64(run_status(directory), 126);
}

TEST(a_command_that_ignores_sigterm_is_killed_in_time)
{
    struct stage stage;

    (void)lapse(&stage, "ignore");
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
    CHECK(stage.shared->killing_at >= stage.shared->deadline - stage.kill_bound);
}

TEST(a_command_that_heeds_sigterm_is_not_killed)
{
    struct stage stage;

    open_patient_stage(&stage, "term=5");
    CHECK(stage_wait_caught(stage.shared->command, SIGTERM, 2000));
    (void)lapse_open(&stage);
    CHECK_EQ_I64(stage.shared->status, 5);
    CHECK_EQ_I64(stage.shared->killing_at, 0);
}

TEST(daemons_that_ignore_sigterm_go_too)
{
    struct stage stage;

    open_stage(&stage, "ignore daemon daemon daemon");
    CHECK(stage_wait_count(&stage, 4, 2000));
    stage.shared->extend = false;
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
}

TEST(a_stopped_command_is_killed_in_time)
{
    struct stage stage;

    (void)lapse(&stage, "ignore stop");
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
}

TEST(a_stopped_command_is_woken_to_heed_sigterm)
{
    struct stage stage;

    open_patient_stage(&stage, "term=6 stop");
    (void)lapse_open(&stage);
    CHECK_EQ_I64(stage.shared->status, 6);
}

TEST(a_tree_that_forks_without_end_ends)
{
    struct stage stage;

    (void)lapse(&stage, "ignore spawn");
}

TEST(a_process_that_is_never_the_same_for_long_ends)
{
    struct stage stage;

    /* The command itself exits at once, so the tree is stopped long before the deadline. */
    open_stage(&stage, "ignore daemon comet");
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_EXITED);
}

TEST(chains_that_fork_and_exit_without_rest_end_by_the_deadline)
{
    static const char *const words[] = { "ignore comets=3", "ignore daemon comets=20",
                                         "comets=60" };

    if (!stage_is_contained())
        SKIP("no containment here, and the tree alone does not promise it");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct stage stage;

        /* So many processes take their time to die on a busy machine. */
        stage_init(&stage, GRACE, 1000, 1300);
        CHECK(stage_open(&stage, words[i]));
        stage.shared->extend = false;
        struct stage_result result = close_and_check(&stage);
        check_both(&stage, &result);
    }
}

TEST(a_chain_deeper_than_one_walk_ends)
{
    struct stage stage;

    open_stage(&stage, "ignore chain=40");
    CHECK(stage_wait_count(&stage, 41, 2000));
    stage.shared->extend = false;
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
}

TEST(a_chain_ends_without_the_kernels_list_of_children)
{
    struct stage stage;

    tn_tree_scan_all(true);
    stage_init(&stage, 0, 600, 700);
    bool open = stage_open(&stage, "ignore daemon chain=6");
    tn_tree_scan_all(false);
    CHECK(open);
    stage.shared->extend = false;
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
}

TEST(what_the_command_leaves_behind_is_stopped)
{
    struct stage stage;

    open_patient_stage(&stage, "daemon last=50");
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_EXITED);
    CHECK_EQ_I64(stage.shared->status, 0);
    CHECK_EQ_I64(stage.shared->killing_at, 0);
}

TEST(stop_sends_sigterm_and_after_the_grace_sigkill)
{
    struct stage stage;

    open_stage(&stage, "ignore daemon");
    stage.shared->stop = true;
    CHECK(stage_wait_time(&stage.shared->reaped_at, 2000));
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_ASKED);
    CHECK(stage.shared->killing_at - stage.shared->stopping_at >= stage.grace);
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
}

TEST(a_signal_is_forwarded_to_the_command_alone)
{
    struct stage stage;

    /* The daemon is forked before, so the signal would kill it; it must live to see SIGTERM. */
    open_stage(&stage, "daemon usr1=9");
    CHECK(stage_wait_caught(stage.shared->command, SIGUSR1, 2000));
    stage.shared->signal = SIGUSR1;
    CHECK(stage_wait_time(&stage.shared->reaped_at, 2000));
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    CHECK_EQ_I64(stage.shared->status, 9);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_EXITED);
}

TEST(extending_keeps_the_command_alive)
{
    struct stage stage;

    stage_init(&stage, 20, 80, 1000); /* Longer than a busy machine stands still. */
    CHECK(stage_open(&stage, "term=0"));
    stage_let(2500);
    CHECK_EQ_U64(stage_count(&stage), 1);
    CHECK_EQ_I64(stage.shared->reason, -1);
    stage.shared->stop = true;
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
}

TEST(a_killed_supervisor_takes_the_tree_with_it_after_the_grace)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, 5000);
    CHECK(stage_open(&stage, "ignore daemon tree=3"));
    CHECK(stage_wait_count(&stage, 5, 2000));
    CHECK_EQ_I64(kill(stage.supervisor, SIGKILL), 0);
    tenure_ns killed_at = tn_boottime();
    struct stage_result result = close_and_check(&stage);
    /* Long before the deadline: nobody is left to renew. */
    CHECK(result.last_beat <= killed_at + stage.grace + stage.kill_bound);
}

/* Stop both until @before_kill_ms before D - K, then let the guardian go on. */
static void wake_late(struct stage *stage, const char *words, int before_kill_ms)
{
    stage_init(stage, LONG_GRACE, KILL_BOUND, LONG_GRACE + KILL_BOUND + 150);
    stage->watch_every = 0;
    CHECK(stage_open(stage, words));
    CHECK_EQ_I64(kill(stage->supervisor, SIGSTOP), 0);
    CHECK(stage_wait_state(stage->supervisor, "T", 2000));
    CHECK_EQ_I64(kill(stage->shared->guardian, SIGSTOP), 0);
    tenure_ns kill_at = stage->shared->deadline - stage->kill_bound;
    stage_let((int)((kill_at - tn_boottime()) / TN_MS(1)) - before_kill_ms);
    CHECK_EQ_I64(kill(stage->shared->guardian, SIGCONT), 0);
}

TEST(a_guardian_that_wakes_late_gives_less_grace)
{
    struct stage stage;

    wake_late(&stage, "ignore daemon", 100);
    (void)close_and_check(&stage);
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
}

TEST(a_guardian_that_wakes_too_late_gives_none)
{
    struct stage stage;

    wake_late(&stage, "term=5", -50);
    (void)close_and_check(&stage);
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
}

/* Only this process runs on the first processor, for so long. */
static void hog_until(tenure_ns until)
{
    while (tn_boottime() < until) {
    }
}

TEST(a_guardian_that_is_woken_late_again_and_again_kills_earlier)
{
    const struct sched_param first = { .sched_priority = 10 };
    const struct sched_param usual = { .sched_priority = 0 };
    cpu_set_t before, one, rest;
    struct stage stage;

    CPU_ZERO(&one);
    CHECK_EQ_I64(sched_getaffinity(0, sizeof before, &before), 0);
    rest = before;
    for (size_t cpu = 0; CPU_COUNT(&one) == 0 && cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    }
    CPU_XOR(&rest, &before, &one);
    if (CPU_COUNT(&rest) == 0 || sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        SKIP("needs two processors, and root to use up one of them");
    CHECK_EQ_I64(sched_setscheduler(0, SCHED_OTHER, &usual), 0);
    CHECK_EQ_I64(sched_setaffinity(0, sizeof one, &one), 0);
    stage_init(&stage, 300, 50, 900);
    stage.watch_every = TN_MS(20);
    CHECK(stage_open(&stage, "ignore"));
    CHECK_EQ_I64(sched_setaffinity(stage.shared->command, sizeof rest, &rest), 0);
    CHECK_EQ_I64(sched_setscheduler(0, SCHED_FIFO, &first), 0);
    for (int i = 0; i < 6; i++) {
        hog_until(tn_boottime() + TN_MS(150));
        stage_let(50);
    }
    stage.shared->extend = false;
    stage_let(50);
    tenure_ns deadline = stage.shared->deadline;
    stage_let((int)((deadline - stage.kill_bound - tn_boottime()) / TN_MS(1)) - 10);
    hog_until(deadline + TN_MS(100));
    CHECK_EQ_I64(sched_setscheduler(0, SCHED_OTHER, &usual), 0);
    CHECK_EQ_I64(sched_setaffinity(0, sizeof before, &before), 0);
    /* What was killed is reaped when the guardian has a processor again. */
    struct stage_result result = stage_close(&stage);
    CHECK_EQ_U64(result.left, 0);
    CHECK_PROMISE(result.beat_overrun <= 0);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_DEADLINE);
}

TEST(a_stopped_supervisor_does_not_keep_the_tree_alive)
{
    struct stage stage;

    open_stage(&stage, "ignore daemon tree=3");
    stage.shared->extend = false;
    CHECK_EQ_I64(kill(stage.supervisor, SIGSTOP), 0);
    (void)close_and_check(&stage);
    /* It was woken after the fact, and read what had happened. */
    CHECK(stage.shared->reaped_at != 0);
}

TEST(a_stopped_supervisor_ends_the_term_long_before_a_far_deadline)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, 60000);
    CHECK(stage_open(&stage, "ignore daemon"));
    CHECK_EQ_I64(kill(stage.supervisor, SIGSTOP), 0);
    tenure_ns stopped_at = tn_boottime();
    struct stage_result result = close_and_check(&stage);
    CHECK(result.last_beat <= stopped_at + stage.grace + TN_SEC(1));
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_SUPERVISOR_STOPPED);
}

TEST(a_stopped_supervisor_that_nobody_watches_counts_by_the_deadline)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, TERM);
    stage.watch_every = 0;
    CHECK(stage_open(&stage, "ignore daemon"));
    CHECK_EQ_I64(kill(stage.supervisor, SIGSTOP), 0);
    (void)close_and_check(&stage);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_DEADLINE);
}

TEST(a_frozen_process_group_counts_by_the_deadline)
{
    struct stage stage;

    open_stage(&stage, "ignore tree=3");
    CHECK_EQ_I64(kill(-stage.supervisor, SIGSTOP), 0);
    CHECK(stage_wait_state(stage.shared->command, "T", 2000));
    (void)close_and_check(&stage);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_DEADLINE);
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
}

TEST(a_process_group_that_is_thawed_in_time_goes_on)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, 2000);
    stage.watch_every = TN_MS(100);
    CHECK(stage_open(&stage, "term=0 tree=3"));
    CHECK_EQ_I64(kill(-stage.supervisor, SIGSTOP), 0);
    CHECK(stage_wait_state(stage.shared->command, "T", 2000));
    /* Long enough for the guardian to look twice. */
    stage_let(250);
    CHECK_EQ_I64(kill(-stage.supervisor, SIGCONT), 0);
    tenure_ns thawed_at = tn_boottime();
    stage_let(50);
    CHECK(stage_last_beat(&stage) > thawed_at);
    CHECK_EQ_I64(stage.shared->reason, -1);
    stage.shared->stop = true;
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
}

TEST(a_killed_guardian_takes_the_tree_with_it)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, 5000);
    CHECK(stage_open(&stage, "ignore daemon daemon tree=5"));
    CHECK(stage_wait_count(&stage, 8, 2000));
    CHECK_EQ_I64(kill(stage.shared->guardian, SIGKILL), 0);
    tenure_ns killed_at = tn_boottime();
    struct stage_result result = close_and_check(&stage);
    check_supervisor(&stage, &result);
    CHECK(stage.shared->lost);
    CHECK_EQ_I64(stage.shared->status, 128 + SIGKILL);
    CHECK(result.last_beat <= killed_at + TN_MS(200));
}

TEST(the_command_dies_with_the_guardian_even_if_the_supervisor_is_stopped)
{
    struct stage stage;
    char state;
    pid_t parent;
    tenure_ns end = tn_boottime() + TN_SEC(2);

    stage_init(&stage, GRACE, KILL_BOUND, 60000);
    stage.watch_every = 0;
    CHECK(stage_open(&stage, "ignore"));
    CHECK_EQ_I64(kill(stage.supervisor, SIGSTOP), 0);
    CHECK(stage_wait_state(stage.supervisor, "T", 2000));
    CHECK_EQ_I64(kill(stage.shared->guardian, SIGKILL), 0);
    /* A zombie of the supervisor's, which is in no state to reap it. */
    bool died = false;
    while (!died && tn_boottime() < end)
        died = tn_proc_stat(stage.shared->command, &state, &parent) && state == 'Z';
    struct stage_result result = close_and_check(&stage);
    check_supervisor(&stage, &result);
    CHECK(died);
}

TEST(a_stopped_guardian_ends_the_term)
{
    struct stage stage;

    stage_init(&stage, GRACE, KILL_BOUND, 60000);
    CHECK(stage_open(&stage, "ignore daemon"));
    CHECK_EQ_I64(kill(stage.shared->guardian, SIGSTOP), 0);
    tenure_ns stopped_at = tn_boottime();
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_GUARDIAN_STOPPED);
    CHECK(result.last_beat <= stopped_at + stage.grace + TN_SEC(1));
}

TEST(a_guardian_that_is_stopped_again_and_again_does_its_work)
{
    struct stage stage;
    tenure_ns end = tn_boottime() + TN_SEC(1);

    open_stage(&stage, "ignore daemon tree=3");
    stage.shared->extend = false;
    while (stage.shared->reaped_at == 0 && tn_boottime() < end) {
        (void)kill(stage.shared->guardian, SIGSTOP);
        stage_let(1);
    }
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
}

TEST(a_guardian_that_cannot_be_woken_is_replaced)
{
    struct stage stage;
    tenure_ns end = tn_boottime() + TN_SEC(1);

    stage_init(&stage, GRACE, 500, 700);
    CHECK(stage_open(&stage, "ignore daemon tree=3"));
    pid_t guardian = stage.shared->guardian;
    /* A debugger's stop, which SIGCONT does not end. */
    bool attached = ptrace(PTRACE_SEIZE, guardian, NULL, NULL) == 0;
    if (attached)
        (void)ptrace(PTRACE_INTERRUPT, guardian, NULL, NULL);
    stage.shared->extend = false;
    while (attached && !stage.shared->lost && tn_boottime() < end)
        stage_let(1);
    /* The tree is gone by the deadline although the debugger has not let go of the dead yet. */
    (void)waitpid(guardian, NULL, attached && !stage.shared->lost ? WNOHANG : 0);
    bool lost = stage.shared->lost;
    (void)close_and_check(&stage);
    if (!attached)
        SKIP("ptrace is not permitted");
    CHECK(lost);
}

TEST(a_guardian_told_to_end_stops_the_tree)
{
    struct stage stage;

    stage_init(&stage, LONG_GRACE, KILL_BOUND, 60000);
    CHECK(stage_open(&stage, "term=4"));
    CHECK(stage_wait_caught(stage.shared->command, SIGTERM, 2000));
    CHECK_EQ_I64(kill(stage.shared->guardian, SIGTERM), 0);
    struct stage_result result = close_and_check(&stage);
    check_both(&stage, &result);
    CHECK_EQ_I64(stage.shared->reason, TN_REASON_ASKED);
    CHECK_EQ_I64(stage.shared->status, 4);
}
