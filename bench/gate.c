/* gate.c - how many requests a second `tenure gate` takes on one core: 40,000 are promised.
 *
 * usage: gate TENURE [SECONDS]
 *
 * A server that only answers, the gate, and 64 connections that each send a POST with a token as
 * soon as the one before was answered; in turns to the gate's own endpoint for nginx and through it
 * to the server, five times each. All share the machine, so what counts is the gate's own time on a
 * core: requests a second of its CPU time, system calls included. It has one thread, so that is
 * what it does on a core of its own. Prints the medians; exit status 1 when one is too low. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 64, ROUNDS = 5, PROMISED = 40000, EVENTS = 64 };

static const char reply[] =
    "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nServer: bench\r\n\r\ndone\n";

static void demand(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "bench/gate: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct sockaddr_in local(unsigned port)
{
    return (struct sockaddr_in) { .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port) };
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    demand(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
}

/* --- The server: every read is a request --------------------------------------------------- */

static _Noreturn void serve(int listener)
{
    struct epoll_event events[EVENTS];
    char in[4096];
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    watch(epoll, listener);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;

            if (fd == listener)
                watch(epoll, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
            else if (read(fd, in, sizeof in) <= 0 ||
                     write(fd, reply, sizeof reply - 1) != (ssize_t)sizeof reply - 1)
                (void)close(fd);
        }
    }
}

static pid_t start_server(unsigned *ret_port)
{
    struct sockaddr_in address = local(0);
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    demand(listener >= 0 && bind(listener, (struct sockaddr *)&address, len) == 0 &&
               listen(listener, CONNECTIONS) == 0 &&
               getsockname(listener, (struct sockaddr *)&address, &len) == 0,
           "a server");
    *ret_port = ntohs(address.sin_port);
    pid_t child = fork();
    if (child == 0)
        serve(listener);
    (void)close(listener);
    return child;
}

static pid_t start_gate(const char *tenure, const char *fences, unsigned server, unsigned *ret_port)
{
    char url[64], line[128] = "";
    int out[2];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", server);
    demand(pipe(out) == 0, "a pipe");
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execl(tenure, tenure, "gate", "--upstream", url, "--fences", fences, "--listen",
                    "127.0.0.1:0", (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    demand(read(out[0], line, sizeof line - 1) > 0, "the gate");
    (void)close(out[0]);
    const char *digits = strpbrk(line, "0123456789");
    *ret_port = digits != NULL ? (unsigned)strtoul(digits, NULL, 10) : 0;
    return child;
}

/* --- The load ------------------------------------------------------------------------------- */

static double cpu_s(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    demand(clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0,
           "the gate's CPU time");
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

struct load {
    int epoll;
    int fds[CONNECTIONS];
};

static void connect_all(struct load *load, unsigned port)
{
    struct sockaddr_in address = local(port);

    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CONNECTIONS; i++) {
        load->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        demand(connect(load->fds[i], (struct sockaddr *)&address, sizeof address) == 0, "connect");
        watch(load->epoll, load->fds[i]);
    }
}

/* Answers in @seconds; each is one read, as they are short. */
static uint64_t run(const struct load *load, const char *path, const char *expected, double seconds)
{
    struct epoll_event events[EVENTS];
    char request[256], in[4096];
    uint64_t answers = 0;
    int open = CONNECTIONS;
    int len = snprintf(request, sizeof request,
                       "POST %s HTTP/1.1\r\nHost: gate\r\nFence-Token: 34\r\n"
                       "X-Original-URI: /t\r\nContent-Length: 5\r\n\r\nhello",
                       path);

    for (int i = 0; i < CONNECTIONS; i++)
        demand(write(load->fds[i], request, (size_t)len) == len, "write");
    for (double end = now_s() + seconds; open > 0;) {
        int count = epoll_wait(load->epoll, events, EVENTS, 1000);
        bool more = now_s() < end;

        demand(count > 0, "no answer");
        for (int i = 0; i < count; i++) {
            ssize_t got = read(events[i].data.fd, in, sizeof in - 1);
            demand(got > 0 && strncmp(in, expected, strlen(expected)) == 0, "a wrong answer");
            answers++;
            if (more)
                demand(write(events[i].data.fd, request, (size_t)len) == len, "write");
            else
                open--;
        }
    }
    return answers;
}

static int compare(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;

    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *path, *expected, *what;
    } kinds[] = {
        { "/.tenure/auth", "HTTP/1.1 200 ", "asked by nginx" },
        { "/t/1", "HTTP/1.1 201 ", "through it to a server" },
    };
    char fences[64];
    unsigned server_port, port;
    struct load load;
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 1;
    double per_cpu[2][ROUNDS], per_second[2][ROUNDS];
    int status = EXIT_SUCCESS;

    if (argc < 2)
        return 64;
    (void)snprintf(fences, sizeof fences, "/tmp/tn-bench-gate-%d.db", (int)getpid());
    pid_t server = start_server(&server_port);
    pid_t gate = start_gate(argv[1], fences, server_port, &port);
    connect_all(&load, port);
    for (int round = 0; round < ROUNDS; round++) {
        for (int kind = 0; kind < 2; kind++) {
            double began = now_s(), cpu = cpu_s(gate);
            double answers = (double)run(&load, kinds[kind].path, kinds[kind].expected, seconds);
            per_second[kind][round] = answers / (now_s() - began);
            per_cpu[kind][round] = answers / (cpu_s(gate) - cpu);
        }
    }
    (void)kill(gate, SIGTERM);
    (void)kill(server, SIGTERM);
    (void)waitpid(gate, NULL, 0);
    (void)unlink(fences);
    for (int kind = 0; kind < 2; kind++) {
        qsort(per_cpu[kind], ROUNDS, sizeof(double), compare);
        qsort(per_second[kind], ROUNDS, sizeof(double), compare);
        double median = per_cpu[kind][ROUNDS / 2];
        printf("gate, %s: %.0f requests per second of its CPU (%.0f a second here), promised "
               "%d\n",
               kinds[kind].what, median, per_second[kind][ROUNDS / 2], PROMISED);
        if (median < PROMISED)
            status = EXIT_FAILURE;
    }
    return status;
}
