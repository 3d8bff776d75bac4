/* priority_test.c - priority, TENURE_YIELD and hold_off of the library. */
#include <string.h>

#include "runtime/clock.h"
#include "tests/lib/stage.h"

static struct tenure_election *stand(struct tenure *tenure, uint32_t priority, unsigned flags,
                                     struct listener *listener)
{
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = listener_hear,
                                        .arg = listener,
                                        .flags = TENURE_DRAINED_ON_RETURN | flags,
                                        .priority = priority };
    struct tenure_election *election = NULL;
    struct tenure_error error = { 0 };

    int rc = tenure_campaign_start(tenure, "job", &campaign, &election, &error);
    CHECK_STR(error.text, "");
    CHECK_EQ_I64(rc, 0);
    return election;
}

static bool was_sent(enum tn_op_kind kind, unsigned count)
{
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    while (stage_sent(kind) < count && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    return stage_sent(kind) >= count;
}

TEST(of_those_who_wait_the_higher_priority_leads_first)
{
    const char *url = stage_url();
    struct tenure *first = stage_open(url, "first", 0), *low = stage_open(url, "low", 0),
                  *high = stage_open(url, "high", 0);
    struct listener *on_low = listener_new(), *on_high = listener_new();
    struct tenure_election *holder = stage_campaign(first, "job", TENURE_DRAINED_ON_RETURN, NULL);

    CHECK(stage_leads(holder, true));
    CHECK_EQ_I64(stage_sent(TN_OP_ACQUIRE), 1);
    (void)stand(low, 2, 0, on_low);
    CHECK(was_sent(TN_OP_ACQUIRE, 3)); /* Its place, and the lease of its level. */
    (void)stand(high, 8, 0, on_high);
    CHECK(was_sent(TN_OP_ACQUIRE, 5));
    CHECK(was_sent(TN_OP_RELEASE, 2)); /* The lower one gives up both for now. */
    CHECK_EQ_I64(tenure_close(first), 0);
    CHECK(listener_waits(on_high, TENURE_WON, 1));
    CHECK_EQ_I64(listener_count(on_low, TENURE_WON), 0);
    CHECK_EQ_I64(tenure_close(high), 0);
    CHECK(listener_waits(on_low, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_close(low), 0);
}

/* What was asked for; the detail is good during the callback only. */
static void keep_detail(struct listener *listener, struct tenure_election *election,
                        const struct tenure_event *event)
{
    (void)election;
    if (event->kind == TENURE_STOP)
        atomic_store(&listener->blocked, strcmp(event->detail, "yield") == 0);
}

TEST(a_leader_that_yields_is_told_to_stop_for_a_higher_one)
{
    const char *url = stage_url();
    struct tenure *low = stage_open(url, "low", 0), *high = stage_open(url, "high", 0);
    struct listener *on_low = listener_new(), *on_high = listener_new();

    on_low->also = keep_detail;
    (void)stand(low, 2, TENURE_YIELD, on_low);
    CHECK(listener_waits(on_low, TENURE_WON, 1));
    (void)stand(high, 8, TENURE_YIELD, on_high);
    CHECK(listener_waits(on_low, TENURE_STOP, 1));
    CHECK_EQ_I64(listener_last(on_low, TENURE_STOP).reason, TENURE_REASON_ASKED);
    CHECK(atomic_load(&on_low->blocked));
    CHECK(listener_waits(on_high, TENURE_WON, 1));
    CHECK_EQ_I64(listener_last(on_low, TENURE_LOST).reason, TENURE_REASON_RELEASED);
    CHECK_EQ_I64(listener_count(on_high, TENURE_STOP), 0); /* It does not yield to a lower one. */
    CHECK_EQ_I64(tenure_close(low), 0);
    CHECK_EQ_I64(tenure_close(high), 0);
}

TEST(a_priority_above_nine_or_with_slots_is_refused)
{
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_campaign campaign = { .size = sizeof campaign, .priority = 10 };
    struct tenure_election *election;
    struct tenure_error error;

    CHECK_EQ_I64(tenure_campaign_start(tenure, "job", &campaign, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "priority") != NULL);
    campaign.priority = 1;
    campaign.slots = 2;
    CHECK_EQ_I64(tenure_campaign_start(tenure, "job", &campaign, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "priority") != NULL);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* How long behind the deadline of a term that was lost the next one leads. */
static tenure_ns time_to_next(tenure_ns hold_off)
{
    struct tenure_options options = {
        .size = sizeof options, .id = "lost", .ttl = TN_SEC(1), .hold_off = hold_off
    };
    const char *url = stage_url();
    struct tenure *tenure, *other = stage_open(url, "other", 0);
    tenure_ns deadline = 0, seen;

    CHECK_EQ_I64(tenure_open(url, &options, &tenure, NULL), 0);
    struct tenure_election *holder = stage_campaign(tenure, "job", TENURE_DRAINED_ON_RETURN, NULL);
    CHECK(stage_leads(holder, true));
    struct tenure_election *next = stage_campaign(other, "job", TENURE_DRAINED_ON_RETURN, NULL);
    stage_lose("lost", (1u << TN_OP_RENEW) | (1u << TN_OP_OPEN));
    while ((seen = tenure_deadline(holder)) != 0) {
        deadline = seen;
        tn_clock_pause(TN_MS(1));
    }
    CHECK(stage_leads(next, true));
    seen = tn_boottime();
    stage_lose("", 0);
    (void)tenure_close(tenure);
    CHECK_EQ_I64(tenure_close(other), 0);
    return seen - deadline;
}

TEST(nobody_leads_for_the_hold_off_behind_a_term_that_was_lost)
{
    CHECK_PROMISE(time_to_next(TN_SEC(3)) >= TN_SEC(3));
}

TEST(without_a_hold_off_the_next_one_leads_sooner)
{
    CHECK(time_to_next(0) < TN_SEC(3));
}
