/* arguments_test.c - what is refused, and what the refusal says. */
#include <string.h>

#include "tests/lib/stage.h"

static int open_with(struct tenure_options options, struct tenure_error *error)
{
    struct tenure *tenure = NULL;
    int rc;

    if (options.size == 0)
        options.size = sizeof options;
    rc = tenure_open("memory:arguments", &options, &tenure, error);
    CHECK((tenure != NULL) == (rc == 0));
    CHECK_EQ_I64(error->code, rc);
    CHECK((error->text[0] != '\0') == (rc != 0));
    (void)tenure_close(tenure);
    return rc;
}

TEST(options_of_another_size_or_with_unknown_flags_are_refused)
{
    struct tenure_error error;
    struct tenure_options options = { 0 };

    options.size = sizeof options + 1;
    CHECK_EQ_I64(open_with(options, &error), TENURE_E_INVALID);
    CHECK(strstr(error.text, "size") != NULL);
    options.size = 1;
    CHECK_EQ_I64(open_with(options, &error), TENURE_E_INVALID);
    options.size = sizeof options.size; /* The first version of all: nothing but a size. */
    CHECK_EQ_I64(open_with(options, &error), 0);
    options.size = 0;
    options.flags = 1u << 20;
    CHECK_EQ_I64(open_with(options, &error), TENURE_E_INVALID);
    CHECK(strstr(error.text, "flags") != NULL);
    CHECK_EQ_I64(tenure_open("memory:arguments", NULL, NULL, &error), TENURE_E_INVALID);
}

TEST(ids_have_1_to_255_bytes)
{
    struct tenure_error error;
    char id[TENURE_ID_MAX + 2];

    memset(id, 'x', sizeof id);
    id[TENURE_ID_MAX + 1] = '\0';
    CHECK_EQ_I64(open_with((struct tenure_options) { .id = id }, &error), TENURE_E_INVALID);
    CHECK(strstr(error.text, "255") != NULL);
    CHECK_EQ_I64(open_with((struct tenure_options) { .id = "" }, &error), TENURE_E_INVALID);
    id[TENURE_ID_MAX] = '\0';
    CHECK_EQ_I64(open_with((struct tenure_options) { .id = id }, &error), 0);
}

TEST(numbers_that_break_a_promise_are_refused_with_the_arithmetic)
{
    struct tenure_error error;

    CHECK_EQ_I64(open_with((struct tenure_options) { .ttl = TN_SEC(1) - 1 }, &error),
                 TENURE_E_INVALID);
    CHECK_EQ_I64(open_with((struct tenure_options) { .ttl = TN_SEC(24 * 3600) + 1 }, &error),
                 TENURE_E_INVALID);
    CHECK_EQ_I64(open_with((struct tenure_options) { .grace = -1 }, &error), TENURE_E_INVALID);
    CHECK_EQ_I64(
        open_with((struct tenure_options) { .ttl = TN_SEC(15), .grace = TN_SEC(12) }, &error),
        TENURE_E_INVALID);
    CHECK(strstr(error.text, "P8") != NULL);
    CHECK(strstr(error.text, " is not at most ") != NULL);
    CHECK(strstr(error.text, "tenure plan") != NULL);
    CHECK_EQ_I64(open_with((struct tenure_options) { .rho_ppm = 900000 }, &error),
                 TENURE_E_INVALID);
}

TEST(campaigns_are_checked)
{
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_campaign campaign = { .size = sizeof campaign };
    struct tenure_election *election = NULL;
    static const char *const bad[] = { "", "a//b", "/a", "a/", ".", "a/../b", "a b", "a\n" };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ_I64(tenure_campaign(tenure, bad[i], NULL, &election), TENURE_E_INVALID);
        CHECK_EQ_I64(tenure_observe(tenure, bad[i], NULL, NULL, &election), TENURE_E_INVALID);
    }
    CHECK_EQ_I64(tenure_campaign(tenure, NULL, NULL, &election), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_campaign(NULL, "job", NULL, &election), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_campaign(tenure, "job", NULL, NULL), TENURE_E_INVALID);
    campaign.size = sizeof campaign + 1;
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    campaign.size = 3;
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    campaign.size = sizeof campaign;
    campaign.flags = 1u << 30;
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    campaign.flags = 0;
    campaign.stall_after = -1;
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    campaign.stall_after = INT64_MAX;
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    campaign.stall_after = 0;
    campaign.grace = -1;
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    campaign.grace = TN_MS(800); /* Of a second: breaks P8. */
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), TENURE_E_INVALID);
    CHECK(election == NULL);
    campaign.grace = TN_MS(100);
    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), 0);
    CHECK(stage_leads(election, true));
    tenure_leave(NULL);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK_EQ_I64(tenure_close(NULL), 0);
}

TEST(health_is_told_before_and_after_the_first_answer)
{
    struct tenure_error error;
    const char *url = stage_url();

    stage_lose("a", 1u << TN_OP_OPEN | 1u << TN_OP_CLOSE);
    struct tenure *tenure = stage_open(url, "a", 0);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, NULL);
    CHECK_EQ_I64(tenure_health(tenure, &error), TENURE_E_TIMEOUT);
    CHECK_EQ_I64(error.code, TENURE_E_TIMEOUT);
    CHECK(strstr(error.text, "not answered") != NULL);
    /* The store that answers nothing does not take the session back either. */
    CHECK_EQ_I64(tenure_close(tenure), TENURE_E_TIMEOUT);
    tenure = stage_open(url, "b", 0);
    election = stage_campaign(tenure, "job", 0, NULL);
    CHECK(stage_leads(election, true));
    CHECK_EQ_I64(tenure_health(tenure, &error), 0);
    CHECK_STR(error.text, "");
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(reasons_and_the_version_have_words)
{
    CHECK_STR(tenure_reason_text(TENURE_REASON_NONE), "none");
    CHECK_STR(tenure_reason_text(TENURE_REASON_EXPIRED), "expired");
    CHECK_STR(tenure_reason_text(TENURE_REASON_STALLED), "stalled");
    CHECK_STR(tenure_reason_text(TENURE_REASON_CLOSED), "closed");
    CHECK_STR(tenure_reason_text((enum tenure_reason)99), "unknown");
    CHECK(strchr(tenure_version(), '.') != NULL);
}
