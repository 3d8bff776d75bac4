/* load.c - loads tenured, Redis or the floor with the same work in the same way, and reports.
 *
 * usage: load TARGET WORK ADDRESS CONNECTIONS SECONDS
 *   TARGET   tenured, redis, floor
 *   WORK     acquire (a new name each time), renew, set (Redis: SET NX PX alone, without a token),
 *            handover (release to the next holder's knowledge, with two connections)
 *   ADDRESS  tcp:PORT on loopback, or unix:PATH
 *
 * One thread, epoll, one request outstanding per connection. Prints one line: requests a second,
 * and the median and the 99th percentile of the time for one in microseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire/resp.h"

#define CONNS_MAX 2048
#define SAMPLES_MAX (1 << 22)

/* What a lease is on Redis: the name if it is free, and a token that only grows. */
static const char acquire_script[] =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "
    "return redis.call('INCR', KEYS[2]) end return false";
static const char renew_script[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                                   "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

struct conn {
    int fd;
    unsigned number;
    uint64_t sent_at;
    char in[4096];
    size_t in_len;
    struct tn_resp_scan scan;
};

static struct conn *conns;
static uint32_t *samples;
static size_t sample_count;
static uint64_t serial;
static uint64_t run_id; /* So that names of two runs differ. */
static char acquire_sha[64], renew_sha[64];
static bool redis, floor_target;

static void fail(const char *what)
{
    (void)fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* --- Talking ---------------------------------------------------------------------------------- */

static int connect_to(const char *address)
{
    int one = 1;
    int fd;
    int rc;

    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", address + 5);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        rc = connect(fd, (struct sockaddr *)&un, sizeof un);
    } else {
        struct sockaddr_in in = { .sin_family = AF_INET };
        in.sin_port = htons((uint16_t)strtol(address + 4, NULL, 10));
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        rc = connect(fd, (struct sockaddr *)&in, sizeof in);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    if (rc != 0)
        fail(address);
    return fd;
}

/* A command of @count words. */
static void send_words(struct conn *conn, const char *const *words, unsigned count)
{
    char buf[2048];
    struct tn_resp_out out = { .buf = buf, .size = sizeof buf };

    tn_resp_put_array(&out, count);
    for (unsigned i = 0; i < count; i++)
        tn_resp_put_text(&out, words[i]);
    conn->sent_at = now_ns();
    if (out.full || write(conn->fd, buf, out.len) != (ssize_t)out.len)
        fail("write");
}

/* Read; returns the length of a whole reply at the start of conn->in, or 0. */
static size_t receive(struct conn *conn)
{
    ssize_t n = read(conn->fd, conn->in + conn->in_len, sizeof conn->in - conn->in_len);

    if (n <= 0)
        fail("read");
    conn->in_len += (size_t)n;
    int64_t len = tn_resp_scan(&conn->scan, sizeof conn->in, 64, conn->in, conn->in_len);
    if (len < 0 || (len > 0 && conn->in[0] == '-')) {
        (void)fprintf(stderr, "load: %.*s", (int)conn->in_len, conn->in);
        exit(1);
    }
    return (size_t)len;
}

static void consume(struct conn *conn, size_t len)
{
    conn->in_len -= len;
    memmove(conn->in, conn->in + len, conn->in_len);
}

/* Send and wait for the reply, which stays in conn->in until the next. */
static void ask(struct conn *conn, const char *const *words, unsigned count)
{
    size_t len;

    send_words(conn, words, count);
    while ((len = receive(conn)) == 0)
        ;
    conn->in[len < sizeof conn->in ? len : len - 1] = 0;
    conn->in_len = 0;
}

/* --- Work ------------------------------------------------------------------------------------- */

static const char *secret_of(const struct conn *conn)
{
    static char text[40];

    (void)snprintf(text, sizeof text, "%016llx%016x", (unsigned long long)run_id, conn->number + 1);
    return text;
}

static void load_script(struct conn *conn, const char *script, char *ret_sha)
{
    ask(conn, (const char *[]) { "SCRIPT", "LOAD", script }, 3);
    (void)sscanf(conn->in, "$40 %40s", ret_sha);
}

/* An acquire of @name with a secret of its own. */
static void send_acquire(struct conn *conn, const char *name)
{
    char term[40];

    (void)snprintf(term, sizeof term, "%016llx%016llx", (unsigned long long)run_id,
                   (unsigned long long)++serial);
    if (redis)
        send_words(conn,
                   (const char *[]) { "EVALSHA", acquire_sha, "2", name, "token", term, "600000" },
                   7);
    else
        send_words(conn, (const char *[]) { "LEASE", "ACQUIRE", secret_of(conn), term, name }, 5);
}

static void work_acquire(struct conn *conn)
{
    char name[40];

    (void)snprintf(name, sizeof name, "n%llx-%llu", (unsigned long long)run_id & 0xffff,
                   (unsigned long long)++serial);
    send_acquire(conn, name);
}

static void work_set(struct conn *conn)
{
    char name[40];

    (void)snprintf(name, sizeof name, "n%llx-%llu", (unsigned long long)run_id & 0xffff,
                   (unsigned long long)++serial);
    send_words(conn, (const char *[]) { "SET", name, secret_of(conn), "NX", "PX", "600000" }, 6);
}

static const char *own_name(const struct conn *conn)
{
    static char name[40];

    (void)snprintf(name, sizeof name, "own-%llx-%u", (unsigned long long)run_id, conn->number);
    return name;
}

static void work_renew(struct conn *conn)
{
    if (redis)
        send_words(conn,
                   (const char *[]) { "EVALSHA", renew_sha, "1", own_name(conn), secret_of(conn),
                                      "600000" },
                   6);
    else
        send_words(conn, (const char *[]) { "SESSION", "RENEW", secret_of(conn) }, 3);
}

/* Sessions, scripts, and for renewals something to renew. */
static void prepare(struct conn *conn)
{
    if (floor_target)
        return;
    if (redis) {
        load_script(conn, acquire_script, acquire_sha);
        load_script(conn, renew_script, renew_sha);
        ask(conn, (const char *[]) { "SET", own_name(conn), secret_of(conn), "PX", "600000" }, 5);
    } else {
        ask(conn, (const char *[]) { "SESSION", "OPEN", secret_of(conn), "600000" }, 4);
        ask(conn,
            (const char *[]) { "LEASE", "ACQUIRE", secret_of(conn), secret_of(conn),
                               own_name(conn) },
            5);
    }
}

/* --- Load ------------------------------------------------------------------------------------- */

static void note(uint64_t ns)
{
    if (sample_count < SAMPLES_MAX)
        samples[sample_count++] = (uint32_t)(ns / 100);
}

static int by_size(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void report(uint64_t done, double seconds)
{
    qsort(samples, sample_count, sizeof samples[0], by_size);
    (void)printf("%.0f %.1f %.1f\n", (double)done / seconds, samples[sample_count / 2] / 10.0,
                 samples[sample_count * 99 / 100] / 10.0);
}

static void run_load(void (*work)(struct conn *conn), unsigned count, double seconds)
{
    static struct epoll_event events[CONNS_MAX];
    int poller = epoll_create1(0);
    uint64_t done = 0;

    for (unsigned i = 0; i < count; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &conns[i] };
        (void)epoll_ctl(poller, EPOLL_CTL_ADD, conns[i].fd, &event);
    }
    uint64_t from = now_ns();
    uint64_t until = from + (uint64_t)(seconds * 1e9);
    for (unsigned i = 0; i < count; i++)
        work(&conns[i]);
    while (now_ns() < until) {
        int n = epoll_wait(poller, events, CONNS_MAX, 1000);
        for (int i = 0; i < n; i++) {
            struct conn *conn = events[i].data.ptr;
            size_t len = receive(conn);
            if (len == 0)
                continue;
            consume(conn, len);
            note(now_ns() - conn->sent_at);
            done++;
            work(conn);
        }
    }
    report(done, (double)(now_ns() - from) / 1e9);
}

/* --- Hand-over -------------------------------------------------------------------------------- */

static bool is_readable(int fd, int ms)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    return poll(&poller, 1, ms) > 0;
}

static uint64_t token_in(const char *reply)
{
    const char *colon = strchr(reply, ':');
    return colon != NULL ? strtoull(colon + 1, NULL, 10) : 0;
}

/* The waiter waits; the holder releases; how long until the waiter knows that it holds. On Redis
 * the release deletes the key and pushes to a list on which the waiter blocks, and the waiter then
 * acquires: without polling there is no shorter way. */
static void hand_over(struct conn *holder, struct conn *waiter, const char *name)
{
    static const char release_script[] =
        "redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[2], '1')";
    static char release_sha[64];
    char token[24];
    char term[40];

    if (redis) {
        if (release_sha[0] == 0)
            load_script(holder, release_script, release_sha);
        send_words(waiter, (const char *[]) { "BLPOP", "bell", "0" }, 3);
        (void)is_readable(waiter->fd, 2);
        uint64_t from = now_ns();
        send_words(holder, (const char *[]) { "EVALSHA", release_sha, "2", name, "bell" }, 5);
        while (receive(waiter) == 0)
            ;
        waiter->in_len = 0;
        send_acquire(waiter, name);
        while (receive(waiter) == 0)
            ;
        waiter->in_len = 0;
        note(now_ns() - from);
        while (receive(holder) == 0)
            ;
        holder->in_len = 0;
        return;
    }
    (void)snprintf(term, sizeof term, "%016llx%016llx", (unsigned long long)run_id,
                   (unsigned long long)serial);
    (void)snprintf(token, sizeof token, "%llu", (unsigned long long)token_in(holder->in));
    char next[40];
    (void)snprintf(next, sizeof next, "%016llx%016llx", (unsigned long long)run_id,
                   (unsigned long long)++serial);
    send_words(waiter,
               (const char *[]) { "LEASE", "ACQUIRE", secret_of(waiter), next, name, "WAIT", "0" },
               7);
    (void)is_readable(waiter->fd, 2);
    uint64_t from = now_ns();
    send_words(holder,
               (const char *[]) { "LEASE", "RELEASE", secret_of(holder), term, name, token }, 6);
    while (receive(waiter) == 0)
        ;
    waiter->in_len = 0;
    note(now_ns() - from);
    while (receive(holder) == 0)
        ;
    holder->in_len = 0;
}

static void run_hand_over(double seconds)
{
    struct conn *holder = &conns[0];
    struct conn *waiter = &conns[1];
    char name[40];
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
    uint64_t done = 0;

    (void)snprintf(name, sizeof name, "hand-over-%llx", (unsigned long long)run_id);
    send_acquire(holder, name);
    while (receive(holder) == 0)
        ;
    holder->in_len = 0;
    while (now_ns() < until) {
        hand_over(holder, waiter, name);
        struct conn *swap = holder;
        holder = waiter;
        waiter = swap;
        done++;
    }
    report(done, seconds);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        (void)fprintf(stderr, "usage: load TARGET WORK ADDRESS CONNECTIONS SECONDS\n");
        return 64;
    }
    unsigned count = (unsigned)strtoul(argv[4], NULL, 10);
    redis = strcmp(argv[1], "redis") == 0;
    floor_target = strcmp(argv[1], "floor") == 0;
    run_id = now_ns();
    conns = calloc(count, sizeof *conns);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (count == 0 || count > CONNS_MAX || conns == NULL || samples == NULL)
        return 64;
    for (unsigned i = 0; i < count; i++) {
        conns[i].number = i;
        conns[i].fd = connect_to(argv[3]);
        prepare(&conns[i]);
    }
    if (strcmp(argv[2], "handover") == 0)
        run_hand_over(strtod(argv[5], NULL));
    else if (strcmp(argv[2], "renew") == 0)
        run_load(work_renew, count, strtod(argv[5], NULL));
    else
        run_load(strcmp(argv[2], "set") == 0 ? work_set : work_acquire, count,
                 strtod(argv[5], NULL));
    return 0;
}
