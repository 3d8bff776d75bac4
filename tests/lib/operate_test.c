/* operate_test.c - tenure_revoke and tenure_handover: what comes of them, and what they say. */
#include <string.h>

#include "runtime/clock.h"
#include "tests/lib/stage.h"

static int hand_over(struct tenure *tenure, const char *to, tenure_ns wait, uint64_t *ret_token,
                     struct tenure_error *reterr)
{
    struct tenure_handover_options options = { .size = sizeof options, .to = to, .wait = wait };

    return tenure_handover(tenure, "job", &options, ret_token, reterr);
}

TEST(a_revoked_lease_is_lost_and_the_next_one_leads)
{
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct listener *on_a = listener_new();
    struct tenure_error error;

    CHECK_EQ_I64(tenure_revoke(b, "job", 0, &error), TENURE_E_NOT_HELD);
    CHECK_STR(error.text, "job: nobody holds it");
    struct tenure_election *first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, on_a);
    CHECK(listener_waits(on_a, TENURE_WON, 1));
    uint64_t token = tenure_token(first);
    struct tenure_election *second = stage_campaign(b, "job", TENURE_DRAINED_ON_RETURN, NULL);
    CHECK_EQ_I64(tenure_revoke(b, "job", token + 1, &error), TENURE_E_NOT_HELD);
    CHECK(strstr(error.text, "is not current") != NULL);
    CHECK_EQ_I64(tenure_revoke(b, "job", token, &error), 0);
    CHECK_STR(error.text, "");
    CHECK(listener_waits(on_a, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(on_a, TENURE_LOST).reason, TENURE_REASON_REVOKED);
    CHECK(stage_leads(second, true));
    CHECK_EQ_I64(tenure_revoke(a, "job", 0, NULL), 0);
    CHECK(stage_leads(first, true));
    CHECK(tenure_token(first) > token);
    CHECK_EQ_I64(tenure_revoke(a, "no name", 0, &error), TENURE_E_INVALID);
    CHECK(strstr(error.text, "is not a name") != NULL);
    stage_spoil_next(TN_OP_REVOKE);
    CHECK(tenure_revoke(a, "job", 0, &error) < 0);
    CHECK(error.text[0] != '\0');
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(a_hand_over_ends_when_the_next_one_leads)
{
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0),
                  *c = stage_open(url, "c", 0);
    struct listener *on_a = listener_new();
    struct tenure_election *first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, on_a);
    struct tenure_error error;
    uint64_t token = 0;

    CHECK(listener_waits(on_a, TENURE_WON, 1));
    struct tenure_election *second = stage_campaign(b, "job", TENURE_DRAINED_ON_RETURN, NULL);
    CHECK_EQ_I64(hand_over(c, NULL, STAGE_PATIENCE, &token, &error), 0);
    CHECK_STR(error.text, "");
    CHECK_EQ_I64(listener_last(on_a, TENURE_STOP).reason, TENURE_REASON_ASKED);
    CHECK_EQ_I64(listener_last(on_a, TENURE_LOST).reason, TENURE_REASON_RELEASED);
    CHECK(stage_leads(second, true));
    CHECK(tenure_token(second) == token);
    /* To one of two, from the holder itself. */
    struct tenure_election *third = stage_campaign(c, "job", TENURE_DRAINED_ON_RETURN, NULL);
    CHECK_EQ_I64(hand_over(b, "c", STAGE_PATIENCE, &token, &error), 0);
    CHECK(stage_leads(third, true));
    CHECK(tenure_token(third) == token);
    CHECK_EQ_I64(hand_over(b, "c", STAGE_PATIENCE, &token, &error), 0); /* It leads already. */
    CHECK(tenure_token(third) == token);
    (void)first;
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
    CHECK_EQ_I64(tenure_close(c), 0);
}

/* Of a listener that asks from within its callback. */
struct within {
    struct tenure *tenure;
    int handed_over, revoked;
    bool asked;
};

/* Hands over what it has just won, which a callback must not; and revokes it, which it may. */
static void ask_within(struct listener *listener, struct tenure_election *election,
                       const struct tenure_event *event)
{
    struct within *within = listener->arg;

    (void)election;
    if (event->kind != TENURE_WON || within->asked)
        return;
    within->asked = true;
    within->handed_over = tenure_handover(within->tenure, "job", NULL, NULL, NULL);
    within->revoked = tenure_revoke(within->tenure, "job", event->token, NULL);
}

TEST(a_hand_over_that_comes_to_nothing_says_why)
{
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct listener *on_a = listener_new();
    struct tenure_handover_options options = { .size = 0 };
    struct tenure_error error;
    uint64_t token = 77;

    CHECK_EQ_I64(hand_over(b, NULL, TN_SEC(1), &token, &error), TENURE_E_NOT_HELD);
    CHECK_STR(error.text, "job: nobody holds it");
    CHECK_EQ_I64(tenure_handover(b, "job", &options, &token, &error), TENURE_E_INVALID);
    CHECK_EQ_I64(hand_over(b, "", TN_SEC(1), &token, &error), TENURE_E_INVALID);
    CHECK_EQ_I64(hand_over(b, NULL, -1, &token, &error), TENURE_E_INVALID);
    /* It does not stop: neither note stays behind. */
    struct tenure_election *first = stage_campaign(a, "job", 0, on_a);
    CHECK(listener_waits(on_a, TENURE_WON, 1));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_I64(hand_over(b, NULL, TN_MS(150), &token, &error), TENURE_E_TIMEOUT);
        CHECK(strstr(error.text, "nobody else leads yet") != NULL);
    }
    tenure_leave(first);
    /* Nobody else is there. */
    first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, listener_new());
    CHECK(stage_leads(first, true));
    CHECK_EQ_I64(hand_over(b, NULL, STAGE_PATIENCE, &token, &error), TENURE_E_CONFLICT);
    CHECK(strstr(error.text, "a stepped down and leads again") != NULL);
    CHECK(token == 77);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(within_a_callback_one_may_revoke_but_not_hand_over)
{
    static struct within within;
    struct listener *listener = listener_new();

    within.tenure = stage_open(stage_url(), "a", 0);
    listener->also = ask_within;
    listener->arg = &within;
    (void)stage_campaign(within.tenure, "job", TENURE_DRAINED_ON_RETURN, listener);
    CHECK(listener_waits(listener, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(listener, TENURE_LOST).reason, TENURE_REASON_REVOKED);
    CHECK_EQ_I64(within.handed_over, TENURE_E_INVALID);
    CHECK_EQ_I64(within.revoked, 0);
    CHECK_EQ_I64(tenure_close(within.tenure), 0);
}
