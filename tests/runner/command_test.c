/* command_test.c - what the command finds: its environment, descriptors, signals, process group. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "runner/guardian.h"
#include "runner/os.h"
#include "tests/harness/test.h"
#include "tests/runner/stage.h"

/* Run @argv under a guardian of this process until its tree is gone. */
static int run(char *const *argv, const char *const *env, const char *const *scrub)
{
    struct tn_guardian_options options = {
        .argv = argv,
        .env = env,
        .scrub = scrub,
        .grace = TN_MS(50),
        .kill_bound = TN_MS(200),
        .deadline = tn_boottime() + TN_SEC(2),
    };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event;
    tenure_ns end = tn_boottime() + TN_SEC(3);

    CHECK_EQ_I64(tn_guardian_start(&options, &guardian), 0);
    while (!tn_guardian_done(guardian) && tn_boottime() < end) {
        struct pollfd fd = { .fd = tn_guardian_fd(guardian), .events = POLLIN };

        (void)poll(&fd, 1, 100);
        while (tn_guardian_dispatch(guardian, &event))
            ;
    }
    bool done = tn_guardian_done(guardian);
    int status = tn_guardian_status(guardian);
    tn_guardian_free(guardian);
    CHECK(done);
    return status;
}

/* Run a shell script and return all that it printed. */
static const char *run_script(const char *script, const char *const *env, const char *const *scrub)
{
    static char text[65536];
    char path[64];
    char line[512];
    int fd;

    (void)snprintf(path, sizeof path, "/tmp/tenure-command-%ld", (long)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    (void)snprintf(line, sizeof line, "{ %s ; } >%s", script, path);
    char *argv[] = { "sh", "-c", line, NULL };
    int status = run(argv, env, scrub);
    ssize_t len = read(fd, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    (void)close(fd);
    (void)unlink(path);
    CHECK_EQ_I64(status, 0);
    return text;
}

TEST(secrets_are_scrubbed_and_variables_added)
{
    const char *env[] = { "TENURE_TOKEN=17", "TN_KNOWN=new", NULL };
    const char *scrub[] = { "PGPASSWORD", NULL };

    (void)setenv("TENURE_SECRET", "hush-a", 1);
    (void)setenv("TENURE_REDIS_PASSWORD", "hush-b", 1);
    (void)setenv("TENURE_STORE", "postgres://me:hush-c@host/db", 1);
    (void)setenv("PGPASSWORD", "hush-d", 1);
    (void)setenv("TN_KNOWN", "old", 1);
    (void)setenv("TN_PLAIN", "stays", 1);
    const char *text = run_script("env", env, scrub);
    CHECK(strstr(text, "hush-") == NULL);
    CHECK(strstr(text, "TENURE_TOKEN=17\n") != NULL);
    CHECK(strstr(text, "TN_KNOWN=new\n") != NULL);
    CHECK(strstr(text, "TN_KNOWN=old\n") == NULL);
    CHECK(strstr(text, "TN_PLAIN=stays\n") != NULL);
    (void)setenv("TENURE_STORE", "sqlite:/var/lib/x@y:z", 1);
    CHECK(strstr(run_script("env", NULL, NULL), "TENURE_STORE=sqlite:") != NULL);
    (void)unsetenv("TENURE_SECRET");
    (void)unsetenv("TENURE_REDIS_PASSWORD");
    (void)unsetenv("TENURE_STORE");
    (void)unsetenv("PGPASSWORD");
}

TEST(the_command_gets_the_standard_streams_and_no_other_descriptor)
{
    /* Not close-on-exec, as a careless library would leave it; the highest number there is too. */
    int stray = open("/dev/null", O_RDONLY);
    int high = fcntl(stray, F_DUPFD, 900);
    const char *text = run_script("ls /proc/self/fd", NULL, NULL);

    (void)close(stray);
    (void)close(high);
    /* 3 is the directory that ls reads. */
    CHECK_STR(text, "0\n1\n2\n3\n");
}

/* The signal set that follows @label. Without 32 and 33: they are the C library's own, which does
 * not let anyone set them, but itself leaves them ignored in what posix_spawn has started. */
static unsigned long long signal_set(const char *text, const char *label)
{
    const char *at = strstr(text, label);

    CHECK(at != NULL);
    return strtoull(at + strlen(label), NULL, 16) & ~(3ULL << 31);
}

TEST(the_commands_signals_are_unblocked_and_at_their_defaults)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    (void)signal(SIGPIPE, SIG_IGN);
    const char *text = run_script("grep -E '^Sig(Blk|Ign)' /proc/self/status", NULL, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    CHECK_EQ_U64(signal_set(text, "SigBlk:"), 0);
    CHECK_EQ_U64(signal_set(text, "SigIgn:"), 0);
}

TEST(a_hangup_that_was_ignored_stays_ignored)
{
    (void)signal(SIGHUP, SIG_IGN);
    const char *text = run_script("grep '^SigIgn' /proc/self/status", NULL, NULL);
    (void)signal(SIGHUP, SIG_DFL);
    CHECK_EQ_U64(signal_set(text, "SigIgn:"), 1U << (SIGHUP - 1));
}

TEST(the_command_is_in_the_supervisors_group_and_session)
{
    char expected[64];

    (void)snprintf(expected, sizeof expected, "%ld %ld\n", (long)getpgrp(), (long)getsid(0));
    CHECK_STR(run_script("cut -d' ' -f5,6 /proc/$$/stat", NULL, NULL), expected);
}

TEST(nothing_is_left_in_the_supervisor)
{
    char *argv[] = { "true", NULL };
    char *missing[] = { "/nonexistent", NULL };
    int before = stage_fds();

    for (int i = 0; i < 20; i++) {
        CHECK_EQ_I64(run(argv, NULL, NULL), 0);
        CHECK_EQ_I64(run(missing, NULL, NULL), 127);
    }
    CHECK_EQ_I64(stage_fds(), before);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0);
    CHECK_EQ_I64(errno, ECHILD);
}

TEST(free_kills_what_still_runs)
{
    char *argv[] = { "sh", "-c", "trap '' TERM; sleep 20 & sleep 20", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_SEC(1),
                                           .kill_bound = TN_SEC(1),
                                           .deadline = tn_boottime() + TN_SEC(20) };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event = { .kind = TN_GUARDIAN_LOST };
    int before = stage_fds();

    CHECK_EQ_I64(tn_guardian_start(&options, &guardian), 0);
    for (int i = 0; i < 500 && event.kind != TN_GUARDIAN_STARTED; i++) {
        if (!tn_guardian_dispatch(guardian, &event))
            stage_let(1);
    }
    CHECK(event.kind == TN_GUARDIAN_STARTED);
    tenure_ns from = tn_boottime();
    tn_guardian_free(guardian);
    CHECK(tn_boottime() - from < TN_MS(500));
    CHECK_EQ_I64(stage_fds(), before);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0);
    CHECK_EQ_I64(errno, ECHILD);
}

TEST(what_the_guardian_said_is_heard_although_it_did_not_listen)
{
    char *argv[] = { "sleep", "20", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_SEC(1),
                                           .kill_bound = TN_SEC(1),
                                           .deadline = tn_boottime() + TN_SEC(20) };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event = { .kind = TN_GUARDIAN_LOST };
    bool lost = false;

    CHECK_EQ_I64(tn_guardian_start(&options, &guardian), 0);
    for (int i = 0; i < 2000 && event.kind != TN_GUARDIAN_STARTED; i++) {
        if (!tn_guardian_dispatch(guardian, &event))
            stage_let(1);
    }
    pid_t command = event.value;
    pid_t pid = tn_guardian_pid(guardian);
    CHECK_EQ_I64(kill(pid, SIGSTOP), 0);
    CHECK(stage_wait_state(pid, "T", 2000));
    /* More than it reads before it looks at its children; it ends with some of them unread. */
    for (int i = 1; i <= 200; i++)
        CHECK_EQ_I64(tn_guardian_extend(guardian, options.deadline + i), 0);
    CHECK_EQ_I64(kill(command, SIGKILL), 0);
    CHECK(stage_wait_state(command, "Z", 2000));
    CHECK_EQ_I64(kill(pid, SIGCONT), 0);
    CHECK(stage_wait_state(pid, "Z", 2000));
    while (tn_guardian_dispatch(guardian, &event))
        lost = lost || event.kind == TN_GUARDIAN_LOST;
    CHECK(tn_guardian_done(guardian));
    CHECK_EQ_I64(tn_guardian_status(guardian), 128 + SIGKILL);
    tn_guardian_free(guardian);
    CHECK(!lost);
}

TEST(two_guardians_do_not_harm_each_other)
{
    char *argv[] = { "sleep", "20", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_SEC(1),
                                           .kill_bound = TN_SEC(1),
                                           .deadline = tn_boottime() + TN_SEC(20) };
    struct tn_guardian *one = NULL;
    struct tn_guardian *two = NULL;
    struct tn_guardian_event event = { .kind = TN_GUARDIAN_LOST };

    CHECK_EQ_I64(tn_guardian_start(&options, &one), 0);
    CHECK_EQ_I64(tn_guardian_start(&options, &two), 0);
    for (int i = 0; i < 500 && event.kind != TN_GUARDIAN_STARTED; i++) {
        if (!tn_guardian_dispatch(two, &event))
            stage_let(1);
    }
    pid_t command = event.value;
    CHECK_EQ_I64(kill(tn_guardian_pid(one), SIGKILL), 0);
    tn_guardian_free(one);
    CHECK_EQ_I64(kill(command, 0), 0);
    CHECK(!tn_guardian_dispatch(two, &event));
    tn_guardian_free(two);
    CHECK_EQ_I64(kill(command, 0), -1);
}

/* Run @scene in a child, where it may spoil what it likes; its result is the exit status. */
static int in_child(int (*scene)(void))
{
    int status = 0;

    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(scene());
    CHECK_EQ_I64(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* As run, without the harness: the command's status, or 100 and more for what went wrong. */
static int run_quietly(char *const *argv)
{
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_MS(50),
                                           .kill_bound = TN_SEC(1),
                                           .deadline = tn_boottime() + TN_SEC(5) };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event;
    int rc = tn_guardian_start(&options, &guardian);

    if (rc != 0)
        return 100 - rc;
    while (!tn_guardian_done(guardian)) {
        struct pollfd fd = { .fd = tn_guardian_fd(guardian), .events = POLLIN };

        (void)poll(&fd, 1, 1000);
        while (tn_guardian_dispatch(guardian, &event))
            ;
    }
    int status = tn_guardian_status(guardian);
    tn_guardian_free(guardian);
    return status >= 0 ? status : 120;
}

static int without_streams(void)
{
    /* Three if none of our descriptors took the place of a stream. */
    char *argv[] = { "sh", "-c",
                     "for n in 0 1 2; do [ -e /proc/$$/fd/$n ] || s=x$s; done; exit ${#s}", NULL };

    (void)close(0);
    (void)close(1);
    (void)close(2);
    return run_quietly(argv);
}

TEST(a_supervisor_without_streams_has_a_command_without_streams)
{
    CHECK_EQ_I64(in_child(without_streams), 3);
}

static int with_few_descriptors(void)
{
    char *argv[] = { "true", NULL };
    struct rlimit limit = { 0 };
    int before = stage_fds();
    int good = 0;

    for (rlim_t most = 3; most < 40; most++) {
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = most;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        int status = run_quietly(argv);
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        /* It runs, or the guardian could not fork it, or there is no guardian. */
        if (status != 0 && status != 126 && status != 100 - TENURE_E_FULL)
            return status;
        good += status == 0;
        if (stage_fds() != before || waitpid(-1, NULL, WNOHANG) >= 0)
            return 121;
    }
    return good > 10 ? 0 : 122;
}

TEST(without_descriptors_it_fails_cleanly)
{
    CHECK_EQ_I64(in_child(with_few_descriptors), 0);
}

static void *start_it(void *out)
{
    static char *argv[] = { "sh", "-c", "(sleep 20 & sleep 20) & sleep 20", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_SEC(1),
                                           .kill_bound = TN_SEC(1),
                                           .deadline = tn_boottime() + TN_SEC(20) };

    return tn_guardian_start(&options, out) == 0 ? out : NULL;
}

static int from_a_thread(void)
{
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event;
    tenure_ns end = tn_boottime() + TN_SEC(3);
    pthread_t thread;
    bool killed = false;

    if (pthread_create(&thread, NULL, start_it, &guardian) != 0 ||
        pthread_join(thread, NULL) != 0 || guardian == NULL)
        return 123;
    while (!tn_guardian_done(guardian) && tn_boottime() < end) {
        if (!tn_guardian_dispatch(guardian, &event))
            stage_let(1);
        else if (event.kind == TN_GUARDIAN_STARTED)
            killed = kill(tn_guardian_pid(guardian), SIGKILL) == 0;
    }
    bool done = tn_guardian_done(guardian);
    tn_guardian_free(guardian);
    return killed && done && waitpid(-1, NULL, WNOHANG) < 0 ? 0 : 124;
}

TEST(the_thread_that_started_it_may_end)
{
    CHECK_EQ_I64(in_child(from_a_thread), 0);
}

TEST(a_command_whose_time_is_over_is_not_started)
{
    char *argv[] = { "true", NULL };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_SEC(1),
                                           .kill_bound = TN_SEC(1),
                                           .deadline = tn_boottime() + TN_SEC(2) };
    struct tn_guardian *guardian = NULL;

    CHECK_EQ_I64(tn_guardian_start(&options, &guardian), TENURE_E_EXPIRED);
    CHECK(guardian == NULL);
}

TEST(options_without_sense_are_refused)
{
    char *argv[] = { "true", NULL };
    char *none[] = { NULL };
    const char *nameless[] = { "=x", NULL };
    const char *bare[] = { "NAME", NULL };
    struct tn_guardian_options good = {
        .argv = argv, .grace = 0, .kill_bound = TN_SEC(1), .deadline = tn_boottime() + TN_SEC(20)
    };
    struct tn_guardian_options bad[6];
    struct tn_guardian *guardian = NULL;
    int before = stage_fds();

    for (size_t i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].argv = none;
    bad[1].grace = -1;
    bad[2].kill_bound = 0;
    bad[3].env = nameless;
    bad[4].env = bare;
    bad[5].watch_every = -1;
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ_I64(tn_guardian_start(&bad[i], &guardian), TENURE_E_INVALID);
    CHECK(guardian == NULL);
    CHECK_EQ_I64(stage_fds(), before);
    tn_guardian_free(NULL);
}
