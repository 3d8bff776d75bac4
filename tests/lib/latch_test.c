/* latch_test.c - P6: a token that was 0 once stays 0 for its term; readers without the lock. */
#include "lib/private.h"
#include "runtime/clock.h"
#include "tests/lib/stage.h"

/* Called instead of the clock of tenure_token (--wrap), to be in the middle of it. */
static void (*at_clock)(void);

tenure_ns __real_tn_boottime(void);
tenure_ns __wrap_tn_boottime(void);

tenure_ns __wrap_tn_boottime(void)
{
    tenure_ns now = __real_tn_boottime();

    if (at_clock != NULL)
        at_clock();
    return now;
}

static struct tn_shared shared;
static struct tenure handle;
static struct tenure_election election;
static unsigned calls;

static void set_up(tenure_ns deadline)
{
    handle.shared = &shared;
    election.tenure = &handle;
    atomic_store(&shared.deadline, deadline);
    atomic_store(&shared.alive, 1);
    atomic_store(&election.token, 7);
    calls = 0;
}

static void renew_in_time(void)
{
    if (calls++ == 0)
        atomic_store(&shared.deadline, __real_tn_boottime() + TN_SEC(1));
}

/* The reader took the old deadline, and before it took the time a renewal came through. To say 0
 * would be a lie that the next call takes back. */
TEST(an_extension_that_came_in_time_is_seen)
{
    set_up(1);
    at_clock = renew_in_time;
    uint64_t first = tenure_token(&election);
    at_clock = NULL;
    CHECK_EQ_U64(first, 7);
    CHECK_EQ_U64(tenure_token(&election), 7);
}

static void lose(void)
{
    if (calls++ == 0)
        atomic_store(&shared.deadline, 0);
}

TEST(a_session_that_ended_meanwhile_is_no_term)
{
    set_up(1);
    at_clock = lose;
    uint64_t first = tenure_token(&election);
    at_clock = NULL;
    CHECK_EQ_U64(first, 0);
    CHECK_EQ_U64(tenure_token(&election), 0);
}

TEST(whoever_saw_the_deadline_pass_ends_it_for_all)
{
    set_up(__real_tn_boottime() - 1);
    CHECK_EQ_U64(tenure_token(&election), 0);
    CHECK_EQ_I64(atomic_load(&shared.deadline), 0);
    CHECK_EQ_I64(tenure_deadline(&election), 0);
    CHECK_EQ_U64(tenure_token(NULL), 0);
    CHECK_EQ_I64(tenure_deadline(NULL), 0);
}

/* --- With the real thing ---------------------------------------------------------------------- */

static struct tenure_election *contested;
static atomic_bool over;

/* Sees 0 and then the same token again: NULL if it never did. */
static void *read_on(void *arg)
{
    uint64_t ended = 0, last = 0;

    (void)arg;
    while (!atomic_load(&over)) {
        uint64_t token = tenure_token(contested);
        if (token == 0 && last != 0)
            ended = last;
        if (token != 0 && token <= ended)
            return contested;
        if (token != 0)
            last = token;
    }
    return NULL;
}

/* Renewals are kept back until about the deadline, so that they race with it. */
TEST(late_renewals_do_not_revive_a_term)
{
    struct listener *one = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    pthread_t readers[2];
    void *revived[2];

    contested = stage_campaign(tenure, "job", TENURE_DRAINED_ON_RETURN, one);
    atomic_store(&over, false);
    CHECK(listener_waits(one, TENURE_WON, 1));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&readers[i], NULL, read_on, NULL) == 0);
    stage_lose("a", 1u << TN_OP_RENEW);
    tenure_ns deadline = tenure_deadline(contested), last;
    while (tn_boottime() < deadline - TN_MS(1) && (last = tenure_deadline(contested)) != 0)
        deadline = last;
    stage_lose("a", 0);
    /* It ended, or was renewed just in time; another term or renewal shows that all goes on. */
    CHECK(stage_leads(contested, true));
    uint64_t token = tenure_token(contested);
    CHECK_EQ_I64(tenure_drained(contested), 0);
    CHECK(stage_leads(contested, true));
    CHECK(tenure_token(contested) > token);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(readers[i], &revived[i]) == 0);
    CHECK_PROMISE(revived[0] == NULL && revived[1] == NULL);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}
