/* load.c - loads a lease server and reports; load.h says how.
 *
 * usage: load SERVER WORK ADDRESS [CONNECTIONS] [SECONDS|COUNT]
 *   SERVER   tenured, redis, floor, etcd, zookeeper, postgres
 *   WORK     acquire   a new name each time: RATE P50 P99, in requests a second and microseconds
 *            renew     the connection's own lease: the same
 *            fill      COUNT acquires, spread over the connections: the same
 *            handover  release to the next holder's knowledge, with two connections: the same
 *            failover  the holder, with a TTL of 5 s, is killed: milliseconds until the next knows
 *            ready     until the server answers, at most a minute: milliseconds
 *   ADDRESS  tcp:PORT on loopback, or unix:PATH
 *
 * One thread, epoll, one request outstanding per connection. Leases last an hour. What the client
 * needs is taken from the servers, on a small machine, so it takes care to need little: requests
 * are sent several at a time (bulk.h), and what it touches lies in large pages. */
#define _GNU_SOURCE
#include "bench/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/bulk.h"

#define CONNS_MAX 2048
#define SAMPLES_MAX (1 << 22)
#define TTL_MS 3600000
#define CRASH_TTL_MS 5000
/* Who waits has waited for longer than etcd takes to begin to tell a watcher. */
#define SETTLE_MS 120
#define POLL_MS 100
/* So many answers are looked at before their next requests go out together. */
#define TOGETHER 16
#define LARGE_PAGE (2u << 20)

static struct conn *conns;
static struct tn_bulk bulk;
static uint32_t *samples; /* In units of 100 ns. */
static size_t sample_count;
static uint64_t serial, run_id;

void load_fail(const char *what, const char *detail, size_t len)
{
    (void)fprintf(stderr, "load: %s: %.*s\n", what, (int)len, detail);
    exit(1);
}

static void fail_errno(const char *what)
{
    const char *why = strerror(errno);
    load_fail(what, why, strlen(why));
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static char *put_hex(char *to, uint64_t number, int digits)
{
    for (int i = digits; i-- > 0;)
        *to++ = "0123456789abcdef"[number >> (4 * i) & 15];
    *to = 0;
    return to;
}

void load_secret(char ret_text[33])
{
    put_hex(put_hex(ret_text, run_id, 16), ++serial, 16);
}

/* A name that is new in every run. */
static void new_name(char *ret_name)
{
    *ret_name = 'n';
    put_hex(put_hex(ret_name + 1, run_id & 0xffff, 4), ++serial, 7);
}

/* --- Connections ------------------------------------------------------------------------------ */

/* Returns a socket, or -1. */
static int connect_to(const char *address)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct sockaddr_in in = { .sin_family = AF_INET };
    bool local = strncmp(address, "unix:", 5) == 0;
    int one = 1;
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || (!local && strncmp(address, "tcp:", 4) != 0))
        load_fail("no such address", address, strlen(address));
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", address + 5);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons((uint16_t)strtol(address + 4, NULL, 10));
    if (connect(fd, local ? (struct sockaddr *)&un : (struct sockaddr *)&in,
                local ? sizeof un : sizeof in) != 0) {
        (void)close(fd);
        return -1;
    }
    if (!local)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void flush_out(struct conn *conn)
{
    size_t at = 0;

    while (at < conn->out_len) {
        ssize_t n = write(conn->fd, conn->out + at, conn->out_len - at);
        if (n < 0)
            fail_errno("write");
        at += (size_t)n;
    }
    conn->out_len = 0;
}

/* Put the first request into the buffer. */
static void prepare(struct conn *conn, enum op op, const char *name)
{
    conn->op = op;
    conn->stage = 0;
    if (op == OP_ACQUIRE || op == OP_LEAD || op == OP_WAIT)
        load_secret(conn->term);
    if (name != NULL)
        memcpy(conn->name, name, strlen(name) + 1);
    conn->protocol->begin(conn);
    conn->sent_at = now_ns();
}

static void begin(struct conn *conn, enum op op, const char *name)
{
    prepare(conn, op, name);
    flush_out(conn);
}

/* Read what is there. Returns whether the operation is over. */
static bool receive(struct conn *conn)
{
    ssize_t n = recv(conn->fd, conn->in + conn->in_len, sizeof conn->in - conn->in_len, 0);

    if (n <= 0)
        fail_errno(n == 0 ? "the server hung up" : "read");
    conn->in_len += (size_t)n;
    bool over = conn->protocol->arrived(conn);
    flush_out(conn);
    return over;
}

static void finish(struct conn *conn)
{
    while (!receive(conn))
        ;
}

static void carry_out(struct conn *conn, enum op op, const char *name)
{
    begin(conn, op, name);
    finish(conn);
}

static void open_conn(struct conn *conn, const struct protocol *protocol, const char *address,
                      unsigned number, unsigned ttl_ms)
{
    *conn = (struct conn) { .protocol = protocol, .number = number, .ttl_ms = ttl_ms };
    conn->local = address[0] == 'u';
    conn->fd = connect_to(address);
    if (conn->fd < 0)
        fail_errno(address);
    load_secret(conn->session);
    new_name(conn->name);
    carry_out(conn, OP_OPEN, NULL);
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

static void report(uint64_t done, uint64_t ns)
{
    qsort(samples, sample_count, sizeof samples[0], by_size);
    (void)printf("%.0f %.1f %.1f\n", (double)done / ((double)ns / 1e9),
                 samples[sample_count / 2] / 10.0, samples[sample_count * 99 / 100] / 10.0);
}

static void send_together(void)
{
    tn_bulk_go(&bulk);
    for (uint32_t i = 0; i < bulk.count; i++) {
        struct conn *conn = bulk.list[i].arg;
        if (bulk.list[i].result != (ssize_t)conn->out_len)
            load_fail("send", "the server does not take a request", 34);
        conn->out_len = 0;
    }
    bulk.count = 0;
}

static void next(struct conn *conn, enum op op)
{
    char name[24];

    new_name(name);
    prepare(conn, op, op == OP_ACQUIRE ? name : NULL);
    tn_bulk_send(&bulk, conn, conn->fd, conn->out, conn->out_len);
    if (bulk.count == TOGETHER)
        send_together();
}

/* Until @count operations are over, or for @ns. */
static void run_load(enum op op, unsigned count, uint64_t ns, uint64_t wanted)
{
    static struct epoll_event events[CONNS_MAX];
    int poller = epoll_create1(EPOLL_CLOEXEC);
    uint64_t done = 0;

    for (unsigned i = 0; i < count; i++) {
        /* An edge will do: whatever is there is read at once, and fits. */
        struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = &conns[i] };
        (void)epoll_ctl(poller, EPOLL_CTL_ADD, conns[i].fd, &event);
    }
    uint64_t from = now_ns();
    uint64_t now = from;
    for (unsigned i = 0; i < count; i++)
        next(&conns[i], op);
    send_together();
    while (now < from + ns && done < wanted) {
        int n = epoll_wait(poller, events, CONNS_MAX, 1000);
        for (int i = 0; i < n && done < wanted; i++) {
            struct conn *conn = events[i].data.ptr;
            if (!receive(conn))
                continue;
            note(now_ns() - conn->sent_at);
            done++;
            next(conn, op);
        }
        send_together();
        now = now_ns();
    }
    report(done, now - from);
}

/* --- From one holder to the next -------------------------------------------------------------- */

static void let(int ms)
{
    (void)poll(NULL, 0, ms);
}

static void run_hand_over(const char *name, uint64_t ns)
{
    struct conn *holder = &conns[0];
    struct conn *waiter = &conns[1];
    uint64_t from = now_ns();
    uint64_t done = 0;

    carry_out(holder, OP_LEAD, name);
    while (now_ns() < from + ns) {
        begin(waiter, OP_WAIT, name);
        /* What the server says to that is taken note of before the clock runs. */
        for (uint64_t end = now_ns() + SETTLE_MS * 1000000ull; now_ns() < end;) {
            struct pollfd poller = { .fd = waiter->fd, .events = POLLIN };
            if (poll(&poller, 1, SETTLE_MS) > 0 && receive(waiter))
                load_fail("granted before the release", "", 0);
        }
        uint64_t released = now_ns();
        begin(holder, OP_RELEASE, name);
        finish(waiter);
        note(now_ns() - released);
        finish(holder);
        struct conn *swap = holder;
        holder = waiter;
        waiter = swap;
        done++;
    }
    report(done, now_ns() - from);
}

/* Holds and renews until it is killed; says when it holds. */
_Noreturn static void be_holder(const struct protocol *protocol, const char *address,
                                const char *name, int out)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    serial += UINT64_C(1) << 32; /* Its secrets are not its parent's. */
    open_conn(&conns[0], protocol, address, 0, CRASH_TTL_MS);
    carry_out(&conns[0], OP_LEAD, name);
    if (write(out, "h", 1) != 1)
        exit(1);
    for (;;) {
        let(CRASH_TTL_MS / 3);
        carry_out(&conns[0], OP_RENEW, NULL);
    }
}

static void run_failover(const struct protocol *protocol, const char *address, const char *name)
{
    int up[2];
    char word;

    if (pipe(up) != 0)
        fail_errno("pipe");
    pid_t holder = fork();
    if (holder == 0)
        be_holder(protocol, address, name, up[1]);
    if (holder < 0 || read(up[0], &word, 1) != 1)
        load_fail("the holder", "does not hold", 13);
    open_conn(&conns[1], protocol, address, 1, TTL_MS);
    if (!protocol->polls)
        begin(&conns[1], OP_WAIT, name);
    let(CRASH_TTL_MS / 2); /* Half way between two renewals. */
    uint64_t killed = now_ns();
    (void)kill(holder, SIGKILL);
    if (!protocol->polls)
        finish(&conns[1]);
    while (protocol->polls) {
        carry_out(&conns[1], OP_ACQUIRE, name);
        if (conns[1].granted)
            break;
        let(POLL_MS);
    }
    (void)printf("%.1f\n", (double)(now_ns() - killed) / 1e6);
    (void)waitpid(holder, NULL, 0);
}

/* --- Beginning -------------------------------------------------------------------------------- */

/* A child does the asking: a server that is just starting may refuse at any point of it. */
static void run_ready(const struct protocol *protocol, const char *address)
{
    /* A server that does not listen to those who come too early is asked again soon. */
    const struct itimerval patience = { .it_value = { .tv_usec = 250000 } };
    uint64_t from = now_ns();

    for (int status = 1; status != 0; let(5)) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)!freopen("/dev/null", "w", stderr);
            (void)setitimer(ITIMER_REAL, &patience, NULL);
            open_conn(&conns[0], protocol, address, 0, TTL_MS);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || now_ns() - from > 60000000000)
            load_fail(protocol->name, "does not answer", 15);
    }
    (void)printf("%.1f\n", (double)(now_ns() - from) / 1e6);
}

static const struct protocol *find_protocol(const char *name)
{
    static const struct protocol *const protocols[] = {
        &tenured_protocol,   &redis_protocol,    &floor_protocol,
        &zookeeper_protocol, &postgres_protocol,
#ifdef TENURE_ETCD
        &etcd_protocol,
#endif
    };

    for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++)
        if (strcmp(protocols[i]->name, name) == 0)
            return protocols[i];
    load_fail("no such server", name, strlen(name));
}

static struct conn *make_conns(unsigned count)
{
    size_t size = (count * sizeof(struct conn) / LARGE_PAGE + 1) * LARGE_PAGE;
    struct conn *made = aligned_alloc(LARGE_PAGE, size);

    if (made == NULL)
        load_fail("no memory", "", 0);
    (void)madvise(made, size, MADV_HUGEPAGE);
    memset(made, 0, size);
    return made;
}

int main(int argc, char **argv)
{
    const struct protocol *protocol = argc > 3 ? find_protocol(argv[1]) : NULL;
    const char *work = argc > 3 ? argv[2] : "";
    unsigned count = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 2;
    double amount = argc > 5 ? strtod(argv[5], NULL) : 1;
    uint64_t ns = (uint64_t)(amount * 1e9);
    char name[24];

    if (protocol == NULL || argc > 6 || count == 0 || count > CONNS_MAX || amount <= 0) {
        (void)fprintf(stderr, "usage: load SERVER WORK ADDRESS [CONNECTIONS] [SECONDS|COUNT]\n");
        return 64;
    }
    run_id = now_ns() ^ (uint64_t)getpid() << 40;
    (void)signal(SIGPIPE, SIG_IGN);
    conns = make_conns(count < 2 ? 2 : count);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (samples == NULL)
        load_fail("no memory", "", 0);
    tn_bulk_open(&bulk);
    new_name(name);
    if (strcmp(work, "failover") == 0) {
        run_failover(protocol, argv[3], name);
    } else if (strcmp(work, "ready") == 0) {
        run_ready(protocol, argv[3]);
    } else {
        for (unsigned i = 0; i < count; i++)
            open_conn(&conns[i], protocol, argv[3], i, TTL_MS);
        if (strcmp(work, "handover") == 0 && count == 2)
            run_hand_over(name, ns);
        else if (strcmp(work, "fill") == 0)
            run_load(OP_ACQUIRE, count, UINT64_MAX / 2, (uint64_t)amount);
        else if (strcmp(work, "renew") == 0 || strcmp(work, "acquire") == 0)
            run_load(work[0] == 'r' ? OP_RENEW : OP_ACQUIRE, count, ns, UINT64_MAX);
        else
            load_fail("no such work", work, strlen(work));
    }
    return 0;
}
