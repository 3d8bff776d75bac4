/* slots_test.c - semaphores: who leads, in which slot, and what it costs; and the proof that comes
 * with LOST. */
#include <stddef.h>
#include <string.h>

#include "runtime/clock.h"
#include "tests/lib/stage.h"

static struct tenure_election *stand(struct tenure *tenure, uint32_t slots,
                                     struct listener *listener)
{
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = listener_hear,
                                        .arg = listener,
                                        .flags = TENURE_DRAINED_ON_RETURN,
                                        .slots = slots };
    struct tenure_election *election;
    struct tenure_error error = { 0 };

    int rc = tenure_campaign_start(tenure, "pool", &campaign, &election, &error);
    CHECK_STR(error.text, "");
    CHECK_EQ_I64(rc, 0);
    return election;
}

TEST(two_slots_have_two_leaders_and_the_third_one_waits)
{
    const char *url = stage_url();
    struct tenure *sessions[3] = { stage_open(url, "a", 0), stage_open(url, "b", 0),
                                   stage_open(url, "c", 0) };
    struct listener *listeners[3] = { listener_new(), listener_new(), listener_new() };
    struct tenure_election *elections[3];

    for (int i = 0; i < 3; i++) {
        elections[i] = stand(sessions[i], 2, listeners[i]);
        CHECK(i == 2 || listener_waits(listeners[i], TENURE_WON, 1));
    }
    CHECK_STR(tenure_name(elections[0]), "pool");
    CHECK_EQ_I64(tenure_slot(elections[0]) + tenure_slot(elections[1]), 3);
    CHECK(tenure_token(elections[0]) != tenure_token(elections[1]));
    CHECK(listener_waits(listeners[2], TENURE_LEADER, 1)); /* Others hold all. */
    CHECK_EQ_I64(tenure_slot(elections[2]), 0);
    CHECK_EQ_I64(listener_count(listeners[2], TENURE_WON), 0);
    uint32_t slot = tenure_slot(elections[0]);
    CHECK_EQ_I64(tenure_resign(elections[0]), 0);
    CHECK(stage_leads(elections[2], true));
    CHECK_EQ_I64(tenure_slot(elections[2]), slot);
    CHECK(listener_waits(listeners[0], TENURE_LOST, 1));
    CHECK_EQ_I64(tenure_stand(elections[0]), 0);
    tenure_leave(elections[1]);
    CHECK(stage_leads(elections[0], true));
    for (int i = 0; i < 3; i++) {
        CHECK(listeners[i]->broken == NULL);
        CHECK_EQ_I64(tenure_close(sessions[i]), 0);
    }
}

TEST(a_free_slot_costs_one_request)
{
    const char *url = stage_url();
    struct tenure *tenure = stage_open(url, "a", 0);
    struct tenure_election *election = stand(tenure, 8, listener_new());

    CHECK(stage_leads(election, true));
    CHECK_EQ_I64(stage_sent(TN_OP_ACQUIRE), 1);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(one_that_is_not_ready_or_has_resigned_wins_no_slot)
{
    const char *url = stage_url();
    struct tenure *tenure = stage_open(url, "a", 0);
    struct listener *listener = listener_new();
    struct tenure_election *election = stand(tenure, 3, listener);

    CHECK(listener_waits(listener, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_ready(election, false), 0);
    CHECK_EQ_I64(tenure_drained(election), 0); /* The work is done. */
    CHECK(listener_waits(listener, TENURE_LOST, 1));
    CHECK(stage_leads(election, false));
    CHECK_EQ_I64(tenure_ready(election, true), 0);
    CHECK(listener_waits(listener, TENURE_WON, 2));
    CHECK_EQ_I64(tenure_resign(election), 0);
    CHECK(listener_waits(listener, TENURE_LOST, 2));
    CHECK_EQ_I64(tenure_stand(election), 0);
    CHECK(listener_waits(listener, TENURE_WON, 3));
    CHECK(listener->broken == NULL);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(a_semaphore_with_a_fence_too_many_slots_or_a_slots_name_is_refused)
{
    static const char *const fences[] = { "file:/nowhere", NULL };
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_campaign campaign = { .size = sizeof campaign, .slots = 65 };
    struct tenure_election *election;
    struct tenure_error error;
    char name[256];

    CHECK_EQ_I64(tenure_campaign_start(tenure, "pool", &campaign, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "at most 64") != NULL);
    campaign.slots = 2;
    campaign.fences = fences;
    CHECK_EQ_I64(tenure_campaign_start(tenure, "pool", &campaign, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "highest token only") != NULL);
    campaign.fences = NULL;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_EQ_I64(tenure_campaign_start(tenure, name, &campaign, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "too long") != NULL);
    CHECK_EQ_I64(tenure_campaign_start(tenure, "pool/~1", NULL, &election, &error),
                 TENURE_E_INVALID);
    CHECK(strstr(error.text, "is a slot") != NULL);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(options_of_the_version_before_slots_are_good)
{
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_campaign campaign = { .size = offsetof(struct tenure_campaign, slots),
                                        .slots = 65 };
    struct tenure_election *election;

    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), 0);
    CHECK(stage_leads(election, true));
    CHECK_EQ_I64(tenure_slot(election), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(lost_tells_when_the_last_confirmed_renewal_was_sent)
{
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct listener *listener = listener_new();
    tenure_ns began = tn_boottime();

    (void)stage_campaign(tenure, "job", TENURE_DRAINED_ON_RETURN, listener);
    CHECK(listener_waits(listener, TENURE_WON, 1));
    CHECK_EQ_I64(listener_last(listener, TENURE_WON).proven, 0);
    stage_lose("a", 1U << TN_OP_RENEW);
    tenure_ns cut = tn_boottime();
    CHECK(listener_waits(listener, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(listener, TENURE_LOST).reason, TENURE_REASON_EXPIRED);
    tenure_ns proven = listener_last(listener, TENURE_LOST).proven;
    CHECK(proven >= began && proven <= cut);
    stage_lose("a", 0);
    (void)tenure_close(tenure);
}
