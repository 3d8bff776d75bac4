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

#include "base/final.h"
#include "base/time.h"
#include "cli/campaign.h"
#include "cli/events.h"
#include "cli/sidecar.h"
#include "lib/command.h"

static const char about[] =
    "Campaigns for NAME and prints what happens, one JSON object per line. To lead is up to who\n"
    "reads it: between \"won\" and \"lost\" it may act, and passes the token on with what it "
    "does.\n";
static const char after[] =
    "Events: won, lost, jeopardy (a renewal is overdue), safe (it came through), leader, vacant.\n"
    "With \"lost\" comes \"proven_ms\", of the wall clock since 1970: when the last renewal that "
    "the\n"
    "store confirmed was sent. Work since then is to be looked at, or undone. With --slots, "
    "\"won\" has\n"
    "the number of the \"slot\"; leader means that others hold all slots, vacant that one is "
    "free.\n"
    "SIGTERM and SIGINT give the lease back; the next candidate leads at once.\n"
    "\n"
    "Examples:\n"
    "  tenure elect nightly-report\n"
    "      {\"event\":\"won\",\"name\":\"nightly-report\",\"holder\":\"web1-4711\",\"token\":7,"
    "\"reason\":null}\n"
    "  tenure elect --once --wait 1m nightly-report | ./on-change\n"
    "  tenure elect --slots 3 workers    three lead at the same time, each with its own token\n"
    "  tenure elect --priority 9 db      leads before those who wait with a lower one\n"
    "  tenure elect --ttl 30s --soft-limit 20s --fence sqlite:orders.db#orders orders\n"
    "      a leader silent for 20s gives way before the TTL is over; the fence refuses its writes\n"
    "\n"
    "Exit status: 0 asked to stop, 64 bad usage, 69 store unavailable, 74 nobody reads, 75 not\n"
    "acquired within --wait, 77 not permitted, 79 leadership lost (--once).\n";

struct elect {
    struct tn_campaign campaign;
    struct tenure_election *election;
    struct tn_sidecar sidecar;
    const char *http_address;
    const char *name;
    const char *fence;
    bool once;
    bool json; /* Accepted and without meaning: it is always JSON. */
    bool holds;
    bool led;     /* Once at least. */
    bool stopped; /* The end of this term was told, because an operator asked for it. */
    int status;   /* -1: go on. */
};

static void tell_outage(struct elect *elect)
{
    struct tenure_error error;

    if (elect->campaign.wait < 0 && tn_campaign_is_news(&elect->campaign, &error))
        (void)tn_cli_fail(0, "elect", "%s: no answer, asking again: %s", elect->name, error.text);
}

static void print(struct elect *elect, const struct tenure_event *event)
{
    if (!tn_cli_event_print(elect->name, elect->campaign.label, event,
                            tenure_slot(elect->election)))
        elect->status = TN_EXIT_IO;
}

static void hear_over(struct elect *elect)
{
    elect->holds = false;
    (void)tenure_drained(elect->election);
    if (elect->once && elect->status < 0)
        elect->status = TN_EXIT_LOST;
}

/* An operator asks. For the reader the term is over, and only when the reader has that line is the
 * lease given back. A reader that does not read keeps it until the drain counts as a stall. */
static void hear_stop(struct elect *elect, const struct tenure_event *event)
{
    struct tenure_event lost = *event;

    lost.kind = TENURE_LOST;
    print(elect, &lost);
    elect->stopped = true;
    if (tn_cli_lines_flush() || !tn_cli_lines_alive())
        hear_over(elect);
}

/* A fence that never went up and will not is a mistake; any other one is asked again. */
static void hear_refused(struct elect *elect, const struct tenure_event *event)
{
    bool fence = event->reason == TENURE_REASON_FENCE;
    int code = fence ? tn_lib_fence_status(elect->campaign.tenure, NULL) : 0;

    elect->campaign.regressed = event->reason == TENURE_REASON_TOKEN_REGRESSED;
    if (fence && !elect->led && tn_error_is_final(code) && elect->status < 0)
        elect->status = tn_campaign_fail_fence("elect", code, event->detail);
    else
        tn_cli_refused_print("elect", elect->name, event, "");
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct elect *elect = arg;

    elect->election = election; /* The first event may come before tenure_campaign returns. */
    tn_campaign_hear(&elect->campaign, event);
    tn_sidecar_hear(&elect->sidecar, event);
    if (event->kind != TENURE_LOST || !elect->stopped)
        print(elect, event);
    if (event->kind == TENURE_WON) {
        elect->holds = elect->led = true;
        elect->stopped = false;
        elect->campaign.regressed = false;
    } else if (event->kind == TENURE_LOST) {
        hear_over(elect);
    } else if (event->kind == TENURE_STOP) {
        hear_stop(elect, event);
    } else if (event->kind == TENURE_REFUSED) {
        hear_refused(elect, event);
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
        (void)tn_cli_event_print(elect->name, elect->campaign.label, &lost, 0);
    if (held && !tn_cli_lines_flush() && tn_cli_lines_alive())
        return tn_cli_fail(
            TN_EXIT_IO, "elect",
            "%s: nobody reads that the term ends, so the lease is not given back; it "
            "is free when its TTL is over",
            elect->name);
    return tn_campaign_close(&elect->campaign, held, status);
}

static int start_campaign(struct elect *elect, const struct tn_campaign_words *words)
{
    const char *const fences[] = { tn_campaign_has_fence(elect->fence) ? elect->fence : NULL,
                                   NULL };
    struct tenure_campaign options = {
        .callback = hear,
        .arg = elect,
        .fences = fences,
        .flags = TENURE_TELL_HEALTH | TENURE_TELL_RENEWED,
    };
    int status = tn_campaign_start(&elect->campaign, words, &options, &elect->election);

    elect->sidecar.election = elect->election;
    return status;
}

int tn_cli_elect(int argc, char **argv)
{
    struct elect elect = { .status = -1 };
    struct tn_campaign_words words = TN_CAMPAIGN_WORDS;
    struct tn_option options[] = {
        TN_CAMPAIGN_OPTIONS(&words),
        TN_FLAG("once", 0, &elect.once, "exit when the term is lost, instead of waiting"),
        TN_STRING("fence", 0, &elect.fence, "URL#RESOURCE", NULL,
                  "raise this fence to the token before \"won\""),
        TN_SOFT_LIMIT(&words),
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
        status = tn_cli_check_no_slot("elect", elect.name);
    if (status < 0)
        status = tn_campaign_check_fence("elect", "--fence", elect.fence);
    if (status < 0)
        status = tn_campaign_check_soft("elect", &words, elect.fence);
    if (status < 0)
        status = tn_campaign_check("elect", elect.name, &words,
                                   tn_campaign_has_fence(elect.fence) ? "--fence" : NULL);
    if (status < 0)
        status = tn_campaign_probe_fence("elect", elect.fence);
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
        status = start_campaign(&elect, &words);
    if (status < 0)
        status = loop(&elect);
    tn_sidecar_close(&elect.sidecar);
    return finish(&elect, status);
}
