/* callback_test.c - callbacks may block, call anything, leave and close. */
#include <string.h>

#include "runtime/clock.h"
#include "tests/lib/stage.h"

/* False: the token of @first was lost before @until, or @second won. */
static bool goes_on(const struct tenure_election *first, const struct tenure_election *second,
                    uint64_t token, tenure_ns until)
{
    while (tn_boottime() < until) {
        if (tenure_token(first) != token || tenure_token(second) != 0)
            return false;
        tn_clock_pause(TN_MS(2));
    }
    return true;
}

/* One callback of a blocks for ten TTLs. Meanwhile b, which waits for the same name, must not win;
 * and c, whose renewals are lost half-way, must hear of its end in time. */
static bool outlasts_a_blocked_callback(void)
{
    struct listener *one = listener_new(), *two = listener_new(), *three = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct tenure *c = stage_open(url, "c", 0);

    one->also = listener_block;
    atomic_store(&one->blocked, true);
    struct tenure_election *first = stage_campaign(a, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    struct tenure_election *second = stage_campaign(b, "job", 0, two);
    struct tenure_election *third = stage_campaign(c, "other", 0, three);
    CHECK(listener_waits(three, TENURE_WON, 1));
    uint64_t token = listener_last(one, TENURE_WON).token;
    tenure_ns begun = tn_boottime(), deadline = 0, last;
    bool fine = goes_on(first, second, token, begun + TN_SEC(5));
    stage_lose("c", 1u << TN_OP_RENEW);
    while ((last = tenure_deadline(third)) != 0)
        deadline = last;
    CHECK(listener_waits(three, TENURE_LOST, 1));
    fine = fine && (deadline == 0 || tn_boottime() < deadline + TN_MS(500));
    fine = fine && goes_on(first, second, token, begun + TN_SEC(10));
    atomic_store(&one->blocked, false);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_close(b), 0);
    CHECK_EQ_I64(tenure_close(c), 0);
    return fine;
}

/* A machine so loaded that a thread waits for half a second loses a term of one second rightly; it
 * gets another chance. If the callback were to blame, it would be each time. */
TEST(a_callback_that_blocks_for_ten_ttls_delays_nothing)
{
    CHECK(outlasts_a_blocked_callback() || outlasts_a_blocked_callback() ||
          outlasts_a_blocked_callback());
}

/* Another election of the same session, from within callbacks of the first. */
struct cast {
    struct tenure *tenure;
    struct tenure_election *other;
    struct listener *other_listener;
    atomic_int rc;
    atomic_bool done;
};

static void call_all(struct listener *listener, struct tenure_election *election,
                     const struct tenure_event *event)
{
    struct cast *cast = listener->arg;
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = listener_hear,
                                        .arg = cast->other_listener };
    struct tenure_election *watched = NULL;
    int rc = 0;

    if (event->kind != TENURE_WON || atomic_load(&cast->done))
        return;
    if (tenure_token(election) != event->token || tenure_deadline(election) == 0)
        listener->broken = "no token in WON";
    rc |= tenure_check_in(election) | tenure_ready(election, true) | tenure_stand(election);
    rc |= tenure_health(cast->tenure, NULL);
    rc |= tenure_observe(cast->tenure, "job", NULL, NULL, &watched);
    rc |= tenure_campaign(cast->tenure, "other", &campaign, &cast->other);
    tenure_leave(watched);
    rc |= tenure_resign(election) | tenure_drained(election) | tenure_stand(election);
    if (tenure_fd(cast->tenure) != -1 || tenure_dispatch(cast->tenure) != TENURE_E_INVALID)
        listener->broken = "a descriptor without an own loop";
    atomic_store(&cast->rc, rc);
    atomic_store(&cast->done, true);
}

TEST(every_call_works_from_within_a_callback)
{
    static struct cast cast;
    struct listener *one = listener_new(), *two = listener_new();

    cast = (struct cast) { .tenure = stage_open(stage_url(), "a", 0), .other_listener = two };
    one->also = call_all;
    one->arg = &cast;
    (void)stage_campaign(cast.tenure, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 2));
    CHECK_EQ_I64(atomic_load(&cast.rc), 0);
    CHECK(listener_waits(one, TENURE_LOST, 1));
    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_close(cast.tenure), 0);
}

static void leave_other_then_self(struct listener *listener, struct tenure_election *election,
                                  const struct tenure_event *event)
{
    struct cast *cast = listener->arg;

    if (event->kind != TENURE_WON)
        return;
    tenure_leave(cast->other);
    tenure_leave(election);
    if (tenure_token(election) != 0) /* Still there: this is its callback. */
        listener->broken = "a token after tenure_leave";
    if (tenure_resign(election) != TENURE_E_CLOSED)
        listener->broken = "an election that was left takes wishes";
    atomic_store(&cast->done, true);
}

TEST(a_callback_leaves_others_and_itself)
{
    static struct cast cast;
    const char *url = stage_url();
    struct listener *one = listener_new(), *two = listener_new(), *three = listener_new();
    struct tenure *b;

    cast = (struct cast) { .tenure = stage_open(url, "a", 0), .other_listener = two };
    b = stage_open(url, "b", 0);
    cast.other = stage_campaign(cast.tenure, "other", 0, two);
    CHECK(listener_waits(two, TENURE_WON, 1));
    one->also = leave_other_then_self;
    one->arg = &cast;
    (void)stage_campaign(cast.tenure, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    /* Both leases are free for the next. */
    (void)stage_campaign(b, "job", 0, three);
    CHECK(listener_waits(three, TENURE_WON, 1));
    (void)stage_campaign(b, "other", 0, three = listener_new());
    CHECK(listener_waits(three, TENURE_WON, 1));
    CHECK(atomic_load(&cast.done));
    CHECK_PROMISE(one->broken == NULL);
    CHECK_EQ_U64(listener_count(one, TENURE_WON), 1);
    CHECK_EQ_U64(listener_count(one, TENURE_LOST), 0);
    CHECK_EQ_I64(tenure_close(cast.tenure), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

static void close_inside(struct listener *listener, struct tenure_election *election,
                         const struct tenure_event *event)
{
    struct cast *cast = listener->arg;
    struct tenure_election *late = NULL;

    if (event->kind != TENURE_WON)
        return;
    if (tenure_close(cast->tenure) != 0)
        listener->broken = "close failed";
    if (tenure_stand(election) != TENURE_E_CLOSED ||
        tenure_campaign(cast->tenure, "late", NULL, &late) != TENURE_E_CLOSED || late != NULL)
        listener->broken = "a closed handle takes wishes";
    atomic_store(&cast->done, true);
}

TEST(a_callback_closes_its_handle)
{
    static struct cast cast;
    const char *url = stage_url();
    struct listener *one = listener_new(), *two = listener_new();
    struct tenure *b = stage_open(url, "b", 0);

    cast = (struct cast) { .tenure = stage_open(url, "a", 0) };
    one->also = close_inside;
    one->arg = &cast;
    (void)stage_campaign(cast.tenure, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    (void)stage_campaign(b, "job", 0, two);
    CHECK(listener_waits(two, TENURE_WON, 1)); /* So a's lease was given back. */
    CHECK(atomic_load(&cast.done));
    CHECK_PROMISE(one->broken == NULL);
    CHECK_EQ_U64(listener_count(one, TENURE_LOST), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

static void *leave_elsewhere(void *arg)
{
    struct cast *cast = arg;

    tenure_leave(cast->other); /* Waits for the callback, in which the handle is closed. */
    atomic_store(&cast->rc, 1);
    return NULL;
}

/* Leaves the leaver enough time to begin waiting; if it has not, the test only proves less. */
static void close_under_a_leaver(struct listener *listener, struct tenure_election *election,
                                 const struct tenure_event *event)
{
    struct cast *cast = listener->arg;
    tenure_ns by = tn_boottime() + TN_SEC(2);

    if (event->kind != TENURE_WON)
        return;
    while (tenure_token(election) != 0 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    (void)tenure_close(cast->tenure);
    atomic_store(&cast->done, true);
}

TEST(a_callback_closes_while_another_thread_waits_to_leave)
{
    for (int i = 0; i < 20; i++) {
        static struct cast cast;
        struct listener *one = listener_new();
        pthread_t leaver;

        cast = (struct cast) { .tenure = stage_open(stage_url(), "a", 0) };
        one->also = close_under_a_leaver;
        one->arg = &cast;
        cast.other = stage_campaign(cast.tenure, "job", 0, one);
        CHECK(listener_waits(one, TENURE_WON, 1));
        CHECK(pthread_create(&leaver, NULL, leave_elsewhere, &cast) == 0);
        CHECK(pthread_join(leaver, NULL) == 0);
        CHECK(atomic_load(&cast.done));
        CHECK_EQ_I64(atomic_load(&cast.rc), 1);
    }
}

static void *leave_blocked(void *arg)
{
    struct cast *cast = arg;

    tenure_leave(cast->other);
    atomic_store(&cast->done, true);
    return NULL;
}

TEST(leave_returns_only_when_the_callback_has)
{
    static struct cast cast;
    struct listener *one = listener_new();
    pthread_t leaver;

    cast = (struct cast) { .tenure = stage_open(stage_url(), "a", 0) };
    one->also = listener_block;
    atomic_store(&one->blocked, true);
    cast.other = stage_campaign(cast.tenure, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    CHECK(pthread_create(&leaver, NULL, leave_blocked, &cast) == 0);
    CHECK(stage_leads(cast.other, false)); /* It is in tenure_leave. */
    tenure_ns until = tn_boottime() + TN_MS(50);
    while (tn_boottime() < until) {
        CHECK(!atomic_load(&cast.done));
        tn_clock_pause(TN_MS(1));
    }
    atomic_store(&one->blocked, false);
    CHECK(pthread_join(leaver, NULL) == 0);
    CHECK(atomic_load(&cast.done));
    CHECK_EQ_U64(listener_count(one, TENURE_LOST), 0);
    CHECK_EQ_I64(tenure_close(cast.tenure), 0);
}
