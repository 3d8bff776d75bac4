/* daemon_test.c - tenured as its users meet it: crashes, waiting, dying peers, hostile ones, disks
 * that are full or fail, and who is let in. */
#define _GNU_SOURCE
#include "tests/daemon/stage.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"

/* A session's secret, and a command with it: "%s" in @format, twice for session and term. */
static const char *secret_of(unsigned number)
{
    static char text[4][40];
    static unsigned turn;
    char *to = text[turn++ % 4];

    (void)snprintf(to, sizeof text[0], "%032x", number + 1);
    return to;
}

static void opens(int fd, unsigned number, unsigned ttl_ms, const char *more)
{
    char line[200];

    (void)snprintf(line, sizeof line, "SESSION OPEN %s %u LABEL host-%u %s", secret_of(number),
                   ttl_ms, number, more);
    stage_ask(fd, line, "*10");
    for (int i = 0; i < 16; i++)
        (void)stage_line(fd);
}

static const char *acquire(unsigned session, unsigned term, const char *name, const char *more)
{
    static char line[400];

    (void)snprintf(line, sizeof line, "LEASE ACQUIRE %s %s %s %s", secret_of(session),
                   secret_of(term), name, more);
    return line;
}

static const char *release(unsigned session, unsigned term, const char *name, uint64_t token)
{
    static char line[400];

    (void)snprintf(line, sizeof line, "LEASE RELEASE %s %s %s %lu", secret_of(session),
                   secret_of(term), name, token);
    return line;
}

/* "held" or "free". */
static const char *state_of(int fd, const char *name)
{
    static char state[16];
    char line[300];

    (void)snprintf(line, sizeof line, "LEASE GET %s", name);
    stage_send(fd, line);
    int lines = strcmp(stage_line(fd), "*6") == 0 ? 11 : 28;
    for (int i = 0; i < lines; i++) {
        const char *got = stage_line(fd);
        if (i == 7)
            (void)snprintf(state, sizeof state, "%s", got);
    }
    return state;
}

/* --- Who is let in ---------------------------------------------------------------------------- */

TEST(the_socket_is_its_owners_and_the_data_too)
{
    struct stat st;

    stage_begin();
    stage_start();
    CHECK(stat(stage.socket, &st) == 0);
    CHECK_EQ_U64(st.st_mode & 0777, 0600);
    CHECK(stat(stage.data, &st) == 0);
    CHECK_EQ_U64(st.st_mode & 0777, 0700);
    stage_end();
}

TEST(another_user_is_refused_even_with_the_socket_open)
{
    char line[200];
    pid_t pid;
    int status;

    if (geteuid() != 0)
        SKIP("needs root to become another user");
    stage_begin();
    CHECK(chmod(stage.root, 0755) == 0);
    stage_start();
    CHECK(chmod(stage.socket, 0666) == 0);
    pid = fork();
    if (pid == 0) {
        if (setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        int fd = stage_connect();
        (void)snprintf(line, sizeof line, "%s", stage_line(fd));
        _exit(strncmp(line, "-DENIED", 7) != 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ_I64(WEXITSTATUS(status), 0);
    stage_end();
}

/* Lines are written by a thread of their own, and SIGHUP is heard some time later. */
static void wait_said(const char *words)
{
    int64_t until = stage_now_ms() + STAGE_PATIENCE_MS;

    while (strstr(stage_said(), words) == NULL) {
        CHECK(stage_now_ms() < until);
        (void)poll(NULL, 0, 5);
    }
}

TEST(tcp_is_opened_only_when_asked_for_and_on_loopback)
{
    const char *words[] = { "--listen", "tcp:0.0.0.0:0", NULL };
    const char *port;

    stage_begin();
    stage_start_with("--listen", "tcp:127.0.0.1:0");
    wait_said("no ACL guards it");
    port = strrchr(stage.ready, ':');
    int fd = stage_connect_tcp((int)strtol(port + 1, NULL, 10));
    stage_ask(fd, "PING", "+PONG");
    stage_send(fd, "SESSION OPEN * 5000 BIND");
    CHECK(strncmp(stage_line(fd), "-ERR BIND works on a Unix socket", 32) == 0);
    stage_kill();
    CHECK(!stage_try_start(words));
    CHECK_EQ_I64(stage_wait(), 77);
    CHECK(strstr(stage_said(), "mutual TLS") != NULL);
    stage_end();
}

/* What `tenured --new-secret USER` prints: the secret, and the line for the file. */
static void new_secret(const char *user, char secret[40], char line[200])
{
    char command[300];

    (void)snprintf(command, sizeof command, "%s --new-secret %s", TN_TENURED, user);
    FILE *pipe = popen(command, "r");
    CHECK(pipe != NULL);
    CHECK(fscanf(pipe, "the user's secret, shown once: %39s ", secret) == 1);
    CHECK(fscanf(pipe, "for the ACL file: %199[^\n]", line) == 1);
    CHECK(pclose(pipe) == 0);
}

static void write_acl(const char *path, const char *line, const char *rules)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    CHECK(fchmod(fileno(file), 0600) == 0);
    CHECK(fprintf(file, "%s\n%s", line, rules) > 0);
    CHECK(fclose(file) == 0);
}

TEST(with_an_acl_a_tcp_peer_may_do_what_its_user_may_and_no_more)
{
    char path[100];
    char secret[40];
    char line[200];
    char auth[100];

    stage_begin();
    new_secret("ann", secret, line);
    (void)snprintf(path, sizeof path, "%s/acl", stage.root);
    write_acl(path, line, "allow ann acquire jobs/*\nallow ann observe x\n");
    CHECK(stage_try_start((const char *[]) { "--listen", "tcp:127.0.0.1:0", "--acl", path, NULL }));
    CHECK_STR(stage_said(), "");
    int port = (int)strtol(strrchr(stage.ready, ':') + 1, NULL, 10);
    int fd = stage_connect_tcp(port);
    stage_ask(fd, "PING", "+PONG");
    stage_ask(fd, "LEASE GET x", "-NOAUTH say who you are first: AUTH USER SECRET");
    stage_ask(fd, "INFO", "-NOAUTH say who you are first: AUTH USER SECRET");
    (void)snprintf(auth, sizeof auth, "AUTH ann %s", secret);
    stage_ask(fd, auth, "+OK");
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "jobs/a", "")), 1);
    CHECK_STR(state_of(fd, "x"), "free");
    stage_ask(fd, acquire(1, 2, "x", ""), "-DENIED user ann has no right to acquire this name");
    stage_ask(fd, "LEASE GET y", "-DENIED user ann has no right to observe this name");
    stage_ask(fd, "REVOKE jobs/a", "-DENIED user ann has no right to admin this name");
    stage_ask(fd, "TOKEN RAISE 9", "-DENIED user ann has no right to admin this name");
    stage_ask(fd, "WATCH *", "-DENIED user ann has no right to observe this name");
    int owner = stage_connect();
    stage_ask(owner, "REVOKE jobs/a", "+OK");

    int guesser = stage_connect_tcp(port);
    for (int i = 0; i < 3; i++)
        stage_ask(guesser, "AUTH ann guess", "-DENIED wrong user or secret");
    CHECK(stage_is_closed(guesser));

    write_acl(path, line, "allow ann nonsense *\n");
    CHECK(kill(stage.pid, SIGHUP) == 0);
    wait_said("acl:2: a right is observe, acquire or admin; the rules stay as they were");
    CHECK_STR(state_of(fd, "x"), "free");
    write_acl(path, line, "allow ann observe y\n");
    CHECK(kill(stage.pid, SIGHUP) == 0);
    wait_said("read again");
    CHECK_STR(state_of(fd, "y"), "free");
    stage_ask(fd, "LEASE GET x", "-DENIED user ann has no right to observe this name");
    stage_end();
}

/* A GET; the status line, and the body's last line. */
static const char *http_get(int port, const char *path, char last[1000])
{
    static char status[100];
    char line[200];
    char got[4200] = "";

    int fd = stage_connect_tcp(port);
    (void)snprintf(line, sizeof line, "GET %s HTTP/1.0\r\nHost: localhost\r\n", path);
    stage_send(fd, line);
    size_t len = 0;
    ssize_t n;
    while (len < sizeof got - 1 && (n = recv(fd, got + len, sizeof got - 1 - len, 0)) > 0)
        len += (size_t)n;
    (void)close(fd);
    got[len] = 0;
    (void)snprintf(status, sizeof status, "%.*s", (int)strcspn(got, "\r"), got);
    const char *body = strstr(got, "\r\n\r\n");
    (void)snprintf(last, 1000, "%.*s", 999, body != NULL ? body + 4 : "");
    return status;
}

TEST(http_tells_health_metrics_and_leases)
{
    char body[1000];

    stage_begin();
    CHECK(stage_try_start((const char *[]) { "--http", "127.0.0.1:0", NULL }));
    wait_said("no ACL guards it");
    int port = (int)strtol(strrchr(stage.ready, ':') + 1, NULL, 10);
    int fd = stage_connect();
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "jobs/a", "")), 1);
    CHECK_STR(http_get(port, "/healthz", body), "HTTP/1.1 200 OK");
    CHECK_STR(http_get(port, "/readyz", body), "HTTP/1.1 200 OK");
    CHECK_STR(http_get(port, "/metrics", body), "HTTP/1.1 200 OK");
    CHECK(strstr(body, "\ntenured_sessions 1\n") != NULL);
    CHECK_STR(http_get(port, "/v1/leases/jobs/a", body), "HTTP/1.1 200 OK");
    CHECK(strstr(body, "\"state\":\"held\",\"holder\":\"host-1\",\"token\":1,") != NULL);
    CHECK_STR(http_get(port, "/v1/leases/never", body), "HTTP/1.1 200 OK");
    CHECK_STR(body,
              "{\"name\":\"never\",\"state\":\"free\",\"holder\":null,\"token\":0,\"ttl_ms\":0,"
              "\"remaining_ms\":0}\n");
    CHECK_STR(http_get(port, "/v1/leases?prefix=jobs", body), "HTTP/1.1 200 OK");
    CHECK(strstr(body, "{\"cursor\":0,\"leases\":[") != NULL);
    CHECK(strstr(body, "\"jobs/a\"") != NULL);
    CHECK_STR(http_get(port, "/v1/leases/a//b", body), "HTTP/1.1 400 Bad Request");
    CHECK_STR(http_get(port, "/nothing", body), "HTTP/1.1 404 Not Found");
    stage_end();
}

TEST(systemd_is_told_when_it_serves_and_when_it_ends_and_may_pass_a_socket_on)
{
    struct sockaddr_un passed = { .sun_family = AF_UNIX };
    struct sockaddr_un told = { .sun_family = AF_UNIX };
    char message[64] = "";

    stage_begin();
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    int notices = socket(AF_UNIX, SOCK_DGRAM, 0);
    (void)snprintf(passed.sun_path, sizeof passed.sun_path, "%s/passed", stage.root);
    (void)snprintf(told.sun_path, sizeof told.sun_path, "%s/notices", stage.root);
    CHECK(bind(listener, (struct sockaddr *)&passed, sizeof passed) == 0);
    CHECK(listen(listener, 10) == 0);
    CHECK(bind(notices, (struct sockaddr *)&told, sizeof told) == 0);
    stage_inherit(listener);
    stage_notify(told.sun_path);
    stage_start();
    CHECK(recv(notices, message, sizeof message - 1, 0) > 0);
    CHECK_STR(message, "READY=1");
    CHECK(strstr(stage.ready, "/passed, unix:") != NULL);
    int own = stage_connect();
    stage_ask(own, "PING", "+PONG");
    (void)snprintf(stage.socket, sizeof stage.socket, "%s/passed", stage.root);
    int fd = stage_connect();
    stage_ask(fd, "PING", "+PONG");
    CHECK(kill(stage.pid, SIGTERM) == 0);
    memset(message, 0, sizeof message);
    CHECK(recv(notices, message, sizeof message - 1, 0) > 0);
    CHECK_STR(message, "STOPPING=1");
    CHECK_EQ_I64(stage_wait(), 0);
    CHECK(access(passed.sun_path, F_OK) == 0); /* Not ours to remove. */
    (void)close(listener);
    (void)close(notices);
    stage_end();
}

TEST(a_bad_option_is_one_line_and_creates_nothing)
{
    static const char *const bad[][3] = { { "--nonsense", NULL, NULL },
                                          { "--max-leases", "many", NULL },
                                          { "--listen", "udp:1", NULL },
                                          { "--data", NULL, NULL } };

    stage_begin();
    for (size_t i = 0; i < 4; i++) {
        CHECK(!stage_try_start(bad[i]));
        CHECK_EQ_I64(stage_wait(), 64);
        CHECK(strchr(stage_said(), '\n') == strrchr(stage_said(), '\n'));
        CHECK(access(stage.data, F_OK) != 0);
    }
    stage_end();
}

TEST(a_second_daemon_is_refused_with_status_69)
{
    struct stage first;

    stage_begin();
    stage_start();
    first = stage;
    stage.pid = 0;
    (void)snprintf(stage.socket, sizeof stage.socket, "%s/other", stage.root);
    CHECK(!stage_try_start(NULL));
    CHECK_EQ_I64(stage_wait(), 69);
    CHECK(strstr(stage_said(), "another tenured runs on this data") != NULL);
    (void)snprintf(stage.data, sizeof stage.data, "%s/other-data", stage.root);
    (void)snprintf(stage.socket, sizeof stage.socket, "%s/socket", stage.root);
    CHECK(!stage_try_start(NULL));
    CHECK_EQ_I64(stage_wait(), 69);
    CHECK(strstr(stage_said(), "another daemon listens there") != NULL);
    stage = first;
    int fd = stage_connect();
    stage_ask(fd, "PING", "+PONG");
    stage_end();
}

/* --- Crashes ---------------------------------------------------------------------------------- */

TEST(what_was_answered_is_there_after_kill_9)
{
    stage_begin();
    stage_start();
    int fd = stage_connect();
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "x", "")), 1);
    stage_ask(fd, "FENCE RAISE db 5", "+OK");
    stage_kill();
    stage_start();
    fd = stage_connect();
    CHECK_STR(state_of(fd, "x"), "held");
    stage_ask(fd, "FENCE SHOW db", ":5");
    opens(fd, 2, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(2, 2, "x", "")), 0);
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "x", "")), 1);
    stage_ask(fd, release(1, 1, "x", 1), "+RELEASED");
    CHECK_EQ_U64(stage_granted(fd, acquire(2, 2, "x", "")), 2);
    stage_end();
}

/* Clients acquire and release in several connections while the daemon is killed and started: what
 * was granted is never granted lower again. tests/chaos has the long form of this. */
TEST(tokens_rise_through_many_kills)
{
    struct tn_prng prng;
    uint64_t highest = 0;

    stage_begin();
    tn_prng_seed(&prng, 3);
    for (int round = 0; round < 12; round++) {
        char name[20];
        unsigned term = 0;
        stage_start_with("--snapshot-bytes", "2000");
        int fd = stage_connect();
        opens(fd, 1, 60000, "");
        for (int i = 0; i < 60; i++) {
            (void)snprintf(name, sizeof name, "n%u", (unsigned)tn_prng_below(&prng, 300));
            term = (unsigned)(round * 1000 + i);
            uint64_t token = stage_granted(fd, acquire(1, term, name, ""));
            if (token == 0)
                continue;
            CHECK(token > highest);
            highest = token;
            if (tn_prng_below(&prng, 3) > 0)
                stage_ask(fd, release(1, term, name, token), "+RELEASED");
        }
        stage_send(fd, acquire(1, 99999, "in-flight", "")); /* Killed before it is read, perhaps. */
        stage_kill();
        (void)close(fd);
    }
    CHECK(highest > 100);
    stage_end();
}

TEST(sigterm_drains_waiters_are_told_and_the_socket_is_gone)
{
    stage_begin();
    stage_start();
    int holder = stage_connect();
    int waiter = stage_connect();
    opens(holder, 1, 60000, "");
    opens(waiter, 2, 60000, "");
    CHECK_EQ_U64(stage_granted(holder, acquire(1, 1, "x", "")), 1);
    stage_send(waiter, acquire(2, 2, "x", "WAIT 0"));
    CHECK(stage_is_quiet(waiter, 100));
    CHECK(kill(stage.pid, SIGTERM) == 0);
    stage_expect(waiter, "-UNAVAILABLE the daemon is ending; ask again");
    CHECK(stage_is_closed(waiter));
    CHECK_EQ_I64(stage_wait(), 0);
    CHECK(access(stage.socket, F_OK) != 0);
    CHECK_STR(stage_said(), "");
    stage_start();
    holder = stage_connect();
    stage_ask(holder, release(1, 1, "x", 1), "+RELEASED");
    stage_end();
}

/* The daemon stands still while they speak, so that it finds all of it at once. */
TEST(what_many_said_at_once_is_carried_out_whoever_hung_up_and_before_sigterm)
{
    enum { PEERS = 40 };
    int fds[PEERS];
    char name[20];

    stage_begin();
    stage_start();
    for (unsigned i = 0; i < PEERS; i++) {
        fds[i] = stage_connect();
        opens(fds[i], i, 60000, "");
    }
    CHECK(kill(stage.pid, SIGSTOP) == 0);
    for (unsigned i = 0; i < PEERS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        stage_send(fds[i], acquire(i, i, name, ""));
        if (i % 2 == 1) /* Every second one hangs up at once, */
            CHECK(close(fds[i]) == 0);
        else if (i % 4 == 0) /* and some say half of something more. */
            stage_send_bytes(fds[i], "PI", 2);
    }
    CHECK(kill(stage.pid, SIGTERM) == 0);
    CHECK(kill(stage.pid, SIGCONT) == 0);
    for (unsigned i = 0; i < PEERS; i += 2) {
        stage_expect(fds[i], "*3");
        stage_expect(fds[i], "$7");
        stage_expect(fds[i], "granted");
    }
    CHECK_EQ_I64(stage_wait(), 0);
    stage_start();
    int fd = stage_connect();
    for (unsigned i = 0; i < PEERS; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        CHECK_STR(state_of(fd, name), "held");
    }
    stage_end();
}

/* --- Waiting ---------------------------------------------------------------------------------- */

TEST(waiters_are_served_in_turn_and_only_one_is_woken)
{
    enum { WAITERS = 20 };
    int fds[WAITERS + 1];
    uint64_t token = 1;

    stage_begin();
    stage_start();
    for (unsigned i = 0; i <= WAITERS; i++) {
        fds[i] = stage_connect();
        opens(fds[i], i, 60000, "");
        stage_send(fds[i], acquire(i, i, "x", "WAIT 0"));
        if (i == 0)
            for (int line = 0; line < 6; line++)
                (void)stage_line(fds[i]);
        else
            CHECK(stage_is_quiet(fds[i], 10));
    }
    for (unsigned i = 0; i < WAITERS; i++) {
        stage_ask(fds[i], release(i, i, "x", token++), "+RELEASED");
        stage_expect(fds[i + 1], "*3");
        stage_expect(fds[i + 1], "$7");
        stage_expect(fds[i + 1], "granted");
        for (int line = 0; line < 3; line++)
            (void)stage_line(fds[i + 1]);
        for (unsigned other = i + 2; other <= WAITERS; other++)
            CHECK(stage_is_quiet(fds[other], 0));
    }
    stage_end();
}

TEST(a_waiter_that_leaves_gives_up_its_place)
{
    stage_begin();
    stage_start();
    int holder = stage_connect();
    int first = stage_connect();
    int second = stage_connect();
    opens(holder, 1, 60000, "");
    opens(first, 2, 60000, "");
    opens(second, 3, 60000, "");
    CHECK_EQ_U64(stage_granted(holder, acquire(1, 1, "x", "")), 1);
    stage_send(first, acquire(2, 2, "x", "WAIT 0"));
    CHECK(stage_is_quiet(first, 50));
    stage_send(second, acquire(3, 3, "x", "WAIT 0"));
    CHECK(stage_is_quiet(second, 50));
    (void)close(first);
    stage_ask(holder, release(1, 1, "x", 1), "+RELEASED");
    stage_expect(second, "*3");
    stage_end();
}

TEST(commands_behind_one_that_waits_are_done_when_it_is_over)
{
    stage_begin();
    stage_start();
    int holder = stage_connect();
    int waiter = stage_connect();
    opens(holder, 1, 60000, "");
    opens(waiter, 2, 60000, "");
    CHECK_EQ_U64(stage_granted(holder, acquire(1, 1, "x", "")), 1);
    stage_send(waiter, acquire(2, 2, "x", "WAIT 0"));
    stage_send(waiter, "PING");
    stage_send(waiter, "ECHO hi");
    CHECK(stage_is_quiet(waiter, 100));
    stage_ask(holder, release(1, 1, "x", 1), "+RELEASED");
    for (int line = 0; line < 6; line++)
        (void)stage_line(waiter);
    stage_expect(waiter, "+PONG");
    stage_expect(waiter, "$2");
    stage_expect(waiter, "hi");
    stage_end();
}

TEST(a_lease_passes_on_when_its_session_expires)
{
    stage_begin();
    stage_start();
    int holder = stage_connect();
    int waiter = stage_connect();
    opens(holder, 1, 1000, "");
    opens(waiter, 2, 60000, "");
    CHECK_EQ_U64(stage_granted(holder, acquire(1, 1, "x", "")), 1);
    int64_t from = stage_now_ms();
    stage_send(waiter, acquire(2, 2, "x", "WAIT 0"));
    stage_expect(waiter, "*3");
    CHECK(stage_now_ms() - from >= 900);
    CHECK(stage_now_ms() - from < 3000);
    stage_end();
}

TEST(who_waits_under_a_session_that_ends_is_told)
{
    stage_begin();
    stage_start();
    int holder = stage_connect();
    int waiter = stage_connect();
    opens(holder, 1, 60000, "");
    opens(waiter, 2, 1000, "");
    CHECK_EQ_U64(stage_granted(holder, acquire(1, 1, "x", "")), 1);
    stage_ask(waiter, acquire(2, 2, "x", "WAIT 0"), "-GONE the session is over; open a new one");
    stage_end();
}

/* --- Processes -------------------------------------------------------------------------------- */

/* A process that runs @commands and then sleeps until it is killed. */
static pid_t actor(unsigned session, const char *bind_command, const char *name)
{
    int done[2];
    char byte;

    CHECK(pipe(done) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = stage_connect();
        if (bind_command == NULL)
            opens(fd, session, 60000, "BIND");
        else
            stage_ask(fd, bind_command, "+OK");
        if (name != NULL && stage_granted(fd, acquire(session, session, name, "")) == 0)
            _exit(1);
        (void)!write(done[1], "x", 1);
        (void)close(fd); /* Not the connection counts, but the process. */
        for (;;)
            (void)pause();
    }
    (void)close(done[1]);
    CHECK(read(done[0], &byte, 1) == 1);
    (void)close(done[0]);
    return pid;
}

static void end_actor(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

TEST(the_leases_of_a_process_that_dies_pass_on_at_once)
{
    stage_begin();
    stage_start();
    int waiter = stage_connect();
    opens(waiter, 2, 60000, "");
    pid_t holder = actor(1, NULL, "x");
    stage_send(waiter, acquire(2, 2, "x", "WAIT 0"));
    CHECK(stage_is_quiet(waiter, 200));
    int64_t from = stage_now_ms();
    end_actor(holder);
    stage_expect(waiter, "*3");
    CHECK(stage_now_ms() - from < 1000); /* 20 ms are promised; the machine may be loaded. */
    stage_end();
}

TEST(a_session_lives_as_long_as_one_of_its_processes)
{
    char bind[80];

    stage_begin();
    stage_start();
    int watcher = stage_connect();
    pid_t supervisor = actor(1, NULL, "x");
    (void)snprintf(bind, sizeof bind, "SESSION BIND %s", secret_of(1));
    pid_t guardian = actor(1, bind, NULL);
    stage_send(watcher, "WATCH x");
    for (int line = 0; line < 6; line++)
        (void)stage_line(watcher);
    end_actor(supervisor);
    CHECK(stage_is_quiet(watcher, 300));
    end_actor(guardian);
    stage_expect(watcher, "*3");
    stage_expect(watcher, "$7");
    stage_expect(watcher, "message");
    stage_end();
}

TEST(without_bind_a_lease_outlives_its_process)
{
    stage_begin();
    stage_start();
    int fd = stage_connect();
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "x", "")), 1);
    (void)close(fd);
    fd = stage_connect();
    CHECK_STR(state_of(fd, "x"), "held");
    stage_end();
}

/* --- Pushes ----------------------------------------------------------------------------------- */

TEST(in_resp3_a_queued_acquire_and_a_revocation_are_pushed)
{
    char line[200];

    stage_begin();
    stage_start();
    int holder = stage_connect();
    int queued = stage_connect();
    opens(holder, 1, 60000, "");
    stage_send(queued, "HELLO 3");
    for (int i = 0; i < 27; i++)
        (void)stage_line(queued);
    (void)snprintf(line, sizeof line, "SESSION OPEN %s 60000", secret_of(2));
    stage_ask(queued, line, "%5");
    for (int i = 0; i < 16; i++)
        (void)stage_line(queued);
    CHECK_EQ_U64(stage_granted(holder, acquire(1, 1, "x", "")), 1);
    stage_ask(queued, acquire(2, 2, "x", "QUEUE"), "*4");
    for (int i = 0; i < 6; i++)
        (void)stage_line(queued);
    stage_ask(holder, release(1, 1, "x", 1), "+RELEASED");
    stage_expect(queued, ">4");
    stage_expect(queued, "$7");
    stage_expect(queued, "granted");
    for (int i = 0; i < 5; i++)
        (void)stage_line(queued);
    stage_ask(holder, "REVOKE x", "+OK");
    stage_expect(queued, ">4");
    stage_expect(queued, "$7");
    stage_expect(queued, "revoked");
    stage_end();
}

/* --- Hostile and slow peers ------------------------------------------------------------------- */

TEST(a_million_hostile_bytes_end_that_connection_only)
{
    struct tn_prng prng;
    char *noise = malloc(1000000);

    CHECK(noise != NULL);
    tn_prng_seed(&prng, 17);
    stage_begin();
    stage_start();
    int good = stage_connect();
    opens(good, 1, 60000, "");
    for (int round = 0; round < 10; round++) {
        int bad = stage_connect();
        for (size_t i = 0; i < 1000000; i++)
            noise[i] = (char)tn_prng_next(&prng);
        noise[0] = round % 2 == 0 ? '*' : 'x';
        for (size_t sent = 0; sent < 1000000;) {
            ssize_t n = send(bad, noise + sent, 1000000 - sent, MSG_NOSIGNAL);
            if (n <= 0)
                break;
            sent += (size_t)n;
        }
        CHECK(stage_is_closed(bad));
        (void)close(bad);
        stage_ask(good, "PING", "+PONG");
    }
    free(noise);
    stage_end();
}

TEST(many_commands_at_once_are_answered_in_order)
{
    char *bytes = malloc(400000);
    size_t len = 0;

    CHECK(bytes != NULL);
    stage_begin();
    stage_start();
    int fd = stage_connect();
    for (int i = 0; i < 10000; i++)
        len += (size_t)snprintf(bytes + len, 400000 - len, "ECHO %d\r\n", i);
    stage_send_bytes(fd, bytes, len);
    for (int i = 0; i < 10000; i++) {
        char expected[20];
        (void)snprintf(expected, sizeof expected, "%d", i);
        (void)stage_line(fd);
        stage_expect(fd, expected);
    }
    free(bytes);
    stage_end();
}

TEST(connections_beyond_the_limit_are_refused_with_a_line)
{
    int fds[40];
    int refused = 0;

    stage_begin();
    stage_start_with("--max-connections", "20");
    int holder = stage_connect();
    opens(holder, 1, 60000, "");
    for (int i = 0; i < 40; i++) {
        fds[i] = stage_connect();
        refused += !stage_is_quiet(fds[i], 5) &&
                   strncmp(stage_line(fds[i]), "-FULL too many connections", 26) == 0;
    }
    CHECK(refused >= 20);
    stage_ask(holder, "PING", "+PONG");
    for (int i = 0; i < 40; i++)
        (void)close(fds[i]);
    stage_end();
}

/* --- Disks ------------------------------------------------------------------------------------ */

enum { CROWD = 32 };

TEST(a_flush_that_fails_ends_the_daemon_before_it_answers)
{
    stage_begin();
    stage_preload(TN_FAILING_DISK);
    CHECK(setenv("TENURE_TEST_FLUSHES", "2", 1) == 0);
    stage_start();
    int fd = stage_connect();
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "x", "")), 1);
    stage_send(fd, acquire(1, 2, "y", ""));
    CHECK(stage_is_closed(fd));
    CHECK_EQ_I64(stage_wait(), 74);
    CHECK(strstr(stage_said(), "Input/output error") != NULL);
    stage_preload(NULL);
    stage_start();
    fd = stage_connect();
    CHECK_STR(state_of(fd, "x"), "held");
    stage_end();
}

/* On a slow disk the flush is made on another thread. Returns the highest token. */
static uint64_t crowd_acquires(int *fds, unsigned round)
{
    char name[32];
    uint64_t highest = 0;

    for (unsigned i = 0; i < CROWD; i++) {
        (void)snprintf(name, sizeof name, "crowd-%u-%u", round, i);
        stage_send(fds[i], acquire(i + 1, round * CROWD + i + 1, name, ""));
    }
    for (unsigned i = 0; i < CROWD; i++) {
        stage_expect(fds[i], "*3");
        stage_expect(fds[i], "$7");
        stage_expect(fds[i], "granted");
        uint64_t token = strtoull(stage_line(fds[i]) + 1, NULL, 10);
        (void)stage_line(fds[i]);
        (void)stage_line(fds[i]);
        highest = token > highest ? token : highest;
    }
    return highest;
}

static void slow_disk(int *fds, const char *flushes)
{
    stage_preload(TN_FAILING_DISK);
    CHECK(setenv("TENURE_TEST_FLUSHES", flushes, 1) == 0);
    CHECK(setenv("TENURE_TEST_FLUSH_MS", "30", 1) == 0);
    stage_start();
    for (unsigned i = 0; i < CROWD; i++) {
        fds[i] = stage_connect();
        opens(fds[i], i + 1, 60000, "");
    }
}

TEST(on_a_slow_disk_many_are_answered_and_nothing_of_it_is_lost)
{
    int fds[CROWD];

    stage_begin();
    slow_disk(fds, "100000");
    for (unsigned round = 0; round < 5; round++)
        CHECK_EQ_U64(crowd_acquires(fds, round), (round + 1) * CROWD);
    /* One who hangs up while the disk is busy is no harm to the others. */
    stage_send(fds[0], acquire(1, 999, "last", ""));
    for (unsigned i = 1; i < CROWD; i++)
        stage_send(fds[i], acquire(i + 1, 1000 + i, "last", ""));
    (void)close(fds[0]);
    for (unsigned i = 1; i < CROWD; i++)
        CHECK(stage_line(fds[i])[0] == '*');
    stage_kill();
    (void)unsetenv("TENURE_TEST_FLUSH_MS");
    stage_preload(NULL);
    stage_start();
    int fd = stage_connect();
    CHECK_STR(state_of(fd, "crowd-0-0"), "held");
    CHECK_STR(state_of(fd, "crowd-4-31"), "held");
    CHECK_STR(state_of(fd, "last"), "held");
    stage_end();
}

static bool closes_silently(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    char byte;

    return poll(&poller, 1, STAGE_PATIENCE_MS) > 0 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* Until the disk has begun its @count-th flush. */
static void await_flush(off_t count)
{
    int64_t end = stage_now_ms() + STAGE_PATIENCE_MS;
    struct stat st = { .st_size = 0 };

    while (st.st_size < count && stage_now_ms() < end)
        if (stat(getenv("TENURE_TEST_FLUSH_MARK"), &st) != 0)
            st.st_size = 0;
    CHECK(st.st_size >= count);
}

/* One flush succeeds while all others ask; the next one, for all of them, fails. */
TEST(on_a_slow_disk_that_fails_nobody_of_many_is_answered)
{
    int fds[CROWD];
    int answered = 0;
    char mark[100];
    char name[32];

    stage_begin();
    (void)snprintf(mark, sizeof mark, "%s/flushes", stage.root);
    CHECK(setenv("TENURE_TEST_FLUSH_MARK", mark, 1) == 0);
    slow_disk(fds, "33"); /* One for each session, and one more. */
    stage_send(fds[0], acquire(1, 1, "first", ""));
    await_flush(CROWD + 1);
    for (unsigned i = 1; i < CROWD; i++) {
        (void)snprintf(name, sizeof name, "other-%u", i);
        stage_send(fds[i], acquire(i + 1, 100 + i, name, ""));
    }
    stage_expect(fds[0], "*3");
    for (unsigned i = 1; i < CROWD; i++)
        answered += !closes_silently(fds[i]);
    CHECK_EQ_I64(answered, 0);
    CHECK_EQ_I64(stage_wait(), 74);
    (void)unsetenv("TENURE_TEST_FLUSH_MS");
    (void)unsetenv("TENURE_TEST_FLUSH_MARK");
    stage_preload(NULL);
    stage_end();
}

TEST(with_a_full_disk_holders_are_renewed_and_nothing_is_granted)
{
    char line[400];
    bool full = false;

    stage_begin();
    stage_file_limit(1 << 20);
    stage_start();
    int fd = stage_connect();
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "held", "")), 1);
    for (unsigned i = 0; i < 5000 && !full; i++) {
        (void)snprintf(line, sizeof line, "FENCE RAISE %0250u %u", 0, i + 1);
        stage_send(fd, line);
        full = strncmp(stage_line(fd), "-FULL", 5) == 0;
    }
    CHECK(full);
    (void)snprintf(line, sizeof line, "SESSION RENEW %s", secret_of(1));
    stage_ask(fd, line, "*5");
    for (int i = 0; i < 5; i++)
        (void)stage_line(fd);
    stage_send(fd, acquire(1, 2, "other", ""));
    CHECK(strncmp(stage_line(fd), "-FULL the daemon's disk is full", 31) == 0);
    stage_kill();
    stage_file_limit(0);
    stage_start();
    fd = stage_connect();
    CHECK_STR(state_of(fd, "held"), "held");
    stage_end();
}

TEST(an_older_copy_is_refused_until_it_is_accepted)
{
    const char *accept[] = { "--accept-older-data", NULL };
    char command[300];

    stage_begin();
    stage_start();
    int fd = stage_connect();
    opens(fd, 1, 60000, "");
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 1, "x", "")), 1);
    (void)snprintf(command, sizeof command, "cp -a %s %s.old", stage.data, stage.data);
    CHECK(system(command) == 0);
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 2, "y", "")), 2);
    stage_kill();
    (void)snprintf(command, sizeof command, "rm -rf %s && mv %s.old %s", stage.data, stage.data,
                   stage.data);
    CHECK(system(command) == 0);
    CHECK(!stage_try_start(NULL));
    CHECK_EQ_I64(stage_wait(), 69);
    CHECK(strstr(stage_said(), "--accept-older-data") != NULL);
    CHECK(stage_try_start(accept));
    fd = stage_connect();
    CHECK_EQ_U64(stage_granted(fd, acquire(1, 3, "z", "")), 3);
    stage_end();
}
