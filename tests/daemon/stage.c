/* stage.c - the stage of stage.h. */
#define _GNU_SOURCE
#include "tests/daemon/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct stage stage;
static const char *preload;
static uint64_t file_limit;

/* What has arrived and was not asked for yet, by descriptor. */
#define FDS_MAX 12000
static struct {
    char *bytes;
    size_t len, size;
} pending[FDS_MAX];

int64_t stage_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void stage_begin(void)
{
    stage_kill(); /* Left over from a test that failed. */
    stage_preload(NULL);
    stage_file_limit(0);
    (void)snprintf(stage.root, sizeof stage.root, "/tmp/tenured-test-......");
    memset(strchr(stage.root, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(stage.root) != NULL);
    (void)snprintf(stage.data, sizeof stage.data, "%s/data", stage.root);
    (void)snprintf(stage.socket, sizeof stage.socket, "%s/socket", stage.root);
    (void)snprintf(stage.errors, sizeof stage.errors, "%s/stderr", stage.root);
}

void stage_end(void)
{
    char command[128];

    stage_kill();
    stage_preload(NULL);
    stage_file_limit(0);
    (void)snprintf(command, sizeof command, "rm -rf %s", stage.root);
    CHECK(system(command) == 0);
}

void stage_preload(const char *library)
{
    preload = library;
}

void stage_file_limit(uint64_t bytes_max)
{
    file_limit = bytes_max;
}

_Noreturn static void become_daemon(int out, char *const *argv)
{
    int errors = open(stage.errors, O_WRONLY | O_CREAT | O_APPEND, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (file_limit > 0) {
        struct rlimit limit = { file_limit, file_limit };
        (void)setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (preload != NULL) {
        (void)setenv("LD_PRELOAD", preload, 1);
        (void)setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1); /* It may come second here. */
    }
    (void)dup2(out, 1);
    (void)dup2(errors, 2);
    (void)execv(TN_TENURED, argv);
    _exit(127);
}

static bool wait_ready(int fd)
{
    size_t len = 0;
    int64_t until = stage_now_ms() + STAGE_PATIENCE_MS;

    while (len == 0 || stage.ready[len - 1] != '\n') {
        struct pollfd poller = { .fd = fd, .events = POLLIN };
        CHECK(stage_now_ms() < until);
        if (poll(&poller, 1, 100) <= 0)
            continue;
        ssize_t n = read(fd, stage.ready + len, sizeof stage.ready - 1 - len);
        if (n <= 0)
            return false;
        len += (size_t)n;
    }
    stage.ready[len - 1] = 0;
    return true;
}

bool stage_try_start(const char *const *words)
{
    char listen[100];
    char *argv[16] = { (char *)(uintptr_t) "tenured", (char *)(uintptr_t) "--data", stage.data,
                       (char *)(uintptr_t) "--listen", listen };
    int count = 5;
    int out[2];

    (void)snprintf(listen, sizeof listen, "unix:%s", stage.socket);
    for (; words != NULL && *words != NULL; words++)
        argv[count++] = (char *)(uintptr_t)*words;
    CHECK(stage.pid == 0);
    CHECK(pipe2(out, O_CLOEXEC) == 0);
    (void)unlink(stage.errors);
    stage.pid = fork();
    CHECK(stage.pid >= 0);
    if (stage.pid == 0)
        become_daemon(out[1], argv);
    (void)close(out[1]);
    bool ready = wait_ready(out[0]);
    (void)close(out[0]);
    return ready;
}

void stage_start(void)
{
    stage_start_with(NULL, NULL);
}

void stage_start_with(const char *word, const char *value)
{
    const char *words[] = { word, value, NULL };
    bool ready = stage_try_start(words);
    CHECK_STR(ready ? "" : stage_said(), "");
}

int stage_wait(void)
{
    int64_t until = stage_now_ms() + STAGE_PATIENCE_MS;
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(stage.pid, &status, WNOHANG)) == 0) {
        CHECK(stage_now_ms() < until);
        (void)poll(NULL, 0, 5);
    }
    CHECK(ended == stage.pid);
    stage.pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void stage_kill(void)
{
    if (stage.pid == 0)
        return;
    (void)kill(stage.pid, SIGKILL);
    (void)stage_wait();
}

const char *stage_said(void)
{
    static char text[2000];
    int fd = open(stage.errors, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    return text;
}

/* --- Talking ---------------------------------------------------------------------------------- */

static int connected(int fd, const struct sockaddr *address, socklen_t len)
{
    CHECK(fd >= 0 && fd < FDS_MAX);
    CHECK(connect(fd, address, len) == 0);
    pending[fd].len = 0;
    return fd;
}

int stage_connect(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", stage.socket);
    return connected(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                     (const struct sockaddr *)&address, sizeof address);
}

int stage_connect_tcp(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                     (const struct sockaddr *)&address, sizeof address);
}

void stage_send_bytes(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        CHECK(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

void stage_send(int fd, const char *line)
{
    char bytes[4200];
    int len = snprintf(bytes, sizeof bytes, "%s\r\n", line);

    CHECK(len > 0 && (size_t)len < sizeof bytes);
    stage_send_bytes(fd, bytes, (size_t)len);
}

/* More bytes. Returns what read did; -2 when none came within @ms. */
static ssize_t receive(int fd, int ms)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };

    if (poll(&poller, 1, ms) <= 0)
        return -2;
    if (pending[fd].size - pending[fd].len < 4096) {
        pending[fd].size = pending[fd].size * 2 + 8192;
        pending[fd].bytes = realloc(pending[fd].bytes, pending[fd].size);
        CHECK(pending[fd].bytes != NULL);
    }
    ssize_t n = read(fd, pending[fd].bytes + pending[fd].len, pending[fd].size - pending[fd].len);
    if (n > 0)
        pending[fd].len += (size_t)n;
    return n;
}

const char *stage_line(int fd)
{
    static char line[4200];
    const char *end = NULL;

    while (end == NULL) {
        end = pending[fd].len > 0 ? memchr(pending[fd].bytes, '\n', pending[fd].len) : NULL;
        if (end == NULL && receive(fd, STAGE_PATIENCE_MS) <= 0)
            return "(nothing)";
    }
    size_t len = (size_t)(end - pending[fd].bytes);
    CHECK(len > 0 && len < sizeof line);
    memcpy(line, pending[fd].bytes, len);
    line[len - 1] = 0; /* The CR. */
    pending[fd].len -= len + 1;
    memmove(pending[fd].bytes, end + 1, pending[fd].len);
    return line;
}

bool stage_is_closed(int fd)
{
    ssize_t n;

    while ((n = receive(fd, STAGE_PATIENCE_MS)) > 0)
        pending[fd].len = 0;
    return n == 0 || n == -1;
}

bool stage_is_quiet(int fd, int ms)
{
    return pending[fd].len == 0 && receive(fd, ms) == -2;
}

void stage_expect(int fd, const char *line)
{
    CHECK_STR(stage_line(fd), line);
}

void stage_ask(int fd, const char *line, const char *reply)
{
    stage_send(fd, line);
    CHECK_STR(stage_line(fd), reply);
}

uint64_t stage_granted(int fd, const char *command)
{
    uint64_t token = 0;

    stage_send(fd, command);
    const char *line = stage_line(fd);
    if (line[0] != '*')
        return 0;
    bool granted = strcmp(line, "*3") == 0;
    (void)stage_line(fd);
    (void)stage_line(fd);
    (void)sscanf(stage_line(fd), ":%lu", &token);
    (void)stage_line(fd);
    (void)stage_line(fd);
    if (!granted)
        (void)stage_line(fd);
    return granted ? token : 0;
}
