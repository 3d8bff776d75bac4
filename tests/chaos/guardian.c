/* guardian.c - random runs of supervisor, guardian and tree: somebody is stopped or killed in each.
 *
 * usage: guardian [--acts] [RUNS [SEED]]      200 runs by default; the seed is printed
 *
 * TN_CONTAIN in the environment chooses the containment, else it is auto. Where there is one, every
 * second run has 1 to 60 chains that fork and exit without rest, which the tree alone could not end
 * for certain.
 *
 * A run draws an actor, a grace, a kill bound, the length of a term, and a fault, lets the actor
 * work for a random while, commits the fault, and then looks at what the processes themselves wrote
 * and at /proc: nobody may act or exist after the last deadline that the guardian can have known.
 * With chains the moment when the last process is gone is not judged. With --acts only acts are,
 * and processes that nobody has killed after three seconds: what was killed does nothing more, but
 * to disappear it needs a processor, for which it waits where a hundred others want one. There an
 * actor may not even start in ten seconds; such runs are not judged, but counted.
 * The last lines are the largest overruns (negative: how long before the deadline), and the time
 * from the decision to kill until a tree of fifty was reaped. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/number.h"
#include "base/prng.h"
#include "runner/os.h"
#include "tests/runner/stage.h"

enum fault {
    LAPSE,              /* Nobody renews. */
    STOP_ASKED,         /* The supervisor asks for the stop. */
    SUPERVISOR_KILLED,  /* SIGKILL */
    SUPERVISOR_STOPPED, /* SIGSTOP, and never continued before the tree is gone. */
    GROUP_FROZEN,       /* SIGSTOP to the supervisor's process group, the command among it. */
    GROUP_KILLED,       /* SIGKILL to the same. */
    GUARDIAN_KILLED,
    GUARDIAN_STOPPED,
    COMMAND_KILLED,
    COMMAND_STOPPED, /* And nobody renews. */
    GUARDIAN_STOPPED_SUPERVISOR_KILLED_AFTER,
    GUARDIAN_TRACED, /* A debugger's stop, which SIGCONT does not end; and nobody renews. */
    FAULT_COUNT
};

static const char *const fault_names[FAULT_COUNT] = {
    "nobody renews",
    "stop asked for",
    "supervisor killed",
    "supervisor stopped",
    "group frozen",
    "group killed",
    "guardian killed",
    "guardian stopped",
    "command killed",
    "command stopped",
    "guardian stopped, then supervisor killed",
    "guardian traced",
};

static const char *const actors[] = {
    "",
    "ignore",
    "ignore daemon daemon",
    "ignore tree=6",
    "ignore daemon tree=4 daemon",
    "ignore chain=20",
    "ignore spawn",
    "daemon ignore tree=3",
    "ignore daemon stop",
    "ignore tree=30",
};

/* Trees of fifty processes. */
enum { TRIES = 20 };

struct tally {
    unsigned failed;
    unsigned unplayed; /* With --acts: the actor did not start. */
    bool only_acts;
    unsigned faults[FAULT_COUNT];
    tenure_ns beat_overrun, gone_overrun;
};

static void commit(struct stage *stage, enum fault fault)
{
    struct stage_shared *shared = stage->shared;

    switch (fault) {
    case STOP_ASKED:
        shared->stop = true;
        return;
    case SUPERVISOR_KILLED:
        (void)kill(stage->supervisor, SIGKILL);
        return;
    case SUPERVISOR_STOPPED:
        (void)kill(stage->supervisor, SIGSTOP);
        return;
    case GROUP_FROZEN:
        (void)kill(-stage->supervisor, SIGSTOP);
        return;
    case GROUP_KILLED:
        (void)kill(-stage->supervisor, SIGKILL);
        return;
    case GUARDIAN_KILLED:
        (void)kill(shared->guardian, SIGKILL);
        return;
    case GUARDIAN_STOPPED:
        (void)kill(shared->guardian, SIGSTOP);
        return;
    case COMMAND_KILLED:
        (void)kill(shared->command, SIGKILL);
        return;
    case COMMAND_STOPPED:
        (void)kill(shared->command, SIGSTOP);
        shared->extend = false;
        return;
    case GUARDIAN_STOPPED_SUPERVISOR_KILLED_AFTER:
        /* One after the other: the supervisor has time to notice the first. */
        (void)kill(shared->guardian, SIGSTOP);
        if (stage_wait_int(&shared->reason, -1, 1000))
            (void)kill(stage->supervisor, SIGKILL);
        return;
    case GUARDIAN_TRACED:
        if (ptrace(PTRACE_SEIZE, shared->guardian, NULL, NULL) == 0)
            (void)ptrace(PTRACE_INTERRUPT, shared->guardian, NULL, NULL);
        shared->extend = false;
        return;
    default:
        shared->extend = false;
        return;
    }
}

static void draw_comets(struct tn_prng *prng, char *ret_words, size_t size)
{
    static const char *const before[] = { "", "ignore ", "ignore daemon ",
                                          "ignore tree=3 daemon " };

    (void)snprintf(ret_words, size, "%scomets=%u", before[tn_prng_below(prng, 4)],
                   (unsigned)tn_prng_range(prng, 1, 60));
}

static bool run(struct tn_prng *prng, unsigned number, struct tally *tally)
{
    struct stage stage;
    size_t actor_count = sizeof actors / sizeof actors[0];
    char actor[64];
    bool comets = stage_is_contained() && tn_prng_below(prng, 2) == 0;

    (void)snprintf(actor, sizeof actor, "%s", actors[tn_prng_below(prng, actor_count)]);
    if (comets)
        draw_comets(prng, actor, sizeof actor);
    enum fault fault = (enum fault)tn_prng_below(prng, FAULT_COUNT);
    int grace_ms = (int)tn_prng_range(prng, 0, 120);
    /* So many processes take their time to die on a busy machine, and a supervisor that steps in
     * has half of it. */
    int kill_bound_ms =
        (int)tn_prng_range(prng, 80, 200) * (comets || fault == GUARDIAN_TRACED ? 5 : 1);
    int term_ms = grace_ms + kill_bound_ms + (int)tn_prng_range(prng, 150, 400);
    int work_ms = (int)tn_prng_range(prng, 0, 60);

    stage_init(&stage, grace_ms, kill_bound_ms, term_ms);
    stage.watch_every = tn_prng_below(prng, 2) == 0 ? 0 : TN_MS(20);
    bool open = stage_open(&stage, actor);
    stage_let(work_ms);
    if (open)
        commit(&stage, fault);
    struct stage_result result = stage_close(&stage);

    tally->faults[fault]++;
    if (result.beat_overrun > tally->beat_overrun)
        tally->beat_overrun = result.beat_overrun;
    if (result.gone_overrun > tally->gone_overrun)
        tally->gone_overrun = result.gone_overrun;
    tally->unplayed += tally->only_acts && !open;
    if (tally->only_acts && (!open || (result.unkilled == 0 && result.beat_overrun <= 0)))
        return true;
    if (open && result.left == 0 && result.beat_overrun <= 0 &&
        (comets || result.gone_overrun <= 0))
        return true;
    printf("FAIL run %u: %s; actor \"%s\", G %d ms, K %d ms, term %d ms, watch %s: %s, %zu left, "
           "%zu not killed, "
           "last act %" PRId64 " us and last process %" PRId64 " us after the deadline\n",
           number, fault_names[fault], actor, grace_ms, kill_bound_ms, term_ms,
           stage.watch_every > 0 ? "on" : "off", open ? "ran" : "did not start", result.left,
           result.unkilled, result.beat_overrun / 1000, result.gone_overrun / 1000);
    return false;
}

static int compare_spans(const void *a, const void *b)
{
    tenure_ns x = *(const tenure_ns *)a;
    tenure_ns y = *(const tenure_ns *)b;

    return (x > y) - (x < y);
}

/* From the decision to kill until all fifty are reaped, sorted. False when one try failed. */
static bool measure_fifty(tenure_ns *spans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct stage stage;

        stage_init(&stage, 0, 1000, 20000);
        bool open =
            stage_open(&stage, "ignore daemon tree=48") && stage_wait_count(&stage, 50, 2000);
        stage.shared->stop = true;
        struct stage_result result = stage_close(&stage);
        if (!open || result.left > 0 || stage.shared->reaped_at == 0)
            return false;
        spans[i] = stage.shared->reaped_at - stage.shared->killing_at;
    }
    qsort(spans, count, sizeof *spans, compare_spans);
    return true;
}

static void print_span(const char *what, tenure_ns span)
{
    char text[TN_DURATION_TEXT];

    tn_duration_format(text, sizeof text, span);
    printf("%s: %s\n", what, text);
}

int main(int argc, char **argv)
{
    struct tally tally = { .beat_overrun = INT64_MIN, .gone_overrun = INT64_MIN };
    struct tn_prng prng;
    uint64_t runs = 200;
    uint64_t seed = (uint64_t)tn_boottime() % 1000000;

    if (argc > 1 && strcmp(argv[1], "--acts") == 0) {
        tally.only_acts = true;
        argc--;
        argv++;
    }
    if ((argc > 1 && tn_u64_parse(argv[1], &runs) != 0) ||
        (argc > 2 && tn_u64_parse(argv[2], &seed) != 0) || runs == 0) {
        (void)fprintf(stderr, "usage: guardian [--acts] [RUNS [SEED]]\n");
        return 64;
    }
    printf("%" PRIu64 " runs, seed %" PRIu64 "\n", runs, seed);
    tn_prng_seed(&prng, seed);
    for (unsigned i = 0; i < runs; i++) {
        if (!run(&prng, i, &tally))
            tally.failed++;
        (void)fflush(stdout);
    }
    for (int i = 0; i < FAULT_COUNT; i++)
        printf("%4u times: %s\n", tally.faults[i], fault_names[i]);
    print_span("last act after the deadline, at most", tally.beat_overrun);
    print_span("last process after the deadline, at most", tally.gone_overrun);
    if (tally.unplayed > 0)
        printf("%u actors did not start in time\n", tally.unplayed);
    tenure_ns spans[TRIES];
    if (measure_fifty(spans, TRIES)) {
        print_span("from SIGKILL until fifty processes are reaped, median", spans[TRIES / 2]);
        print_span("from SIGKILL until fifty processes are reaped, at most", spans[TRIES - 1]);
    } else {
        printf("FAIL: fifty processes were not killed as they should\n");
        tally.failed++;
    }
    printf("%" PRIu64 " passed, %u failed, 0 skipped\n", runs + 1 - tally.failed, tally.failed);
    return tally.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
