/* cron.c - `tenure run` for cron; cron.h has the contract. */
#include "cli/cron.h"

#include "base/time.h"

int tn_cron_check(struct tn_cron *cron, struct tn_campaign_words *words, bool every)
{
    if (cron->conflict_exit != TN_CRON_NO_STATUS && !cron->skip && !every)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "--conflict-exit is the exit status of --skip-if-held; give both");
    if (cron->skip && words->wait >= 0)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "--skip-if-held does not wait for the lease; leave --wait out, or "
                           "--skip-if-held");
    if (!cron->skip)
        return -1;
    unsigned caps = tn_campaign_caps(words->url);
    cron->patient = (caps & (TN_STORE_LINGERS | TN_STORE_OBSERVED)) != 0;
    /* What a candidate needs to see that a holder of the same TTL is dead, with room. */
    words->wait = TN_CLI_FIRST_ANSWER + (cron->patient ? words->ttl + words->ttl / 2 : 0);
    return -1;
}

int tn_cron_skip_status(const struct tn_cron *cron)
{
    return cron->conflict_exit != TN_CRON_NO_STATUS ? (int)cron->conflict_exit : TN_EXIT_OK;
}

bool tn_cron_holds_on(const struct tn_cron *cron)
{
    return cron->hold_until != TN_NEVER;
}

bool tn_cron_hold_on(struct tn_cron *cron)
{
    tenure_ns until = cron->started + cron->hold;

    if (tn_boottime() >= until)
        return false;
    cron->hold_until = until;
    return true;
}
