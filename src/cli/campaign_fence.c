/* campaign_fence.c - the fence of a campaign, and the soft limit that rests on it; campaign.h has
 * the contract. */
#include <string.h>

#include "base/final.h"
#include "cli/campaign.h"
#include "receivers/spec.h"

/* How long a fence may take to be looked at before the first grant. */
#define FENCE_PROBE TN_SEC(2)

bool tn_campaign_has_fence(const char *fence)
{
    return fence != NULL && strcmp(fence, "none") != 0;
}

int tn_campaign_check_fence(const char *verb, const char *origin, const char *fence)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    int rc = tn_campaign_has_fence(fence) ? tn_fence_spec_check(fence, &text) : 0;
    return rc < 0 ? tn_cli_fail(TN_EXIT_USAGE, verb, "%s: %s", origin, buf) : -1;
}

int tn_campaign_check_soft(const char *verb, const struct tn_campaign_words *words,
                           const char *fence)
{
    if (words->soft_limit > 0 && !tn_campaign_has_fence(fence))
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "--soft-limit needs --fence: a leader that was silent may not know yet "
                           "that another leads, and only a fence stops its writes");
    if (words->soft_limit > 0 && words->priority > 0)
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "--soft-limit and --priority do not go together; leave one of them out");
    return -1;
}

int tn_campaign_fail_fence(const char *verb, int code, const char *why)
{
    return tn_cli_fail(code == TENURE_E_DENIED    ? TN_EXIT_DENIED
                       : code == TENURE_E_DAMAGED ? TN_EXIT_UNAVAILABLE
                                                  : TN_EXIT_USAGE,
                       verb, "--fence: %s", why);
}

int tn_campaign_probe_fence(const char *verb, const char *fence)
{
    char buf[TENURE_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    int rc = tn_campaign_has_fence(fence) ? tn_fence_spec_probe(fence, FENCE_PROBE, &text) : 0;
    return tn_error_is_final(rc) ? tn_campaign_fail_fence(verb, rc, buf) : -1;
}
