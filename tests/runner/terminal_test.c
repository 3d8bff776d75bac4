/* terminal_test.c - on a terminal, the command is as if it had been run directly.
 *
 * Each scene plays in a process that is the shell of a terminal of its own: it starts the
 * supervisor as a foreground job and types. Its exit status is the verdict, 0 or the line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tests/runner/stage.h"

/* In the shell, where the harness cannot be used. */
#define MUST(cond)           \
    do {                     \
        if (!(cond))         \
            _exit(__LINE__); \
    } while (0)

struct terminal {
    int master;
    int slave;
};

/* Become the leader of a session on a new terminal. */
static void open_terminal(struct terminal *terminal)
{
    char name[64];

    MUST(setsid() >= 0);
    terminal->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    MUST(terminal->master >= 0);
    MUST(grantpt(terminal->master) == 0 && unlockpt(terminal->master) == 0);
    MUST(ptsname_r(terminal->master, name, sizeof name) == 0);
    terminal->slave = open(name, O_RDWR | O_CLOEXEC);
    MUST(terminal->slave >= 0);
    (void)ioctl(terminal->slave, TIOCSCTTY, 0);
    MUST(dup2(terminal->slave, STDIN_FILENO) == STDIN_FILENO);
    /* The shell hands the terminal about while it is in the background itself. */
    (void)signal(SIGTTOU, SIG_IGN);
}

/* Run the command as the foreground job, as a shell does. */
static void open_job(struct terminal *terminal, struct stage *stage, char *const *argv)
{
    open_terminal(terminal);
    stage_init(stage, 50, 500, 5000);
    stage->watch_every = TN_MS(100);
    stage_open_command(stage, argv);
    (void)setpgid(stage->supervisor, stage->supervisor);
    MUST(tcsetpgrp(terminal->slave, stage->supervisor) == 0);
    MUST(stage_wait_int(&stage->shared->command, 0, 3000));
}

static void type(const struct terminal *terminal, const char *keys, size_t len)
{
    MUST(write(terminal->master, keys, len) == (ssize_t)len);
}

/* True when a scene returns; it leaves early by MUST. */
static void play(void (*scene)(void))
{
    int status;

    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        scene();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ_I64(WEXITSTATUS(status), 0);
}

static void read_a_line(void)
{
    char *argv[] = { "sh", "-c", "read status; exit \"$status\"", NULL };
    struct terminal terminal;
    struct stage stage;

    open_job(&terminal, &stage, argv);
    type(&terminal, "7\n", 2);
    MUST(stage_wait_time(&stage.shared->reaped_at, 3000));
    MUST(stage_close(&stage).left == 0);
    MUST(stage.shared->status == 7);
}

static void press_ctrl_c(void)
{
    /* Each SIGINT counts; the line that is typed afterwards ends it. */
    char *argv[] = { "sh", "-c",
                     "n=40; trap 'n=$((n + 1))' INT; while ! read line; do :; done; exit $n",
                     NULL };
    struct terminal terminal;
    struct stage stage;

    open_job(&terminal, &stage, argv);
    MUST(stage_wait_caught(stage.shared->command, SIGINT, 2000));
    type(&terminal, "\003", 1);
    stage_let(50);
    type(&terminal, "x\n", 2);
    MUST(stage_wait_time(&stage.shared->reaped_at, 3000));
    MUST(stage_close(&stage).left == 0);
    MUST(stage.shared->status == 41);
}

static void press_ctrl_z_and_fg(void)
{
    char *argv[] = { "sh", "-c", "read status; exit \"$status\"", NULL };
    struct terminal terminal;
    struct stage stage;
    int status;

    open_job(&terminal, &stage, argv);
    type(&terminal, "\032", 1);
    /* The shell sees its job stop, and the command has stopped as well. */
    MUST(waitpid(stage.supervisor, &status, WUNTRACED) == stage.supervisor);
    MUST(WIFSTOPPED(status));
    MUST(stage_wait_state(stage.shared->command, "T", 3000));
    /* More than two looks of the guardian: it leaves a stopped job alone until the deadline. */
    stage_let(250);
    MUST(tcsetpgrp(terminal.slave, stage.supervisor) == 0);
    MUST(kill(-stage.supervisor, SIGCONT) == 0);
    type(&terminal, "9\n", 2);
    MUST(stage_wait_time(&stage.shared->reaped_at, 3000));
    MUST(stage_close(&stage).left == 0);
    MUST(stage.shared->status == 9);
}

TEST(the_command_reads_from_the_terminal)
{
    play(read_a_line);
}

TEST(ctrl_c_reaches_the_command_once)
{
    play(press_ctrl_c);
}

TEST(ctrl_z_stops_the_job_and_fg_continues_it)
{
    play(press_ctrl_z_and_fg);
}
