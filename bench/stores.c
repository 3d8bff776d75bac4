/* stores.c - measure a store with real processes: how fast a lease changes hands among many who
 * wait, what waiting costs, and how long many acquires take.
 *
 * usage: stores URL wake PROCESSES ROUNDS     release to granted() in the successor
 *        stores URL idle PROCESSES SECONDS    processor time of those who wait, as % of one core
 *        stores URL batch NAMES               that many acquires of one session, asked at once
 *
 * Each process renews as a candidate with a TTL of 15 s does and watches the name. In `wake` the
 * holder is told to release through a pipe; both ends of the interval are read from CLOCK_BOOTTIME,
 * which the processes share. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/time.h"
#include "runtime/random.h"
#include "stores/registry.h"

enum { PROCESSES_MAX = 1000 };

#define TTL TN_SEC(15)
#define RENEW_MS 5000
#define PAUSE TN_MS(400)

enum word { READY, RELEASING, GRANTED };

/* What a process tells. */
struct report {
    enum word word;
    int who;
    tenure_ns at;
};

static const char name[] = "bench/job";

/* One process. */
static struct {
    int who;
    int in, out;
    uv_loop_t loop;
    uv_poll_t ear;
    uv_timer_t timer;
    struct tn_clock clock;
    struct tn_store *store;
    struct tn_secret session, term;
    struct tn_store_req open, renew, acquire, release;
    uint64_t seq;
    uint64_t token;
    size_t left;
} self;

static void tell(enum word word, tenure_ns at)
{
    struct report report = { word, self.who, at };

    ssize_t len = write(self.out, &report, sizeof report);
    TN_ASSERT(len == (ssize_t)sizeof report);
}

static void check(const struct tn_store_req *req)
{
    if (req->status == 0)
        return;
    (void)fprintf(stderr, "stores: process %d: %s\n", self.who, req->error);
    exit(1);
}

static void submit_for(struct tn_store_req *req, enum tn_op_kind kind, const char *lease,
                       void (*done)(struct tn_store_req *))
{
    memset(req, 0, sizeof *req);
    req->op = (struct tn_op) { .kind = kind, .session = self.session, .term = self.term };
    if (kind == TN_OP_OPEN || kind == TN_OP_RENEW)
        req->op.seq = ++self.seq;
    if (kind == TN_OP_OPEN)
        req->op.ttl = TTL;
    if (kind == TN_OP_ACQUIRE || kind == TN_OP_RELEASE) {
        req->op.name = lease;
        req->op.name_len = (uint32_t)strlen(lease);
    }
    req->op.wait = true;
    req->op.token = kind == TN_OP_RELEASE ? self.token : 0;
    req->done = done;
    tn_store_submit(self.store, req);
}

static void submit(struct tn_store_req *req, enum tn_op_kind kind,
                   void (*done)(struct tn_store_req *))
{
    submit_for(req, kind, name, done);
}

static void acquired(struct tn_store_req *req)
{
    check(req);
    if (req->answer == TN_ANSWER_GRANTED) {
        self.token = req->record.token;
        tell(GRANTED, tn_boottime());
    } else {
        tell(READY, tn_boottime());
    }
}

static void campaign(void)
{
    int rc = tn_random_secret(&self.term);

    TN_ASSERT(rc == 0);
    submit(&self.acquire, TN_OP_ACQUIRE, acquired);
}

static void opened(struct tn_store_req *req)
{
    check(req);
    campaign();
}

static void renewed(struct tn_store_req *req)
{
    check(req);
}

static void renew(uv_timer_t *timer)
{
    (void)timer;
    submit(&self.renew, TN_OP_RENEW, renewed);
}

static void released(struct tn_store_req *req)
{
    check(req);
    campaign();
}

static void hear_parent(uv_poll_t *handle, int status, int events)
{
    char word;

    (void)handle;
    (void)status;
    (void)events;
    if (read(self.in, &word, 1) != 1)
        exit(0);
    tell(RELEASING, tn_boottime());
    submit(&self.release, TN_OP_RELEASE, released);
}

static void granted(void *arg, const char *lease, const struct tn_secret *term, uint64_t token)
{
    tenure_ns now = tn_boottime();

    (void)arg;
    (void)lease;
    (void)term;
    self.token = token;
    tell(GRANTED, now);
}

static void changed(void *arg, const char *lease, const struct tn_store_record *record)
{
    (void)arg;
    (void)lease;
    (void)record;
}

static void revoked(void *arg, const char *lease, uint64_t token)
{
    (void)arg;
    (void)lease;
    (void)token;
}

static void open_store(const char *url)
{
    static const struct tn_store_host host = { granted, changed, revoked };
    struct tn_store_open how = { .url = url,
                                 .loop = &self.loop,
                                 .clock = &self.clock,
                                 .host = &host,
                                 .create = true,
                                 .patience = TN_SEC(5) };
    char text[256];
    struct tn_text error;

    tn_text_init(&error, text, sizeof text);
    int rc = uv_loop_init(&self.loop);
    if (rc == 0)
        rc = tn_clock_init(&self.clock);
    if (rc == 0)
        rc = tn_random_secret(&self.session);
    if (rc == 0)
        rc = tn_store_open(&how, &self.store, &error);
    if (rc != 0) {
        (void)fprintf(stderr, "stores: %s\n", text);
        exit(1);
    }
}

/* Until the parent closes the pipe. */
static void run_process(const char *url, int who, int in, int out)
{
    self.who = who;
    self.in = in;
    self.out = out;
    open_store(url);
    (void)uv_poll_init(&self.loop, &self.ear, in);
    (void)uv_poll_start(&self.ear, UV_READABLE, hear_parent);
    (void)uv_timer_init(&self.loop, &self.timer);
    /* Not all at once. */
    (void)uv_timer_start(&self.timer, renew, (uint64_t)(RENEW_MS * (who % 100) / 100 + 1),
                         RENEW_MS);
    submit(&self.open, TN_OP_OPEN, opened);
    int rc = self.store->ops->watch(self.store, name, true);
    TN_ASSERT(rc == 0);
    (void)uv_run(&self.loop, UV_RUN_DEFAULT);
    exit(1);
}

/* --- The parent ----------------------------------------------------------------------------- */

static pid_t pids[PROCESSES_MAX];
static int words[PROCESSES_MAX];
static int reports;

static void start_processes(const char *url, int count)
{
    int up[2];
    int down[2];

    if (pipe(up) != 0)
        exit(1);
    reports = up[0];
    for (int i = 0; i < count; i++) {
        if (pipe2(down, O_CLOEXEC) != 0)
            exit(1);
        pids[i] = fork();
        if (pids[i] == 0) {
            (void)close(up[0]);
            for (int j = 0; j < i; j++)
                (void)close(words[j]);
            (void)close(down[1]);
            run_process(url, i, down[0], up[1]);
        }
        (void)close(down[0]);
        words[i] = down[1];
    }
    (void)close(up[1]);
}

static struct report hear(void)
{
    struct report report;

    if (read(reports, &report, sizeof report) != (ssize_t)sizeof report) {
        (void)fprintf(stderr, "stores: a process has ended\n");
        exit(1);
    }
    return report;
}

/* One holds, all others are in the queue. Returns the holder. */
static int settle(int count)
{
    int holder = -1;

    for (int i = 0; i < count; i++) {
        struct report report = hear();
        if (report.word == GRANTED)
            holder = report.who;
    }
    return holder;
}

static void stop_processes(int count)
{
    for (int i = 0; i < count; i++)
        (void)close(words[i]);
    for (int i = 0; i < count; i++)
        (void)waitpid(pids[i], NULL, 0);
}

static int compare(const void *a, const void *b)
{
    tenure_ns x = *(const tenure_ns *)a;
    tenure_ns y = *(const tenure_ns *)b;

    return x < y ? -1 : x > y;
}

static void print_spans(tenure_ns *spans, size_t count)
{
    qsort(spans, count, sizeof *spans, compare);
    printf("release to granted(): p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms of %zu\n",
           (double)spans[count / 2] / 1e6, (double)spans[count * 9 / 10] / 1e6,
           (double)spans[count * 99 / 100] / 1e6, (double)spans[count - 1] / 1e6, count);
}

static int measure_wake(const char *url, int count, int rounds)
{
    tenure_ns *spans = calloc((size_t)rounds, sizeof *spans);
    tenure_ns released_at = 0;
    tenure_ns granted_at = 0;

    if (spans == NULL)
        return 1;
    start_processes(url, count);
    int holder = settle(count);
    for (int i = 0; i < rounds; i++) {
        /* Those who watch have read who leads now. */
        tn_clock_pause(PAUSE);
        if (write(words[holder], "r", 1) != 1)
            return 1;
        bool queued = false;
        released_at = granted_at = 0;
        /* The release, the grant, and the old holder in the queue again. */
        while (released_at == 0 || granted_at == 0 || !queued) {
            struct report report = hear();
            if (report.word == RELEASING)
                released_at = report.at;
            else if (report.word == READY)
                queued = true;
            else
                granted_at = report.at;
            if (report.word == GRANTED)
                holder = report.who;
        }
        spans[i] = granted_at - released_at;
    }
    stop_processes(count);
    print_spans(spans, (size_t)rounds);
    free(spans);
    return 0;
}

/* By the scheduler's own count, in ns; they have one thread each. */
static double cpu_seconds(int count)
{
    double sum = 0;
    long long ns;
    char path[64];

    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "/proc/%ld/schedstat", (long)pids[i]);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            exit(1);
        int got = fscanf(file, "%lld", &ns);
        (void)fclose(file);
        if (got != 1)
            exit(1);
        sum += (double)ns / 1e9;
    }
    return sum;
}

static int measure_idle(const char *url, int count, int seconds)
{
    start_processes(url, count);
    (void)settle(count);
    tn_clock_pause(TN_SEC(2));
    double before = cpu_seconds(count);
    tenure_ns from = tn_boottime();
    tn_clock_pause(TN_SEC(seconds));
    double span = (double)(tn_boottime() - from) / 1e9;
    double used = cpu_seconds(count) - before;
    stop_processes(count);
    printf("%d processes waiting: %.2f %% of one core over %.0f s\n", count, 100 * used / span,
           span);
    return 0;
}

struct many {
    struct tn_store_req req;
    char name[32];
};

static void one_done(struct tn_store_req *req)
{
    check(req);
    if (--self.left == 0)
        uv_stop(&self.loop);
}

static int measure_batch(const char *url, int count)
{
    struct many *many = calloc((size_t)count, sizeof *many);

    if (many == NULL)
        return 1;
    open_store(url);
    self.left = 1;
    submit(&self.open, TN_OP_OPEN, one_done);
    (void)uv_run(&self.loop, UV_RUN_DEFAULT);
    tenure_ns from = tn_boottime();
    self.left = (size_t)count;
    for (int i = 0; i < count; i++) {
        (void)snprintf(many[i].name, sizeof many[i].name, "bench/%d-%d", (int)getpid(), i);
        submit_for(&many[i].req, TN_OP_ACQUIRE, many[i].name, one_done);
    }
    (void)uv_run(&self.loop, UV_RUN_DEFAULT);
    printf("%d acquires: %.2f s\n", count, (double)(tn_boottime() - from) / 1e9);
    free(many);
    return 0;
}

int main(int argc, char **argv)
{
    int number = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    int second = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 0;

    if (argc == 4 && strcmp(argv[2], "batch") == 0 && number > 0)
        return measure_batch(argv[1], number);
    if (argc == 5 && number > 1 && number <= PROCESSES_MAX && second > 0) {
        if (strcmp(argv[2], "wake") == 0)
            return measure_wake(argv[1], number, second);
        if (strcmp(argv[2], "idle") == 0)
            return measure_idle(argv[1], number, second);
    }
    (void)fprintf(stderr, "usage: stores URL wake PROCESSES ROUNDS\n"
                          "       stores URL idle PROCESSES SECONDS\n"
                          "       stores URL batch NAMES\n");
    return 64;
}
