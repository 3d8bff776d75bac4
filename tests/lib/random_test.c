/* random_test.c - many threads wish at random; each election hears WON and LOST in turn. */
#include "base/prng.h"
#include "runtime/clock.h"
#include "tests/lib/stage.h"

enum { THREADS = 4, ELECTIONS = 3, SESSIONS = 2 };

static struct tenure_election *elections[SESSIONS][ELECTIONS];
static atomic_bool over;

static void wish(struct tenure_election *election, uint64_t what)
{
    switch (what) {
    case 0:
        (void)tenure_resign(election);
        break;
    case 1:
    case 2:
        (void)tenure_stand(election);
        break;
    case 3:
        (void)tenure_ready(election, false);
        break;
    case 4:
    case 5:
        (void)tenure_ready(election, true);
        break;
    case 6:
        (void)tenure_check_in(election);
        break;
    default:
        (void)tenure_drained(election);
    }
}

static void *wish_at_random(void *arg)
{
    struct tn_prng prng;

    tn_prng_seed(&prng, (uint64_t)(uintptr_t)arg);
    while (!atomic_load(&over)) {
        uint64_t session = tn_prng_below(&prng, SESSIONS), number = tn_prng_below(&prng, ELECTIONS);
        wish(elections[session][number], tn_prng_below(&prng, 10));
        if (tn_prng_below(&prng, 4) == 0)
            tn_clock_pause(TN_US(200));
    }
    return NULL;
}

/* At any instant at most one of a name's two elections may have a token. */
static bool is_led_twice(unsigned number)
{
    uint64_t one = tenure_token(elections[0][number]);
    uint64_t two = tenure_token(elections[1][number]);

    return one != 0 && two != 0 && tenure_token(elections[0][number]) == one;
}

TEST(won_and_lost_alternate_under_random_wishes)
{
    static const char *const names[ELECTIONS] = { "x", "y", "z" };
    static char first[] = "1234";
    const char *url = stage_url();
    struct tenure *sessions[SESSIONS] = { stage_open(url, "a", 0), stage_open(url, "b", 0) };
    struct listener *listeners[SESSIONS][ELECTIONS];
    pthread_t threads[THREADS];
    unsigned terms = 0;

    for (unsigned i = 0; i < SESSIONS * ELECTIONS; i++) {
        unsigned s = i / ELECTIONS, e = i % ELECTIONS;
        listeners[s][e] = listener_new();
        elections[s][e] = stage_campaign(sessions[s], names[e],
                                         e == 2 ? TENURE_DRAINED_ON_RETURN : 0, listeners[s][e]);
    }
    atomic_store(&over, false);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, wish_at_random, &first[i]) == 0);
    tenure_ns begun = tn_boottime(), by = begun + STAGE_PATIENCE;
    bool twice = false;
    while (tn_boottime() < begun + TN_SEC(1) || (terms <= 20 && tn_boottime() < by)) {
        terms = 0;
        for (unsigned i = 0; i < SESSIONS * ELECTIONS; i++) {
            twice = twice || is_led_twice(i % ELECTIONS);
            terms += listener_count(listeners[i / ELECTIONS][i % ELECTIONS], TENURE_WON);
        }
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_PROMISE(!twice);
    for (unsigned i = 0; i < SESSIONS * ELECTIONS; i++) {
        struct listener *listener = listeners[i / ELECTIONS][i % ELECTIONS];
        CHECK(listener_waits(listener, TENURE_WON, 0)); /* Looks for what is broken. */
    }
    CHECK(terms > 20);
    CHECK_EQ_I64(tenure_close(sessions[0]), 0);
    CHECK_EQ_I64(tenure_close(sessions[1]), 0);
}

static void *come_and_go(void *arg)
{
    struct tenure *tenure = arg;

    for (int i = 0; i < 100; i++) {
        struct tenure_election *mine = NULL, *watched = NULL;
        if (tenure_campaign(tenure, "x", NULL, &mine) != 0 ||
            tenure_observe(tenure, "x", NULL, NULL, &watched) != 0)
            return tenure;
        (void)tenure_token(mine);
        tenure_leave(watched);
        (void)tenure_drained(mine);
        tenure_leave(mine);
    }
    return NULL;
}

/* Elections begin and end on several threads; the one that stays must lead in the end, which it
 * cannot if the lease of one that left was forgotten. */
TEST(elections_come_and_go_on_all_threads)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    pthread_t threads[THREADS];
    void *failed;

    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, come_and_go, tenure) == 0);
    (void)stage_campaign(tenure, "x", 0, listener);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], &failed) == 0);
        CHECK(failed == NULL);
    }
    CHECK(listener_waits(listener, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_close(tenure), 0);
}
