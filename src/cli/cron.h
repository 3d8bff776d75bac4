/* cron.h - what `tenure run` does for cron: when not to run at all, and how long to keep the lease.
 *
 * The same line stands in the crontab of several hosts. One of them gets the lease and runs the
 * command; the others find it held and skip. A host whose clock is late must find it held, too:
 * after a success the lease is kept until --hold has passed since the start of the command. */
#ifndef TN_CLI_CRON_H
#define TN_CLI_CRON_H

#include "cli/campaign.h"

struct tn_cron {
    bool skip;              /* If another holds the lease. */
    bool patient;           /* The store shows dead holders, too: only waiting tells. */
    uint64_t conflict_exit; /* After a skip; TN_CRON_NO_STATUS: not given. */
    tenure_ns hold;         /* From the start of the command on; 0: do not hold on. */
    tenure_ns started;
    tenure_ns hold_until; /* The command has succeeded; TN_NEVER: it has not. */
};

#define TN_CRON_NO_STATUS UINT64_MAX

#define TN_CRON_WORDS                                               \
    {                                                               \
        .conflict_exit = TN_CRON_NO_STATUS, .hold_until = TN_NEVER, \
    }

#define TN_CRON_OPTIONS(cron_)                                                             \
    TN_FLAG("skip-if-held", 0, &(cron_)->skip, "exit at once if another holds the lease"), \
        TN_U64("conflict-exit", 0, &(cron_)->conflict_exit, 0, 255, "STATUS", "0",         \
               "the exit status of --skip-if-held, --every"),                              \
        TN_DURATION("hold", 0, &(cron_)->hold, 1, TN_CLI_WAIT_MAX, NULL,                   \
                    "after success keep the lease until this long after the start")

/* Check what was asked for, beside --every or not, and set how long to campaign. Returns -1 to go
 * on, or the exit status. */
int tn_cron_check(struct tn_cron *cron, struct tn_campaign_words *words, bool every);

/* With which status to exit because another holds the lease. */
int tn_cron_skip_status(const struct tn_cron *cron);

/* The command has succeeded, and the lease is kept. */
bool tn_cron_holds_on(const struct tn_cron *cron);

/* The command has succeeded: keep the lease. False: --hold is over, or was not given. */
bool tn_cron_hold_on(struct tn_cron *cron);

#endif
