/* wait_test.c - tenure_wait, and what tenure_campaign_start and tenure_observe_start say. */
#include <string.h>

#include "lib/private.h"
#include "runtime/clock.h"
#include "tests/lib/stage.h"

struct waiting {
    struct tenure_election *election;
    tenure_ns timeout;
    uint64_t token;
    int rc;
    atomic_bool ended;
};

static void *wait_for_it(void *arg)
{
    struct waiting *waiting = arg;

    waiting->rc = tenure_wait(waiting->election, waiting->timeout, &waiting->token);
    atomic_store(&waiting->ended, true);
    return NULL;
}

static bool is_waited_for(const struct tenure_election *election)
{
    tn_driver_lock(&election->tenure->driver);
    bool waited_for = election->waiters > 0;
    tn_driver_unlock(&election->tenure->driver);
    return waited_for;
}

/* Returns when the thread is inside tenure_wait: before that, nobody may leave the election. */
static pthread_t start_waiting(struct waiting *waiting)
{
    pthread_t thread;

    CHECK_EQ_I64(pthread_create(&thread, NULL, wait_for_it, waiting), 0);
    while (!is_waited_for(waiting->election) && !atomic_load(&waiting->ended))
        tn_clock_pause(TN_MS(1));
    return thread;
}

TEST(wait_returns_the_token_of_a_term_that_is_or_comes)
{
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", TENURE_OWN_LOOP), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, NULL);
    uint64_t token = 0;

    CHECK_EQ_I64(tenure_wait(first, -1, &token), 0);
    CHECK(token != 0 && token == tenure_token(first));
    CHECK_EQ_I64(tenure_wait(first, 0, &token), 0);
    struct waiting waiting = { .timeout = STAGE_PATIENCE };
    waiting.election = stage_campaign(b, "job", TENURE_DRAINED_ON_RETURN, NULL);
    pthread_t thread = start_waiting(&waiting);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(pthread_join(thread, NULL), 0);
    CHECK_EQ_I64(waiting.rc, 0);
    CHECK(waiting.token > token);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(wait_gives_up_in_time_and_leaves_its_output_alone)
{
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", 0, NULL);
    struct tenure_election *second;
    uint64_t token = 4711;

    CHECK(stage_leads(first, true));
    second = stage_campaign(b, "job", 0, NULL);
    tenure_ns began = tn_boottime();
    CHECK_EQ_I64(tenure_wait(second, TN_MS(300), &token), TENURE_E_TIMEOUT);
    CHECK(tn_boottime() - began >= TN_MS(300));
    CHECK_EQ_I64(tenure_wait(second, 0, &token), TENURE_E_TIMEOUT);
    CHECK_EQ_I64((int64_t)token, 4711);
    CHECK_EQ_I64(tenure_wait(NULL, 0, &token), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_wait(second, 0, NULL), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_observe(b, "job", NULL, NULL, &second), 0);
    CHECK_EQ_I64(tenure_wait(second, 0, &token), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(wait_ends_when_the_election_or_the_handle_does)
{
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct waiting one = { .timeout = -1 }, two = { .timeout = STAGE_PATIENCE };

    CHECK(stage_leads(stage_campaign(a, "job", 0, NULL), true));
    CHECK(stage_leads(stage_campaign(a, "other", 0, NULL), true));
    one.election = stage_campaign(b, "job", 0, NULL);
    two.election = stage_campaign(b, "other", 0, NULL);
    pthread_t first = start_waiting(&one), second = start_waiting(&two);
    tenure_leave(one.election);
    CHECK_EQ_I64(pthread_join(first, NULL), 0);
    CHECK_EQ_I64(one.rc, TENURE_E_CLOSED);
    CHECK_EQ_I64(tenure_close(b), 0);
    CHECK_EQ_I64(pthread_join(second, NULL), 0);
    CHECK_EQ_I64(two.rc, TENURE_E_CLOSED);
    CHECK_EQ_I64(tenure_close(a), 0);
}

/* P5: an operator's hand-over, or a resignation, in the middle of a write. The write ends, the loop
 * asks tenure_wait again, and only then the next candidate leads. */
TEST(without_a_callback_the_lease_passes_on_when_wait_is_called_again)
{
    struct listener *next = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open_ttl(url, "a", 0, TN_SEC(10)), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, NULL);
    uint64_t token = 0, other = 0;

    CHECK_EQ_I64(tenure_wait(first, STAGE_PATIENCE, &token), 0);
    (void)stage_campaign(b, "job", TENURE_DRAINED_ON_RETURN, next);
    CHECK_EQ_I64(tenure_resign(first), 0);
    CHECK(stage_leads(first, false)); /* The loop hears of it. */
    tn_clock_pause(TN_MS(500));       /* The write goes on. */
    CHECK_EQ_U64(listener_count(next, TENURE_WON), 0);
    CHECK_EQ_I64(tenure_wait(first, 0, &other), TENURE_E_TIMEOUT);
    CHECK(listener_waits(next, TENURE_WON, 1));
    CHECK(listener_last(next, TENURE_WON).token > token);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

/* Inside tenure_wait nothing runs, and a token that nobody has read started nothing. */
TEST(without_a_callback_a_term_that_nobody_works_in_passes_on_at_once)
{
    struct listener *next = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open_ttl(url, "a", 0, TN_SEC(10)), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, NULL);
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    while (atomic_load(&first->token) == 0 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    (void)stage_campaign(b, "job", TENURE_DRAINED_ON_RETURN, next);
    CHECK_EQ_I64(tenure_resign(first), 0);
    CHECK(listener_waits(next, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(without_a_callback_one_thread_waits_for_the_terms)
{
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct waiting other = { .timeout = 0 };
    uint64_t token = 0;

    other.election = stage_campaign(tenure, "job", TENURE_DRAINED_ON_RETURN, NULL);
    CHECK_EQ_I64(tenure_wait(other.election, STAGE_PATIENCE, &token), 0);
    pthread_t thread = start_waiting(&other);
    CHECK_EQ_I64(pthread_join(thread, NULL), 0);
    CHECK_EQ_I64(other.rc, TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

static void check_refused(struct tenure *tenure, const char *name, tenure_campaign_options options,
                          const char *words)
{
    struct tenure_election *election = NULL;
    struct tenure_error error = { 0 };

    if (options.size == 0)
        options.size = sizeof options;
    CHECK_EQ_I64(tenure_campaign_start(tenure, name, &options, &election, &error),
                 TENURE_E_INVALID);
    CHECK_EQ_I64(error.code, TENURE_E_INVALID);
    CHECK(strstr(error.text, words) != NULL);
    CHECK(election == NULL);
    CHECK_EQ_I64(tenure_campaign_start(tenure, name, &options, &election, NULL), TENURE_E_INVALID);
}

TEST(a_campaign_that_is_refused_says_why)
{
    static const char *const fences[] = { "nowhere:x", NULL };
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = NULL;
    struct tenure_error error = { .code = 1 };

    check_refused(tenure, "a//b", (tenure_campaign_options) { 0 }, "'a//b' is not a name: ");
    check_refused(tenure, NULL, (tenure_campaign_options) { 0 }, "is not a name: it is NULL");
    check_refused(tenure, "a", (tenure_campaign_options) { .size = 3 }, "wrong size");
    check_refused(tenure, "a", (tenure_campaign_options) { .flags = 1u << 30 }, "unknown flags");
    check_refused(tenure, "a", (tenure_campaign_options) { .stall_after = -1 }, "stall_after");
    check_refused(tenure, "a", (tenure_campaign_options) { .grace = -1 }, "0 to the TTL");
    check_refused(tenure, "a", (tenure_campaign_options) { .grace = TN_MS(800) }, "tenure plan");
    check_refused(tenure, "a", (tenure_campaign_options) { .fences = fences }, "nowhere");
    CHECK_EQ_I64(tenure_observe_start(tenure, "a b", NULL, NULL, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "'a b' is not a name: ") != NULL);
    CHECK_EQ_I64(tenure_campaign_start(tenure, "a", NULL, &election, &error), 0);
    CHECK_EQ_I64(error.code, 0);
    CHECK_STR(error.text, "");
    CHECK_EQ_I64(tenure_close(tenure), 0);
}
