/* bind_test.c - supervisor and guardian are bound together, or the command is not run.
 *
 * The daemon here is a few lines that answer as the test wants; the real one is in
 * tests/live/tenured.sh. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/harness/test.h"
#include "tests/runner/stage.h"

enum { GRACE = 200, KILL_BOUND = 300, TERM = 1500, CONNS = 4 };

enum mood {
    AGREES,
    REFUSES,  /* The session is over. */
    SILENT,   /* It hangs. */
    RESTARTS, /* Between the two, so that the first is forgotten. */
};

/* The daemon is a thread, as the stage waits for all children. */
static struct {
    pthread_t thread;
    enum mood mood;
    int listener, bell[2];
    int bound[CONNS]; /* By whom the connections were made on which BIND was said. */
    int count;
} server;

static char folder[64];
static struct tn_store_binding binding;

static void hear(struct pollfd *conns, nfds_t which)
{
    char line[128];
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = conns[which].fd;
    ssize_t len = recv(fd, line, sizeof line - 1, 0);

    if (len <= 0) {
        (void)close(fd);
        conns[which].fd = -1;
        return;
    }
    line[len] = '\0';
    bool binds = strcmp(line, binding.line) == 0;
    if (binds && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && server.count < CONNS)
        server.bound[server.count++] = peer.pid;
    if (server.mood == RESTARTS && server.count == 2) {
        (void)close(conns[2].fd); /* That of the first who came. */
        conns[2].fd = -1;
    }
    const char *answer = server.mood == REFUSES ? "-GONE no such session\r\n" : "+OK\r\n";
    if (server.mood != SILENT)
        (void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
}

static void *serve(void *arg)
{
    struct pollfd conns[CONNS + 2] = { { .fd = server.listener, .events = POLLIN },
                                       { .fd = server.bell[0], .events = POLLIN } };
    nfds_t count = 2;

    (void)arg;
    while (poll(conns, count, -1) > 0 && conns[1].revents == 0) {
        for (nfds_t i = 2; i < count; i++)
            if (conns[i].fd >= 0 && conns[i].revents != 0)
                hear(conns, i);
        if (conns[0].revents != 0 && count < CONNS + 2)
            conns[count++] =
                (struct pollfd) { .fd = accept(server.listener, NULL, NULL), .events = POLLIN };
    }
    for (nfds_t i = 2; i < count; i++)
        if (conns[i].fd >= 0)
            (void)close(conns[i].fd);
    return NULL;
}

static void open_daemon(enum mood mood)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    (void)snprintf(folder, sizeof folder, "/tmp/tenure-bind-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(binding.path, sizeof binding.path, "%s/socket", folder);
    (void)snprintf(binding.line, sizeof binding.line, "SESSION BIND 7\r\n");
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", binding.path);
    server.mood = mood;
    server.count = 0;
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ_I64(bind(server.listener, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ_I64(listen(server.listener, CONNS), 0);
    CHECK_EQ_I64(pipe2(server.bell, O_CLOEXEC), 0);
    CHECK_EQ_I64(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void close_daemon(void)
{
    CHECK_EQ_I64(write(server.bell[1], "x", 1), 1);
    CHECK_EQ_I64(pthread_join(server.thread, NULL), 0);
    (void)close(server.listener);
    (void)close(server.bell[0]);
    (void)close(server.bell[1]);
    (void)unlink(binding.path);
    (void)rmdir(folder);
}

/* Run `true` under @mood; the stage can be looked at until the next. */
static void run_true(struct stage *stage, enum mood mood)
{
    char *argv[] = { "true", NULL };

    open_daemon(mood);
    stage_init(stage, GRACE, KILL_BOUND, TERM);
    stage->binding = &binding;
    stage_open_command(stage, argv);
    struct stage_result result = stage_close(stage);
    close_daemon();
    CHECK_EQ_U64(result.left, 0);
    CHECK(WIFEXITED(result.supervisor_status));
    CHECK_EQ_I64(WEXITSTATUS(result.supervisor_status), 0);
    CHECK_EQ_I64(stage->shared->start_error, 0);
    CHECK_EQ_I64(stage->shared->fds_after, stage->shared->fds_before);
}

TEST(both_are_bound_before_the_command_runs)
{
    struct stage stage;

    run_true(&stage, AGREES);
    CHECK(stage.shared->command != 0);
    CHECK_EQ_I64(stage.shared->status, 0);
    CHECK_EQ_I64(server.count, 2);
    CHECK_EQ_I64(server.bound[0], stage.supervisor);
    CHECK_EQ_I64(server.bound[1], stage.shared->guardian);
}

static void check_not_run(enum mood mood)
{
    struct stage stage;

    run_true(&stage, mood);
    CHECK_EQ_I64(stage.shared->command, 0);
    CHECK(stage.shared->reaped_at != 0);
    /* On a busy machine the supervisor may have lost its patience with the guardian. */
    CHECK(stage.shared->lost || stage.shared->reason == TN_REASON_UNBOUND);
}

TEST(a_session_that_is_over_runs_nothing)
{
    check_not_run(REFUSES);
}

TEST(a_daemon_that_hangs_runs_nothing_by_the_deadline)
{
    check_not_run(SILENT);
}

TEST(a_daemon_that_begins_anew_between_the_two_runs_nothing)
{
    check_not_run(RESTARTS);
}

TEST(without_the_daemon_nothing_is_started)
{
    struct tn_guardian *guardian = NULL;
    char *argv[] = { "true", NULL };
    struct tn_store_binding nobody = { "/nonexistent/socket", "SESSION BIND 7\r\n" };
    struct tn_guardian_options options = { .argv = argv,
                                           .grace = TN_MS(GRACE),
                                           .kill_bound = TN_MS(KILL_BOUND),
                                           .deadline = tn_boottime() + TN_MS(TERM),
                                           .binding = &nobody };

    CHECK_EQ_I64(tn_guardian_start(&options, &guardian), TENURE_E_UNAVAILABLE);
    CHECK(guardian == NULL);
}
