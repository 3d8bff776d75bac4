/* alloc_test.c - every allocation of a leader's life fails in turn: open, campaign, win, renew,
 * observe, resign, hand over, close.
 *
 * Each case is a process of its own, so that one which hangs or crashes names itself. Ours are
 * failed by the linker (--wrap), libuv's by uv_replace_allocator. After a failed allocation a call
 * may say so, and then nothing must be left of it; or a request is lost and repeated, and then the
 * election goes on. At no time may two sessions hold a token, and in the end nothing may leak. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/time.h"
#include "runtime/clock.h"
#include "tenure/tenure.h"
#include "tests/harness/test.h"

enum { AT_ONCE = 6, CASES_MOST = 2000 };

/* What a case's process says by its exit status. */
enum outcome {
    FINE,
    TOLD, /* A call said so. */
    PATIENCE_OVER,
    TWO_LEAD,
    LEAKED,
    WRONG_CODE,
    PASSED_BY, /* There were not so many allocations. */
    LIBUV_ABORTS,
    CRASHED,
};

/* --- Allocations ------------------------------------------------------------------------------ */

static atomic_long countdown; /* The allocation that fails is the one that makes this 0. */
static atomic_long live;      /* Blocks that were not freed yet. */
static atomic_bool of_libuv;  /* The failed one was libuv's. */
static atomic_bool for_good;  /* All later ones fail as well. */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);

static bool is_due(bool libuv)
{
    long left = atomic_fetch_sub(&countdown, 1);

    bool due = left == 1 || (left < 1 && atomic_load(&for_good));

    if (due)
        atomic_store(&of_libuv, libuv);
    return due;
}

static void *counted(void *block)
{
    if (block != NULL)
        atomic_fetch_add(&live, 1);
    return block;
}

void *__wrap_malloc(size_t size)
{
    return is_due(false) ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_due(false) ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (is_due(false))
        return NULL;
    return block != NULL ? __real_realloc(block, size) : counted(__real_realloc(block, size));
}

void __wrap_free(void *block)
{
    if (block != NULL)
        atomic_fetch_sub(&live, 1);
    __real_free(block);
}

static void *uv_malloc(size_t size)
{
    return is_due(true) ? NULL : counted(__real_malloc(size));
}

static void *uv_calloc(size_t count, size_t size)
{
    return is_due(true) ? NULL : counted(__real_calloc(count, size));
}

static void *uv_realloc(void *block, size_t size)
{
    if (is_due(true))
        return NULL;
    return block != NULL ? __real_realloc(block, size) : counted(__real_realloc(block, size));
}

/* --- A leader's life -------------------------------------------------------------------------- */

static struct tenure *a, *b;
static struct tenure_election *first, *second, *watched;
static atomic_uint heard;

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    (void)election;
    (void)arg;
    if (event->kind == TENURE_LEADER)
        atomic_fetch_add(&heard, 1);
}

static bool two_lead(void)
{
    uint64_t token = tenure_token(first);

    return token != 0 && tenure_token(second) != 0 && tenure_token(first) == token;
}

static enum outcome wait_for(struct tenure_election *election)
{
    tenure_ns by = tn_boottime() + TN_SEC(20);

    while (tenure_token(election) == 0) {
        if (two_lead())
            return TWO_LEAD;
        if (tn_boottime() > by)
            return PATIENCE_OVER;
        tn_clock_pause(TN_MS(1));
    }
    return two_lead() ? TWO_LEAD : FINE;
}

/* Until the deadline has moved. */
static enum outcome wait_for_renewal(void)
{
    tenure_ns by = tn_boottime() + TN_SEC(20), deadline = tenure_deadline(first);

    while (tenure_deadline(first) == deadline) {
        if (tn_boottime() > by)
            return PATIENCE_OVER;
        tn_clock_pause(TN_MS(1));
    }
    return FINE;
}

/* Without memory a call says so and leaves @left NULL; with some again it works. */
static bool is_told(int rc, const void *left, bool *told)
{
    if (left != NULL || (rc != TENURE_E_NOMEM && rc != TENURE_E_UNAVAILABLE))
        return false;
    *told = true;
    atomic_store(&for_good, false);
    return true;
}

static int open_session(const char *url, const char *id, struct tenure **ret_tenure, bool *told)
{
    struct tenure_options options = { .size = sizeof options, .id = id, .ttl = TN_SEC(1) };
    struct tenure_error error;
    int rc = tenure_open(url, &options, ret_tenure, &error);

    if (!is_told(rc, *ret_tenure, told) || error.text[0] == '\0')
        return rc;
    return tenure_open(url, &options, ret_tenure, NULL);
}

static int campaign(struct tenure *tenure, struct tenure_election **ret_election, bool *told)
{
    struct tenure_campaign how = { .size = sizeof how, .flags = TENURE_DRAINED_ON_RETURN };
    int rc = tenure_campaign(tenure, "job", &how, ret_election);

    if (!is_told(rc, *ret_election, told))
        return rc;
    return tenure_campaign(tenure, "job", &how, ret_election);
}

static int observe(bool *told)
{
    int rc = tenure_observe(b, "job", hear, NULL, &watched);

    return is_told(rc, watched, told) ? tenure_observe(b, "job", hear, NULL, &watched) : rc;
}

/* Who leads first is the store's to say, when requests get lost. */
static enum outcome lead_and_hand_over(void)
{
    tenure_ns by = tn_boottime() + TN_SEC(20);

    while (tenure_token(first) == 0 && tenure_token(second) == 0 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    struct tenure_election *now = tenure_token(second) != 0 ? second : first;
    if (now == second) { /* So that the rest is the same for all. */
        (void)tenure_resign(second);
        (void)tenure_drained(second);
    }
    enum outcome outcome = wait_for(first);
    if (outcome == FINE)
        outcome = wait_for_renewal();
    (void)tenure_stand(second);
    (void)tenure_resign(first);
    (void)tenure_drained(first);
    if (outcome == FINE)
        outcome = wait_for(second);
    return outcome;
}

static enum outcome live_and_die(long fail_at, bool ever, const char *url)
{
    bool told = false;
    long before = atomic_load(&live);

    atomic_store(&for_good, ever);
    atomic_store(&countdown, fail_at);
    int rc = open_session(url, "a", &a, &told);
    if (rc == 0)
        rc = open_session(url, "b", &b, &told);
    if (rc == 0)
        rc = campaign(a, &first, &told);
    if (rc == 0)
        rc = campaign(b, &second, &told);
    if (rc == 0)
        rc = observe(&told);
    if (rc != 0)
        return WRONG_CODE;
    if (ever) { /* None for a while: terms may lapse, but are never doubled. */
        tenure_ns until = tn_boottime() + TN_MS(300);
        while (tn_boottime() < until)
            if (two_lead())
                return TWO_LEAD;
        atomic_store(&for_good, false);
    }
    enum outcome outcome = lead_and_hand_over();
    tenure_leave(watched);
    int one = tenure_close(a), two = tenure_close(b);
    if (outcome != FINE)
        return outcome;
    if ((one != 0 && one != TENURE_E_TIMEOUT) || (two != 0 && two != TENURE_E_TIMEOUT))
        return WRONG_CODE;
    if (atomic_load(&live) != before)
        return LEAKED;
    if (atomic_load(&countdown) > 0)
        return PASSED_BY; /* There were not so many. */
    return told ? TOLD : FINE;
}

/* --- Cases ------------------------------------------------------------------------------------ */

/* libuv calls abort itself when it has no memory for its table of descriptors. That is a safe end:
 * the lease runs out. Only right after an allocation of its own it is not our crash. */
static void hear_abort(int signal)
{
    (void)signal;
    _exit(atomic_load(&of_libuv) ? LIBUV_ABORTS : CRASHED);
}

static _Noreturn void run_case(long fail_at, bool ever, const char *url)
{
    (void)alarm(90);
    (void)signal(SIGABRT, hear_abort);
    char own[128]; /* The cases run side by side. */

    (void)snprintf(own, sizeof own, "%s-%ld", url, fail_at);
    (void)uv_replace_allocator(uv_malloc, uv_realloc, uv_calloc, __wrap_free);
    _exit((int)live_and_die(fail_at, ever, own));
}

static const char *const words[] = {
    [FINE] = "fine",
    [TOLD] = "told",
    [PATIENCE_OVER] = "no leader in time",
    [TWO_LEAD] = "two lead",
    [LEAKED] = "leaked",
    [WRONG_CODE] = "a wrong code",
    [PASSED_BY] = "there were not so many",
    [LIBUV_ABORTS] = "libuv aborts",
    [CRASHED] = "crashed",
};

struct tally {
    unsigned outcomes[CRASHED + 1];
    long cases[AT_ONCE];
    pid_t children[AT_ONCE];
};

/* Waits for the oldest of the processes. */
static void reap(struct tally *tally, unsigned slot)
{
    int status = 0;
    pid_t child = tally->children[slot];

    tally->children[slot] = 0;
    if (child == 0)
        return;
    CHECK(waitpid(child, &status, 0) == child);
    int outcome = WIFEXITED(status) ? WEXITSTATUS(status) : CRASHED;
    CHECK(outcome >= FINE && outcome <= CRASHED);
    tally->outcomes[outcome]++;
    if (outcome != FINE && outcome != TOLD && outcome != PASSED_BY && outcome != LIBUV_ABORTS)
        printf("allocation %ld fails: %s\n", tally->cases[slot], words[outcome]);
}

static void torture(bool ever, const char *url)
{
    struct tally tally = { 0 };
    unsigned slot = 0;

    (void)fflush(stdout);
    for (long fail_at = 1; tally.outcomes[PASSED_BY] == 0; fail_at++) {
        CHECK(fail_at < CASES_MOST);
        reap(&tally, slot);
        tally.cases[slot] = fail_at;
        tally.children[slot] = fork();
        CHECK(tally.children[slot] >= 0);
        if (tally.children[slot] == 0)
            run_case(fail_at, ever, url);
        slot = (slot + 1) % AT_ONCE;
    }
    for (slot = 0; slot < AT_ONCE; slot++)
        reap(&tally, slot);
    CHECK_EQ_U64(tally.outcomes[PATIENCE_OVER] + tally.outcomes[TWO_LEAD], 0);
    CHECK_EQ_U64(tally.outcomes[LEAKED] + tally.outcomes[WRONG_CODE], 0);
    CHECK_EQ_U64(tally.outcomes[CRASHED], 0);
    CHECK(tally.outcomes[TOLD] > 5);
    CHECK(tally.outcomes[FINE] > 10);
}

TEST(each_allocation_fails_once)
{
    torture(false, "memory:torture");
}

TEST(each_allocation_fails_and_all_after_it_for_a_while)
{
    torture(true, "memory:torture");
}

TEST(each_allocation_fails_once_on_sqlite)
{
    char dir[] = "/tmp/tenure-torture-......", url[64], command[64];

    memset(strchr(dir, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(url, sizeof url, "sqlite:%s/db", dir);
    torture(false, url);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK_EQ_I64(system(command), 0);
}
