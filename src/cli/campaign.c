/* campaign.c - a session for `run`, `elect` and `watch`; campaign.h has the contract. */
#define _GNU_SOURCE
#include "cli/campaign.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "cli/reserve.h"
#include "lib/command.h"
#include "runner/os.h"
#include "runtime/entry.h"
#include "runtime/note_name.h"
#include "stores/registry.h"

#define RETRY_EVERY TN_MS(250)
/* Descriptors that are polled: those of every verb, and those of some. */
enum { OWN = 5, EXTRA_MOST = 4 };

/* Before the store is opened, so that a mistake makes no file. */
static int check_soft(const struct tn_campaign *campaign, const struct tn_campaign_words *words)
{
    const struct tn_store_ops *ops = tn_campaign_store(words->url);
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    if (ops != NULL && (ops->caps & TN_STORE_SOFT) == 0)
        return tn_cli_fail(TN_EXIT_USAGE, campaign->verb, "--soft-limit: %s: " TN_ENTRY_NO_SOFT,
                           ops->scheme);
    if (tn_entry_soft(&campaign->plan, words->soft_limit, &text) < 0)
        return tn_cli_fail(TN_EXIT_USAGE, campaign->verb, "--soft-limit: %s", buf);
    return -1;
}

static int check_numbers(struct tn_campaign *campaign, const struct tn_campaign_words *words)
{
    tn_plan_init(&campaign->plan, words->ttl);
    campaign->plan.hold_off = words->hold_off;
    tn_plan_turn(&campaign->plan, TN_KNOB_RHO, words->rho_ppm);
    if (words->grace >= 0)
        tn_plan_turn(&campaign->plan, TN_KNOB_GRACE, words->grace);
    int status = tn_cli_check_plan(campaign->verb, &campaign->plan);
    return status < 0 && words->soft_limit > 0 ? check_soft(campaign, words) : status;
}

static int open_session(struct tn_campaign *campaign, const struct tn_campaign_words *words)
{
    struct tenure_options options = { .size = sizeof options,
                                      .id = campaign->label,
                                      .ttl = words->ttl,
                                      .rho_ppm = words->rho_ppm,
                                      .hold_off = words->hold_off,
                                      .flags = TENURE_OWN_LOOP | words->flags };
    struct tenure_error error;
    int rc;

    for (;;) {
        rc = tenure_open(words->url, &options, &campaign->tenure, &error);
        /* Without --wait a store that cannot even be opened is told at once: it is a mistake far
         * more often than an outage. One that fails later is waited for. */
        if (rc != TENURE_E_UNAVAILABLE || campaign->wait < 0 ||
            tn_boottime() - campaign->started >= campaign->wait)
            break;
        tn_clock_pause(RETRY_EVERY);
    }
    return rc < 0 ? tn_cli_store_fail(campaign->verb, rc, error.text) : -1;
}

const struct tn_store_ops *tn_campaign_store(const char *url)
{
    const struct tn_store_ops *ops = NULL;
    const char *rest;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    if (url == NULL)
        url = getenv("TENURE_STORE");
    tn_text_init(&error, buf, sizeof buf);
    return tn_store_find(url, &ops, &rest, &error) == 0 ? ops : NULL;
}

unsigned tn_campaign_caps(const char *url)
{
    const struct tn_store_ops *ops = tn_campaign_store(url);

    return ops != NULL ? ops->caps : 0;
}

/* A store that can forget what it has granted is used knowingly or not at all. */
static void warn_of_class(const struct tn_campaign *campaign, const char *url)
{
    const struct tn_store_ops *ops = tn_campaign_store(url);

    if (ops != NULL && (ops->caps & TN_STORE_ADVISORY) != 0)
        (void)tn_cli_fail(0, campaign->verb,
                          "%s: is advisory: %s. Two may lead; let a fence check the token",
                          ops->scheme, ops->class_why);
}

static int check_slots(const char *verb, const char *name, uint64_t slots, const char *beside)
{
    char slot[TN_NAME_MAX + 1];

    if (slots > 1 && beside != NULL)
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "%s is for one leader, and --slots %" PRIu64
                           " has several; leave one of "
                           "them out",
                           beside, slots);
    if (slots > 1 && !tn_slot_name(name, (uint32_t)slots, slot))
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "the name is too long for --slots: each slot adds some bytes to it, and "
                           "names have at most %d",
                           TN_NAME_MAX);
    return -1;
}

static int check_priority(const char *verb, const char *name, const struct tn_campaign_words *words)
{
    const struct tn_store_ops *ops = tn_campaign_store(words->url);
    char shows[TN_NAME_MAX + 1];

    if (words->yield && words->priority == 0)
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "--yield is to a higher priority; give this one a --priority, 1 to %d",
                           TN_RANK_MAX);
    if (words->priority == 0)
        return -1;
    if (!tn_rank_name(name, TN_RANK_MAX, shows))
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "the name is too long for --priority: it adds some bytes to it, and "
                           "names have at most %d",
                           TN_NAME_MAX);
    if (ops != NULL && !tn_store_keeps_line(ops))
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "--priority: %s: keeps no line of those who wait, so none can be put "
                           "first; leave it out, and use 'tenure handover --to'",
                           ops->scheme);
    return -1;
}

int tn_campaign_check(const char *verb, const char *name, const struct tn_campaign_words *words,
                      const char *beside)
{
    if (beside == NULL && words->priority > 0)
        beside = "--priority";
    int status = check_slots(verb, name, words->slots, beside);

    return status < 0 ? check_priority(verb, name, words) : status;
}

int tn_campaign_open(struct tn_campaign *campaign, const char *verb, const char *name,
                     const struct tn_campaign_words *words)
{
    tn_reserve_for_libuv();
    *campaign = (struct tn_campaign) { .verb = verb,
                                       .name = name,
                                       .wait = words->wait,
                                       .started = tn_boottime(),
                                       .signals = -1,
                                       .timer = -1 };
    int status = tn_cli_label(verb, words->id, campaign->label);
    if (status < 0)
        status = check_numbers(campaign, words);
    if (status < 0)
        status = open_session(campaign, words);
    if (status >= 0)
        return status;
    if (strcmp(verb, "watch") != 0)
        warn_of_class(campaign, words->url);
    campaign->timer = tn_fd_above_streams(tn_timer_open());
    if (campaign->timer < 0)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, verb, "out of descriptors: %s", strerror(errno));
    return -1;
}

int tn_campaign_start(struct tn_campaign *campaign, const struct tn_campaign_words *words,
                      struct tenure_campaign *options, struct tenure_election **ret_election)
{
    struct tenure_error error = { .text = "" };

    options->size = sizeof *options;
    options->slots = (uint32_t)words->slots;
    options->priority = (uint32_t)words->priority;
    options->soft_limit = words->soft_limit;
    options->flags |= words->yield ? TENURE_YIELD : 0;
    int rc = tenure_campaign_start(campaign->tenure, campaign->name, options, ret_election, &error);
    if (rc == 0)
        campaign->election = *ret_election;
    return rc < 0 ? tn_cli_store_fail(campaign->verb, rc, error.text) : -1;
}

int tn_campaign_signals(struct tn_campaign *campaign, bool all)
{
    static const int numbers[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 };
    struct sigaction action;
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < (all ? 6 : 4); i++)
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&set, numbers[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    campaign->signals = tn_fd_above_streams(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (campaign->signals < 0)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, campaign->verb, "out of descriptors: %s",
                           strerror(errno));
    return -1;
}

/* Nobody leads, and the wait is over: either our grant is on its way, or an operator's note, of
 * which there is no event. */
static tenure_ns look_at(const struct tn_campaign *campaign, tenure_ns at)
{
    tenure_ns soon = tn_boottime() + TN_MS(50);

    bool may_be_over = campaign->wait >= 0 && campaign->wait < TN_CLI_FIRST_ANSWER;

    return may_be_over && campaign->vacant && soon < at ? soon : at;
}

void tn_campaign_poll(struct tn_campaign *campaign, const int *extra, size_t extra_count,
                      tenure_ns at)
{
    bool prints = tn_cli_lines_fd() >= 0;
    struct pollfd fds[OWN + EXTRA_MOST] = {
        { .fd = campaign->signals, .events = POLLIN },
        { .fd = campaign->timer, .events = POLLIN },
        { .fd = tenure_fd(campaign->tenure), .events = POLLIN },
        /* A reader that is gone shows without a write. */
        { .fd = prints ? STDOUT_FILENO : -1, .events = 0 },
        { .fd = tn_cli_lines_fd(), .events = POLLIN },
    };
    struct tenure_error warning;

    TN_ASSERT(extra_count <= EXTRA_MOST);
    for (size_t i = 0; i < extra_count; i++)
        fds[OWN + i] = (struct pollfd) { .fd = extra[i], .events = POLLIN };
    tn_timer_arm(campaign->timer, look_at(campaign, at));
    (void)poll(fds, (nfds_t)(OWN + extra_count), -1);
    campaign->unheard = (fds[3].revents & (POLLERR | POLLHUP)) != 0 || fds[4].revents != 0;
    int count = tenure_dispatch(campaign->tenure);
    TN_ASSERT(count >= 0);
    if (campaign->vacant && campaign->election != NULL)
        campaign->forbidden = tn_lib_forbidden(campaign->election);
    /* Not beside an error, which is one line. */
    if (!campaign->warned && tenure_health(campaign->tenure, NULL) == 0 &&
        tenure_warning(campaign->tenure, &warning)) {
        campaign->warned = true;
        (void)tn_cli_fail(0, campaign->verb, "warning: %s", warning.text);
    }
}

tenure_ns tn_campaign_give_up_at(const struct tn_campaign *campaign)
{
    tenure_ns wait = campaign->wait;

    if (wait < 0)
        return TN_NEVER;
    bool open = !campaign->answered || (campaign->vacant && campaign->forbidden == TN_NOTE_NONE);
    if (open && wait < TN_CLI_FIRST_ANSWER)
        wait = TN_CLI_FIRST_ANSWER;
    return campaign->started + wait;
}

bool tn_campaign_is_news(struct tn_campaign *campaign, struct tenure_error *ret_error)
{
    int health = tenure_health(campaign->tenure, ret_error);
    /* No answer is one kind, whether the connection or the time is lost. */
    int kind = health == TENURE_E_TIMEOUT ? TENURE_E_UNAVAILABLE : health;
    unsigned bit = 1U << (-kind % 32);

    if (health == 0) {
        campaign->outages = 0;
        return false;
    }
    bool news = (campaign->outages & bit) == 0;
    campaign->outages |= bit;
    return news;
}

void tn_campaign_hear(struct tn_campaign *campaign, const struct tenure_event *event)
{
    campaign->answered = true;
    if (event->kind == TENURE_VACANT || event->kind == TENURE_LEADER ||
        event->kind == TENURE_REFUSED || event->kind == TENURE_WON)
        campaign->vacant = event->kind == TENURE_VACANT;
    if (event->kind == TENURE_VACANT)
        campaign->leader[0] = '\0';
    else if (event->kind == TENURE_LEADER)
        (void)snprintf(campaign->leader, sizeof campaign->leader, "%s", event->leader);
}

static int fail_held(const struct tn_campaign *campaign)
{
    char buf[TN_DURATION_TEXT], holder[TN_CLI_LINE_MAX] = "another";
    struct tn_text text;

    if (campaign->vacant)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb,
                           "%s was not acquired although nobody leads it; 'tenure status' tells "
                           "whether an operator keeps it free",
                           campaign->name);
    if (campaign->leader[0] != '\0') {
        tn_text_init(&text, holder, sizeof holder);
        tn_cli_quote(&text, campaign->leader);
    }
    if (campaign->wait == 0)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb, "%s is held by %s", campaign->name,
                           holder);
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb,
                       "%s was held by others for the whole %s, last by %s", campaign->name,
                       tn_cli_duration(buf, campaign->wait), holder);
}

/* The store has answered, whatever its health says of a session that is not open yet. */
static int fail_forbidden(const struct tn_campaign *campaign)
{
    if (campaign->forbidden == TN_NOTE_STAND_DOWN)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb,
                           "%s: an operator lets nobody lead; 'tenure resume %s' ends that",
                           campaign->name, campaign->name);
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb,
                       "%s: this host or id is drained and does not lead; 'tenure undrain' ends "
                       "that",
                       campaign->name);
}

int tn_campaign_not_acquired(struct tn_campaign *campaign)
{
    struct tenure_error error;
    char buf[TN_DURATION_TEXT];
    char why[TENURE_ERROR_TEXT] = "";
    struct tn_text text;

    if (campaign->election != NULL)
        campaign->forbidden = tn_lib_forbidden(campaign->election);
    if (campaign->forbidden != TN_NOTE_NONE)
        return fail_forbidden(campaign);
    int health = tenure_health(campaign->tenure, &error);
    if (health != 0)
        return tn_cli_store_fail(
            campaign->verb, health == TENURE_E_DENIED ? health : TENURE_E_UNAVAILABLE, error.text);
    if (campaign->regressed)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb,
                           "%s was not acquired for the whole %s: the store went back, and each "
                           "grant had a token that is too low",
                           campaign->name, tn_cli_duration(buf, campaign->wait));
    tn_text_init(&text, why, sizeof why);
    if (tn_lib_fence_status(campaign->tenure, &text) != 0)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, campaign->verb,
                           "%s was not acquired: for the whole %s another held it, or the fence "
                           "could not be raised: %s",
                           campaign->name, tn_cli_duration(buf, campaign->wait), why);
    return fail_held(campaign);
}

int tn_campaign_close(struct tn_campaign *campaign, bool held, int status)
{
    struct tenure_error error = { 0 };

    if (campaign->tenure != NULL) {
        int health = tenure_health(campaign->tenure, &error);
        int rc = tenure_close(campaign->tenure);
        if (rc < 0 && held)
            status = tn_cli_fail(TN_EXIT_UNAVAILABLE, campaign->verb,
                                 "%s could not be released; it is free when its TTL is over: %s",
                                 campaign->name, health != 0 ? error.text : tenure_strerror(rc));
    }
    if (campaign->timer >= 0)
        (void)close(campaign->timer);
    if (campaign->signals >= 0)
        (void)close(campaign->signals);
    return status;
}
