/* fences.c - many writers with random pauses, killed at random, on every receiver.
 *
 * usage: fences [WRITES [WRITERS [SEED [RECEIVER]]]]
 *
 * Writers are processes. Each draws a token, the newest or an older one, pauses, and writes a
 * record through the fence; all note what they were told in shared memory. One of them is killed
 * now and then and replaced. In the end the receiver's data must be exactly the history of the
 * accepted writes: tokens never decrease, each accepted record is there once, no refused one is.
 * After every kill the fence must stand at least as high as anything that was acknowledged. A
 * receiver without a fence goes the same way, and must be found out. */
#define _GNU_SOURCE
#include "tests/receivers/fences.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/number.h"
#include "base/prng.h"
#include "base/time.h"
#include "runtime/clock.h"
#include "tenure/error.h"

/* In `make check`; `make check-chaos` asks for more. */
#ifndef TN_FENCES_WRITES
#define TN_FENCES_WRITES 640
#define TN_FENCES_WRITERS 16
#endif

enum { WRITERS_MAX = 256 };

enum outcome {
    NOTHING,
    PENDING, /* Killed meanwhile: it may have happened. */
    ACCEPTED,
    REFUSED,
    FAILED,
};

struct attempt {
    _Atomic uint64_t token;
    _Atomic int outcome;
    int seen; /* How often it is in the data. */
};

struct shared {
    _Atomic uint64_t issued;       /* The newest token. */
    _Atomic uint64_t acknowledged; /* The highest token of a write that was acknowledged. */
    char error[512];               /* Why a write failed. */
    struct attempt attempts[];
};

static struct shared *shared;
static size_t writers, writes_each;
static uint64_t seed;

/* --- A writer ------------------------------------------------------------------------------- */

/* Mostly the newest token; now and then a newer one, now and then one that is over. */
static uint64_t draw_token(struct tn_prng *prng)
{
    uint64_t choice = tn_prng_below(prng, 10);

    if (choice == 0)
        return atomic_fetch_add(&shared->issued, 1) + 1;
    uint64_t newest = atomic_load(&shared->issued);
    uint64_t back = choice < 4 ? tn_prng_below(prng, 4) : 0;
    return newest > back ? newest - back : 1;
}

static void acknowledge(uint64_t token)
{
    uint64_t before = atomic_load(&shared->acknowledged);

    while (before < token && !atomic_compare_exchange_weak(&shared->acknowledged, &before, token))
        continue;
}

static _Noreturn void write_records(const struct receiver *receiver, size_t writer, size_t from)
{
    struct tn_prng prng;
    char error[256] = "";

    tn_prng_seed(&prng, seed + 1000 * writer + from);
    void *connection = receiver->open(error, sizeof error);
    for (size_t n = from; connection != NULL && n < writes_each; n++) {
        struct attempt *attempt = &shared->attempts[writer * writes_each + n];
        uint64_t token = draw_token(&prng);

        atomic_store(&attempt->token, token);
        tn_clock_pause(tn_prng_below(&prng, 4) == 0 ? TN_US(tn_prng_below(&prng, 3000)) : 0);
        atomic_store(&attempt->outcome, PENDING);
        int rc =
            receiver->write(connection, token, (unsigned)writer, (unsigned)n, error, sizeof error);
        if (rc == 0)
            acknowledge(token);
        atomic_store(&attempt->outcome, rc == 0                ? ACCEPTED
                                        : rc == TENURE_E_STALE ? REFUSED
                                                               : FAILED);
        if (rc != 0 && rc != TENURE_E_STALE)
            break;
    }
    if (error[0] != '\0')
        (void)snprintf(shared->error, sizeof shared->error, "%s", error);
    _exit(error[0] != '\0');
}

static pid_t start(const struct receiver *receiver, size_t writer)
{
    size_t from = 0;

    while (from < writes_each &&
           atomic_load(&shared->attempts[writer * writes_each + from].outcome) != NOTHING)
        from++;
    pid_t child = fork();
    if (child == 0)
        write_records(receiver, writer, from);
    return child;
}

/* --- The judge ------------------------------------------------------------------------------ */

static const char p3_broken[] = "P3: an accepted token is lower than the one before";

struct judge {
    uint64_t last;
    size_t records;
    const char *wrong;
};

static void judge_record(void *arg, uint64_t token, unsigned writer, unsigned n)
{
    struct judge *judge = arg;

    if (writer == STORY_WRITER || writer == CONTROL_WRITER)
        return;
    judge->records++;
    if (writer >= writers || n >= writes_each) {
        judge->wrong = "a record that nobody wrote";
        return;
    }
    struct attempt *attempt = &shared->attempts[writer * writes_each + n];
    int outcome = atomic_load(&attempt->outcome);
    const char *wrong = NULL;
    if (token != atomic_load(&attempt->token))
        wrong = "a record with another token than it was written with";
    else if (attempt->seen++ > 0)
        wrong = "a record is there twice";
    else if (outcome != ACCEPTED && outcome != PENDING)
        wrong = "a refused record is there";
    else if (token < judge->last)
        wrong = p3_broken;
    if (judge->wrong == NULL)
        judge->wrong = wrong;
    judge->last = token;
}

static const char *judge_all(const struct receiver *receiver, size_t *counts)
{
    struct judge judge = { 0 };

    if (!receiver->read(judge_record, &judge))
        return "the data cannot be read";
    for (size_t i = 0; i < writers * writes_each; i++) {
        int outcome = atomic_load(&shared->attempts[i].outcome);

        counts[outcome]++;
        if (outcome == ACCEPTED && shared->attempts[i].seen != 1 && judge.wrong == NULL)
            judge.wrong = "an accepted record is missing";
    }
    if (judge.wrong != NULL)
        return judge.wrong;
    if (counts[NOTHING] > 0 || counts[FAILED] > 0)
        return "a writer did not get to its end";
    return counts[ACCEPTED] == 0 || counts[REFUSED] == 0 ? "not both outcomes were seen" : NULL;
}

/* --- One receiver --------------------------------------------------------------------------- */

static bool kill_one(const struct receiver *receiver, pid_t *pids, size_t writer)
{
    uint64_t acknowledged = atomic_load(&shared->acknowledged);
    uint64_t highest = 0;
    bool good = true;

    (void)kill(pids[writer], SIGKILL);
    (void)waitpid(pids[writer], NULL, 0);
    if (!receiver->highest(&highest) || highest < acknowledged) {
        printf("FAIL %s: the fence stands at %" PRIu64 ", but %" PRIu64 " was acknowledged\n",
               receiver->name, highest, acknowledged);
        good = false;
    }
    pids[writer] = start(receiver, writer);
    return good;
}

/* Kill until most is written, then wait for the rest. */
static bool run_writers(const struct receiver *receiver, struct tn_prng *prng, size_t *ret_kills)
{
    pid_t pids[WRITERS_MAX];
    size_t kills_max = writers * writes_each / 64;
    bool good = true;

    for (size_t i = 0; i < writers; i++)
        pids[i] = start(receiver, i);
    for (*ret_kills = 0; good && *ret_kills < kills_max; ++*ret_kills) {
        size_t writer = (size_t)tn_prng_below(prng, writers);

        tn_clock_pause(TN_US(500 + tn_prng_below(prng, 20000)));
        if (atomic_load(&shared->attempts[(writer + 1) * writes_each - 1].outcome) != NOTHING)
            break;
        good = kill_one(receiver, pids, writer);
    }
    for (size_t i = 0; i < writers; i++) {
        int status = -1;

        if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
            good = false;
    }
    return good;
}

static bool run(const struct receiver *receiver, struct tn_prng *prng)
{
    size_t size = sizeof *shared + writers * writes_each * sizeof shared->attempts[0];
    size_t counts[FAILED + 1] = { 0 };
    size_t kills = 0;

    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    /* Higher than the tokens of the story. */
    atomic_store(&shared->issued, 1000);
    tenure_ns began = tn_boottime();
    bool good = run_writers(receiver, prng, &kills);
    tenure_ns took = tn_boottime() - began;
    const char *wrong = judge_all(receiver, counts);
    if (receiver->unfenced)
        wrong = wrong == p3_broken ? NULL : "the judge did not notice that there is no fence";
    if (wrong != NULL || !good)
        printf("FAIL %s: %s%s%s\n", receiver->name, wrong != NULL ? wrong : "a writer failed",
               shared->error[0] != '\0' ? ": " : "", shared->error);
    printf("%s: %zu writes by %zu writers in %" PRId64
           " ms: %zu accepted, %zu refused, %zu kills\n",
           receiver->name, writers * writes_each, writers, took / TN_MS(1), counts[ACCEPTED],
           counts[REFUSED], kills);
    (void)munmap(shared, size);
    return good && wrong == NULL;
}

int main(int argc, char **argv)
{
    uint64_t writes = TN_FENCES_WRITES, count = TN_FENCES_WRITERS;
    unsigned passed = 0, failed = 0, skipped = 0;
    struct tn_prng prng;

    seed = (uint64_t)tn_boottime() % 1000000;
    if ((argc > 1 && tn_u64_parse(argv[1], &writes) != 0) ||
        (argc > 2 && tn_u64_parse(argv[2], &count) != 0) ||
        (argc > 3 && tn_u64_parse(argv[3], &seed) != 0) || count == 0 || count > WRITERS_MAX ||
        writes < count) {
        (void)fprintf(stderr, "usage: fences [WRITES [WRITERS [SEED [RECEIVER]]]]\n");
        return 64;
    }
    writers = (size_t)count;
    writes_each = (size_t)(writes / count);
    printf("seed %" PRIu64 "\n", seed);
    tn_prng_seed(&prng, seed);
    for (size_t i = 0; receivers[i] != NULL; i++) {
        char why[256] = "";

        if (argc > 4 && strcmp(argv[4], receivers[i]->name) != 0)
            continue;
        (void)fflush(stdout);
        if (!receivers[i]->prepare(why, sizeof why)) {
            printf("SKIP fences/%s: %s\n", receivers[i]->name, why);
            skipped++;
        } else {
            bool good = tell_story(receivers[i], false);
            passed += good;
            failed += !good;
            if (!receivers[i]->unfenced) {
                good = tell_story(receivers[i], true);
                passed += good;
                failed += !good;
            }
            good = run(receivers[i], &prng);
            passed += good;
            failed += !good;
        }
        receivers[i]->finish();
    }
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
