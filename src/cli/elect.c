/* elect.c - `tenure elect NAME`: campaigns without a command; what happens is a line on stdout.
 *
 * Whoever reads the lines does the work: between "won" and "lost" it leads. A reader that is gone
 * ends the term, and so does SIGTERM. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/campaign.h"
#include "cli/events.h"
#include "cli/sidecar.h"

static const char about[] =
    "Campaigns for NAME and prints what happens, one JSON object per line. To lead is up to who\n"
    "reads it: between \"won\" and \"lost\" it may act, and passes the token on with what it "
    "does.\n";
static const char after[] =
    "Events: won, lost, jeopardy (a renewal is overdue), safe (it came through), leader, vacant.\n"
    "SIGTERM and SIGINT give the lease back; the next candidate leads at once.\n"
    "\n"
    "Examples:\n"
    "  tenure elect nightly-report\n"
    "      {\"event\":\"won\",\"name\":\"nightly-report\",\"holder\":\"web1-4711\",\"token\":7,"
    "\"reason\":null}\n"
    "  tenure elect --once --wait 1m nightly-report | ./on-change\n"
    "\n"
    "Exit status: 0 asked to stop, 64 bad usage, 69 store unavailable, 74 nobody reads, 75 not\n"
    "acquired within --wait, 77 not permitted, 79 leadership lost (--once).\n";

struct elect {
    struct tn_campaign campaign;
    struct tenure_election *election;
    struct tn_sidecar sidecar;
    const char *http_address;
    const char *name;
    bool once;
    bool json; /* Accepted and without meaning: it is always JSON. */
    bool holds;
    int status; /* -1: go on. */
};

static void tell_outage(struct elect *elect)
{
    struct tenure_error error;

    if (elect->campaign.wait < 0 && tn_campaign_is_news(&elect->campaign, &error))
        (void)tn_cli_fail(0, "elect", "%s: no answer, asking again: %s", elect->name, error.text);
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct elect *elect = arg;

    (void)election;
    elect->campaign.answered = true;
    tn_sidecar_hear(&elect->sidecar, event);
    if (!tn_cli_event_print(elect->name, elect->campaign.label, event))
        elect->status = TN_EXIT_IO;
    if (event->kind == TENURE_WON) {
        elect->holds = true;
        elect->campaign.regressed = false;
    } else if (event->kind == TENURE_LOST) {
        elect->holds = false;
        if (elect->once && elect->status < 0)
            elect->status = TN_EXIT_LOST;
    } else if (event->kind == TENURE_REFUSED) {
        elect->campaign.regressed = event->reason == TENURE_REASON_TOKEN_REGRESSED;
        tn_cli_refused_print("elect", elect->name, event, "");
    } else if (event->kind == TENURE_HEALTH) {
        tell_outage(elect);
    }
}

static void hear_signals(struct elect *elect)
{
    struct signalfd_siginfo info;

    while (read(elect->campaign.signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (elect->status < 0)
            elect->status = TN_EXIT_OK;
}

static tenure_ns give_up_at(const struct elect *elect)
{
    return elect->holds ? TN_NEVER : tn_campaign_give_up_at(&elect->campaign);
}

static int loop(struct elect *elect)
{
    while (elect->status < 0) {
        int fd = tn_http_fd(elect->sidecar.http);
        tenure_ns at = tn_http_wake_at(elect->sidecar.http);
        tenure_ns end = give_up_at(elect);
        tn_campaign_poll(&elect->campaign, &fd, 1, at < end ? at : end);
        tn_sidecar_run(&elect->sidecar);
        hear_signals(elect);
        if (elect->status < 0 && elect->campaign.unheard)
            elect->status = TN_EXIT_IO;
        if (elect->status < 0 && tn_boottime() >= give_up_at(elect))
            elect->status = tn_campaign_not_acquired(&elect->campaign);
    }
    return elect->status;
}

/* Its own last word: the term ends because we leave. It is written before the lease is given back,
 * or the reader is gone. A reader that does not read may still act: then the lease is not given
 * back, and lives out its TTL. */
static int finish(struct elect *elect, int status)
{
    struct tenure_event lost = { .kind = TENURE_LOST,
                                 .reason = TENURE_REASON_RELEASED,
                                 .token = tenure_token(elect->election) };
    bool held = elect->holds;

    if (held && lost.token != 0)
        (void)tn_cli_event_print(elect->name, elect->campaign.label, &lost);
    if (held && !tn_cli_lines_flush() && tn_cli_lines_alive())
        return tn_cli_fail(
            TN_EXIT_IO, "elect",
            "%s: nobody reads that the term ends, so the lease is not given back; it "
            "is free when its TTL is over",
            elect->name);
    return tn_campaign_close(&elect->campaign, held, status);
}

static int start_campaign(struct elect *elect)
{
    struct tenure_campaign campaign = {
        .size = sizeof campaign,
        .callback = hear,
        .arg = elect,
        .flags = TENURE_DRAINED_ON_RETURN | TENURE_TELL_HEALTH | TENURE_TELL_RENEWED,
    };
    int rc = tenure_campaign(elect->campaign.tenure, elect->name, &campaign, &elect->election);

    elect->sidecar.election = elect->election;
    return rc < 0 ? tn_cli_store_fail("elect", rc, "") : -1;
}

int tn_cli_elect(int argc, char **argv)
{
    struct elect elect = { .status = -1 };
    struct tn_campaign_words words = TN_CAMPAIGN_WORDS;
    struct tn_option options[] = {
        TN_CAMPAIGN_OPTIONS(&words),
        TN_FLAG("once", 0, &elect.once, "exit when the term is lost, instead of waiting"),
        TN_STRING("http", 0, &elect.http_address, "HOST:PORT", NULL,
                  "tell programs beside this one: /leader, /follower, /token, /healthz, /metrics"),
        TN_FLAG("json", 0, &elect.json, "as always: one JSON object per line"),
    };
    struct tn_command command = { .verb = "elect",
                                  .words = "NAME",
                                  .words_max = 1,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &elect.name);
    if (status < 0)
        status = tn_cli_lines_open("elect", true);
    if (status < 0)
        status = tn_sidecar_open(&elect.sidecar, "elect", elect.http_address, &elect.campaign);
    if (status >= 0)
        return status;
    status = tn_campaign_open(&elect.campaign, "elect", elect.name, &words);
    if (status < 0)
        status = tn_campaign_signals(&elect.campaign, false);
    if (status < 0)
        status = start_campaign(&elect);
    if (status < 0)
        status = loop(&elect);
    tn_sidecar_close(&elect.sidecar);
    return finish(&elect, status);
}
