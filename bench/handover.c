/* handover.c - how long it takes until the next one acts, and what waiting costs.
 *
 * usage: handover [--store-dir DIR] [--handovers N] [--idle SECONDS] [WAITING...]
 *
 * For each number of waiting candidates (1 and 100 by default): as many `tenure run` wait for one
 * name of an embedded store, and one leads. The leader gets SIGTERM; its command ends at once; the
 * time until the first act of the next one's command is a handover. The one that went is started
 * again, so that as many wait the next time. With --idle, the processor time of all who wait is
 * measured while nothing happens but renewals.
 * The times include the start of the guardian and of the command, which is a small C program. */
#define _GNU_SOURCE
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/number.h"
#include "base/time.h"
#include "runtime/clock.h"
#include "tests/runner/acts.h"

enum { WAITING_MAX = 1000, SPAWNS_MAX = 60000 };

/* Who was started needs a moment to queue; a hundred at once need more. */
#define QUEUE_MS 200
#define QUEUE_ALL_MS 3000
#define PATIENCE TN_SEC(60)

struct bench {
    const char *parent;
    char dir[128], log[160], url[160];
    pid_t pids[SPAWNS_MAX]; /* By number of the candidate; 0: gone. */
    unsigned spawned;
};

static void let(int ms)
{
    (void)poll(NULL, 0, ms);
}

static void open_bench(struct bench *bench)
{
    bench->spawned = 0;
    (void)snprintf(bench->dir, sizeof bench->dir, "%s/tenure-bench-%ld", bench->parent,
                   (long)getpid());
    TN_ASSERT(mkdir(bench->dir, 0700) == 0);
    (void)snprintf(bench->log, sizeof bench->log, "%s/acts", bench->dir);
    (void)snprintf(bench->url, sizeof bench->url, "sqlite:%s/store", bench->dir);
}

static void spawn(struct bench *bench)
{
    unsigned number = ++bench->spawned;
    char text[16];

    TN_ASSERT(number < SPAWNS_MAX);
    (void)snprintf(text, sizeof text, "%u", number);
    bench->pids[number] = fork();
    TN_ASSERT(bench->pids[number] >= 0);
    if (bench->pids[number] != 0)
        return;
    /* Should this program be killed, nobody is to wait for ever. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)setenv(ACTS_CANDIDATE, text, 1);
    (void)setenv("TENURE_FENCE", "none", 1);
    (void)execl(TN_TENURE, TN_TENURE, "run", "--store", bench->url, "job", "--", TN_ACTOR,
                bench->log, "record", (char *)NULL);
    _exit(127);
}

static void reap(struct bench *bench)
{
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
        for (unsigned i = 1; i <= bench->spawned; i++) {
            if (bench->pids[i] == pid)
                bench->pids[i] = 0;
        }
    }
}

/* The first act with a token above @token. */
static bool wait_successor(const struct bench *bench, uint64_t token, struct act *ret_act)
{
    tenure_ns end = tn_boottime() + PATIENCE;
    struct acts acts;

    while (tn_boottime() < end) {
        if (acts_last(bench->log, ret_act) && ret_act->token > token) {
            TN_ASSERT(acts_read(bench->log, &acts));
            for (size_t i = 0; i < acts.count; i++) {
                if (acts.list[i].token > token) {
                    *ret_act = acts.list[i];
                    break;
                }
            }
            acts_free(&acts);
            return true;
        }
        let(1);
    }
    return false;
}

static int compare(const void *a, const void *b)
{
    tenure_ns x = *(const tenure_ns *)a;
    tenure_ns y = *(const tenure_ns *)b;

    return (x > y) - (x < y);
}

static double ms(tenure_ns span)
{
    return (double)span / 1e6;
}

/* Processor time of one process, in ns, from the scheduler's own count of each of its threads. */
static int64_t used_by(pid_t pid)
{
    char path[400];
    int64_t sum = 0;
    struct dirent *entry;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        long long ns = 0;

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%ld/task/%s/schedstat", (long)pid, entry->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL && fscanf(file, "%lld", &ns) == 1)
            sum += ns;
        if (file != NULL)
            (void)fclose(file);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return sum;
}

static int64_t used(const struct bench *bench, unsigned leader)
{
    int64_t sum = 0;

    for (unsigned i = 1; i <= bench->spawned; i++) {
        if (bench->pids[i] != 0 && i != leader)
            sum += used_by(bench->pids[i]);
    }
    return sum;
}

static void close_bench(struct bench *bench)
{
    DIR *dir;
    struct dirent *entry;

    for (unsigned i = 1; i <= bench->spawned; i++) {
        if (bench->pids[i] != 0)
            (void)kill(bench->pids[i], SIGTERM);
    }
    while (waitpid(-1, NULL, 0) > 0)
        ;
    dir = opendir(bench->dir);
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(bench->dir);
}

/* False when nobody followed. */
static bool hand_over(struct bench *bench, tenure_ns *spans, uint64_t count, struct act *leader)
{
    for (uint64_t i = 0; i < count; i++) {
        let(QUEUE_MS);
        tenure_ns asked = tn_boottime();
        (void)kill(bench->pids[leader->candidate], SIGTERM);
        if (!wait_successor(bench, leader->token, leader))
            return false;
        spans[i] = leader->at - asked;
        spawn(bench);
        reap(bench);
    }
    return true;
}

static int measure(struct bench *bench, uint64_t waiting, uint64_t handovers, uint64_t idle_s)
{
    tenure_ns *spans = calloc(handovers, sizeof *spans);
    struct act leader;
    int status = EXIT_FAILURE;

    TN_ASSERT(spans != NULL);
    open_bench(bench);
    spawn(bench);
    if (!wait_successor(bench, 0, &leader))
        goto out;
    for (uint64_t i = 0; i < waiting; i++)
        spawn(bench);
    let(QUEUE_ALL_MS);
    if (!hand_over(bench, spans, handovers, &leader))
        goto out;
    qsort(spans, handovers, sizeof *spans, compare);
    printf("%8" PRIu64 " %10" PRIu64 " %9.2f %9.2f %9.2f", waiting, handovers,
           ms(spans[handovers / 2]), ms(spans[(handovers * 99 + 99) / 100 - 1]),
           ms(spans[handovers - 1]));
    (void)fflush(stdout);
    if (idle_s > 0) {
        let(QUEUE_ALL_MS);
        int64_t before = used(bench, leader.candidate);
        tenure_ns start = tn_boottime();
        let((int)idle_s * 1000);
        printf(" %11.2f %%", 100.0 * (double)(used(bench, leader.candidate) - before) /
                                 (double)(tn_boottime() - start));
    }
    printf("\n");
    (void)fflush(stdout);
    status = EXIT_SUCCESS;
out:
    if (status != EXIT_SUCCESS)
        printf("nobody followed\n");
    close_bench(bench);
    free(spans);
    return status;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: handover [--store-dir DIR] [--handovers N] [--idle SECONDS] "
                          "[WAITING...]\n");
    return 64;
}

int main(int argc, char **argv)
{
    static struct bench bench = { .parent = "/tmp" };
    uint64_t handovers = 200, idle_s = 20, waiting;
    int at = 1, status = EXIT_SUCCESS;

    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (strcmp(argv[at], "--store-dir") == 0)
            bench.parent = argv[at + 1];
        else if (!(strcmp(argv[at], "--handovers") == 0 &&
                   tn_u64_parse(argv[at + 1], &handovers) == 0 && handovers > 0) &&
                 !(strcmp(argv[at], "--idle") == 0 && tn_u64_parse(argv[at + 1], &idle_s) == 0))
            return usage();
    }
    printf(" waiting  handovers    p50 ms    p99 ms    max ms  idle, one core\n");
    if (at == argc) {
        status = measure(&bench, 1, handovers, idle_s);
        return measure(&bench, 100, handovers, idle_s) | status;
    }
    for (; at < argc; at++) {
        if (tn_u64_parse(argv[at], &waiting) != 0 || waiting == 0 || waiting > WAITING_MAX)
            return usage();
        status |= measure(&bench, waiting, handovers, idle_s);
    }
    return status;
}
